"""An open capture: its tables and its report."""

from __future__ import annotations

import os

from . import _native

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._native import Table
    from .report import Report


class Capture:
    """An open capture; :func:`ncclscope.open` makes them.

    It is in memory as a whole, and does not follow a job that goes on: open it again for that.
    """

    __slots__ = ("_native", "_path")

    def __init__(self, native: _native.Capture, path: str) -> None:
        self._native = native
        self._path = path

    @property
    def path(self) -> str:
        """Where it is, as it was opened."""
        return self._path

    @property
    def problems(self) -> list[str]:
        """What was unsound in its files, in words; empty for a sound capture. Only that is left out."""
        return self._native.problems()

    @property
    def calls(self) -> Table:
        """The table of calls: a row for each call, one rank's part in an operation.

        Columns are those of docs/reference/tables.md. What is not known is null.

            >>> columns = ["launcher_rank", "function", "bytes", "gpu_time_ns"]
            >>> frame = capture.calls.select(columns).to_polars()
            >>> frame.group_by("function").agg(polars.col("gpu_time_ns").sum())
        """
        return self._native.calls()

    @property
    def operations(self) -> Table:
        """The table of operations: a row for each communicator, function, datatype, bytes, algorithm and
        protocol.

        Columns are those of docs/reference/tables.md; a statistic is a column of its own (``time_ns_p50``),
        and ``untimed`` is a map.

            >>> operations = capture.operations
            >>> duckdb.sql("select function, bytes, time_ns_p50 from operations")
        """
        return self._native.operations()

    @property
    def arrivals(self) -> Table:
        """The table of arrivals: a row for each rank's part in each collective that has a GPU time on every
        rank.

        ``wait_ns`` is how long the rank waited for the last one, ``late_ns`` how much later than the first it
        came.

            >>> last = capture.arrivals.to_polars().filter("arrived_last")
            >>> last.group_by("launcher_rank").len().sort("len")
        """
        return self._native.arrivals()

    @property
    def steps(self) -> Table:
        """The table of steps: a row for each step of each process; empty if no pattern of calls repeats.

        >>> capture.steps.to_polars().sort("time_ns", descending=True, nulls_last=True).head(10)
        """
        return self._native.steps()

    @property
    def ranks(self) -> Table:
        """The table of ranks: how much of its time each spent in NCCL.

        >>> capture.ranks.to_pandas().sort_values("share")
        """
        return self._native.ranks()

    @property
    def findings(self) -> Table:
        """The table of findings: what costs wall time, with its evidence and what to do.

        >>> capture.findings.select(["sentence", "advice"]).to_pandas()
        """
        return self._native.findings()

    @property
    def account(self) -> Table:
        """The table of the account: how the time of the steps is divided on each rank.

        Columns are those of docs/reference/tables.md. Empty if that time can't be divided.

            >>> account = capture.account.to_polars()
            >>> account.select("launcher_rank", "work_ns", "wait_ns", "transfer_ns")
        """
        return self._native.account()

    @property
    def events(self) -> Table:
        """The table of events: a row for each profiler callback, with every field of its version.

        Columns are those of docs/reference/tables.md. Empty without ``ncclscope run --mode callbacks``.

            >>> capture.events.to_polars().group_by("event").len()
        """
        return self._native.events()

    @property
    def graphs(self) -> Table:
        """The table of CUDA graphs with NCCL calls: a row for graphs of the same calls, over all ranks.

        Columns are those of docs/reference/tables.md. A launch executes ``calls_per_launch`` calls and
        ``bytes_per_launch`` bytes; ``calls`` has them one by one, as JSON.

            >>> graphs = capture.graphs.to_polars()
            >>> graphs.select("launches", "launches_per_second_median", "calls_per_launch")
        """
        return self._native.graphs()

    @property
    def graph_launches(self) -> Table:
        """The launches of CUDA graphs with NCCL calls: a row for each launch of each rank.

        ``launch_ns`` is when the program called the launch; ``took_ns`` how long that call took. Of a sample,
        ``gpu_start_ns`` is when its GPU came to it, and ``gpu_ns`` for how long it was in it.

            >>> capture.graph_launches.to_polars().group_by("launcher_rank", "graph").len()
        """
        return self._native.graph_launches()

    @property
    def samples(self) -> Table:
        """What the node sampler of ``ncclscope run`` read: a row for each value of each series.

        ``name`` says what it is (``gpu_power_mw``), and ``of`` of which GPU, process or device. Some count
        up (``counts_up``): the difference of two values is what happened between them. Empty if the job was
        not started by ``ncclscope run``.

            >>> power = capture.samples.to_polars().filter(polars.col("name") == "gpu_power_mw")
            >>> power.group_by("of").agg(polars.col("value").mean() / 1000)
        """
        return self._native.samples()

    @property
    def switches(self) -> Table:
        """When threads that the node sampler watched were off their CPUs: a row for each time.

        ``preempted`` if the scheduler took the CPU from the thread; else the thread slept first. What took
        less than 20 microseconds is left out. Empty if the kernel gave no records of context switches.

            >>> off = capture.switches.to_polars()
            >>> off.filter("preempted").group_by("pid", "tid").agg(polars.col("time_ns").sum())
        """
        return self._native.switches()

    @property
    def mpi(self) -> Table:
        """When threads were inside of MPI: a row for each call, or for several of one thread within 100 µs.

        ``inside_ns`` is the time inside, and ``time_ns`` that from the first call's begin to the last one's
        end. Empty if no process called MPI.

            >>> mpi = capture.mpi.to_polars()
            >>> mpi.group_by("launcher_rank", "function").agg(polars.col("inside_ns").sum())
        """
        return self._native.mpi()

    @property
    def kernels(self) -> Table:
        """What ran on GPUs in kernel windows: a row for each kernel, copy and fill.

        Columns are those of docs/reference/tables.md. NCCL's kernels have the ``communicator``, ``function``
        and ``ticket`` of their call. Windows are a sample of the run: a few steps at a time. Without any the
        table is empty, and :attr:`no_kernels_because` says why.

            >>> frame = capture.kernels.to_polars()
            >>> frame.group_by("name").agg(polars.col("time_ns").sum()).sort("time_ns")
        """
        return self._native.kernels()

    @property
    def no_kernels_because(self) -> str | None:
        """Why :attr:`kernels` is empty, in words; None if it has rows."""
        return self._native.no_kernels_because()

    def report(
        self,
        *,
        offsets: str | os.PathLike[str] | None = None,
        ceiling: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    ) -> Report:
        """The report, as objects with the fields of ``ncclscope report --json``.

        ``offsets`` is what is known of the clocks of the job's hosts, in place of what is found in the
        capture: a file of host, offset_ns and error_ns (CSV or JSON), or ``within=100us``. Raises
        :class:`ncclscope.CaptureError` where it holds none.

        ``ceiling`` is what bandwidths are held against: a rate such as ``"450GB/s"``, a benchmark's file, or
        several of them. Raises :class:`ValueError` for what is neither, and for a benchmark of other GPUs.

            >>> capture.report().operations[0].time_us.p50
            >>> capture.report(offsets="within=1us").clocks
            >>> capture.report(ceiling="450GB/s").efficiency[0].ceilings[0].share
        """
        from .report import Report

        given = [ceiling] if isinstance(ceiling, (str, os.PathLike)) else ceiling
        ceilings = [os.fspath(each) for each in given]
        return Report._of(self._native.report(None if offsets is None else os.fspath(offsets), ceilings))

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()

    def __repr__(self) -> str:
        count = self._native.nprocesses()
        processes = "1 process" if count == 1 else f"{count} processes"
        return f"<ncclscope.Capture {self._path!r}: {processes}, {len(self.calls)} calls>"


def open(
    path: str | os.PathLike[str],
    attempt: int | None = None,
    *,
    steps: range | str | None = None,
    last_s: float | None = None,
    phase: str | None = None,
) -> Capture:
    """Opens the capture at ``path``: a capture folder, the folder of one host in it, or one trace file.

    If the job was started several times, as by torchrun, only one attempt is read: the last, or the one with
    the number ``attempt``, from 1. ``report().job.attempts`` lists them.

    Of a long run, one of these parts can be looked at alone: ``steps``, from 0, as ``range(100, 200)`` or
    ``"100..200"``; the last ``last_s`` seconds; or all phases of the name ``phase``.

    Raises :class:`ncclscope.CaptureError` when there is no capture, or no such part. Damage is no error: what
    is sound is read, and ``problems`` says what was not. Raises ``ValueError`` if a part is written in
    another way, or if several are asked for.

        >>> capture = ncclscope.open("run-0412")
        >>> last = ncclscope.open("run-0412", last_s=600)
    """
    path = os.fspath(path)
    if isinstance(steps, range):
        if steps.step != 1 or not steps:
            raise ValueError(f"steps={steps}: expected steps that follow each other")
        steps = f"{steps.start}..{steps.stop}"
    native = _native.open(path, attempt, steps=steps, last_s=last_s, phase=phase)
    return Capture(native, path)
