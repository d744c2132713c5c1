"""The GPU benchmark, on models that a CPU runs: it asks every method, sees what differs, and stops in time."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import typer

from benchmarks import gpu
from playground.decoding.executor import Executor
from playground.decoding.session import Session
from playground.methods import METHODS


@pytest.mark.slow
def test_the_dry_run_reports_every_method_on_all_models(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gpu.main(out=tmp_path / "gpu.json", dry_run=True)
    told = json.loads((tmp_path / "gpu.json").read_text(encoding="utf-8"))
    names = [(bed["name"], bed["dtype"]) for bed in told["beds"]]
    assert told["dry_run"]
    assert names == [("built-in", "float32"), ("built-in", "bfloat16"), ("random tiny", "float32")]
    text = capsys.readouterr().out
    assert "these figures mean nothing" in text
    for bed in told["beds"]:
        assert [line["method"] for line in bed["lines"]] == list(METHODS)
        assert not [line for line in bed["lines"] if line["differs"].startswith("bug")]
        assert all(text.count(f"| {line['method']} |") == len(names) for line in bed["lines"])


def test_random_weights_run_every_method_and_agree() -> None:
    with gpu.random_weights("tiny", "cpu", gpu.DRY) as bed:
        report = gpu.measure(bed, gpu.DRY, bandwidth=1e9, until=0.0)
    for line in report.lines:
        batch = int(METHODS[line.method].check({})["batch"])
        assert line.tokens == gpu.DRY.length * batch, "one round counts, even when time is up"
        assert 0 < line.passes <= gpu.DRY.length
        assert line.differs == ""
    assert list(report.passes) == list(gpu.DRY.pass_sizes)
    inside = sum(weight.nbytes for weight in bed.target.base.layers.parameters())
    head = bed.target.head.weight.nbytes
    assert inside + head <= report.weight_bytes <= inside + head + 64 * 4, "layers, head and last norm; no embeddings"
    assert report.limit == 1e9 / report.weight_bytes


def test_tokens_of_another_model_are_called_a_bug() -> None:
    plain = METHODS["autoregressive"]
    with (
        gpu.random_weights("tiny", "cpu", gpu.DRY) as bed,
        gpu.random_weights("tiny", "cpu", gpu.DRY) as other,
    ):
        with torch.no_grad():
            other.target.head.weight.neg_()

        @contextmanager
        def sessions(method, number):
            with bed.sessions(plain, number) as right:
                prompt = right[0].ids
                target = other.target if method.id == "medusa" else bed.target
                yield [Session(Executor(target), plain.build(None, {}), prompt, max_new_tokens=gpu.DRY.length)]

        report = gpu.measure(gpu.Bed("mixed", "float32", bed.target, sessions), gpu.DRY, 1e9, until=0.0)
    differing = {line.method: line.differs for line in report.lines if line.differs}
    assert list(differing) == ["medusa"]
    assert differing["medusa"].startswith("bug: round 0, token 0")


def test_what_there_is_no_time_for_is_left_out_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(gpu.run(gpu.DRY, "cpu", 1e9, minutes=0)) == []
    told = capsys.readouterr().err
    assert "built-in, float32 is left out" in told
    assert "random tiny is left out" in told


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(typer.Exit) as ended:
        gpu.main()
    assert ended.value.exit_code == 2
    assert "no CUDA device" in capsys.readouterr().err
