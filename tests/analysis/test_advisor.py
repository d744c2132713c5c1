from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from playground.analysis.advisor import Advice, Situation, advise, published, read_measured, to_markdown
from playground.analysis.report import Row, Speedup
from playground.errors import UserError
from playground.methods import METHODS


def row(lane: str, speedup: float, category: str = "overall") -> Row:
    over = {"autoregressive": Speedup(speedup, speedup, speedup)}
    return Row(lane, category, 4, 10 * speedup, over, 2.0, 2.0, 0.5, [0.5], {})


@pytest.mark.parametrize(
    ("have", "method"),
    [
        (Situation(70, draft=7), "draft-model"),
        (Situation(33, draft=7), "draft-model"),
        (Situation(13, draft=1), "draft-model"),
        (Situation(13, draft=7), "prompt-lookup"),  # less than twice as small: does not pay by the rule
        (Situation(13, draft=7, alpha=0.9), "draft-model"),  # but who has measured knows better
        (Situation(7, heads=True), "medusa"),
        (Situation(7, may_train=True), "medusa"),
        (Situation(7), "prompt-lookup"),
        (Situation(7, draft=0.5, heads=True, repeats=True), "prompt-lookup"),
        (Situation(7, draft=0.5, batch=32), "autoregressive"),
    ],
)
def test_the_rules_of_thumb(have: Situation, method: str) -> None:
    assert advise(have)[0].method == method


def test_every_situation_gets_settings_that_its_method_takes_and_reasons() -> None:
    for target in (0.1, 7, 13, 70):
        for draft in (None, target / 7):
            for flags in range(16):
                heads, train, gpu, repeats = (bool(flags & 1 << at) for at in range(4))
                have = Situation(target, draft, heads, train, 1 + 15 * (flags % 2), gpu, repeats)
                found = advise(have)
                assert len({one.method for one in found}) == len(found)
                for one in found:
                    METHODS[one.method].check(one.settings)
                    assert one.reasons
                    assert not any(set("{}") & set(str(reason)) for reason in one.reasons), "every blank is filled"
                assert to_markdown(found)


def test_a_measurement_made_here_decides() -> None:
    have = Situation(7, draft=0.7, heads=True)
    assert [one.method for one in advise(have)][:2] == ["draft-model", "medusa"]
    found = advise(have, {"draft-model": row("draft-model k=4", 0.8), "medusa": row("medusa", 1.6)})
    order = [one.method for one in found]
    assert order[0] == "medusa"
    assert order[-1] == "draft-model", "slower than plain, and so behind what nobody has measured"
    assert str(found[0].reasons[0]) == "1.6 times as fast as autoregressive (medusa)."
    assert found[0].reasons[0].evidence == "measured here"


def test_the_table_says_what_was_measured_and_what_was_not() -> None:
    text = to_markdown([Advice("medusa", {"tree": "auto"})], {"medusa": row("medusa", 1.234)})
    assert "--method medusa --set tree=auto" in text
    assert "| medusa | 1.23 |" in text
    assert "| lookahead | not yet |" in text
    assert set(published()) <= set(METHODS)
    assert all(low <= high for one in published().values() for low, high in (one.speedup, one.tokens_per_step))


def test_the_report_of_a_benchmark_is_read(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    rows = [row("draft-model k=2", 1.1), row("draft-model k=4", 1.3), row("draft-model k=8", 9.0, "story")]
    file.write_text(json.dumps({"rows": [asdict(one) for one in rows]}))
    assert read_measured(file) == {"draft-model": rows[1]}
    for text in ("", "[]", '{"rows": 3}', '{"rows": [{"lane": 3}]}'):
        file.write_text(text)
        with pytest.raises(UserError, match=r"not the report\.json"):
            read_measured(file)
    with pytest.raises(UserError, match=r"not the report\.json"):
        read_measured(tmp_path / "absent")


@pytest.mark.parametrize(
    "wrong",
    [
        {"target": 0},
        {"target": float("nan")},
        {"target": 7, "draft": 7},
        {"target": 7, "draft": -1},
        {"target": 7, "batch": 0},
        {"target": 7, "alpha": 1.5},
    ],
)
def test_what_cannot_be_is_told(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        Situation(**wrong)
