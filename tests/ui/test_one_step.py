"""The room of one step on real runs of every method: what it shows is what the Step holds."""

from __future__ import annotations

import pytest

from playground.decoding.trace import Status
from playground.methods import METHODS
from playground.ui import wire
from tests.ui import traces

BODY = """
const run = log.receive(log.emptyLog(), JSON.parse(given));
result = log.trackOf(run, 0).steps.map((step) => ({
  trials: trials.trialsOf(step).map(({ guesses, own, said }) => ({
    guesses, own: own?.token ?? null, said: said?.p ?? null,
    bars: said && trials.barsOf(said, guesses.map((at) => step.nodes[at]), new Map([[said.p.at(-1)[0], 'accepted']])),
  })),
  cache: trials.cacheRows(step),
}));
"""


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("method", METHODS)
def test_trials_bars_and_cache_rows_are_those_of_the_step(in_node, method, temperature):
    trace = traces.of_method(method, temperature)
    shown = in_node(BODY, wire.whole(trace, "run"))
    for step, drawn in zip(trace.steps(0), shown, strict=True):
        assert len(drawn["trials"]) == len(step.emitted)
        judged = [at for trial in drawn["trials"] for at in trial["guesses"]]
        assert {at for at in judged if step.nodes[at].status is not Status.NEVER_REACHED} == {
            at for at, node in enumerate(step.nodes) if node.status is not Status.NEVER_REACHED
        }
        own = [token.token for token in step.emitted if token.status is not Status.ACCEPTED]
        assert [trial["own"] for trial in drawn["trials"] if trial["own"] is not None] == own
        for trial, visited in zip(drawn["trials"], step.detail, strict=False):
            assert trial["said"] == [list(pair) for pair in visited.p]
            shown_p = sum(row["p"] or 0 for row in trial["bars"]["rows"])
            assert shown_p + trial["bars"]["rest"]["p"] == pytest.approx(1, abs=1e-5)
        cache = drawn["cache"]
        assert cache["fed"] + sum(cache["nodes"]) == step.cache_after - step.cache_before
        assert cache["fed"] + len(cache["nodes"]) + cache["side"] == step.rows
