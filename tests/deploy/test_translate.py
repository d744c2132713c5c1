"""Old commands in today's words, and any text at all without an accident."""

import ast
import json
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.deploy.old_spellings import OLD_CONFIG, OLD_SGLANG, OLD_VLLM
from playground.deploy.pasted import LONGEST
from playground.deploy.translate import current, translate, translate_text
from playground.errors import UserError


def config_of(translation):
    """The speculative_config of the new text, and the options around it."""
    if translation.language == "bash":
        words = shlex.split(translation.text.replace("\\\n", " "))
        at = words.index("--speculative-config")
        return json.loads(words[at + 1]), words[:at] + words[at + 2 :]
    call = ast.parse(translation.text).body[0].value
    arguments = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    return arguments.pop("speculative_config"), arguments


def kinds(translation):
    return {line.old.split()[0].split("=")[0].split(":")[0]: line.kind for line in translation.lines if line.old}


def test_the_server_of_an_old_tutorial():
    translation = translate(
        "$ python -m vllm.entrypoints.openai.api_server --host 0.0.0.0 --port 8000 --model facebook/opt-6.7b \\\n"
        "    --seed 42 -tp 1 --speculative_model facebook/opt-125m --use-v2-block-manager \\\n"
        "    --num_speculative_tokens 5 --gpu_memory_utilization=0.8"
    )
    config, rest = config_of(translation)
    assert config == {"method": "draft_model", "model": "facebook/opt-125m", "num_speculative_tokens": 5}
    assert rest == shlex.split(
        "python -m vllm.entrypoints.openai.api_server --host 0.0.0.0 --port 8000 --model facebook/opt-6.7b "
        "--seed 42 -tp 1 --gpu_memory_utilization=0.8"
    )
    assert translation.engine == "vllm"
    assert kinds(translation) == {
        "--host": "kept",
        "--port": "kept",
        "--model": "kept",
        "--seed": "kept",
        "-tp": "kept",
        "--gpu_memory_utilization": "kept",
        "--speculative_model": "translated",
        "--use-v2-block-manager": "dropped",
        "--num_speculative_tokens": "translated",
    }
    assert all(line.say.endswith((".", '"fly".')) for line in translation.lines)


def test_the_call_of_an_old_tutorial():
    translation = translate(
        """
from vllm import LLM, SamplingParams

llm = LLM(
    model="facebook/opt-6.7b",
    tensor_parallel_size=4,
    speculative_model="[ngram]",
    num_speculative_tokens=5,
    ngram_prompt_lookup_max=4,
    use_v2_block_manager=True,
)
outputs = llm.generate(prompts)
"""
    )
    config, rest = config_of(translation)
    assert config == {
        "method": "ngram",
        "num_speculative_tokens": 5,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 1,  # the default of then, which is another one today
    }
    assert rest == {"model": "facebook/opt-6.7b", "tensor_parallel_size": 4}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "--speculative-model [ngram] --ngram-prompt-lookup-min=2 --ngram-prompt-lookup-max 3",
            {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 3},
        ),
        (
            "--speculative-model a/b --speculative-draft-tensor-parallel-size 1",
            {"method": "draft_model", "model": "a/b", "draft_tensor_parallel_size": 1},
        ),
        (
            "--speculative-model=a/b -spec-draft-tp 1",
            {"method": "draft_model", "model": "a/b", "draft_tensor_parallel_size": 1},
        ),
        ("--speculative-model a/EAGLE3-LLaMA", {"method": "eagle3", "model": "a/EAGLE3-LLaMA"}),
        ("--speculative-model yuhuili/EAGLE-LLaMA3", {"method": "eagle", "model": "yuhuili/EAGLE-LLaMA3"}),
        (
            "--speculative-model a/b --speculative-max-model-len 512 --speculative-model-quantization fp8",
            {"method": "draft_model", "model": "a/b", "max_model_len": 512, "quantization": "fp8"},
        ),
        (
            "--speculative-model a/b --speculative-disable-by-batch-size=8",
            {"method": "draft_model", "model": "a/b", "num_speculative_tokens_per_batch_size": [[1, 8, 5], [9, 9, 0]]},
        ),
        ("--speculative-model a/vllm-medusa-b", {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1}),
        (
            "--speculative-model ibm/llama3-8b-accelerator",
            {"method": "ngram", "prompt_lookup_max": 3, "prompt_lookup_min": 1},
        ),
        (
            "--speculative-model a/b --spec-decoding-acceptance-method typical_acceptance_sampler "
            "--typical-acceptance-sampler-posterior-alpha 0.3",
            {"method": "draft_model", "model": "a/b"},
        ),
        (
            "--speculative-model a/b --speculative-disable-mqa-scorer --disable-logprobs-during-spec-decoding false",
            {"method": "draft_model", "model": "a/b"},
        ),
        (
            """--speculative-config '{"method": "[ngram]", "prompt_lookup_max": 4}'""",
            {"method": "ngram", "prompt_lookup_max": 4},
        ),
        (
            """--speculative_config='{"model": "a/b", "tensor_parallel_size": 1, "disable_by_batch_size": 4}'""",
            {
                "model": "a/b",
                "draft_tensor_parallel_size": 1,
                "num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 5, 0]],
            },
        ),
        ("""-sc '{"method": "deepseek_mtp"}'""", {"method": "mtp"}),
        (
            "--speculative-config.method ngram --speculative-config.prompt_lookup_max 4",
            {"method": "ngram", "prompt_lookup_max": 4},
        ),
    ],
)
def test_every_old_key_has_a_place_today(old, new):
    translation = translate(f"vllm serve m {old} --num-speculative-tokens 5")
    config, rest = config_of(translation)
    assert config == {"num_speculative_tokens": 5} | new
    assert rest == ["vllm", "serve", "m"]
    assert config.keys() <= current("vllm", "speculative_config")
    assert "unknown" not in kinds(translation).values()


def test_sglang():
    translation = translate(
        "python -m sglang.launch_server --model-path m --speculative-algo LOOKAHEAD --speculative-lookahead-capacity 9 "
        "--speculative-lookahead-branch-length 4 --speculative-num-draft-tokens 8"
    )
    assert translation.engine == "sglang"
    assert shlex.split(translation.text.replace("\\\n", " ")) == shlex.split(
        "python -m sglang.launch_server --model-path m --speculative-algorithm NGRAM --speculative-ngram-capacity 9 "
        "--speculative-num-draft-tokens 8"
    )
    call = translate(
        "sgl.Engine(model_path='m', speculative_algo='EAGLE', speculative_draft='d', speculative_num_steps=3)"
    )
    assert call.text == (
        "sgl.Engine(\n    model_path='m',\n    speculative_algorithm='EAGLE',\n"
        "    speculative_draft_model_path='d',\n    speculative_num_steps=3,\n)"
    )


def test_the_tables_lead_to_keys_that_exist():
    for table, engine in ((OLD_VLLM, "vllm"), (OLD_CONFIG, "vllm"), (OLD_SGLANG, "sglang")):
        for name, rules in table.items():
            for rule in rules:
                assert rule.config.keys() <= current("vllm", "speculative_config"), name
                assert rule.options.keys() <= current(engine, "options"), name
    assert not OLD_VLLM.keys() & current("vllm", "options")
    assert not OLD_CONFIG.keys() & current("vllm", "speculative_config") - {"method"}
    assert not OLD_SGLANG.keys() & current("sglang", "options") - {"speculative_algorithm"}


def test_unknown_things_are_kept_and_said_to_be_unknown():
    translation = translate(
        'FOO="a b" vllm serve m --frobnicate "x $HOME" '
        """--speculative-config '{"method": "ngram", "zap": [1]}' 2> log & wait"""
    )
    assert translation.text.startswith('FOO="a b" vllm serve')
    assert '--frobnicate "x $HOME"' in translation.text  # as it was written: the shell shall still expand it
    assert translation.text.endswith(" 2> log & wait")
    assert config_of(translate(translation.text.removesuffix(" 2> log & wait")))[0]["zap"] == [1]
    assert [line.old for line in translation.lines if line.kind == "unknown"][:2] == [
        '--frobnicate "x $HOME"',
        '"zap": [1]',
    ]


def test_expressions_stay_expressions():
    translation = translate("LLM(MODEL, speculative_model=draft, num_speculative_tokens=2 * n, **extra)")
    assert translation.text == (
        "LLM(\n    MODEL,\n    **extra,\n"
        "    speculative_config={'method': 'draft_model', 'model': draft, 'num_speculative_tokens': 2 * n},\n)"
    )


def test_a_limit_that_is_no_number_is_not_guessed():
    translation = translate("vllm serve m --speculative-model d --speculative-disable-by-batch-size many")
    assert any(line.kind == "unknown" and line.say.startswith("Not translated") for line in translation.lines)
    assert "num_speculative_tokens_per_batch_size" not in translation.text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing to translate"),
        ("  \n ", "nothing to translate"),
        ("hello world", "Nothing here looks like"),
        ("vllm serve m --x 'unclosed", "has no partner"),
        ("vllm serve m --x \\", "has no partner"),
        ("LLM(model=", "does not read as Python"),
        ("LLM(" + "(" * 5000 + ")" * 5000 + ")", "does not read as Python"),
        ("x" * (LONGEST + 1), f"at most {LONGEST}"),
        ("$", "Nothing here looks like"),
    ],
)
def test_texts_that_are_no_commands(text, says):
    with pytest.raises(UserError, match=says):
        translate(text)


def test_the_table_for_the_page_cannot_be_broken():
    text = translate_text("vllm serve m --speculative-model 'a`b|c<b>\n```' --foo `x`")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)
    assert text.startswith("````bash\n")


OPTIONS = [
    *sorted(OLD_VLLM | OLD_CONFIG | OLD_SGLANG),
    "speculative_config",
    "speculative-config.method",
    "tp",
    "model",
]
VALUES = (
    st.text(max_size=8) | st.integers().map(str) | st.sampled_from(["[ngram]", "medusa", "{}", "[]", '{"method": []}'])
)
SHELL = st.lists(
    st.tuples(st.sampled_from(OPTIONS), st.sampled_from([" ", "=", ""]), VALUES).map(
        lambda parts: "--{}{}{}".format(*parts)
    ),
    max_size=4,
).map(" ".join)
LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5) | st.integers(), inner, max_size=2),
    max_leaves=6,
).map(repr)
PYTHON = st.lists(st.tuples(st.sampled_from(OPTIONS), LITERALS | st.text(max_size=6)), max_size=4).map(
    lambda pairs: "LLM(" + ", ".join(f"{name}={value}" for name, value in pairs) + ")"
)


def survives(text):
    try:
        translation = translate(text)
        translate_text(text)
    except UserError:
        return
    assert translation.text
    assert translation.lines


@given(st.text(max_size=200) | st.text(alphabet="-='\"\\ {}[]():,\n$&|<>abLM", max_size=60))
def test_any_text_is_translated_or_refused_with_a_sentence(text):
    survives(text)


@given(
    SHELL, st.sampled_from(["vllm serve m ", "python -m sglang.launch_server ", "docker run vllm/vllm-openai:v1 ", ""])
)
def test_any_options_are_translated_or_refused_with_a_sentence(options, head):
    survives(head + options)


@given(PYTHON)
def test_any_call_is_translated_or_refused_with_a_sentence(text):
    survives(text)


@given(st.sampled_from(sorted(OLD_VLLM)), st.text(alphabet="abc/-_.123 '\"$", min_size=1, max_size=10))
def test_a_translation_is_a_command_again(name, value):
    """What comes out can be read by a shell, and needs no second translation."""
    new = translate(f"vllm serve m --{name}={shlex.quote(value)} --seed 1").text
    again = translate(new)
    assert shlex.split(again.text.replace("\\\n", " ")) == shlex.split(new.replace("\\\n", " "))
    assert {line.kind for line in again.lines} <= {"kept", "unknown"}


@pytest.mark.parametrize(
    "text", ["LLM(" + "-" * 9000 + "1)", "LLM(model=" + "[" * 150 + "]" * 150 + ")", "LLM(a=" + "x." * 4000 + "y)"]
)
def test_deep_python_is_no_accident(text):
    survives(text)
