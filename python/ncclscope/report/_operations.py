"""Operations with their times, settings, network waits and CUDA graphs."""

from __future__ import annotations

from ._job import Range
from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class Statistics(Record):
    """Of durations, µs. ``p99`` is None below 100 of them; all but ``sum`` and ``mean`` where some are only
    summed.
    """

    __slots__ = ()
    n: int
    sum: float
    mean: float
    min: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


class Sampled(Record):
    """An estimate for all calls of an operation from those that were timed; µs."""

    __slots__ = ()
    share: float
    mean_low_us: float
    mean_high_us: float
    sum_us: float
    sum_low_us: float
    sum_high_us: float


class Operation(Record):
    """A row of the table of operations."""

    _parts = {"time_us": Statistics, "sampled": Sampled, "host_us": Statistics, "shortest_us": Statistics}
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
    warmup: int | None
    time_us: Statistics | None
    time_source: Literal["stamps", "events", "windows"] | None
    sampled: Sampled | None
    host_us: Statistics | None
    matched: int
    shortest_us: Statistics | None
    blind_share: float | None
    nccl_us: float | None
    algbw_gb_per_s: float | None
    busbw_gb_per_s: float | None
    call_busbw_gb_per_s: float | None
    bandwidth_refused: str | None
    untimed: dict[str, int]
    captured: int | None
    replays: int | None
    percentile_error: float
    on_idle_stream: int


class ShareOfCeiling(Record):
    """A ceiling of a bandwidth, where it comes from, and how much of it was reached."""

    __slots__ = ()
    source: Literal["given", "bench", "link", "nccl_graph", "nccl_estimate", "best_here"]
    named: str
    ceiling_gb_per_s: float
    share: float


class Efficiency(Record):
    """The bandwidth of an operation as shares of ceilings."""

    _parts = {"ceilings": ShareOfCeiling}
    __slots__ = ()
    communicator: str | None
    nranks: int | None
    function: str
    datatype: str | None
    bytes: int
    algorithm: str | None
    protocol: str | None
    calls: int
    busbw_gb_per_s: float
    ceilings: list[ShareOfCeiling]
    blind_share: float | None


class Warmup(Record):
    """The first calls of a function on a communicator, which are in no statistics."""

    _parts = {"time_us": Statistics, "host_us": Statistics}
    __slots__ = ()
    communicator: str | None
    function: str | None
    calls: int
    time_us: Statistics | None
    host_us: Statistics | None


class Setting(Record):
    """Whether NCCL_ALGO or NCCL_PROTO took effect."""

    __slots__ = ()
    variable: Literal["NCCL_ALGO", "NCCL_PROTO"]
    value: str | None
    nprocesses: int
    function: str | None
    calls: int
    obeyed: int
    others: dict[str, int]
    not_told: int
    why: str | None
    summary: str


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


class CallsInGraph(Record):
    """Consecutive calls of a CUDA graph that are alike."""

    __slots__ = ()
    communicator: str | None
    function: str | None
    datatype: str | None
    bytes: int | None
    calls: int


class GraphRow(Record):
    """CUDA graphs of the same NCCL calls, over all ranks."""

    _parts = {
        "calls": CallsInGraph,
        "launches_of_a_rank": Range,
        "launches_per_second": Range,
        "launch_call_us": Range,
    }
    __slots__ = ()
    calls: list[CallsInGraph]
    calls_per_launch: int
    bytes_per_launch: int | None
    nranks: int
    executables: int
    launches: int
    launches_of_a_rank: Range | None
    launches_per_second: Range | None
    launch_call_us: Range | None
    streams: int
    countable: bool
