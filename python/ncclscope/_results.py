"""The verdict and its figures, and where teams look at them: W&B, MLflow, TensorBoard.

:func:`result` makes the report in a process of its own, so that a trainer's memory does not grow and a
failure there is none here. :func:`log_result` hands it to the trackers of a program.

Rule: nothing leaves the machine that the program's own trackers would not send. A tracker that fails is said
in one line, and the others go on.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

from ._errors import CaptureError
from ._marks import flush, own_trace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .report import Report

# A report of a large capture takes minutes; a program that has ended must not wait longer than this, seconds.
_MOST_SECONDS = 120.0


class Result:
    """What a report says in one line and in some numbers."""

    __slots__ = ("capture", "verdict", "figures")

    def __init__(self, capture: str, verdict: str, figures: dict[str, float]) -> None:
        self.capture = capture
        self.verdict = verdict
        self.figures = figures

    def __repr__(self) -> str:
        return f"<ncclscope.Result {self.verdict!r}: {len(self.figures)} figures>"


def figures_of(report: Report) -> dict[str, float]:
    """The figures of a report that are logged, by name. What is not known is not there.

    ``step_ms``: the median step. ``nccl_share``: share of a rank's time in NCCL kernels, waiting included, of
    the median rank. ``lost_s`` and ``lost_share``: what late ranks cost, also as a share of the run.
    ``work_share``, ``wait_share``, ``transfer_share``, ``unknown_share``: the account of the steps' time, the
    mean over ranks.
    """
    found: dict[str, float | None] = {
        "calls": report.completeness.recorded,
        "findings": len(report.findings),
    }
    if report.steps is not None:
        found["steps"] = report.steps.steps.median if report.steps.steps else None
        found["step_ms"] = _in_ms(report.steps.step_us.p50 if report.steps.step_us else None)
    share = report.ranks.share
    found["nccl_share"] = share.median if share else None
    late = (f for f in report.findings if f.kind in ("late_rank", "stall"))
    lost_us = sum(f.wall_us or 0.0 for f in late)
    found["lost_s"] = lost_us / 1e6
    run = report.ranks.wall_us
    found["lost_share"] = lost_us / run.max if run else None
    account = report.account
    if account is not None:
        whole = sum(r.work_us + r.wait_us + r.transfer_us + r.unknown_us for r in account.ranks)
        if whole > 0:
            for part in ("work", "wait", "transfer", "unknown"):
                found[f"{part}_share"] = sum(getattr(r, f"{part}_us") for r in account.ranks) / whole
    return {name: float(value) for name, value in found.items() if value is not None}


def _in_ms(us: float | None) -> float | None:
    return None if us is None else us / 1e3


def result(capture: str | os.PathLike[str] | None = None) -> Result:
    """The verdict on a capture, and its figures.

        >>> print(ncclscope.result("run-0412").verdict)

    Without ``capture``, it is the one that this process is recorded into; other ranks may still be writing to
    it. The report is made by another process, which takes two minutes at most.

    Raises :class:`ncclscope.CaptureError` if there is no capture, or no report in that time.
    """
    folder = os.fspath(capture) if capture is not None else _own_capture()
    if folder is None:
        raise CaptureError(
            "this process is not recorded, so it has no capture",
            "record it with `ncclscope run -o DIR -- COMMAND`, or give the capture's folder",
        )
    flush()
    # What the program sets for itself is not for the reader: another plugin, or a recording of its own.
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("NCCL_", "NCCLSCOPE_OUT"))}
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, environ.get("PYTHONPATH")]))
    try:
        done = subprocess.run(
            [sys.executable, "-c", "from ncclscope._results import main; main()", folder],
            env=environ,
            text=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MOST_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CaptureError(
            f"`{folder}`: no report was made here: {error}", f"`ncclscope report {folder}`"
        ) from None
    if done.returncode != 0:
        why = done.stderr.strip().splitlines()
        raise CaptureError(why[-1] if why else f"`{folder}`: no report", f"`ncclscope doctor {folder}`")
    found = json.loads(done.stdout)
    return Result(folder, found["verdict"], found["figures"])


def main() -> None:
    """Prints the result of a capture as JSON: what :func:`result` starts."""
    from ._capture import open as open_capture

    try:
        report = open_capture(sys.argv[1]).report()
    except CaptureError as error:
        sys.exit(str(error).splitlines()[0])
    print(json.dumps({"verdict": report.verdict, "figures": figures_of(report)}))


def _own_capture() -> str | None:
    """The folder into which this process is recorded."""
    stem = own_trace()
    if stem is not None:
        # DIR/HOST/NAME; after a restart of torchrun, DIR/restart-N/HOST/NAME.
        folder = os.path.dirname(os.path.dirname(stem))
        return os.path.dirname(folder) if os.path.basename(folder).startswith("restart-") else folder
    out = os.environ.get("NCCLSCOPE_RUN") or os.environ.get("NCCLSCOPE_OUT")
    if out is None:
        return None
    return out if "NCCLSCOPE_RUN" in os.environ else out.replace("%%", "%")


def log_result(
    *trackers: object,
    capture: str | os.PathLike[str] | None = None,
    step: int | None = None,
) -> Result | None:
    """Logs the verdict and its figures to the program's trackers: call it on one rank, after training.

        >>> ncclscope.log_result(wandb.run, mlflow, SummaryWriter("logs"))

    A tracker is a ``wandb`` run, the module ``mlflow`` or a ``MlflowClient`` with its run id
    (``(client, run_id)``), a TensorBoard ``SummaryWriter``, or a function that takes the result. Figures are
    named ``ncclscope/step_ms`` and so on; the verdict is ``ncclscope/verdict``.

    Returns the result, or None if there is none: then it warns, and the program goes on.
    """
    try:
        found = result(capture)
    except CaptureError as error:
        warnings.warn(f"ncclscope has no result to log: {error}", RuntimeWarning, stacklevel=2)
        return None
    for tracker in trackers:
        if tracker is None:
            continue
        try:
            log_to(tracker, found, step)
        except Exception as error:
            name = type(tracker).__name__
            warnings.warn(f"ncclscope could not log to {name}: {error}", RuntimeWarning, stacklevel=2)
    return found


def log_to(tracker: Any, found: Result, step: int | None) -> None:
    """Logs a result to one tracker; see :func:`log_result`."""
    figures = {f"ncclscope/{name}": value for name, value in found.figures.items()}
    # A SummaryWriter of torch, of tensorboardX, or of TensorBoard itself.
    if hasattr(tracker, "add_scalar") and hasattr(tracker, "add_text"):
        for name, value in figures.items():
            tracker.add_scalar(name, value, step)
        tracker.add_text("ncclscope/verdict", found.verdict, step)
        tracker.flush()
    # A run of W&B: figures that belong to the whole run are its summary.
    elif hasattr(tracker, "summary") and hasattr(tracker, "log_artifact"):
        tracker.summary.update({**figures, "ncclscope/verdict": found.verdict})
    elif isinstance(tracker, tuple):
        client, run_id = tracker
        for name, value in figures.items():
            client.log_metric(run_id, name, value, step=step)
        client.set_tag(run_id, "ncclscope/verdict", found.verdict)
    # The module mlflow, with its active run.
    elif hasattr(tracker, "log_metrics") and hasattr(tracker, "set_tag"):
        tracker.log_metrics(figures, step=step)
        tracker.set_tag("ncclscope/verdict", found.verdict)
    elif callable(tracker):
        tracker(found)
    else:
        raise TypeError(
            "expected a W&B run, mlflow, (MlflowClient, run id), a SummaryWriter or a function"
        )
