"""A report as objects.

:class:`Report` and what it holds have the fields of ``ncclscope report --json`` as attributes, under the same names and in
the same units. The types are those of ``crates/render/schema/report-1.json``, with which a test compares them.

Rule: what is not known is None, as it is null there. Nothing is computed here.
"""

from __future__ import annotations

import html
import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, ClassVar, Literal

    from . import _native


class Record:
    """An object of a report. Its fields are attributes; :meth:`to_dict` gives it as plain dicts and lists."""

    _parts: ClassVar[dict[str, type[Record]]] = {}
    """Fields that hold records, or lists of them."""

    __slots__ = ("_plain",)

    def __init__(self, plain: dict[str, Any]) -> None:
        self._plain = plain

    def to_dict(self) -> dict[str, Any]:
        """As in ``ncclscope report --json``."""
        return self._plain

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_") or name not in self._plain:
                raise AttributeError(f"{type(self).__name__} has no field {name!r}; it has {', '.join(self)}")
            value = self._plain[name]
            part = self._parts.get(name)
            if part is None or value is None:
                return value
            return [part(each) for each in value] if isinstance(value, list) else part(value)

    def __iter__(self) -> Iterator[str]:
        """The names of its fields."""
        return iter(self._plain)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._plain]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Record) and self._plain == other._plain

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self)
        return f"{type(self).__name__}({fields})"


class Statistics(Record):
    """Of durations, µs. ``p99`` is None below 100 of them; all but ``sum`` and ``mean`` where some are only summed."""

    __slots__ = ()
    sum: float
    mean: float
    min: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Job(Record):
    """What was recorded, and how."""

    __slots__ = ()
    capture: str
    id: str | None
    command: str | None
    started: str | None
    ended: str | None
    exit_status: int | None
    hosts: list[str]
    nprocesses: int
    world_size: int | None
    restarts: int
    nccl: list[str]
    mode: list[str]
    timing: list[str]


class RankCompleteness(Record):
    """What was announced, recorded and timed of one process."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    announced: int
    recorded: int
    timed: int
    lost: dict[str, int]
    odd: dict[str, int]
    live: Literal["adopted", "here", "snapshot", "elsewhere"]
    recorder: str | None


class Completeness(Record):
    """What was announced, recorded and timed; what was lost, by cause."""

    _parts = {"ranks": RankCompleteness}
    __slots__ = ()
    announced: int
    recorded: int
    timed: int
    lost: dict[str, int]
    announced_is_lower_bound: bool
    adds_up: bool
    untimed: dict[str, int]
    odd: dict[str, int]
    ranks: list[RankCompleteness]


class Member(Record):
    """A rank of a communicator, as far as this capture holds it."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    global_rank: int | None


class Communicator(Record):
    """A communicator and its members."""

    _parts = {"members": Member}
    __slots__ = ()
    communicator: str
    name: str | None
    nranks: int | None
    nnodes: int | None
    parent: str | None
    parent_evidence: str | None
    members: list[Member]


class Operation(Record):
    """A row of the table of operations."""

    _parts = {"time_us": Statistics, "host_us": Statistics}
    __slots__ = ()
    communicator: str | None
    nranks: int | None
    function: str | None
    datatype: str | None
    bytes: int | None
    algorithm: str | None
    protocol: str | None
    calls: int
    timed: int
    time_us: Statistics | None
    time_source: Literal["stamps"] | None
    host_us: Statistics | None
    untimed: dict[str, int]
    captured: int
    replays: int
    percentile_error: float


class Waits(Record):
    """Time in each wait, summed over steps, µs."""

    __slots__ = ()
    send_gpu: float | None
    send_peer: float | None
    send_network: float | None
    recv_network: float | None
    recv_flush: float | None
    recv_gpu: float | None


class NetworkRow(Record):
    """What the network did for one function on one communicator."""

    _parts = {"wait_us": Waits}
    __slots__ = ()
    communicator: str | None
    function: str | None
    calls: int
    operations: int
    operations_done: int
    steps: int
    bytes_sent: int | None
    bytes_received: int | None
    wait_us: Waits


class Problem(Record):
    """Something unsound in a capture."""

    __slots__ = ()
    file: str
    place: str
    expected: str
    found: str


class Report(Record):
    """What ``ncclscope report`` says. ``str()`` is its text; notebooks show it as tables."""

    _parts = {
        "job": Job,
        "completeness": Completeness,
        "communicators": Communicator,
        "operations": Operation,
        "network": NetworkRow,
        "problems": Problem,
    }
    __slots__ = ("_source",)
    schema: str
    job: Job
    completeness: Completeness
    communicators: list[Communicator]
    operations: list[Operation]
    network: list[NetworkRow]
    notes: list[str]
    problems: list[Problem]

    _source: _native.Capture

    @classmethod
    def _of(cls, native: _native.Capture) -> Report:
        report = cls(json.loads(native.report_json()))
        report._source = native
        return report

    def text(self, *, all: bool = False, explain: bool = False) -> str:
        """As ``ncclscope report`` prints it; ``all`` and ``explain`` are its options."""
        return self._source.report_text(all, explain)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        done = self.completeness
        return (
            f"<ncclscope.Report on {self.job.capture!r}: {done.recorded} of {done.announced} announced calls recorded, "
            f"{done.timed} timed, {len(self.operations)} operations>"
        )

    def _repr_html_(self) -> str:
        done = self.completeness
        at_least = "at least " if done.announced_is_lower_bound else ""
        parts = [
            f"<p><b>{html.escape(self.job.capture)}</b><br>",
            f"{done.recorded} of {at_least}{done.announced} announced calls recorded, {done.timed} timed.",
            *(f" {count} lost: {html.escape(cause)}." for cause, count in done.lost.items()),
            "</p>",
            _html_table(self.operations),
        ]
        for title, lines in (
            ("Notes", self.notes),
            ("Problems", [f"{p.file}, {p.place}: expected {p.expected}, found {p.found}" for p in self.problems]),
        ):
            if lines:
                items = "".join(f"<li>{html.escape(line)}</li>" for line in lines[:_HTML_ROWS])
                parts.append(f"<p>{title}</p><ul>{items}</ul>{_more(len(lines))}")
        return "".join(parts)


_HTML_ROWS = 30


def _more(count: int) -> str:
    return f"<p>{count - _HTML_ROWS} more</p>" if count > _HTML_ROWS else ""


def _html_table(operations: list[Operation]) -> str:
    def cell(value: object) -> str:
        if isinstance(value, float):
            return f'<td style="text-align: right">{value:.1f}</td>'
        if isinstance(value, int):
            return f'<td style="text-align: right">{value}</td>'
        return f"<td>{'-' if value is None else html.escape(str(value))}</td>"

    names = ("function", "bytes", "datatype", "communicator", "algorithm", "protocol", "calls", "timed")
    figures = ("sum", "p50", "p95", "p99", "max")
    head = [*names, "time", *(f"{name}_us" for name in figures)]
    rows = []
    for operation in operations[:_HTML_ROWS]:
        # Host time where no call has a GPU time, and it says so.
        time, source = operation.time_us, "gpu"
        if time is None:
            time, source = operation.host_us, "host"
        values = [getattr(operation, name) for name in names]
        values += ["-" if time is None else source, *(getattr(time, name, None) for name in figures)]
        rows.append(f"<tr>{''.join(map(cell, values))}</tr>")
    heads = "".join(f"<th>{name}</th>" for name in head)
    body = "".join(rows)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    return f"<p>Operations, largest total time first</p>{table}{_more(len(operations))}"
