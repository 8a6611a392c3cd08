"""Figures over time."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class Curve(Record):
    """A figure over time, a value for each bucket.

    ``sum`` is over all ranks: a number, bytes, or µs. The others are per second, or shares of the time: of
    the rank with least, the mean over ranks, and the rank with most.
    """

    __slots__ = ()
    sum: list[float]
    min: list[float]
    mean: list[float]
    max: list[float]


class Band(Record):
    """How durations are spread, a value for each bucket."""

    __slots__ = ()
    n: list[int]
    p10: list[float | None]
    p50: list[float | None]
    p90: list[float | None]


class InWindows(Record):
    """Exposed communication in the time that kernel windows show, a value for each bucket."""

    __slots__ = ()
    seen_us: list[float]
    exposed_us: list[float | None]
    share: list[float | None]
    why_null: str | None


class LateRank(Record):
    """A rank that is late more than chance gives, and how long operations waited for it alone, by bucket."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    held_up_us: list[float]


class StepMarks(Record):
    """When steps began on one rank; ``every`` is 1 if all of them are here."""

    __slots__ = ()
    rank: int | None
    every: int
    begins_us: list[float]


class Mark(Record):
    """Something that happened at a moment of the timeline."""

    __slots__ = ()
    kind: Literal["dead_rank"]
    at_us: float
    text: str


class SampledCurve(Record):
    """A sampled figure, null in buckets that were not sampled."""

    __slots__ = ()
    min: list[float | None]
    mean: list[float | None]
    max: list[float | None]


class SampledCurves(Record):
    """Sampled figures over time, a value for each bucket."""

    _parts = {
        "power_w": SampledCurve,
        "sm_mhz": SampledCurve,
        "nvlink_sent_bytes": SampledCurve,
        "nvlink_received_bytes": SampledCurve,
        "nvlink_link_sent_bytes": SampledCurve,
        "nvlink_link_received_bytes": SampledCurve,
        "cpus_busy": SampledCurve,
        "job_cpus_busy": SampledCurve,
        "job_threads_ready": SampledCurve,
        "disk_read_bytes": SampledCurve,
        "disk_written_bytes": SampledCurve,
        "net_sent_bytes": SampledCurve,
        "net_received_bytes": SampledCurve,
    }
    __slots__ = ()
    why_null: str | None
    power_w: SampledCurve | None
    sm_mhz: SampledCurve | None
    nvlink_sent_bytes: SampledCurve | None
    nvlink_received_bytes: SampledCurve | None
    nvlink_link_sent_bytes: SampledCurve | None
    nvlink_link_received_bytes: SampledCurve | None
    cpus_busy: SampledCurve | None
    job_cpus_busy: SampledCurve | None
    job_threads_ready: SampledCurve | None
    disk_read_bytes: SampledCurve | None
    disk_written_bytes: SampledCurve | None
    net_sent_bytes: SampledCurve | None
    net_received_bytes: SampledCurve | None


class Timeline(Record):
    """The run over time, in at most 256 buckets of ``bucket_us``."""

    _parts = {
        "calls": Curve,
        "collectives": Curve,
        "sends": Curve,
        "recvs": Curve,
        "untimed": Curve,
        "bytes": Curve,
        "bytes_sent": Curve,
        "bytes_received": Curve,
        "nccl": Curve,
        "waiting": Curve,
        "transfer": Curve,
        "exposed": Curve,
        "exposed_in_windows": InWindows,
        "nic": Curve,
        "sampled": SampledCurves,
        "mpi": SampledCurve,
        "durations_us": Band,
        "late": LateRank,
        "steps": StepMarks,
        "marks": Mark,
    }
    __slots__ = ()
    begin_ns: int
    bucket_us: float
    buckets: int
    ranks: int
    without_time: int
    calls: Curve
    collectives: Curve
    sends: Curve
    recvs: Curve
    untimed: Curve | None
    bytes: Curve | None
    bytes_sent: Curve | None
    bytes_received: Curve | None
    nccl: Curve | None
    waiting: Curve | None
    transfer: Curve | None
    exposed: Curve | None
    exposed_in_windows: InWindows
    nic: Curve | None
    sampled: SampledCurves
    mpi: SampledCurve | None
    durations_us: Band | None
    late: list[LateRank]
    steps: StepMarks | None
    marks: list[Mark]
