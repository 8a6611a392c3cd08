"""The verdict and its figures, for trackers. The trackers here have the interfaces of the real ones, which
``test_frameworks.py`` uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import job

import ncclscope


class Writer:
    """As a SummaryWriter."""

    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}
        self.texts: dict[str, str] = {}

    def add_scalar(self, name: str, value: float, step: int | None) -> None:
        self.scalars[name] = value

    def add_text(self, name: str, text: str, step: int | None) -> None:
        self.texts[name] = text

    def flush(self) -> None:
        pass


def test_a_result_is_the_report_s() -> None:
    result = ncclscope.result(job("ddp4"))
    report = ncclscope.open(job("ddp4")).report()
    assert result.verdict == report.verdict
    assert report.steps is not None and report.steps.step_us is not None and report.steps.step_us.p50
    assert result.figures["step_ms"] == report.steps.step_us.p50 / 1e3
    assert result.figures["calls"] == 176
    assert 0 < result.figures["nccl_share"] < 1


def test_the_account_sums_to_one() -> None:
    figures = ncclscope.result(job("slow_plain")).figures
    parts = ("work", "wait", "transfer", "unknown")
    assert sum(figures[f"{part}_share"] for part in parts) == pytest.approx(1)
    assert figures["lost_s"] == 0
    assert ncclscope.result(job("slow_host")).figures["lost_s"] > 0


def test_each_tracker_gets_it_and_a_broken_one_is_said() -> None:
    writer = Writer()
    seen: list[ncclscope.Result] = []

    class Broken:
        def add_scalar(self, *_: Any) -> None:
            raise OSError("no disk")

        add_text = add_scalar

    with pytest.warns(RuntimeWarning, match="could not log to Broken: no disk"):
        result = ncclscope.log_result(Broken(), None, writer, seen.append, capture=job("ddp4"))
    assert result is not None and seen == [result]
    assert writer.texts == {"ncclscope/verdict": result.verdict}
    assert writer.scalars == {f"ncclscope/{name}": value for name, value in result.figures.items()}


def test_without_a_capture_it_warns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NCCLSCOPE_OUT", raising=False)
    monkeypatch.delenv("NCCLSCOPE_RUN", raising=False)
    with pytest.warns(RuntimeWarning, match="has no result to log: this process is not recorded"):
        assert ncclscope.log_result() is None
    with pytest.warns(RuntimeWarning, match="expected a capture folder or a trace file"):
        assert ncclscope.log_result(capture=tmp_path / "none") is None
