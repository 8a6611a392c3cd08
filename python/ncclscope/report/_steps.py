"""Steps of the job, and its critical path."""

from __future__ import annotations

from ._job import Range
from ._operations import Statistics
from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class _OnPath(Record):
    """What was on the critical path, and where."""

    __slots__ = ()
    what: str
    kind: Literal["work", "operation", "other_kernel"]
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    why: Literal["launch", "busy_gpu"] | None
    function: str | None
    datatype: str | None
    bytes: int | None
    communicator: str | None


class PathRow(_OnPath):
    """Segments of one kind on the critical path, over all steps."""

    __slots__ = ()
    count: int
    sum_us: float
    share: float


class PathSegment(_OnPath):
    """A segment of the critical path of one step."""

    __slots__ = ()
    at_us: float
    time_us: float


class PathStep(Record):
    """The critical path of the step of median time."""

    _parts = {"segments": PathSegment}
    __slots__ = ()
    number: int
    time_us: float
    segments: list[PathSegment]
    beyond: int


class CriticalPath(Record):
    """The critical path of the job's steps, over all ranks. ``step`` is one step, piece by piece."""

    _parts = {"rows": PathRow, "step": PathStep}
    __slots__ = ()
    basis: str
    rank: int | None
    steps: int
    sum_us: float
    rows: list[PathRow]
    step: PathStep


class StepsRow(Record):
    """The steps of one process."""

    _parts = {"step_us": Statistics, "communication_us": Statistics}
    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    source: Literal["program", "calls"]
    steps: int
    calls: int
    equal_parts: int
    times_repeat: int
    calls_beyond: int
    step_us: Statistics | None
    communication_us: Statistics | None
    startup_us: float | None
    between_us: float | None


class Steps(Record):
    """The steps of the job: as the program marked them (``source`` is ``program``), or calls that repeat.
    ``step_us`` is of ``rank``, the others of all ranks.
    """

    _parts = {
        "step_us": Statistics,
        "steps": Range,
        "calls": Range,
        "communication_us": Range,
        "startup_us": Range,
        "between_us": Range,
        "rows": StepsRow,
    }
    __slots__ = ()
    source: Literal["program", "calls"]
    rank: int | None
    step_us: Statistics | None
    steps: Range | None
    calls: Range | None
    communication_us: Range | None
    startup_us: Range | None
    between_us: Range | None
    without: int
    rows: list[StepsRow]


class Phase(Record):
    """A phase that the program marked with :func:`ncclscope.phase`, over all ranks."""

    _parts = {"visits": Range, "time_us": Range, "calls": Range, "communication_us": Range}
    __slots__ = ()
    name: str
    visits: Range | None
    time_us: Range | None
    calls: Range | None
    communication_us: Range | None
    longest_rank: int | None
