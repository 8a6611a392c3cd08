"""Find the rank, GPU or network link that a distributed job waits for: captures of NCCL calls, from Python.

    >>> import ncclscope
    >>> capture = ncclscope.open("run-0412")
    >>> print(capture.report())
    >>> calls = capture.calls.to_polars()

A :class:`Capture` hands out tables over the Arrow PyCapsule interface, which pyarrow, polars, pandas and
DuckDB read, and its report as objects. :func:`hang`, :func:`diff` and :func:`export` are the command's verbs.
:func:`record` records this process and its children; :func:`plugin_path` is for jobs that set their
environment themselves.

:func:`step` and :func:`phase` mark the program's steps, and :func:`log_result` hands the verdict to W&B,
MLflow or TensorBoard; ``ncclscope.callbacks`` does both for training frameworks.

Rule: importing this loads nothing else. What is used is loaded when it is first used, and no dataframe
library is.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._capture import Capture as Capture
    from ._capture import open as open
    from ._errors import CaptureError as CaptureError
    from ._errors import RecordError as RecordError
    from ._marks import Span as Span
    from ._marks import phase as phase
    from ._marks import step as step
    from ._native import Table as Table
    from ._plugin import plugin_path as plugin_path
    from ._record import Recording as Recording
    from ._record import record as record
    from ._results import Result as Result
    from ._results import log_result as log_result
    from ._results import result as result
    from ._verbs import Diff as Diff
    from ._verbs import Hang as Hang
    from ._verbs import diff as diff
    from ._verbs import export as export
    from ._verbs import hang as hang
    from .report import Report as Report

    __version__: str

_HOMES = {
    "Capture": "_capture",
    "CaptureError": "_errors",
    "Diff": "_verbs",
    "Hang": "_verbs",
    "RecordError": "_errors",
    "Recording": "_record",
    "Report": "report",
    "Result": "_results",
    "Span": "_marks",
    "Table": "_native",
    "diff": "_verbs",
    "export": "_verbs",
    "hang": "_verbs",
    "log_result": "_results",
    "open": "_capture",
    "phase": "_marks",
    "plugin_path": "_plugin",
    "record": "_record",
    "result": "_results",
    "step": "_marks",
}

__all__ = [
    "Capture",
    "CaptureError",
    "Diff",
    "Hang",
    "RecordError",
    "Recording",
    "Report",
    "Result",
    "Span",
    "Table",
    "diff",
    "export",
    "hang",
    "log_result",
    "open",
    "phase",
    "plugin_path",
    "record",
    "result",
    "step",
]


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name == "__version__":
            from ._native import VERSION

            return VERSION
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = getattr(import_module(f"{__name__}.{home}"), name)
        globals()[name] = value
        return value


def __dir__() -> "list[str]":
    return [*__all__, "__version__"]
