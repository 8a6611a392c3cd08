"""What the GPUs did beside communication, and what recording cost."""

from __future__ import annotations

from ._record import Record


class Share(Record):
    """A share of the time, 0 to 1, with its 95 % interval; no interval for fewer than three windows."""

    __slots__ = ()
    share: float
    interval: list[float] | None


class OtherCommunication(Record):
    """Kernels of a library that communicates beside NCCL."""

    __slots__ = ()
    library: str
    kernels: int
    sum_us: float


class IdleCauses(Record):
    """What a GPU's host did while the GPU was idle: shares of the time in kernel windows."""

    __slots__ = ()
    source: str
    mpi: float
    program: float
    driver: float
    preempted: float
    disk: float
    blocked: float
    unknown: float
    step_us: float | None


class RankStreams(Record):
    """What one GPU did in kernel windows."""

    _parts = {
        "computing": Share,
        "beside": Share,
        "exposed": Share,
        "copies": Share,
        "idle": Share,
        "idle_causes": IdleCauses,
        "exposed_waiting": Share,
        "host_waited": Share,
    }
    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int
    windows: int
    seen_us: float
    computing: Share
    beside: Share
    exposed: Share
    copies: Share
    idle: Share
    idle_causes: IdleCauses | None
    exposed_waiting: Share | None
    host_waited: Share | None
    interference: float | None
    interference_share: float | None


class FunctionStreams(Record):
    """NCCL's kernels of one function: how much of their time was exposed."""

    __slots__ = ()
    function: str
    kernels: int
    sum_us: float
    exposed_us: float
    hidden_us: float


class KernelRow(Record):
    """Kernels of one name, or copies or fills."""

    __slots__ = ()
    name: str
    kind: str
    kernels: int
    sum_us: float
    share: float
    beside_us: float


class KernelOfRank(Record):
    """Kernels of one name, or copies or fills, of one GPU."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int
    name: str
    kind: str
    kernels: int
    sum_us: float
    share: float
    beside_us: float


class Replay(Record):
    """What communication takes in one replay of a CUDA graph on one rank: of a decode graph, in one token."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int
    calls: dict[str, int]
    replays: int
    replay_us: float
    communication_us: float
    exposed_us: float
    exposed_interval_us: list[float] | None


class BubbleFor(Record):
    """A rank that another waited for in sends and receives, of a step."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int
    late_sender_us: float
    late_receiver_us: float
    behind_us: float


class Bubble(Record):
    """For how long of a step a GPU that passes data on computed nothing, and for whom it waited."""

    _parts = {"bubble": Share, "waits_for": BubbleFor}
    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int
    steps: int
    step_us: float
    bubble: Share
    bubble_us: float
    bubble_run_us: float
    late_sender_us: float
    late_receiver_us: float
    collective_us: float
    transfer_us: float
    idle_us: float
    waits_for: list[BubbleFor]


class Streams(Record):
    """What the GPUs did, from kernel windows."""

    _parts = {
        "ranks": RankStreams,
        "communication": FunctionStreams,
        "other_communication": OtherCommunication,
        "kernels": KernelRow,
        "kernels_by_rank": KernelOfRank,
        "replays": Replay,
        "bubbles": Bubble,
    }
    __slots__ = ()
    windows: int
    yielded: int
    without: dict[str, int]
    ranks: list[RankStreams]
    communication: list[FunctionStreams]
    other_communication: list[OtherCommunication]
    kernels: list[KernelRow]
    kernels_by_rank: list[KernelOfRank]
    common_us: float
    operations: int
    timed: int
    replays: list[Replay]
    bubbles: list[Bubble]


class Cost(Record):
    """What recording cost the job, as a share of its time without."""

    _parts = {"gpu": Share, "events": Share, "windows": Share}
    __slots__ = ()
    gpu: Share | None
    events: Share | None
    windows: Share | None
    quiet_spells: int
    windows_compared: int
    left_out: int
    timed_launches: int
    events_counted: float
    cupti_at_most: float | None
    callbacks: float
    calls: int


class DriverCallRow(Record):
    """How often one kind of call was made of the CUDA driver, and how long these calls took."""

    __slots__ = ()
    counter: str
    nccl: int | None
    nccl_per_step: float | None
    nccl_s: float | None
    program: int | None
    program_per_step: float | None
    program_s: float | None
    why_null: str | None


class DriverCalls(Record):
    """How often the CUDA driver was called, by NCCL and by the program."""

    _parts = {"rows": DriverCallRow}
    __slots__ = ()
    processes: int
    rows: list[DriverCallRow]


class RankStreamWaits(Record):
    """How long streams stood still for the calls of one GPU."""

    _parts = {"share": Share, "by_windows": Share}
    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    calls: int
    known: int
    waited: int
    untimed: int
    sum_us: float
    interval_us: list[float] | None
    before_us: float
    unwaited_us: float
    in_graphs: int
    active_us: float
    share: Share
    at_most: float
    by_windows: Share | None
    difference: float | None


class OperationStreamWaits(Record):
    """How long streams stood still for the calls of one operation, over ranks."""

    __slots__ = ()
    communicator: str | None
    function: str | None
    datatype: str | None
    bytes: int | None
    calls: int
    known: int
    waited: int
    untimed: int
    sum_us: float
    interval_us: list[float] | None
    before_us: float
    unwaited_us: float


class StreamWaits(Record):
    """Exposed communication, from streams that waited for calls."""

    _parts = {"ranks": RankStreamWaits, "operations": OperationStreamWaits}
    __slots__ = ()
    ranks: list[RankStreamWaits]
    operations: list[OperationStreamWaits]
