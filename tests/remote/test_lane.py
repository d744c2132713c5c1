"""The remote lane against a server that behaves, and against one that does not."""

import io
import json
import re
from threading import Thread
from time import sleep

import httpx
import pytest

from playground.decoding.sampling import Sampling
from playground.decoding.session import race
from playground.decoding.trace import Counts, Status, Trace, read_trace
from playground.errors import UserError
from playground.remote.lane import Patience, RemoteLane
from playground.remote.servers import HOSTS, KEY, allowed_server
from tests.remote.arrivals import arrivals
from tests.remote.fault_server import answer, fault_server, stream
from tests.remote.replies import QUICK, TOKENS, USAGE, event, serving

A, B, P, U = Status.ACCEPTED, Status.BONUS, Status.PLAIN, Status.UNKNOWN


def lane_to(server, *, key=None, prompt=(1, 2, 3), sampling=None, tokens=16, **more):
    environment = {HOSTS: f"127.0.0.1:{server.port}"} | ({KEY: key} if key else {})
    allowed = allowed_server(server.url, environment)
    return RemoteLane(allowed, prompt, sampling or Sampling(), tokens, **({"patience": QUICK} | more))


def run(lane):
    """The steps that arrived, and the sentence with which it ended if it did not end well."""
    steps, said = [], None
    try:
        for step in arrivals(lane):
            steps.append(step)
    except UserError as error:
        said = str(error)
    return steps, said


def ids(steps):
    return [[token.token for token in step.emitted] for step in steps]


def roles(steps):
    return [[token.status for token in step.emitted] for step in steps]


def test_a_good_run():
    with serving(stream(*TOKENS, USAGE)) as server:
        lane = lane_to(server)
        steps, said = run(lane)
    assert said is None
    assert ids(steps) == [[5], [6, 7, 8], [9]]
    assert roles(steps) == [[P], [A, A, B], [P]]
    assert steps[-1].finish == "length"
    assert all(step.seconds.own > 0 for step in steps)
    assert lane.counts.per_step_accepted == [2]
    assert lane.header.models == {"target": "m"}
    assert lane.header.prompt_ids == [1, 2, 3]
    assert lane.header.settings == {"server": server.url, "model": ""}


def test_what_the_server_is_asked():
    sampling = Sampling(temperature=0.7, top_k=40, top_p=0.9, min_p=0.1, repetition_penalty=1.2, seed=2**64 - 5)
    with serving(stream(*TOKENS, USAGE)) as server:
        run(lane_to(server, sampling=sampling, stop=["\n\n"], tokens=9))
    (post,) = server.posts()
    assert post.body == {
        "model": "m",
        "prompt": [1, 2, 3],
        "max_tokens": 9,
        "temperature": 0.7,
        "top_k": 40,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "seed": -5,
        "stop": ["\n\n"],
        "logprobs": 2,
        "return_token_ids": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "authorization" not in post.headers


def test_a_text_prompt_is_the_servers_to_encode():
    with serving(stream(*TOKENS)) as server:
        lane = lane_to(server, prompt="Hello", model="n")
        run(lane)
    assert server.posts()[0].body["prompt"] == "Hello"
    assert server.posts()[0].body["model"] == "n"
    assert lane.header.prompt_ids == [1, 2, 3]
    assert "/v1/models" not in [request.path for request in server.requests]


def test_text_that_is_no_unicode_is_refused_before_anything_is_sent():
    with serving(stream(*TOKENS)) as server, pytest.raises(UserError, match="no Unicode text"):
        lane_to(server, prompt="\ud800")
    assert server.requests == []


def test_events_in_odd_pieces():
    body = b"".join(f": ping\r\n\r\ndata: {json.dumps(each)}\r\n\r\n".encode() for each in (*TOKENS, USAGE))
    with serving(stream(*(body[at : at + 7] for at in range(0, len(body), 7)))) as server:
        steps, said = run(lane_to(server))
    assert said is None
    assert ids(steps) == [[5], [6, 7, 8], [9]]


def test_a_slow_server_is_waited_for_and_its_time_is_its_own():
    with serving(stream(0.05, TOKENS[0], 0.05, TOKENS[1], 0.05, TOKENS[2], USAGE)) as server:
        steps, said = run(lane_to(server, patience=Patience()))
    assert said is None
    assert ids(steps) == [[5], [6, 7, 8], [9]]


def test_arrivals_are_stamped_when_they_arrive_not_when_they_are_read(monkeypatch):
    now = 0.0
    monkeypatch.setattr("playground.remote.lane.perf_counter", lambda: now)
    with serving(stream(*TOKENS, USAGE)) as server:
        lane = lane_to(server, patience=Patience())
        iterator = arrivals(lane)
        steps = [next(iterator)]
        while lane.counts is None:
            sleep(0.01)
        now = 1000.0  # another lane has computed for long
        steps += iterator
    assert ids(steps) == [[5], [6, 7, 8], [9]]
    assert [step.seconds.own for step in steps] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("script", "kept", "says"),
    [
        (
            stream(*TOKENS[:2], "hang"),
            [[5], [6, 7, 8]],
            r"sent nothing for 1 seconds; 4 tokens had arrived and are kept",
        ),
        (["hang"], [], r"sent nothing for 1 seconds; 0 tokens"),
        (stream(*TOKENS[:2], "reset"), [[5], [6, 7, 8]], r"the server ended, or something between .*; 4 tokens"),
        (stream(*TOKENS[:2], end=False), [[5], [6, 7, 8]], r"the server ended.*; 4 tokens"),
        ([*stream(*TOKENS[:2], end=False), b"0\r\n\r\n"], [[5], [6, 7, 8]], r"broke off: the server ended.*; 4 tokens"),
        (["reset"], [], r"connection to http://127.0.0.1:\d+ broke"),
        (stream(TOKENS[0], b"data: {oops\n\n"), [[5]], r"no JSON: '{oops'"),
        (stream(TOKENS[0], b"\x00\xff\n\ndata: \xff\n\n"), [[5]], "no JSON"),
        (stream(TOKENS[0], {"error": {"message": "EngineCore died", "code": 500}}), [[5]], "an error: EngineCore died"),
        (stream(TOKENS[0], event(*range(99))), [[5]], "more than the 16 tokens"),
        (stream(TOKENS[0], {"choices": [{"delta": {"content": "hi"}}]}), [[5]], "does not tell token ids"),
        (answer(200, json.dumps(USAGE)), [], "'application/json' instead of a stream of events"),
        (answer(200, "<html>", "text/html"), [], "'text/html' instead of a stream"),
        (answer(401, '{"error": "Unauthorized"}'), [], rf"status 401: it wants a key.*{KEY}.*'Unauthorized'"),
        (answer(403, "{}"), [], "status 403"),
        (answer(404, '{"error": {"message": "The model does not exist."}}'), [], "404.*'The model does not exist.'"),
        (answer(500, "x" * 10_000), [], r"status 500: see what it says. It says: 'x{300}'"),
        (answer(503, ""), [], "status 503: it is not ready"),
        (answer(307, "", location="http://169.254.169.254/"), [], "sends us on to .*we do not follow"),
        ([b"SSH-2.0-OpenSSH_9.9\r\n\r\n"], [], "broke"),
        (stream(b"data: " + b"x" * (1 << 20)), [], "more than 1048576 bytes"),
    ],
)
def test_faults_end_with_a_sentence_and_keep_what_arrived(script, kept, says):
    with serving(script) as server:
        lane = lane_to(server)
        steps, said = run(lane)
        assert len(server.posts()) == 1  # never sent again
    assert ids(steps) == kept
    assert said is not None
    assert re.search(says, said), said
    assert {status for step in roles(steps) for status in step} <= {U}


def test_the_partial_trace_of_a_server_that_died_can_be_written():
    with serving(stream(*TOKENS[:2], "reset")) as server:
        lane = lane_to(server)
        trace = Trace([lane.header])
        with pytest.raises(UserError):
            trace.order.extend((0, step) for step in arrivals(lane))
    file = io.StringIO()
    trace.write(file)
    assert read_trace(file.getvalue().splitlines()).steps(0) == trace.steps(0)
    assert len(trace.order) == 2


def test_a_run_that_never_ends_is_ended():
    drip = [part for token in range(2000) for part in (event(token), 0.05)]
    with serving(stream(*drip)) as server:
        steps, said = run(lane_to(server, tokens=9999, patience=Patience(whole=1)))
    arrived = sum(len(step.emitted) for step in steps)
    assert said.endswith(f"still not done after 1 seconds; {arrived} tokens had arrived and are kept.")


def test_closing_the_iterator_closes_the_connection():
    with serving(stream(*TOKENS[:2], "hang")) as server:
        iterator = arrivals(lane_to(server, patience=Patience()))
        assert ids([next(iterator)]) == [[5]]
        iterator.close()
        assert server.client_gone.wait(10)


def test_cancel_from_another_thread_ends_a_waiting_iterator():
    with serving(stream(*TOKENS[:2], "hang")) as server:
        lane = lane_to(server, patience=Patience())
        got = []
        reader = Thread(target=lambda: got.extend(arrivals(lane)))
        reader.start()
        while not got:
            sleep(0.01)
        lane.cancel()
        reader.join(10)
        assert not reader.is_alive()
        assert server.client_gone.wait(10)
    assert ids(got) == [[5], [6, 7, 8]]


def test_nobody_there():
    with fault_server({}) as server:
        pass
    steps, said = run(lane_to(server))
    assert steps == []
    assert said.startswith(f"No server answers at {server.url}")


def test_only_attempts_that_never_connected_are_repeated(monkeypatch):
    """Two refused connections, then the server is there: one request reaches it."""
    attempts = []
    send = httpx.AsyncClient.send

    async def refuse_twice(self, request, **more):
        attempts.append(request.url.path)
        if len(attempts) <= 2:
            raise httpx.ConnectError("refused", request=request)
        return await send(self, request, **more)

    monkeypatch.setattr(httpx.AsyncClient, "send", refuse_twice)
    with serving(stream(*TOKENS, USAGE)) as server:
        steps, said = run(lane_to(server, model="m"))
    assert said is None
    assert attempts == ["/metrics", "/metrics", "/metrics", "/v1/completions"]
    assert ids(steps) == [[5], [6, 7, 8], [9]]


@pytest.mark.parametrize("error", [httpx.ReadError, httpx.ReadTimeout, httpx.RemoteProtocolError, httpx.WriteError])
def test_a_request_that_may_have_arrived_is_not_repeated(monkeypatch, error):
    attempts = []

    async def fail(self, request, **more):
        attempts.append(request.method)
        raise error("broken", request=request)

    monkeypatch.setattr(httpx.AsyncClient, "send", fail)
    with serving(stream(*TOKENS)) as server:
        steps, said = run(lane_to(server, model="m"))
    assert steps == []
    assert said
    assert attempts.count("POST") == 1


@pytest.mark.parametrize(
    ("page", "says"),
    [
        (answer(200, '{"data": [{"id": "a"}, {"id": "b"}]}'), "serves a, b. Name the one to use"),
        (answer(200, '{"data": []}'), "serves no model"),
        (answer(200, "[]"), "does not list models"),
        (answer(200, "<html>"), "does not list models"),
        (answer(404, "no"), "status 404"),
    ],
)
def test_the_model_must_be_clear(page, says):
    with fault_server({"/v1/models": [page]}) as server:
        steps, said = run(lane_to(server))
        assert server.posts() == []
    assert steps == []
    assert says in said


def test_the_key_goes_to_the_server_and_nowhere_else():
    echo = answer(401, '{"error": {"message": "Incorrect API key provided: sk-secret."}}')
    with serving(echo) as server:
        lane = lane_to(server, key="sk-secret")
        _, said = run(lane)
    assert server.posts()[0].headers["authorization"] == "Bearer sk-secret"
    assert "Incorrect API key provided: [key]" in said
    with serving(stream(event(5, text="sk-secret"), event(6, finish="length"))) as server:
        lane = lane_to(server, key="sk-secret")
        steps, _ = run(lane)
    file = io.StringIO()
    Trace([lane.header], order=[(0, step) for step in steps]).write(file)
    assert "sk-secret" not in file.getvalue() + repr(lane.header) + repr(lane.server)


def test_proxies_of_the_environment_get_nothing(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    with serving(stream(*TOKENS, USAGE)) as server:
        _, said = run(lane_to(server))
    assert said is None


METRICS = """\
vllm:generation_tokens_total{{engine="0",model_name="m"}} {tokens}
vllm:spec_decode_num_drafts_total{{engine="0",model_name="m"}} {steps}
vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="m"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="m"}} {accepted}
"""


def metrics(tokens, steps, drafted, accepted):
    page = METRICS.format(tokens=tokens, steps=steps, drafted=drafted, accepted=accepted)
    return answer(200, page, "text/plain")


def test_counters_where_the_reply_tells_nothing():
    """The counters lag behind the reply; the second reading after it is complete."""
    pages = [metrics(100, 10, 20, 9), metrics(104, 11, 22, 11), metrics(105, 11, 22, 11)]
    with serving(stream(*TOKENS), metrics=pages) as server:
        lane = lane_to(server)
        steps, said = run(lane)
    assert said is None
    assert lane.counts == Counts(1, 2, 2, 3.0, 1.0, [1], source="counters")
    assert roles(steps) == [[U], [U, U, U], [U]]


def test_counters_with_others_requests_in_them_stay_unknown():
    with serving(stream(*TOKENS), metrics=[metrics(100, 10, 20, 9), metrics(299, 99, 99, 99)]) as server:
        lane = lane_to(server)
        assert run(lane)[1] is None
    assert lane.counts is None


def test_the_replys_own_counts_come_first():
    with serving(stream(*TOKENS, USAGE), metrics=[metrics(100, 10, 20, 9), metrics(105, 77, 77, 77)]) as server:
        lane = lane_to(server)
        run(lane)
    assert lane.counts.source == "request"
    assert [request.path for request in server.requests].count("/metrics") == 1


def test_a_server_that_does_not_speculate():
    plain = answer(200, 'vllm:generation_tokens_total{model_name="m"} 0\n', "text/plain")
    after = answer(200, 'vllm:generation_tokens_total{model_name="m"} 3\n', "text/plain")
    with serving(stream(event(5), event(6), event(7, finish="stop")), metrics=[plain, after]) as server:
        lane = lane_to(server)
        steps, _ = run(lane)
    assert roles(steps) == [[P], [P], [P]]
    assert steps[-1].finish == "eos"
    assert lane.counts == Counts(0, 0, 0, source="counters")


def test_two_servers_race():
    with serving(stream(*TOKENS, USAGE)) as one, serving(stream(event(5), event(6, finish="length"))) as other:
        lanes = [lane_to(one, patience=Patience()), lane_to(other, patience=Patience())]
        order = [event for event in race([lane.steps() for lane in lanes]) if event is not None]
    assert ids([step for at, step in order if at == 0]) == [[5], [6, 7, 8], [9]]
    assert ids([step for at, step in order if at == 1]) == [[5], [6]]


TEMPLATED = answer(200, '{"count": 2, "max_model_len": 9, "tokens": [7, 8]}')


@pytest.mark.parametrize("chat", [None, True])
def test_a_chat_is_written_by_the_servers_own_template(chat):
    with serving(stream(*TOKENS), **{"tokenize": TEMPLATED}) as server:
        lane = lane_to(server, prompt="Hello", chat=chat, system="Be brief.", earlier=["Hi", "Yes?"])
        assert run(lane)[1] is None
    asked, post = server.posts()
    said = [("system", "Be brief."), ("user", "Hi"), ("assistant", "Yes?"), ("user", "Hello")]
    turns = [{"role": role, "content": text} for role, text in said]
    assert asked.body == {"model": "m", "messages": turns, "add_generation_prompt": True}
    assert post.body["prompt"] == [7, 8]
    assert lane.header.chat


NO_TEMPLATE = answer(400, '{"error": {"message": "no chat template"}}')


def test_without_a_template_the_prompt_goes_as_it_stands_and_that_is_said():
    with serving(stream(*TOKENS), tokenize=NO_TEMPLATE) as server:
        lane = lane_to(server, prompt="Hello", chat=None)
        assert run(lane)[1] is None
    assert server.posts()[1].body["prompt"] == "Hello"
    assert not lane.header.chat
    assert lane.header.notices[-1] == "No chat template: the prompt went as it stands (status 400)."


@pytest.mark.parametrize(
    ("tokenized", "says"),
    [
        (NO_TEMPLATE, "makes no chat of this prompt.*'no chat template'"),
        (answer(200, "[]"), "/tokenize tells no tokens"),
        (answer(200, '{"tokens": [-1]}'), "where a token id belongs"),
    ],
)
def test_a_chat_that_was_asked_for_is_made_or_refused(tokenized, says):
    with serving(stream(*TOKENS), tokenize=tokenized) as server:
        _, said = run(lane_to(server, prompt="Hello", chat=True))
        assert [request.path for request in server.posts()] == ["/tokenize"]
    assert re.search(says, said), said


def test_what_no_server_needs_to_be_asked():
    with serving(stream(*TOKENS)) as server:
        with pytest.raises(UserError, match="prompt is empty"):
            lane_to(server, prompt="")
        with pytest.raises(UserError, match="needs the chat template"):
            lane_to(server, prompt="Hello", system="Be brief.")
    assert server.requests == []
