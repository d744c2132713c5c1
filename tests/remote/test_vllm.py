"""The remote lane against a real vLLM server. Chosen by hand: SPECPLAY_VLLM=1 python -m pytest -m vllm."""

from dataclasses import asdict
from io import StringIO
from time import sleep

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from playground.decoding.executor import Executor
from playground.decoding.sampling import Sampling
from playground.decoding.session import Session, decode, race
from playground.decoding.target import TransformersTarget
from playground.decoding.trace import Status, read_trace
from playground.drafters.autoregressive import Autoregressive
from playground.errors import UserError
from playground.models.store import ModelStore
from playground.models.wheel import SMOLLM2
from playground.remote.lane import RemoteLane
from playground.remote.servers import HOSTS, allowed_server
from playground.run import LaneSpec, RunSpec, open_run
from tests.remote.arrivals import arrivals
from tests.remote.vllm_server import serving

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

TOKENS = 48
PROMPTS = (
    "one two three four one two three four one two",
    "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n",
    "The capital of France is",
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """N-gram speculation, told per request."""
    with serving(tmp_path_factory.mktemp("vllm") / "log", "--per-request-spec-decode-metrics", "detailed") as running:
        yield running


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    """The same server, but its replies tell nothing: only its counters do."""
    with serving(tmp_path_factory.mktemp("silent") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(SMOLLM2.fetch())


@pytest.fixture(scope="module")
def ours(tokenizer):
    """The float32 autoregressive ids of each prompt, decoded here."""
    model = AutoModelForCausalLM.from_pretrained(SMOLLM2.fetch()).eval()
    target = TransformersTarget(model, "SmolLM2")

    def run(prompt):
        session = Session(Executor(target), Autoregressive(), tokenizer.encode(prompt), max_new_tokens=TOKENS)
        list(decode([session]))
        return session.output

    return {prompt: run(prompt) for prompt in PROMPTS}


def lane_to(server, prompt, tokens=TOKENS, **more):
    environment = {HOSTS: server.url.removeprefix("http://")}
    return RemoteLane(allowed_server(server.url, environment), prompt, Sampling(), tokens, **more)


def ids(steps):
    return [token.token for step in steps for token in step.emitted]


def counters(server):
    names = ("drafts", "draft_tokens", "accepted_tokens")
    return [server.sample(f"vllm:spec_decode_num_{name}_total") for name in names]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_ids_are_ours_and_counts_are_the_servers_own(server, ours, tokenizer, prompt):
    before = counters(server)
    lane = lane_to(server, tokenizer.encode(prompt))
    steps = list(arrivals(lane))
    assert ids(steps) == ours[prompt]
    text = "".join(token.text for step in steps for token in step.emitted)
    assert text == tokenizer.decode(ours[prompt], skip_special_tokens=True)
    assert steps[-1].finish == ("eos" if ours[prompt][-1] == tokenizer.eos_token_id else "length")
    counts = lane.counts
    told = [counts.num_spec_steps, counts.num_draft_tokens, counts.num_accepted_draft_tokens]
    for _ in range(20):
        if (seen := [now - then for now, then in zip(counters(server), before, strict=True)]) == told:
            break
        sleep(0.2)
    assert seen == told
    assert sum(counts.per_step_accepted or []) == counts.num_accepted_draft_tokens
    assert lane.header.prompt_ids == tokenizer.encode(prompt)
    assert lane.header.models == {"target": "smollm2"}


def test_roles_are_filled_where_the_server_settles_them(server, tokenizer):
    """A prompt that repeats itself; the first requests of a fresh server may arrive merged, so it is asked again."""
    for _ in range(5):
        lane = lane_to(server, tokenizer.encode(PROMPTS[0]), 24)
        steps = list(arrivals(lane))
        if len(lane.header.notices) == 2:
            break
    accepted = sum(token.status is Status.ACCEPTED for step in steps for token in step.emitted)
    assert accepted == lane.counts.num_accepted_draft_tokens > 0
    assert steps[0].emitted[0].status is Status.PLAIN
    assert all(step.view["accepted"] <= step.view["drafted"] for step in steps if "accepted" in step.view)


def test_counters_where_the_reply_tells_nothing(silent, server, tokenizer):
    """Both servers do the same, so one's counters are what the other tells."""
    lanes = [lane_to(each, tokenizer.encode(PROMPTS[0])) for each in (silent, server)]
    first, second = (list(arrivals(lane)) for lane in lanes)
    assert ids(first) == ids(second)
    quiet, told = (asdict(lane.counts) for lane in lanes)
    assert quiet["source"] == "counters"
    names = [name for name in quiet if not name.startswith("per_step") and name != "source"]
    assert {name: quiet[name] for name in names} == {name: told[name] for name in names}


def test_two_servers_race(silent, server, ours, tokenizer):
    lanes = [lane_to(each, tokenizer.encode(PROMPTS[1])) for each in (silent, server)]
    order = [event for event in race([lane.steps() for lane in lanes]) if event is not None]
    for at in range(2):
        assert ids([step for lane, step in order if lane == at]) == ours[PROMPTS[1]]


def test_stop_strings_and_text_prompts_are_the_servers_business(server):
    lane = lane_to(server, PROMPTS[0], stop=["two three"])
    steps = list(arrivals(lane))
    assert steps[-1].finish == "stop"
    assert "two three" not in "".join(token.text for step in steps for token in step.emitted)


def test_what_the_server_refuses_is_told_in_its_words(server):
    with pytest.raises(UserError, match=r"status 404.*nothing-of-this-name"):
        list(arrivals(lane_to(server, PROMPTS[0], model="nothing-of-this-name")))
    with pytest.raises(UserError, match=r"status 400.*max_tokens"):
        list(arrivals(lane_to(server, PROMPTS[0], tokens=5000)))


def test_cancel_frees_the_request(server):
    """It stops running without having reached its end: vLLM counts what ends, and not what a client leaves."""
    ended, generated = (server.sample(f"vllm:{name}_total") for name in ("request_success", "generation_tokens"))
    iterator = arrivals(lane_to(server, "Once upon a time", 900))
    next(iterator)
    assert server.sample("vllm:num_requests_running") == 1
    iterator.close()
    for _ in range(100):
        if server.sample("vllm:num_requests_running") == 0:
            break
        sleep(0.1)
    assert server.sample("vllm:num_requests_running") == 0
    assert server.sample("vllm:request_success_total") == ended
    assert server.sample("vllm:generation_tokens_total") - generated < 900


def lane_of(server):
    return LaneSpec("vllm", {"server": server.url})


@pytest.fixture
def allowed(server, silent, monkeypatch):
    monkeypatch.setenv(HOSTS, ",".join(each.url.removeprefix("http://") for each in (server, silent)))


def test_a_chat_races_beside_a_lane_of_this_machine(server, silent, allowed):
    """The server's template gives our ids, its greedy text is ours, and it is summed up by its own counts."""
    before = counters(server)
    lanes = (LaneSpec("autoregressive", target="smollm2-135m"), lane_of(server), lane_of(silent))
    spec = RunSpec("Name three colours.", lanes, max_new_tokens=24, dtype="float32", device="cpu")
    with open_run(spec, ModelStore()) as run:
        list(run)
    ours = run.summary(0).output_token_ids
    assert len(ours) > 4
    for lane in (1, 2):
        header = run.trace.lanes[lane]
        assert header.chat
        assert header.prompt_ids == run.trace.lanes[0].prompt_ids
        assert run.summary(lane).output_token_ids == ours
        assert run.text(lane) == run.text(0)
    told, quiet = run.summary(1), run.summary(2)
    names = ("num_spec_steps", "num_draft_tokens", "num_accepted_draft_tokens")
    for _ in range(20):
        if (seen := [now - then for now, then in zip(counters(server), before, strict=True)]) == [
            getattr(told, name) for name in names
        ]:
            break
        sleep(0.2)
    assert [getattr(told, name) for name in names] == [getattr(quiet, name) for name in names] == seen


def test_kill_9_in_mid_race_gives_a_sentence_keeps_the_partial_trace_and_lets_the_other_go_on(server, silent, allowed):
    spec = RunSpec("Once upon a time", (lane_of(silent), lane_of(server)), max_new_tokens=200, chat=False)
    with open_run(spec, ModelStore()) as run:
        steps = iter(run)
        while len(run.trace.steps(0)) < 5:
            next(steps)
        silent.kill()
        with pytest.raises(UserError, match=r"tokens had arrived and are kept") as caught:
            list(steps)
    partial = run.trace.steps(0)
    assert 5 <= len(partial) < 200
    assert f"{len(ids(partial))} tokens had arrived" in str(caught.value)
    assert str(caught.value).endswith(run.trace.lanes[0].notices[-1])
    assert run.summary(0).num_draft_tokens is None
    assert run.summary(1).finish_reason in ("length", "eos")
    file = StringIO()
    run.trace.write(file)
    assert read_trace(file.getvalue().splitlines()) == run.trace
    with pytest.raises(UserError, match="No server answers"):
        list(arrivals(lane_to(silent, "Once upon a time")))


def test_a_plain_and_a_speculative_server_race(server, ours, monkeypatch, tmp_path):
    """Last, when the second server has been killed: a machine may have no room for three."""
    with serving(tmp_path / "log", speculates=False) as plain:
        hosts = ",".join(each.url.removeprefix("http://") for each in (server, plain))
        monkeypatch.setenv(HOSTS, hosts)
        spec = RunSpec(PROMPTS[0], (lane_of(plain), lane_of(server)), max_new_tokens=TOKENS, chat=False)
        with open_run(spec, ModelStore()) as run:
            list(run)
    for lane in (0, 1):
        assert run.summary(lane).output_token_ids == ours[PROMPTS[0]]
    assert run.summary(0).num_draft_tokens == 0
    assert run.summary(1).num_accepted_draft_tokens > 0
    assert run.summary(1).target_forwards < run.summary(0).target_forwards <= TOKENS
    assert Status.ACCEPTED not in {token.status for step in run.trace.steps(0) for token in step.emitted}
