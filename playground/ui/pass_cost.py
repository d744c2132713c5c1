"""The cost of a pass, measured for those who watch, and kept for the next visitor."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Literal

from playground.analysis.bench import Bench
from playground.analysis.cost_curve import CostCurve, cost_curve
from playground.analysis.cost_report import cost_figure, cost_sentences
from playground.decoding.codec import JSON
from playground.jobs import HaltedError, Jobs

KIND = "measurement"
BUDGET_SECONDS = 20.0


@dataclass
class State:
    """What there is to see. `figure` is Plotly's; `told` says the same in sentences."""

    phase: Literal["idle", "measuring", "done", "failed"] = "idle"
    target: str = ""
    share: float | None = None
    told: list[str] = field(default_factory=list)
    figure: JSON = None
    error: str = ""


class PassCost:
    """Measures what passes of a target cost, one target at a time, with the models of `bench`."""

    def __init__(self, bench: Bench, jobs: Jobs) -> None:
        self._bench, self._jobs = bench, jobs
        self._lock = Lock()
        self._state = State()
        self._curves: dict[str, CostCurve] = {}

    def start(self, target: str, visitor: str) -> None:
        """Measure, or find what was measured on this machine before. UserError: no such model, or another job runs."""
        self._bench.catalog.source(target, self._bench.allow_local)

        def begin() -> Callable[[], None]:
            self._change(State("measuring", target))
            return lambda: self._work(target)

        what = f"The cost of a pass of {target} is being measured"
        self._jobs.start(KIND, what, visitor, begin, lambda wrong: self._change(State("failed", target, error=wrong)))

    def stop(self, visitor: str) -> None:
        """Leave it unmeasured. Raises UserError for a measurement that somebody else watches over."""
        self._jobs.stop(KIND, visitor)

    def view(self) -> dict[str, JSON]:
        """The state, for every visitor the same."""
        with self._lock:
            return asdict(self._state)

    def curve(self, target: str) -> CostCurve | None:
        """The curve of a target, where it was looked at since the page was started."""
        return self._curves.get(target)

    def _work(self, target: str) -> None:
        bench = self._bench
        try:
            with bench.store.lease(bench.catalog.source(target, bench.allow_local)) as model:
                gate = bench.store.gate(model.target.device)
                curve = cost_curve(model, BUDGET_SECONDS, progress=self._progress, gate=gate)
            self._curves[target] = curve
            figure = json.loads(cost_figure([curve]).to_json())
            self._change(State("done", target, told=cost_sentences(curve), figure=figure))
        except HaltedError:
            self._change(State())

    def _progress(self, message: str, fraction: float | None) -> None:
        if self._jobs.halted:
            raise HaltedError
        self._change(replace(self._state, share=fraction))

    def _change(self, state: State) -> None:
        with self._lock:
            self._state = state
