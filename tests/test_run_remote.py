"""Servers in a race: beside lanes of this machine, beside each other, and failing alone."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from playground.analysis.bench import Plan, measure
from playground.decoding.trace import Status, read_trace
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.remote.servers import HOSTS, KEY
from playground.run import LaneSpec, RunSpec, open_run
from tests.remote.fault_server import answer, stream
from tests.remote.replies import QUICK, TOKENS, USAGE, event, serving

PROMPT = "Once upon a time there was a little"
LOCAL = LaneSpec("autoregressive")


@pytest.fixture(scope="module")
def store() -> ModelStore:
    return ModelStore()


@pytest.fixture
def allowed(monkeypatch: pytest.MonkeyPatch):
    """Let the playground talk to these servers, with a key."""

    def allow(*servers):
        monkeypatch.setenv(HOSTS, ",".join(server.url.removeprefix("http://") for server in servers))
        monkeypatch.setenv(KEY, "sk-secret")

    return allow


def remote(server, **settings) -> LaneSpec:
    return LaneSpec("vllm", {"server": server.url, **settings})


def spec(*lanes: LaneSpec, **more) -> RunSpec:
    return RunSpec(PROMPT, lanes, **({"max_new_tokens": 16, "chat": False} | more))


def output(run, lane):
    return [[token.token for token in step.emitted] for step in run.trace.steps(lane)]


def test_two_servers_race_a_local_lane(store, allowed):
    plain = stream(event(5, prompt_token_ids=[1, 2, 3]), event(6), event(7, finish="length"))
    with serving(stream(*TOKENS, USAGE)) as one, serving(plain) as other:
        allowed(one, other)
        with open_run(spec(remote(one), LOCAL, remote(other, model="m")), store) as run:
            list(run)
        assert one.posts()[0].body["prompt"] == PROMPT
    assert output(run, 0) == [[5], [6, 7, 8], [9]]
    assert output(run, 2) == [[5], [6], [7]]
    assert run.summary(1).finish_reason == "length"
    assert len(run.summary(1).output_token_ids) == 16
    assert run.trace.lanes[0].title == f"vLLM at 127.0.0.1:{one.port}"
    assert run.text(0) == " 5 6 7 8 9"


def test_a_server_is_summed_up_by_its_own_counts(store, allowed):
    with serving(stream(*TOKENS, USAGE)) as server, serving(stream(*TOKENS)) as silent:
        allowed(server, silent)
        with open_run(spec(remote(server), remote(silent)), store) as run:
            list(run)
    told, untold = run.summary(0), run.summary(1)
    assert (told.num_spec_steps, told.num_draft_tokens, told.num_accepted_draft_tokens) == (1, 2, 2)
    assert (told.mean_acceptance_length, told.draft_acceptance_rate) == (3.0, 1.0)
    assert (told.acceptance_histogram, told.per_step_accepted) == ([0, 0, 1], [2])
    assert (told.target_forwards, told.per_step_emitted) == (3, [1, 3, 1])
    assert untold.num_spec_steps is untold.num_draft_tokens is untold.draft_acceptance_rate is None
    assert untold.acceptance_histogram is None
    assert len(untold.output_token_ids) == 5


def test_passes_that_arrived_as_one_event_are_counted(store, allowed):
    """Five tokens of which two were accepted took three passes, in however many events they came."""
    with serving(stream(event(5, 6, 7, 8, 9, finish="length"), USAGE)) as server:
        allowed(server)
        with open_run(spec(remote(server)), store) as run:
            list(run)
    assert output(run, 0) == [[5, 6, 7, 8, 9]]
    assert run.summary(0).target_forwards == 3


def test_prompt_ids_go_to_the_server_as_they_are(store, allowed):
    with serving(stream(*TOKENS)) as server:
        allowed(server)
        with open_run(spec(remote(server), prompt_ids=(7, 8), chat=None), store) as run:
            list(run)
    (post,) = server.posts()
    assert post.body["prompt"] == [7, 8]


def test_the_key_is_in_no_trace_and_the_trace_runs_again(store, allowed):
    with serving(stream(event(5, text="sk-secret"), event(6, finish="length"))) as server:
        allowed(server)
        with open_run(spec(remote(server)), store) as run:
            list(run)
        assert server.posts()[0].headers["authorization"] == "Bearer sk-secret"
        file = io.StringIO()
        run.trace.write(file)
        assert "sk-secret" not in file.getvalue()
        read = read_trace(file.getvalue().splitlines())
        assert read == run.trace
        (lane,) = read.lanes
        with open_run(spec(LaneSpec(lane.method, lane.settings)), store) as again:
            list(again)
    assert output(again, 0) == output(run, 0)


FAULTS = {
    "dies": (stream(*TOKENS[:2], "reset"), 2, "the server ended, or something between"),
    "falls silent": (stream(*TOKENS[:2], "hang"), 2, "sent nothing for 1 seconds"),
    "breaks off": ([*stream(*TOKENS[:2], end=False), b"0\r\n\r\n"], 2, "broke off"),
    "speaks otherwise": (stream(TOKENS[0], b"data: {oops\n\n"), 1, "no JSON"),
    "refuses": (answer(401, '{"error": "Unauthorized"}'), 0, "wants a key"),
    "never answers": (["hang"], 0, "sent nothing for 1 seconds"),
}


@pytest.mark.parametrize(("script", "kept", "says"), FAULTS.values(), ids=FAULTS)
def test_a_server_that_fails_ends_alone(store, allowed, monkeypatch, script, kept, says):
    monkeypatch.setattr("playground.remote.lane.Patience", lambda: QUICK)
    with serving(script) as bad, serving(stream(*TOKENS, USAGE)) as good:
        allowed(bad, good)
        lanes = spec(remote(bad, model="m"), LOCAL, remote(good))
        with open_run(lanes, store) as run, pytest.raises(UserError, match=rf"vLLM at 127.0.0.1:{bad.port}: .*{says}"):
            list(run)
    assert len(run.trace.steps(0)) == kept
    assert {token.status for step in run.trace.steps(0) for token in step.emitted} <= {Status.UNKNOWN}
    assert not run.summary(0).num_spec_steps
    assert says in run.trace.lanes[0].notices[-1]
    assert len(run.summary(1).output_token_ids) == 16
    assert output(run, 2) == [[5], [6, 7, 8], [9]]
    assert all(resident.leases == 0 for resident in store.resident())
    file = io.StringIO()
    run.trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == run.trace


def test_nobody_there_is_told_and_the_others_go_on(store, allowed, monkeypatch):
    monkeypatch.setattr("playground.remote.lane.Patience", lambda: QUICK)
    with serving() as gone:
        pass
    allowed(gone)
    with open_run(spec(remote(gone), LOCAL), store) as run, pytest.raises(UserError, match="No server answers"):
        list(run)
    assert len(run.summary(1).output_token_ids) == 16


def test_a_server_that_keeps_us_waiting_holds_up_no_other_lane_and_learns_that_we_left(store, allowed):
    """With its usual patience it would be waited for for a minute; the other lane ends before, and so do we."""
    with serving(stream(TOKENS[0], "hang")) as server:
        allowed(server)
        with open_run(spec(remote(server, model="m"), LOCAL), store) as run:
            events = run.live()
            for event_ in events:
                if event_ is None and run.summary(1).finish_reason:
                    break
            assert len(run.summary(1).output_token_ids) == 16
            assert not server.client_gone.is_set()
            events.close()
        assert server.client_gone.wait(10)


def test_closing_the_run_reaches_the_server(store, allowed):
    with serving(stream(*TOKENS[:2], "hang")) as server:
        allowed(server)
        run = open_run(spec(remote(server, model="m")), store)
        steps = iter(run)
        next(steps)
        run.close()
        assert server.client_gone.wait(10)
        assert sum(len(step.emitted) for _, step in steps) <= 3  # the rest of what had arrived


def test_a_server_joins_a_benchmark(store, allowed, tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question_id": 1, "category": "story", "turns": ["Once upon a time"]}\n')
    with serving(stream(*TOKENS, USAGE)) as server:
        allowed(server)
        lanes = (f"vllm server={server.url}",)
        plan = Plan(questions, lanes, "built-in", rounds=2, max_new_tokens=8, chat=False)
        text = measure(plan, tmp_path / "out")
    samples = [json.loads(line) for line in (tmp_path / "out" / "samples.jsonl").read_text().splitlines()]
    answers = [
        answer for sample in samples if sample.get("lane", "").startswith("vllm") for answer in sample["answers"]
    ]
    assert [(answer["output_ids"], answer["passes"], answer["drafted"]) for answer in answers] == [
        ([5, 6, 7, 8, 9], 3, 2),
        ([5, 6, 7, 8, 9], 3, 2),
    ]
    assert f"vllm server={server.url}" in text


def test_the_command_line_takes_a_server(allowed):
    with serving(stream(*TOKENS)) as server:
        allowed(server)
        words = ["generate", "--method", "vllm", "--set", f"server={server.url}", "--prompt", PROMPT, "--no-chat"]
        done = subprocess.run([sys.executable, "-m", "playground", *words], capture_output=True, text=True, check=True)
    assert done.stdout == " 5 6 7 8 9\n"
    assert "5 tokens in 3 target passes" in done.stderr
    assert "the server does not tell what it proposed" in done.stderr


class NoStore(ModelStore):
    def lease(self, *args: object, **kwargs: object):
        raise AssertionError("a model was asked for")


@pytest.mark.parametrize(
    ("lane", "more", "local", "says"),
    [
        (LaneSpec("vllm", {"server": "http://169.254.169.254"}), {}, True, f"not one that this playground.*{HOSTS}"),
        (LaneSpec("vllm", {"server": "http://a:b@localhost:8000"}), {}, True, "Leave user and password out"),
        (LaneSpec("vllm", {"server": ""}), {}, True, "starts with http"),
        (LaneSpec("vllm", {"k": 4}), {}, True, "no setting called 'k'"),
        (LaneSpec("vllm", {"server": "http://localhost:8000"}), {}, False, "open to strangers"),
        (LaneSpec("vllm", {"server": "http://localhost:8000"}), {"temperature": -1.0}, True, "temperature"),
    ],
)
def test_what_may_not_be_is_told_before_any_work(monkeypatch, lane, more, local, says):
    monkeypatch.setenv(HOSTS, "localhost:8000")
    with pytest.raises(UserError, match=says):
        open_run(spec(LOCAL, lane, **more), NoStore(), allow_local=local)
