"""The job: processes, completeness, ranks, communicators and functions."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class OneJob(Record):
    """A job of a folder that holds several."""

    __slots__ = ()
    started: str | None
    seen: str | None
    nprocesses: int
    ranks: str | None
    world_size: int | None
    hosts: list[str]
    batch: str | None
    command: str | None
    files: list[str]


class OneAttempt(Record):
    """One start of a job that was started several times."""

    __slots__ = ()
    attempt: int
    restart: int
    nprocesses: int
    ranks: str | None
    started: str | None
    seen: str | None


class Job(Record):
    """What was recorded, and how."""

    _parts = {"jobs": OneJob, "attempts": OneAttempt}
    __slots__ = ()
    capture: str
    id: str | None
    command: str | None
    started: str | None
    ended: str | None
    zone: str | None
    wall_us: float | None
    exit_status: int | None
    hosts: list[str]
    jobs: list[OneJob]
    nprocesses: int
    world_size: int | None
    restarts: int | None
    attempt: int | None
    attempts: list[OneAttempt]
    part: str | None
    nccl: list[str]
    driver: list[str]
    platform: list[str]
    gpu: list[str]
    environment: dict[str, list[str | None]]
    mode: list[str]
    timing: list[str]


class RankCompleteness(Record):
    """What was announced, recorded and timed of one process."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    announced: int
    recorded: int
    timed: int
    lost: dict[str, int]
    odd: dict[str, int]
    missing_at_least: int
    live: Literal[
        "adopted", "here", "snapshot", "other tool", "elsewhere", "running", "gone", "unreadable", "unknown"
    ]
    recorder: str | None


class AbsentMember(Record):
    """Ranks that a communicator lacks."""

    __slots__ = ()
    communicator: str
    ranks: str | None
    of: int | None
    calls_at_least: int


class UnreadableFile(Record):
    """A file in which nothing is sound."""

    __slots__ = ()
    file: str
    rank: int | None
    host: str
    pid: int | None
    found: str


class Absent(Record):
    """Ranks that are not here, and how many calls they made at least."""

    _parts = {"communicators": AbsentMember, "unreadable": UnreadableFile}
    __slots__ = ()
    ranks: str | None
    nranks: int
    world_size: int | None
    restart: int | None
    calls_at_least: int
    calls_begun: int
    communicators: list[AbsentMember]
    unreadable: list[UnreadableFile]


class Completeness(Record):
    """What was announced, recorded and timed; what was lost, by cause."""

    _parts = {"absent": Absent, "ranks": RankCompleteness}
    __slots__ = ()
    announced: int
    recorded: int
    timed: int
    lost: dict[str, int]
    absent: list[Absent]
    missing_at_least: int
    announced_is_lower_bound: bool
    adds_up: bool
    untimed: dict[str, int]
    remedies: dict[str, str]
    graph_launches: int | None
    in_graphs: int | None
    unseen: dict[str, int]
    odd: dict[str, int]
    ranks: list[RankCompleteness]


class Range(Record):
    """A figure over ranks: of how many it is known, least, median, most."""

    __slots__ = ()
    n: int
    min: float
    median: float
    max: float


class Outlier(Record):
    """A rank that differs from the rest in one figure."""

    __slots__ = ()
    row: int
    rank: int | None
    host: str
    figure: Literal["calls", "untimed", "nccl_us"]
    value: float
    median: float


class RankRow(Record):
    """A rank: its wall time, its time in NCCL, how often it was last, and what it costs.

    Times in µs, shares in [0, 1].
    """

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    calls: int
    timed: int
    p2p: int | None
    wall_us: float | None
    basis: Literal["gpu", "sample", "host"] | None
    nccl_us: float | None
    nccl_interval_us: list[float] | None
    share: float | None
    sum_us: float | None
    gpu: str | None
    operations: int | None
    last: int | None
    waited_us: float | None
    exposed_share: float | None
    loss_us: float | None


class Ranks(Record):
    """How much of the run each rank spent in NCCL, and which differ."""

    _parts = {
        "calls": Range,
        "wall_us": Range,
        "nccl_us": Range,
        "share": Range,
        "outliers": Outlier,
        "rows": RankRow,
    }
    __slots__ = ()
    calls: Range | None
    wall_us: Range | None
    nccl_us: Range | None
    share: Range | None
    outliers: list[Outlier]
    rows: list[RankRow]


class Member(Record):
    """A rank of a communicator, as far as this capture holds it."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    global_rank: int | None
    device: int | None


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
    ranks: str | None
    nccl_gpu_bytes: int | None
    members: list[Member]


class Kind(Record):
    """Collectives, or sends and receives, in all."""

    __slots__ = ()
    kind: Literal["collective", "p2p"]
    calls: int
    bytes: int | None
    sum_over_ranks_us: float | None
    sum_interval_us: list[float] | None
    host_sum_over_ranks_us: float | None


class Part(Record):
    """A part of one call, µs; ``n`` calls have it."""

    __slots__ = ()
    n: int
    mean: float
    p50: float
    share_of_api: float | None


class Parts(Record):
    """The parts of one call, from API entry to the network."""

    _parts = {"api": Part, "enqueue": Part, "launch": Part, "kernel": Part, "proxy": Part}
    __slots__ = ()
    api: Part | None
    enqueue: Part | None
    launch: Part | None
    kernel: Part | None
    proxy: Part | None


class Function(Record):
    """What one function did in all."""

    _parts = {"parts_us": Parts}
    __slots__ = ()
    function: str | None
    kind: Literal["collective", "p2p"]
    calls: int
    share_of_calls: float
    bytes: int | None
    sum_over_ranks_us: float | None
    sampled: bool
    sum_interval_us: list[float] | None
    share_of_time: float | None
    host_sum_over_ranks_us: float | None
    parts_us: Parts


class PartsOfCalls(Record):
    """The parts of the calls of one function and size: from one power of two to the next."""

    _parts = {"parts_us": Parts}
    __slots__ = ()
    function: str | None
    least_bytes: int | None
    most_bytes: int | None
    calls: int
    parts_us: Parts


class Caller(Record):
    """The calls of a function from a line of the program."""

    __slots__ = ()
    caller: str | None
    function: str | None
    calls: int
    bytes: int | None
    sum_over_ranks_us: float | None
    sampled: bool
    sum_interval_us: list[float] | None
    share_of_time: float | None
    host_sum_over_ranks_us: float | None
    exposed_us: float | None
    exposed_interval_us: list[float] | None
    wait_rank_us: float | None
    wait_interval_us: list[float] | None
    stacks: int
