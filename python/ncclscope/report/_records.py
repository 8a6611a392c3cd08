"""The objects of a report: ``make golden`` writes this file from the Rust types that are printed."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

__all__ = [
    "Absent",
    "AbsentMember",
    "Account",
    "AccountAnswer",
    "Arrivals",
    "Band",
    "Bubble",
    "BubbleFor",
    "Caller",
    "CallsInGraph",
    "ClockStep",
    "Clocks",
    "Communicator",
    "Completeness",
    "Cost",
    "CriticalPath",
    "Curve",
    "Death",
    "DriverCallRow",
    "DriverCalls",
    "Efficiencies",
    "Efficiency",
    "Energy",
    "EnergyPhase",
    "EnergySplit",
    "Exit",
    "Finding",
    "Function",
    "FunctionStreams",
    "GpuRow",
    "GraphRow",
    "HostClock",
    "IdleCauses",
    "InWindows",
    "InheritedFrom",
    "JitterRow",
    "Job",
    "KernelOfRank",
    "KernelRow",
    "Kind",
    "LateRank",
    "Link",
    "LinkRow",
    "Mark",
    "Member",
    "Mpi",
    "MpiFunction",
    "MpiRow",
    "NetworkRow",
    "NodeRow",
    "Nodes",
    "OneAttempt",
    "OneJob",
    "Operation",
    "OperationStreamWaits",
    "OtherCommunication",
    "Outlier",
    "OverNetwork",
    "Part",
    "Parts",
    "PartsOfCalls",
    "PathRow",
    "PathSegment",
    "PathStep",
    "Phase",
    "Problem",
    "Range",
    "RankAccount",
    "RankArrivals",
    "RankCompleteness",
    "RankRow",
    "RankStreamWaits",
    "RankStreams",
    "Ranks",
    "Recommendation",
    "Replay",
    "ReportFields",
    "Sampled",
    "SampledArrivals",
    "SampledCurve",
    "SampledCurves",
    "Setting",
    "Share",
    "ShareOfCeiling",
    "Sighting",
    "Stall",
    "Statistics",
    "StepEnergy",
    "StepMarks",
    "Steps",
    "StepsRow",
    "StreamWaits",
    "Streams",
    "ThreadRow",
    "Timeline",
    "UnreadableFile",
    "Waits",
    "Warmup",
]


class OneJob(Record):
    """A job of a folder that holds several."""

    __slots__ = ()
    started: str | None
    """When its first process began, RFC 3339, in the recording's time zone."""
    seen: str | None
    """The last moment that any of its recorders wrote down."""
    nprocesses: int
    """Processes with a trace."""
    ranks: str | None
    """The launcher's ranks that are here, as ``0-7``."""
    world_size: int | None
    """Ranks that the launcher spoke of."""
    hosts: list[str]
    """Hosts by name."""
    batch: str | None
    """The batch job, if there was one."""
    command: str | None
    """The command of its first process."""
    files: list[str]
    """Trace files, relative to the capture."""


class OneAttempt(Record):
    """One start of a job that was started several times."""

    __slots__ = ()
    attempt: int
    """From 1, the oldest first."""
    restart: int
    """Number of the torchrun restart, 0 for the first start."""
    nprocesses: int
    """Processes with a trace."""
    ranks: str | None
    """The launcher's ranks that are here, as ``0-7``."""
    started: str | None
    """When its first process began, RFC 3339, in the recording's time zone."""
    seen: str | None
    """The last moment that any of its recorders wrote down."""


class Job(Record):
    """The job of a capture."""

    _parts = {"jobs": OneJob, "attempts": OneAttempt}
    __slots__ = ()
    capture: str
    """Where the capture is."""
    id: str | None
    """Its id, where ``ncclscope run`` made it."""
    command: str | None
    """The command that was run. Of a job that ``ncclscope attach`` recorded, that of its first process."""
    started: str | None
    """Start, RFC 3339, in the recording's time zone. With ``ncclscope attach``, start and end are those of
    the recording."""
    ended: str | None
    """End, RFC 3339."""
    zone: str | None
    """The time zone of the recording, such as Europe/Berlin; null if it was not recorded."""
    wall_us: float | None
    """From start to end of the command; without these, the longest of any rank."""
    exit_status: int | None
    """What the command returned; null with ``ncclscope attach``, which does not see it."""
    hosts: list[str]
    """Hosts by name."""
    jobs: list[OneJob]
    """The jobs, if several were recorded into one folder; the figures are of all of them together."""
    nprocesses: int
    """Processes with a trace."""
    world_size: int | None
    """Ranks that the launcher spoke of."""
    restarts: int | None
    """torchrun restarts that were recorded; null if files of another tool do not say."""
    attempt: int | None
    """The attempt that the figures are of; null if the job was started once."""
    attempts: list[OneAttempt]
    """The attempts of a job that was started several times, the oldest first."""
    part: str | None
    """Which part of the run the figures are of, such as ``steps 100 to 199 of 860``; null if of all of it."""
    nccl: list[str]
    """Versions of NCCL."""
    driver: list[str]
    """Versions of the GPU driver, and the newest CUDA that it supports."""
    platform: list[str]
    """System and processor, such as ``Linux x86_64`` or ``Linux aarch64, WSL2``."""
    gpu: list[str]
    """GPUs that hosts have, as ``8 x NVIDIA H200``."""
    environment: dict[str, list[str | None]]
    """Values of each NCCL variable; ``null`` where some processes have none."""
    mode: list[str]
    """Recording modes."""
    timing: list[str]
    """Time sources asked for."""


class AbsentMember(Record):
    """Ranks that a communicator lacks."""

    __slots__ = ()
    communicator: str
    """The communicator."""
    ranks: str | None
    """Its ranks, as ``0-7``; null if NCCL did not say which are here."""
    of: int | None
    """How many it has."""
    calls_at_least: int
    """How many calls they made there at least."""


class UnreadableFile(Record):
    """A file in which nothing is sound."""

    __slots__ = ()
    file: str
    """The file, relative to the capture."""
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    found: str
    """What is in it."""


class Absent(Record):
    """Ranks that made calls which are not here."""

    _parts = {"communicators": AbsentMember, "unreadable": UnreadableFile}
    __slots__ = ()
    ranks: str | None
    """The launcher's ranks, as ``3`` or ``4-7``; null if they are not known."""
    nranks: int
    """How many they are."""
    world_size: int | None
    """Ranks that the launcher spoke of; null without a launcher."""
    restart: int | None
    """The torchrun restart; null if files of another tool do not say."""
    calls_at_least: int
    """How many calls they made at least; operations that ended on other ranks prove it."""
    calls_begun: int
    """How many calls they made if they made all that other ranks began."""
    communicators: list[AbsentMember]
    """Where they are missing."""
    unreadable: list[UnreadableFile]
    """Files of them that are here and can't be read."""


class RankCompleteness(Record):
    """One process that is not complete."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    announced: int
    """Calls that NCCL announced to it."""
    recorded: int
    """Calls with all that was asked for."""
    timed: int
    """Calls with a GPU time."""
    lost: dict[str, int]
    """Calls without a row, by cause."""
    odd: dict[str, int]
    """Callbacks without effect, by cause."""
    missing_at_least: int
    """Calls beyond ``announced`` that it made for certain: operations that ended on other ranks prove
    them."""
    live: Literal[
        "adopted",
        "here",
        "snapshot",
        "other tool",
        "elsewhere",
        "running",
        "gone",
        "unreadable",
        "unknown",
    ]
    """Where its open rows and counters were read; without them, where they are."""
    recorder: str | None
    """What happened to its recorder, if not the usual."""


class Completeness(Record):
    """What was announced, recorded and timed, and what to do, as JSON has it."""

    _parts = {"absent": Absent, "ranks": RankCompleteness}
    __slots__ = ()
    announced: int
    """Calls that NCCL announced."""
    recorded: int
    """Calls with all that was asked for."""
    timed: int
    """Calls with a GPU time."""
    lost: dict[str, int]
    """Calls without a row, by cause."""
    absent: list[Absent]
    """Ranks that are not here."""
    missing_at_least: int
    """Calls beyond ``announced`` that ranks made for certain, whether they are here or not."""
    announced_is_lower_bound: bool
    """Whether ``announced`` is known: without its live part, a process may have announced more."""
    adds_up: bool
    """Whether the figures add up."""
    untimed: dict[str, int]
    """Recorded calls without a GPU time, by cause; ``captured`` are templates, which are not executed."""
    graph_launches: int | None
    """Launches of CUDA graphs with NCCL calls; null if files of another tool do not show them."""
    in_graphs: int | None
    """Calls that these executed, each captured call once a launch. They are not among ``announced``,
    because NCCL announces a captured call once. Null as ``graph_launches``."""
    unseen: dict[str, int]
    """Why calls were not counted or have no row, with a number: NCCL did not announce them, they are
    one-sided, or they ran in CUDA graphs. Empty if all were."""
    odd: dict[str, int]
    """Callbacks without effect, by cause."""
    ranks: list[RankCompleteness]
    """Processes that are not complete, or differ otherwise."""
    remedies: dict[str, str]
    """What to do about each cause in ``lost`` and ``untimed``."""


class Death(Record):
    """A process that died or left while others went on."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    exited: bool
    """It ended its recording itself: by an exception, by exit, or at the end of its work."""
    exit_status: int | None
    """Its exit status; null if a signal ended it, or if nobody saw how it ended."""
    signal: int | None
    """The signal that ended it; null if none did, or if nobody saw how it ended."""
    out_of_memory: bool
    """SIGKILL ended it while the kernel ended processes of its machine for lack of memory."""
    seen_ns: int
    """The newest time that its recorder wrote, ns since 1970."""
    before_others_ns: int
    """How long the newest of those went on that it left behind, ns."""
    communicator: str
    """Id of the communicator."""
    calls: int
    """Collectives that it made there."""
    last_function: str | None
    """Function of the last of them."""
    last_bytes: int | None
    """Bytes of the last of them."""
    left: list[int]
    """The launcher's ranks that made later calls there; the pids of those that have none."""
    most_calls: int
    """The most collectives that one of these made there."""


class Exit(Record):
    """A process that ended by a signal, with an error or without ending its recording."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    at_ns: int
    """When it ended, ns since 1970."""
    exit_status: int | None
    """Its exit status; null if a signal ended it, or if nobody was quick enough to ask."""
    signal: int | None
    """The signal that ended it; null if none did, or if nobody was quick enough to ask."""
    out_of_memory: bool
    """SIGKILL ended it while the kernel ended processes of its machine for lack of memory."""
    last_function: str | None
    """Function of the last call that it made; null if that is not known."""
    last_bytes: int | None
    """Bytes of that call."""
    last_caller: str | None
    """The line of the program that made it; null without recorded stacks."""


class Sighting(Record):
    """What ``ncclscope hang`` said."""

    __slots__ = ()
    at_ns: int
    """When, ns since 1970."""
    host: str
    """On which host."""
    hang: bool | None
    """Whether the job hung; null if that could not be told."""
    verdict: str
    """The kind of the verdict, as ``ncclscope hang --json`` has it."""
    sentence: str
    """The verdict."""
    calls_since: bool
    """Whether ranks made calls after that."""


class Range(Record):
    """What a figure is over all ranks that have it."""

    __slots__ = ()
    n: int
    """Ranks that have it."""
    min: float
    """Smallest."""
    median: float
    """Median (nearest rank)."""
    max: float
    """Largest."""


class Outlier(Record):
    """A rank that differs from the rest."""

    __slots__ = ()
    row: int
    """Which of ``ranks.rows`` it is, from 0."""
    rank: int | None
    """The launcher's rank."""
    host: str
    """Host."""
    figure: Literal["calls", "untimed", "nccl_us"]
    """Which figure differs: ``calls``, ``untimed`` (calls without a GPU time where others have one) or
    ``nccl_us``."""
    value: float
    """Its value, in the unit of the figure: a number, or µs."""
    median: float
    """The median over ranks, in the same unit."""


class RankRow(Record):
    """One rank: a GPU of a process."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    calls: int
    """Executions."""
    timed: int
    """Calls with a GPU time that can be believed."""
    p2p: int | None
    """Calls that are sends and receives; null if NCCL's RAS counted, which leaves them out."""
    wall_us: float | None
    """From the first communicator or call to the last thing seen."""
    basis: Literal["gpu", "sample", "host"] | None
    """Where the intervals come from: ``gpu`` (kernels), ``sample`` (estimated from the kernels that were
    timed), or ``host`` (API calls) if no call has a GPU time; null if no call has a time."""
    nccl_us: float | None
    """Time in NCCL kernels after warm-up, or in API calls without GPU times: the union of the intervals,
    so no moment counts twice. Null if no call has a time."""
    nccl_interval_us: list[float] | None
    """95 % interval of an estimate from a sample; null if all calls were timed, or too few for an
    estimate."""
    share: float | None
    """``nccl_us`` by ``wall_us``, 0 to 1: the share of the run, never more than all of it. Null if no call
    has a time."""
    sum_us: float | None
    """Plain sum of the intervals: overlaps count twice. Null if no call has a time."""
    gpu: str | None
    """The GPU's UUID, 32 hex digits."""
    operations: int | None
    """Operations of which it is known who came last; null if none was compared."""
    last: int | None
    """Those of ``operations`` in which it came last."""
    waited_us: float | None
    """How long it waited for later ranks in its operations: estimated of all, if these are a sample. No
    more than ``nccl_us``."""
    exposed_share: float | None
    """The part of its time in which communication ran and nothing computed: of kernel windows, else of
    stream waits."""
    loss_us: float | None
    """What the run would take less without its fault: the largest finding that blames it alone; null if
    none does."""


class Ranks(Record):
    """All ranks."""

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
    """Spread of ``calls``."""
    wall_us: Range | None
    """Spread of ``wall_us``."""
    nccl_us: Range | None
    """Spread of ``nccl_us``."""
    share: Range | None
    """Spread of ``share``."""
    outliers: list[Outlier]
    """Those that differ, farthest from the median first."""
    rows: list[RankRow]
    """By restart, rank and device."""


class Member(Record):
    """One rank of a communicator in a report."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    global_rank: int | None
    """The launcher's rank."""
    device: int | None
    """CUDA device ordinal."""


class Communicator(Record):
    """A communicator in a report."""

    _parts = {"members": Member}
    __slots__ = ()
    communicator: str
    """Its id, unique in the capture."""
    name: str | None
    """Name given by the program; null if it gave none."""
    nranks: int | None
    """Its ranks; null if the profiler ABI does not tell (v1 to v3)."""
    nnodes: int | None
    """Its nodes."""
    parent: str | None
    """Communicator it was made from; null if there is none, or none that is proved."""
    parent_evidence: str | None
    """Why that is the parent."""
    ranks: str | None
    """The launcher's ranks of its members, as ``0-7`` or ``0-56:8`` (every eighth); null where some are
    not known. If one drives several GPUs, with these: ``0/0-3``, or ``0x4`` if they are not known."""
    nccl_gpu_bytes: int | None
    """What NCCL allocated for it on the GPU of its largest rank, bytes; null if NCCL's output is not
    recorded."""
    members: list[Member]
    """Ranks in the capture."""


class Kind(Record):
    """What all functions of a kind did."""

    __slots__ = ()
    kind: Literal["collective", "p2p"]
    """``collective`` or ``p2p``."""
    calls: int
    """Executions, one rank's part each."""
    bytes: int | None
    """Bytes of all executions; null when some size is not known."""
    sum_over_ranks_us: float | None
    """GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed."""
    sum_interval_us: list[float] | None
    """95 % interval of an estimate from a sample; null if all calls were timed, or too few for an
    estimate."""
    host_sum_over_ranks_us: float | None
    """Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1
    to v4 have none."""


class Part(Record):
    """A part of the calls of a function, in µs."""

    __slots__ = ()
    n: int
    """Calls that have it."""
    mean: float
    """Mean."""
    p50: float
    """Median, with an error below 1 %."""
    share_of_api: float | None
    """Share of its mean in that of ``api``, for the parts within it; null for others, if some call has
    only one of both, and if calls are enqueued when their group ends."""


class Parts(Record):
    """What of a call took how long, in the order in which it happens; null for a part that no call has."""

    _parts = {"api": Part, "enqueue": Part, "launch": Part, "kernel": Part, "proxy": Part}
    __slots__ = ()
    api: Part | None
    """From the entry of the API call to its return."""
    enqueue: Part | None
    """From the entry of the API call to the launch of the kernel, or to the event of enqueueing."""
    launch: Part | None
    """The launch of the kernel on the host."""
    kernel: Part | None
    """Time on the GPU."""
    proxy: Part | None
    """Waits of the steps of NCCL's network proxy, summed over steps and channels."""


class Function(Record):
    """A function."""

    _parts = {"parts_us": Parts}
    __slots__ = ()
    function: str | None
    """NCCL's name; operations that came in pieces under their own name."""
    kind: Literal["collective", "p2p"]
    """``collective`` or ``p2p``."""
    calls: int
    """Executions, one rank's part each."""
    share_of_calls: float
    """Part of all executions, 0 to 1."""
    bytes: int | None
    """Bytes of all executions; null when some size is not known."""
    sum_over_ranks_us: float | None
    """GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed."""
    sampled: bool
    """Whether that is estimated from a sample."""
    sum_interval_us: list[float] | None
    """95 % interval of an estimate from a sample, µs; null if all calls were timed, or too few for an
    estimate. Operations are slow at the same moments, so their intervals add up."""
    share_of_time: float | None
    """Part of the GPU time of all functions, 0 to 1."""
    host_sum_over_ranks_us: float | None
    """Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1
    to v4 have none."""
    parts_us: Parts
    """What of a call took how long."""


class Caller(Record):
    """The calls of a function from a line."""

    __slots__ = ()
    caller: str | None
    """The line of the program that made the calls, as ``FILE:LINE FUNCTION``: the innermost frame that is
    in no library (``ncclscope run --stacks``). ``autograd (C++)`` is PyTorch's autograd, and ``unknown:``
    says why there is none. Null if nothing is recorded: launched in a CUDA graph, counted only, or of a
    process without stacks."""
    function: str | None
    """NCCL's function; operations that came in pieces under their own name."""
    calls: int
    """Executions, one rank's part each."""
    bytes: int | None
    """Bytes of all executions; null when some size is not known."""
    sum_over_ranks_us: float | None
    """GPU time of all executions on all ranks; null if no call but warm-ups has one that can be believed."""
    sampled: bool
    """Whether that is estimated from a sample."""
    sum_interval_us: list[float] | None
    """95 % interval of an estimate from a sample; null if all calls were timed, or too few for an
    estimate."""
    share_of_time: float | None
    """Part of the GPU time of all calls, 0 to 1."""
    host_sum_over_ranks_us: float | None
    """Host time of all executions on all ranks; null if no call but warm-ups has one. Replays and ABI v1
    to v4 have none."""
    exposed_us: float | None
    """How long streams stood still for these calls, summed over ranks; null where no wait is known."""
    exposed_interval_us: list[float] | None
    """95 % interval of ``exposed_us``, if it is known of some of the calls."""
    wait_rank_us: float | None
    """How long ranks waited in these calls for the last rank, summed over ranks; null where no operation
    has a time on every rank."""
    wait_interval_us: list[float] | None
    """95 % interval of ``wait_rank_us``, if it is known of some of the calls."""
    stacks: int
    """Different stacks that lead to the line."""


class PartsOfCalls(Record):
    """The parts of the calls of a function whose sizes are alike."""

    _parts = {"parts_us": Parts}
    __slots__ = ()
    function: str | None
    """NCCL's name; operations that came in pieces under their own name."""
    least_bytes: int | None
    """The smallest size, by the convention of nccl-tests; null where sizes are not known."""
    most_bytes: int | None
    """The largest: at most twice the smallest."""
    calls: int
    """Calls that have a part, warm-ups left out."""
    parts_us: Parts
    """What of a call took how long."""


class Statistics(Record):
    """What a set of durations looks like, in µs."""

    __slots__ = ()
    n: int
    """How many there are."""
    sum: float
    """Sum of all."""
    mean: float
    """Mean."""
    min: float | None
    """Shortest; null if some times are known by their sum only."""
    p50: float | None
    """Median; null if some times are known by their sum only."""
    p95: float | None
    """95th percentile; null if some times are known by their sum only."""
    p99: float | None
    """99th percentile; null below 100 durations."""
    max: float | None
    """Longest; null if some times are known by their sum only."""


class Sampled(Record):
    """An estimate for all calls of a row, warm-ups left out, from those of them that were timed. µs."""

    __slots__ = ()
    share: float
    """Share of the calls that were timed."""
    mean_low_us: float
    """Lower end of the mean's 95 % interval."""
    mean_high_us: float
    """Upper end."""
    sum_us: float
    """GPU time of all calls."""
    sum_low_us: float
    """Lower end of its 95 % interval."""
    sum_high_us: float
    """Upper end."""


class Operation(Record):
    """A row of the totals table."""

    _parts = {"time_us": Statistics, "sampled": Sampled, "host_us": Statistics, "shortest_us": Statistics}
    __slots__ = ()
    communicator: str | None
    """Communicator id; null when its definition is lost."""
    nranks: int | None
    """Its ranks."""
    function: str | None
    """Function, as NCCL names it."""
    datatype: str | None
    """Datatype, as NCCL names it."""
    bytes: int | None
    """Bytes by the convention of nccl-tests."""
    algorithm: str | None
    """Algorithm; null where NCCL does not say."""
    protocol: str | None
    """Protocol; null where NCCL does not say."""
    calls: int
    """Executions, one rank's part each, warm-ups included."""
    timed: int
    """Calls with a GPU time that can be believed."""
    warmup: int | None
    """Those of them that were the first on their communicator: not in the statistics. Null if it is not
    known which were: a file of another tool may begin in the middle of a run."""
    time_us: Statistics | None
    """GPU time; null if no call but warm-ups has one that can be believed."""
    time_source: Literal["stamps", "events", "windows"] | None
    """Where ``time_us`` comes from: ``stamps`` or ``events``; the two are never in one row."""
    sampled: Sampled | None
    """What the calls that were timed say of all of them, where some were left out of the sample; null
    without, and where too few were timed. The extremes of ``time_us`` are then bounds: there may have been
    shorter and longer calls."""
    host_us: Statistics | None
    """Host time; null if no call but warm-ups has one. Replays and ABI v1 to v4 have none."""
    matched: int
    """Operations with a GPU time on every rank."""
    shortest_us: Statistics | None
    """GPU time of an operation's shortest rank, which waited least; null if no operation has a GPU time on
    every rank. Sends and receives are not matched."""
    blind_share: float | None
    """The blind spot of a tool that sees host calls only: which share of a call's GPU time lies beyond the
    time that its host call takes, 0 to 1. Of the median host time and the median GPU time, both by nearest
    rank."""
    nccl_us: float | None
    """What NCCL itself expected one to take by this algorithm and protocol; null if that was not recorded
    (NCCLSCOPE_COSTS=on)."""
    algbw_gb_per_s: float | None
    """Bytes by the median of ``shortest_us``; null without a size, a GPU time on every rank or a second
    rank, or if it is refused."""
    busbw_gb_per_s: float | None
    """``algbw_gb_per_s`` by nccl-tests' factor: of the operation, close to the transfer. Null without
    that."""
    call_busbw_gb_per_s: float | None
    """Bytes by the mean time over an operation's ranks, the median operation's, by nccl-tests' factor:
    waiting for late ranks is in it. Of sends and receives, and where no operation has a time on every
    rank, by the median call. Null without a size, a GPU time or a second rank, or if it is refused."""
    bandwidth_refused: str | None
    """Why there is no bandwidth although there are size and time."""
    untimed: dict[str, int]
    """Calls without a GPU time, by cause."""
    captured: int | None
    """Calls captured into CUDA graphs: templates, not executions. Null if files of another tool do not
    show them."""
    replays: int | None
    """Executions that were replays of captured calls. Null as ``captured``."""
    percentile_error: float
    """Largest relative error of percentiles: 0 from rows, 0.01 from histograms."""
    on_idle_stream: int
    """Those of ``timed`` whose CUDA events began on an idle stream: their times include the launch."""


class ShareOfCeiling(Record):
    """A ceiling, and how much of it was reached."""

    __slots__ = ()
    source: Literal["given", "link", "nccl_graph", "nccl_estimate", "bench", "best_here"]
    """Where the ceiling comes from."""
    named: str
    """The same for people: the option, the file, or the operation."""
    ceiling_gb_per_s: float
    """The ceiling, GB/s."""
    share: float
    """``busbw_gb_per_s`` of the operation by the ceiling."""


class Efficiency(Record):
    """An operation's efficiency."""

    _parts = {"ceilings": ShareOfCeiling}
    __slots__ = ()
    communicator: str | None
    """Communicator id; null when its definition is lost."""
    nranks: int | None
    """Its ranks."""
    function: str
    """Function, as NCCL names it."""
    datatype: str | None
    """Datatype, as NCCL names it."""
    bytes: int
    """Bytes by the convention of nccl-tests."""
    algorithm: str | None
    """Algorithm; null where NCCL does not say."""
    protocol: str | None
    """Protocol; null where NCCL does not say."""
    calls: int
    """Executions, one rank's part each."""
    busbw_gb_per_s: float
    """Bus bandwidth of the median operation's shortest rank; of sends and receives of the median call."""
    ceilings: list[ShareOfCeiling]
    """The ceilings that are known, the one that says most first."""
    blind_share: float | None
    """Of the operation: what a tool that sees host calls only does not see of its GPU time."""


class CallsInGraph(Record):
    """Consecutive calls of a graph that are alike."""

    __slots__ = ()
    communicator: str | None
    """Communicator id; null when its definition is lost."""
    function: str | None
    """Function, as NCCL names it."""
    datatype: str | None
    """Datatype, as NCCL names it."""
    bytes: int | None
    """Bytes by the convention of nccl-tests."""
    calls: int
    """How many."""


class GraphRow(Record):
    """Graphs of the same calls."""

    _parts = {
        "calls": CallsInGraph,
        "launches_of_a_rank": Range,
        "launches_per_second": Range,
        "launch_call_us": Range,
    }
    __slots__ = ()
    calls: list[CallsInGraph]
    """Calls of one launch on one rank, in the order of capture: consecutive calls that are alike are one
    entry."""
    calls_per_launch: int
    """NCCL calls of one launch."""
    bytes_per_launch: int | None
    """Bytes of the calls of one launch, by the convention of nccl-tests; null if some size is not known,
    which needs the number of ranks."""
    nranks: int
    """Ranks that launched it."""
    executables: int
    """Executable graphs, over ranks: more than ranks if a rank made it again."""
    launches: int
    """Launches over ranks."""
    launches_of_a_rank: Range | None
    """Launches of a rank."""
    launches_per_second: Range | None
    """Launches a second, between the first and the last of a rank."""
    launch_call_us: Range | None
    """How long the launch call took on the host, mean of a rank, µs."""
    streams: int
    """Different streams that a rank launched on, at most."""
    countable: bool
    """Whether what ran is launches times calls; not so if the GPU decides how often a part runs."""


class Warmup(Record):
    """The first calls on a communicator."""

    _parts = {"time_us": Statistics, "host_us": Statistics}
    __slots__ = ()
    communicator: str | None
    """The communicator."""
    function: str | None
    """Function, under its own name if it came in pieces."""
    calls: int
    """Ranks whose first call this was."""
    time_us: Statistics | None
    """GPU time."""
    host_us: Statistics | None
    """Host time."""


class Setting(Record):
    """A setting and what one function did with it, in words as well, as JSON has it."""

    __slots__ = ()
    variable: Literal["NCCL_ALGO", "NCCL_PROTO"]
    """Variable of NCCL: ``NCCL_ALGO`` or ``NCCL_PROTO``."""
    value: str | None
    """What was asked for; null where some processes have none."""
    nprocesses: int
    """Processes that have it."""
    function: str | None
    """Function; null where the setting says nothing about any that was called, or differs over processes."""
    calls: int
    """Executions of the function."""
    obeyed: int
    """Calls that used what was asked for."""
    others: dict[str, int]
    """Calls that used something else, by what."""
    not_told: int
    """Calls of which NCCL told nothing."""
    why: str | None
    """Why others were used, where that is certain."""
    summary: str
    """All this in a sentence."""


class Waits(Record):
    """Time that network steps spent in each wait, summed over steps and channels, µs; null where none
    waited."""

    __slots__ = ()
    send_gpu: float | None
    """Of steps that send: for the GPU's data."""
    send_peer: float | None
    """Of steps that send: for the receiver."""
    send_network: float | None
    """Of steps that send: for the network."""
    recv_network: float | None
    """Of steps that receive: for data."""
    recv_flush: float | None
    """Of steps that receive: for the flush."""
    recv_gpu: float | None
    """Of steps that receive: for the GPU to take the data."""


class NetworkRow(Record):
    """The network's part in a function on a communicator."""

    _parts = {"wait_us": Waits}
    __slots__ = ()
    communicator: str | None
    """The communicator."""
    function: str | None
    """NCCL's name of the function; operations that came in pieces under their own name."""
    calls: int
    """Announced calls that used the network: one rank's part each, pieces one by one."""
    operations: int
    """Proxy operations started."""
    operations_done: int
    """Proxy operations stopped."""
    steps: int
    """Proxy steps finished."""
    bytes_sent: int | None
    """Bytes that the network accepted; null where only operations were recorded."""
    bytes_received: int | None
    """Bytes received; null where only operations were recorded."""
    wait_us: Waits
    """Time that steps spent in each wait, summed."""


class Curve(Record):
    """A figure over time, a value for each bucket."""

    __slots__ = ()
    sum: list[float]
    """Over all ranks: a number, bytes, or µs."""
    min: list[float]
    """Of the rank with least: per second, or share of the time; four digits."""
    mean: list[float]
    """Mean over ranks, in the unit of ``min``."""
    max: list[float]
    """Of the rank with most, in the unit of ``min``."""


class InWindows(Record):
    """Exposed communication by kernel windows, which show a part of the time only."""

    __slots__ = ()
    seen_us: list[float]
    """How long windows show each bucket, summed over GPUs, µs."""
    exposed_us: list[float | None]
    """For how long of that kernels communicated and nothing computed, µs; null if no window shows the
    bucket."""
    share: list[float | None]
    """The one by the other."""
    why_null: str | None
    """Why buckets are null; null if none is."""


class SampledCurve(Record):
    """A sampled figure, null in buckets that were not sampled."""

    __slots__ = ()
    min: list[float | None]
    """Of the GPU or node with least."""
    mean: list[float | None]
    """Mean over GPUs or nodes."""
    max: list[float | None]
    """Of the GPU or node with most."""


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
    """Why all figures are null; null if some are not."""
    power_w: SampledCurve | None
    """Power, watts, over GPUs."""
    sm_mhz: SampledCurve | None
    """Clock of the SMs, MHz, over GPUs."""
    nvlink_sent_bytes: SampledCurve | None
    """Sent over NVLink, bytes per second, over GPUs."""
    nvlink_received_bytes: SampledCurve | None
    """Received over NVLink, bytes per second, over GPUs."""
    nvlink_link_sent_bytes: SampledCurve | None
    """Sent over one NVLink, bytes per second, over links."""
    nvlink_link_received_bytes: SampledCurve | None
    """Received over one NVLink, bytes per second, over links."""
    cpus_busy: SampledCurve | None
    """CPUs that were busy, over nodes."""
    job_cpus_busy: SampledCurve | None
    """CPUs that the job kept busy, over nodes."""
    job_threads_ready: SampledCurve | None
    """Threads of the job that were ready and had no CPU, over nodes."""
    disk_read_bytes: SampledCurve | None
    """Read from disks, bytes per second, over nodes."""
    disk_written_bytes: SampledCurve | None
    """Written to disks, bytes per second, over nodes."""
    net_sent_bytes: SampledCurve | None
    """Sent by network interfaces and InfiniBand ports, bytes per second, over nodes."""
    net_received_bytes: SampledCurve | None
    """Received by network interfaces and InfiniBand ports, bytes per second, over nodes."""


class Band(Record):
    """How something is spread, a value for each bucket."""

    __slots__ = ()
    n: list[int]
    """How many."""
    p10: list[float | None]
    """A tenth is below it; null where there is none."""
    p50: list[float | None]
    """Median."""
    p90: list[float | None]
    """A tenth is above it."""


class LateRank(Record):
    """A rank that is late more than chance gives."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    held_up_us: list[float]
    """How long operations waited for this rank alone, when all others had arrived."""


class StepMarks(Record):
    """When steps began."""

    __slots__ = ()
    rank: int | None
    """The rank."""
    every: int
    """Every such step is here: 1 is all of them."""
    begins_us: list[float]
    """After the begin of the timeline."""


class Mark(Record):
    """Something that happened at a moment."""

    __slots__ = ()
    kind: Literal["dead_rank"]
    """``dead_rank``."""
    at_us: float
    """After the begin of the timeline."""
    text: str
    """What it was, in a sentence."""


class Timeline(Record):
    """The run over time, with the sentences of what happened."""

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
    """Begin of the first bucket, ns since 1970, on the clock of the first host."""
    bucket_us: float
    """Width of a bucket."""
    buckets: int
    """Buckets."""
    ranks: int
    """GPUs that rates and shares are over."""
    without_time: int
    """Calls of which no time is known: in no bucket."""
    calls: Curve
    """Calls per second, counted at their begin."""
    collectives: Curve
    """Of these: collectives."""
    sends: Curve
    """Of these: sends. A SendRecv is one, and a receive too."""
    recvs: Curve
    """Of these: receives."""
    untimed: Curve | None
    """Of all calls: those without a GPU time, which are in no time below. Null where no call has one."""
    bytes: Curve | None
    """Bytes of calls per second; null if the size of some call is not known."""
    bytes_sent: Curve | None
    """Bytes per second that the network accepted; null where no steps were recorded."""
    bytes_received: Curve | None
    """Bytes per second that came over the network."""
    nccl: Curve | None
    """Share of the time in NCCL: kernels, or API calls where no call has a GPU time. Null if no call has a
    length."""
    waiting: Curve | None
    """Share of the time that operations with a GPU time on every rank waited for their last one; null
    without any."""
    transfer: Curve | None
    """Share of the time in these operations after the last rank's arrival."""
    exposed: Curve | None
    """Share of the time that streams stood still for calls; null where none was seen to wait."""
    exposed_in_windows: InWindows
    """The same from kernel windows, if there are some, for the time that these show."""
    nic: Curve | None
    """Share of the time that a call's data was in the network's hands: of each call, its longest network
    operation. Null where that was not recorded."""
    sampled: SampledCurves
    """What the node sampler saw: power, clocks, CPU time and the like."""
    mpi: SampledCurve | None
    """Which part of the time threads of a rank were inside of MPI; null if no process was seen to call it."""
    durations_us: Band | None
    """How long calls that began in a bucket took on the GPU; null without GPU times."""
    late: list[LateRank]
    """Ranks that are late more than chance gives, and how long operations waited for them alone."""
    steps: StepMarks | None
    """When steps began."""
    marks: list[Mark]
    """What happened at a moment."""


class StepsRow(Record):
    """The steps of one process."""

    _parts = {"step_us": Statistics, "communication_us": Statistics}
    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    source: Literal["program", "calls"]
    """Who says what a step is: the program by its marks, or the pattern of its calls."""
    steps: int
    """Repetitions of its pattern."""
    calls: int
    """Calls in each step."""
    equal_parts: int
    """The calls of a step are so many times the same ones, so a step of the program may be shorter; 1 if
    they are not."""
    times_repeat: int
    """The times of so many steps in a row come again, so a step of the program may be so many of these; 1
    if they don't."""
    calls_beyond: int
    """Calls of the process after its first 1 048 576, which were not looked at."""
    step_us: Statistics | None
    """Time from a step's first call to the next step's; null if no two steps follow each other."""
    communication_us: Statistics | None
    """Time of the GPU in NCCL kernels, by step; null without GPU times."""
    startup_us: float | None
    """From the first call to the first step; null where host times are not known."""
    between_us: float | None
    """Time between steps that do not follow each other; null if no two steps follow each other."""


class Steps(Record):
    """The steps of the job."""

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
    """Who says what a step is: the program by its marks, or the pattern of its calls."""
    rank: int | None
    """Rank whose steps ``step_us`` is of: the first of those with the number of steps that most ranks
    have."""
    step_us: Statistics | None
    """With an account, the wall times of its steps: of the GPUs' clocks where they can be had, the mean
    over ranks, without the steps of the start-up. Else from a step's first call to the next step's, on
    that rank's host; null where no two follow each other. If the host makes many steps at once, from end
    to end of a step's last call on the GPU."""
    steps: Range | None
    """Steps of a rank."""
    calls: Range | None
    """Calls in a step of a rank."""
    communication_us: Range | None
    """Time of a rank's GPU in NCCL kernels per step, waiting included: the rank's median. Null without GPU
    times."""
    startup_us: Range | None
    """From a rank's first call to its first step."""
    between_us: Range | None
    """What a rank spent between steps that do not follow each other: evaluation, checkpoints that
    communicate."""
    without: int
    """Ranks in whose calls no pattern repeats."""
    rows: list[StepsRow]
    """By restart and rank."""


class Phase(Record):
    """A phase that the program marked, over all ranks."""

    _parts = {"visits": Range, "time_us": Range, "calls": Range, "communication_us": Range}
    __slots__ = ()
    name: str
    """The program's name."""
    visits: Range | None
    """How often a rank was in the phase."""
    time_us: Range | None
    """Time that a rank spent in the phase, in all, µs."""
    calls: Range | None
    """NCCL calls of a rank in it."""
    communication_us: Range | None
    """Time of a rank's GPU in NCCL kernels in the phase, waiting included, µs. Null if a call in it has no
    GPU time."""
    longest_rank: int | None
    """The rank that spent most time in the phase."""


class PathRow(Record):
    """Segments of one kind, over all steps."""

    __slots__ = ()
    what: str
    """Work of a rank, or the transfer of an operation, for people: ``work before AllReduce 8 MiB``."""
    kind: Literal["work", "operation", "other_kernel"]
    """``work`` of a rank, an ``operation`` from its last arrival to its end, or an ``other_kernel`` of
    NCCL. The last is a send, a receive, a call of a root, or one without a time on every rank."""
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    why: Literal["launch", "busy_gpu"] | None
    """Why it ended then. Of an operation, because its transfer was over. Of work: ``launch`` if the kernel
    began when its host launched it. ``busy_gpu`` if it was launched long before, and its GPU did something
    else. Null if not known."""
    function: str | None
    """The operation, or that to which the work led: its function."""
    datatype: str | None
    """Its datatype, as NCCL names it."""
    bytes: int | None
    """Its bytes, by the convention of nccl-tests."""
    communicator: str | None
    """Its communicator."""
    count: int
    """How many segments, over all steps of the path."""
    sum_us: float
    """Time of these segments, µs."""
    share: float
    """Their time as a share of the steps' time, 0 to 1."""


class PathSegment(Record):
    """A segment of the path."""

    __slots__ = ()
    what: str
    """Work of a rank, or the transfer of an operation, for people: ``work before AllReduce 8 MiB``."""
    kind: Literal["work", "operation", "other_kernel"]
    """``work`` of a rank, an ``operation`` from its last arrival to its end, or an ``other_kernel`` of
    NCCL. The last is a send, a receive, a call of a root, or one without a time on every rank."""
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    why: Literal["launch", "busy_gpu"] | None
    """Why it ended then. Of an operation, because its transfer was over. Of work: ``launch`` if the kernel
    began when its host launched it. ``busy_gpu`` if it was launched long before, and its GPU did something
    else. Null if not known."""
    function: str | None
    """The operation, or that to which the work led: its function."""
    datatype: str | None
    """Its datatype, as NCCL names it."""
    bytes: int | None
    """Its bytes, by the convention of nccl-tests."""
    communicator: str | None
    """Its communicator."""
    at_us: float
    """Begin, from the begin of the step, µs."""
    time_us: float
    """How long it takes, µs."""


class PathStep(Record):
    """The path of one step."""

    _parts = {"segments": PathSegment}
    __slots__ = ()
    number: int
    """Which step of the rank, from 1."""
    time_us: float
    """From the end of the last kernel of the step before to that of this step, µs."""
    segments: list[PathSegment]
    """In order; they sum to the step's time."""
    beyond: int
    """Segments after these, which are left out."""


class CriticalPath(Record):
    """The critical path, and what it rests on, as JSON has it."""

    _parts = {"rows": PathRow, "step": PathStep}
    __slots__ = ()
    basis: str
    """What the path rests on."""
    rank: int | None
    """The rank at whose last call a step ends."""
    steps: int
    """Steps that the path is known of: every call in them was timed."""
    sum_us: float
    """Their time, µs. It is the sum of all segments."""
    rows: list[PathRow]
    """What it consists of, largest first."""
    step: PathStep
    """The step of median time."""


class Share(Record):
    """A share of the time, or a ratio."""

    __slots__ = ()
    share: float
    """The share, 0 to 1."""
    interval: list[float] | None
    """95 % interval; null for fewer than three windows."""


class IdleCauses(Record):
    """What a GPU's host did while the GPU was idle: shares of the time that windows show. Together they
    are ``idle``."""

    __slots__ = ()
    source: Literal["switches", "schedstat", "mpi"]
    """``switches``: the kernel's records of context switches. ``schedstat``: its counters, read at ticks.
    ``mpi``: time in MPI alone is known."""
    mpi: float
    """The launching thread was in MPI, whatever it did there."""
    program: float
    """It ran, and neither in MPI nor in the driver: Python or a library kept it busy."""
    driver: float
    """It was in calls of CUDA's driver, and ran."""
    preempted: float
    """It was ready, and the scheduler ran others."""
    disk: float
    """It waited for a disk, by the samples of its state."""
    blocked: float
    """It waited for a lock, a socket, another thread, or the GPU."""
    unknown: float
    """It was not watched."""
    step_us: float | None
    """Mean time of a step of this process, µs: a share times that is the time per step. Null without
    steps."""


class RankStreams(Record):
    """One GPU of a process."""

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
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int
    """CUDA device ordinal."""
    windows: int
    """Kernel windows that count."""
    seen_us: float
    """How long they are together, µs."""
    computing: Share
    """Kernels computed, and nothing communicated."""
    beside: Share
    """Kernels computed beside communication."""
    exposed: Share
    """Kernels communicated, and nothing computed."""
    copies: Share
    """Only copies and fills ran."""
    idle: Share
    """Nothing ran on the GPU."""
    idle_causes: IdleCauses | None
    """What its host did while nothing ran: shares of the time, together idle; null if neither the node
    sampler nor time in MPI says."""
    exposed_waiting: Share | None
    """Of the exposed time: it waited for other ranks; null if no operation was found on all its ranks."""
    host_waited: Share | None
    """Its host waited for the GPU. Null where that is not known, because not all launches were seen."""
    interference: float | None
    """How much longer the same kernels ran beside communication than without, by which part of the time;
    null where none ran both ways."""
    interference_share: float | None
    """What that cost of the time."""


class FunctionStreams(Record):
    """NCCL's kernels of a function."""

    __slots__ = ()
    function: str
    """The function."""
    kernels: int
    """Kernels in windows."""
    sum_us: float
    """Their time, µs."""
    exposed_us: float
    """Of that: nothing computed beside them."""
    hidden_us: float
    """Of that: other kernels computed beside them."""


class OtherCommunication(Record):
    """Kernels of a library that communicates beside NCCL."""

    __slots__ = ()
    library: str
    """Which."""
    kernels: int
    """Its kernels in windows."""
    sum_us: float
    """Their time, µs."""


class KernelRow(Record):
    """Kernels of a name, or copies or fills."""

    __slots__ = ()
    name: str
    """The kernel's name, demangled; copies and fills are together."""
    kind: Literal["computing", "communication", "copy", "fill"]
    """``computing``, ``communication``, ``copy`` or ``fill``."""
    kernels: int
    """How many ran in windows."""
    sum_us: float
    """Their time, µs."""
    share: float
    """Their time by the time that windows show, 0 to 1 for a kernel that runs alone."""
    beside_us: float
    """Of their time: communication ran beside them."""


class KernelOfRank(Record):
    """Kernels of a name, or copies or fills, of one GPU."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int
    """CUDA device ordinal."""
    name: str
    """The kernel's name, demangled; copies and fills are together."""
    kind: Literal["computing", "communication", "copy", "fill"]
    """``computing``, ``communication``, ``copy`` or ``fill``."""
    kernels: int
    """How many ran in windows."""
    sum_us: float
    """Their time, µs."""
    share: float
    """Their time by the time that windows show, 0 to 1 for a kernel that runs alone."""
    beside_us: float
    """Of their time: communication ran beside them."""


class Replay(Record):
    """Replays of a rank that communicate by the same calls."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int
    """CUDA device ordinal."""
    calls: dict[str, int]
    """Kernels that communicate in one replay, by function of NCCL, or by library."""
    replays: int
    """Whole replays in windows."""
    replay_us: float
    """From the first kernel of a replay to the end of its last, mean, µs."""
    communication_us: float
    """For how long kernels communicated in a replay, mean, µs."""
    exposed_us: float
    """For how long kernels communicated in a replay and nothing computed, mean, µs."""
    exposed_interval_us: list[float] | None
    """95 % interval of that; null for too few replays."""


class BubbleFor(Record):
    """A rank that another waited for, of a step."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int
    """CUDA device ordinal."""
    late_sender_us: float
    """It sent late, µs."""
    late_receiver_us: float
    """It received late, µs."""
    behind_us: float
    """Of all waiting: that is by what it worked longer, µs. What no rank is the cause of is the
    schedule's."""


class Bubble(Record):
    """The bubble of a rank that passes data on to others."""

    _parts = {"bubble": Share, "waits_for": BubbleFor}
    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int
    """CUDA device ordinal."""
    steps: int
    """Whole steps in which the windows of all GPUs show what ran."""
    step_us: float
    """How long such a step is, µs."""
    bubble: Share
    """The part of a step in which the GPU computed nothing."""
    bubble_us: float
    """The bubble of a step, µs: how long the GPU computed nothing."""
    bubble_run_us: float
    """The bubble of the time from the process's first call to the last, µs: what it costs."""
    late_sender_us: float
    """Of the bubble of a step: it waited to receive, µs."""
    late_receiver_us: float
    """Of the bubble of a step: it waited to send, µs."""
    collective_us: float
    """Of the bubble of a step: it waited for the last rank of a collective, µs."""
    transfer_us: float
    """Of the bubble of a step: it communicated without waiting, µs."""
    idle_us: float
    """Of the bubble of a step: nothing ran, or only copies and fills did, µs."""
    waits_for: list[BubbleFor]
    """Whom it waited for in sends and receives, largest first."""


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
    """Windows that count, summed over GPUs."""
    yielded: int
    """Windows that were left to another profiler, summed over processes."""
    without: dict[str, int]
    """Why processes have no windows: cause and processes."""
    ranks: list[RankStreams]
    """By restart and rank."""
    communication: list[FunctionStreams]
    """NCCL's kernels by function, largest time first."""
    other_communication: list[OtherCommunication]
    """Communication that NCCL does not know of, by library."""
    kernels: list[KernelRow]
    """Kernels by name, largest time first; copies and fills too."""
    kernels_by_rank: list[KernelOfRank]
    """The same by GPU, in that order and by rank: those with the largest time."""
    common_us: float
    """The time in windows for which it is known who was waited for, on the GPU with the least of it, µs."""
    operations: int
    """Operations in that time that were found on all their ranks."""
    timed: int
    """GPUs without windows of which CUDA events say when they came."""
    replays: list[Replay]
    """Replays of CUDA graphs that communicate, by rank and calls, longest in all first."""
    bubbles: list[Bubble]
    """By rank: the bubbles of a job that passes data on by sends and receives, as pipelines do; else
    empty."""


class EnergyPhase(Record):
    """A part of the run."""

    __slots__ = ()
    phase: str
    """What the job did: ``start-up``, ``steps``, ``between steps``, ``end``; or ``before calls``,
    ``calls``, ``after calls``."""
    time_s: float
    """How long it took."""
    energy_j: float
    """Energy of all GPUs together, joules."""
    mean_w: float
    """Mean power of all GPUs together, watts."""


class StepEnergy(Record):
    """The energy of steps."""

    _parts = {"each_j": Range}
    __slots__ = ()
    steps: int
    """Steps that were sampled."""
    mean_j: float
    """Mean of all, joules."""
    each_j: Range | None
    """One by one, if they take a second or more; else null."""


class EnergySplit(Record):
    """An estimate of what energy was spent on, joules."""

    __slots__ = ()
    computing_or_idle_j: float
    """No NCCL kernel ran: GPUs computed, copied, or were idle."""
    waiting_j: float
    """NCCL kernels waited for the last rank."""
    transfer_j: float
    """Operations ran after the last rank had arrived."""
    transfer_j_per_gb: float | None
    """``transfer_j`` for each GB (1e9 bytes) of calls; null without bytes."""


class Energy(Record):
    """The energy of the job's GPUs."""

    _parts = {"phases": EnergyPhase, "step": StepEnergy, "split": EnergySplit}
    __slots__ = ()
    gpus: int
    """GPUs that were sampled. They may be more than the job used."""
    source: str
    """``counter``, if all GPUs have one, else ``power``: their power, integrated."""
    time_s: float
    """From the first sample to the last, of the node with the longest time."""
    energy_j: float
    """Joules in all, from launch to exit."""
    mean_w: float
    """Mean power of all GPUs together, watts."""
    integrated_j: float | None
    """The same energy by the power, integrated, as a check; null if it was not read."""
    gap: float | None
    """How much larger that is, as a share."""
    phases: list[EnergyPhase]
    """What the job did when, in order."""
    step: StepEnergy | None
    """Energy of the steps; null without steps."""
    split: EnergySplit | None
    """What the energy from the first call to the last was spent on: an estimate by time. Null without GPU
    times."""
    energy_j_per_gb: float | None
    """From the first call to the last: joules for each GB (1e9 bytes) of calls, over all ranks."""


class NodeRow(Record):
    """One node."""

    __slots__ = ()
    host: str
    """Host."""
    time_s: float
    """From the first sample to the last."""
    gpus: int
    """GPUs that were sampled."""
    why_no_gpu: str | None
    """Why none was; null if some were."""
    energy_j: float | None
    """Energy of its GPUs, joules; null if not known."""
    mean_w: float | None
    """Mean power of its GPUs together, watts; null if not known."""
    cpus_busy: float | None
    """CPUs that were busy with any program, on average."""
    job_cpus_busy: float | None
    """CPUs that the job's processes kept busy, on average."""
    cpus: int | None
    """CPUs of the node that the sampler may use."""
    job_threads_ready: float | None
    """Threads of the job that were ready and had no CPU, on average."""
    memory_bytes: int | None
    """Memory of the node that programs can't have, at most, bytes."""
    disk_read_bytes: int | None
    """Bytes read from disks."""
    disk_written_bytes: int | None
    """Bytes written to disks."""
    net_received_bytes: int | None
    """Received by network interfaces, bytes."""
    net_sent_bytes: int | None
    """Sent by network interfaces, bytes."""
    ib_received_bytes: int | None
    """Received by InfiniBand ports, bytes."""
    ib_sent_bytes: int | None
    """Sent by InfiniBand ports, bytes."""
    sampler_share: float | None
    """CPU time of the sampler, as a share of one core."""
    sampler_in_nvml_share: float | None
    """Time that the sampler spent in NVML, as a share."""
    sampler_late_ticks: int | None
    """Ticks that the sampler left out."""


class LinkRow(Record):
    """One NVLink of a GPU."""

    __slots__ = ()
    link: int
    """Its number on the GPU."""
    sent_bytes: int | None
    """Sent over it, bytes."""
    received_bytes: int | None
    """Received over it, bytes."""


class GpuRow(Record):
    """One GPU."""

    _parts = {"nvlinks": LinkRow}
    __slots__ = ()
    host: str
    """Host."""
    uuid: str
    """The GPU's UUID; text shows its beginning."""
    name: str
    """Its product name."""
    counter_j: float | None
    """Energy by its counter, joules; null if it has none."""
    integrated_j: float | None
    """Energy by its power, integrated over the same time, joules; null if the GPU does not tell."""
    gap: float | None
    """By which share that is more than the counter's; null if one of both is not known."""
    mean_w: float | None
    """Mean power by its energy, watts; null if the GPU does not tell."""
    max_w: float | None
    """Largest power that was read, watts. NVML gives a mean over a second on most GPUs."""
    sm_mhz: float | None
    """Mean clock of its multiprocessors (SMs), MHz."""
    throttled: dict[str, float]
    """Share of the samples in which clocks were held down, by reason."""
    temperature_c: int | None
    """Highest temperature, degrees Celsius."""
    lost_after_s: float | None
    """From the node's first sample to the last that this GPU gave, if it gave none any more while the node
    was sampled on; else null."""
    memory_bytes: int | None
    """Memory in use at most, bytes."""
    busy: float | None
    """Mean share of the time in which a kernel ran, as NVML has it."""
    nvlink_sent_bytes: int | None
    """Sent over its NVLinks, bytes."""
    nvlink_received_bytes: int | None
    """Received over its NVLinks, bytes."""
    nvlinks: list[LinkRow]
    """What each of its NVLinks carried; empty where that was not sampled."""
    pcie_sent_bytes: int | None
    """Sent over PCIe, bytes."""
    pcie_received_bytes: int | None
    """Received over PCIe, bytes."""


class ThreadRow(Record):
    """A thread of the job."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    tid: int
    """Number of the thread."""
    name: str
    """Its name, of 15 letters at most."""
    calls_nccl: bool
    """Whether NCCL calls come from this thread."""
    time_s: float
    """For how long it was watched."""
    running: float
    """Share of the time in which the thread ran: Python or a library kept it busy."""
    ready: float
    """Share of the time in which it was ready, and no CPU was free for it."""
    in_io: float
    """Share of the time in which it waited for a disk, by the samples."""
    blocked: float
    """Share of the time in which it waited for anything else: a lock, a socket, another thread, or the
    GPU."""


class JitterRow(Record):
    """The calls of a thread that was watched."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    tid: int
    """Number of the thread."""
    source: Literal["switches", "schedstat"]
    """``switches``: the kernel's records of context switches. ``schedstat``: its counters, read at ticks."""
    calls: int
    """Calls while the thread was watched, but for the first on each communicator."""
    long: int
    """Calls that took their thread longer than 50 µs on the host, from API entry to return."""
    long_us: float
    """Time of the long calls, µs."""
    longest_us: float
    """The longest call, µs."""
    preempted: float | None
    """Share of ``long_us`` in which the thread was ready, and the scheduler ran others; at most, by
    schedstat; null without long calls."""
    asleep: float | None
    """Share of ``long_us`` in which the thread slept, or waited for a CPU after it slept; null without
    long calls or by schedstat."""
    running: float | None
    """Share of ``long_us`` in which the thread ran; null without long calls or by schedstat."""


class Nodes(Record):
    """Power, energy, CPU time, memory, disks and networks of the job's nodes."""

    _parts = {"energy": Energy, "rows": NodeRow, "gpus": GpuRow, "threads": ThreadRow, "jitter": JitterRow}
    __slots__ = ()
    why_none: str | None
    """Why there are no samples; null if there are some."""
    energy: Energy | None
    """Energy of the job's GPUs; null if no GPU was sampled."""
    rows: list[NodeRow]
    """By host."""
    gpus: list[GpuRow]
    """By host, in the order of NVML."""
    threads: list[ThreadRow]
    """What threads of the job did, by rank, those that call NCCL first."""
    jitter: list[JitterRow]
    """Calls that took long on the host, and what their threads did meanwhile, by rank."""


class MpiRow(Record):
    """Time in MPI of a process."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    seen_s: float
    """For how long calls were seen, s: from the process's first communicator on."""
    calls: int
    """Calls of functions of MPI that were over: from C, Python and Fortran, the outermost ones only."""
    time_us: float
    """Time in MPI, summed over threads, µs."""
    share: float
    """Time in MPI as a share of the time since the first communicator; more than 1 if several threads were
    inside."""
    point_to_point_us: float
    """Time in sends, receives and probes, µs."""
    collective_us: float
    """Time in collectives, and in what makes communicators, µs."""
    waits_us: float
    """Time in waits and tests for what was begun before, µs."""
    one_sided_us: float
    """Time in one-sided operations and their synchronisation, µs."""
    files_us: float
    """Time in functions for files, µs."""
    other_us: float
    """Start and end of MPI, µs."""
    step_us: float | None
    """Mean time in MPI of a step, µs; null without steps."""
    step_share: float | None
    """The time in MPI of a step as a share of the mean step; null without steps."""
    open: str | None
    """The function that a thread was inside of when the process was last seen; null if none was."""
    open_us: float | None
    """For how long, µs."""
    untimed: int
    """Calls whose times are not known: they are in no step and in no idle time."""


class MpiFunction(Record):
    """A function of MPI."""

    __slots__ = ()
    function: str
    """Its name in ``mpi.h``."""
    calls: int
    """Calls of all processes."""
    time_us: float
    """Their time, µs."""
    mean_us: float
    """Mean, µs."""
    ranks: int
    """Processes that called it."""


class Mpi(Record):
    """See the module."""

    _parts = {"rows": MpiRow, "functions": MpiFunction}
    __slots__ = ()
    rows: list[MpiRow]
    """By rank, those that called MPI."""
    functions: list[MpiFunction]
    """By function over all processes, the longest time first."""


class Cost(Record):
    """What recording cost, as a share of what the job would have taken without."""

    _parts = {"gpu": Share, "events": Share, "windows": Share}
    __slots__ = ()
    gpu: Share | None
    """CUDA events and kernel windows together; null if one of both is not known."""
    events: Share | None
    """CUDA events, measured in quiet spells; null for too few spells."""
    windows: Share | None
    """Kernel windows; null for too few."""
    quiet_spells: int
    """Quiet spells that were compared; those at the same call on several ranks are one."""
    windows_compared: int
    """Windows that were compared, counted the same way."""
    left_out: int
    """Spells and windows that were not compared: the job began, stood still or ended, or others were too
    near."""
    timed_launches: int
    """Launches with CUDA events."""
    events_counted: float
    """What these cost if each costs a busy stream 5.4 µs, as measured on H200, and an event on a stream
    that waits half of that."""
    cupti_at_most: float | None
    """The share of the host's time that CUPTI takes between windows: launches as windows show them, times
    the most that was measured for each, in ns. Of kernels and copies, the job feels it only if its GPU
    waits for its host. Replays of graphs cost the GPU about as much (bench/README.md). Null without
    windows."""
    callbacks: float
    """A share: callbacks of NCCL calls, of stamps and of network operations, counted, times the measured
    ns of each."""
    calls: int
    """NCCL calls that were counted for that."""


class DriverCallRow(Record):
    """A counter."""

    __slots__ = ()
    counter: str
    """What is counted, by a name that ``ncclscope explain`` knows."""
    nccl: int | None
    """Calls of the CUDA driver that libnccl made, over all processes since the recorder began; null if
    they are not known (``why_null``)."""
    nccl_per_step: float | None
    """Calls of the driver by libnccl in a step of the median rank, from readings between which the job did
    nothing but steps; null without these."""
    nccl_s: float | None
    """How long calls of the driver by libnccl took, over all processes and threads, s. It is measured of
    calls that are rare and may take long; null if not."""
    program: int | None
    """Calls of the CUDA driver by the program and its other libraries, over all processes; null if they
    are not known (``why_null``)."""
    program_per_step: float | None
    """Calls of the driver by the program in a step of the median rank, from readings between which the job
    did nothing but steps; null without these."""
    program_s: float | None
    """How long calls of the driver by the program took, over all processes and threads, s; null if that is
    not measured."""
    why_null: str | None
    """Why ``nccl`` or ``program`` is null."""


class DriverCalls(Record):
    """The driver calls of a job."""

    _parts = {"rows": DriverCallRow}
    __slots__ = ()
    processes: int
    """Processes that were counted."""
    rows: list[DriverCallRow]
    """One for each counter."""


class RankStreamWaits(Record):
    """One GPU of a process."""

    _parts = {"share": Share, "by_windows": Share}
    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    calls: int
    """Calls without warm-ups."""
    known: int
    """Of calls: those with a GPU time of which it is known whether a stream waited, and since when."""
    waited: int
    """Of these: a stream waited."""
    untimed: int
    """Calls that a stream waited for, but its wait was not timed."""
    sum_us: float
    """How long streams stood still, µs: of all calls, by those that are known."""
    interval_us: list[float] | None
    """95 % interval of ``sum_us``; null if too few calls are known."""
    before_us: float
    """Of ``sum_us``: before the call itself began."""
    unwaited_us: float
    """GPU time of calls that no other stream waited for, µs: of all calls, by those that are known."""
    in_graphs: int
    """Calls in CUDA graphs besides: waits tell nothing of them."""
    active_us: float
    """From its first call behind warm-up to the end of its last, µs."""
    share: Share
    """Part of the time in which streams stood still for calls: ``sum_us`` by ``active_us``."""
    at_most: float
    """That share with ``unwaited_us``, too: the most that its communication can have stopped."""
    by_windows: Share | None
    """Exposed communication by kernel windows of the same GPU; null without any."""
    difference: float | None
    """Share less the share ``by_windows``."""


class OperationStreamWaits(Record):
    """The calls of an operation on all ranks."""

    __slots__ = ()
    communicator: str | None
    """Communicator id; null when its definition is lost."""
    function: str | None
    """Function, as NCCL names it."""
    datatype: str | None
    """Datatype, as NCCL names it."""
    bytes: int | None
    """Bytes by the convention of nccl-tests."""
    calls: int
    """Calls without warm-ups."""
    known: int
    """Of calls: those with a GPU time of which it is known whether a stream waited, and since when."""
    waited: int
    """Of these: a stream waited."""
    untimed: int
    """Calls that a stream waited for, but its wait was not timed."""
    sum_us: float
    """How long streams stood still, µs: of all calls, by those that are known."""
    interval_us: list[float] | None
    """95 % interval of ``sum_us``; null if too few calls are known."""
    before_us: float
    """Of ``sum_us``: before the call itself began."""
    unwaited_us: float
    """GPU time of calls that no other stream waited for, µs: of all calls, by those that are known."""


class StreamWaits(Record):
    """Exposed communication, from stream waits."""

    _parts = {"ranks": RankStreamWaits, "operations": OperationStreamWaits}
    __slots__ = ()
    ranks: list[RankStreamWaits]
    """By restart, rank and device."""
    operations: list[OperationStreamWaits]
    """By operation, most exposed first."""


class SampledArrivals(Record):
    """Estimates for all operations, from those that were timed on all ranks. µs, with 95 % intervals; null
    where they are too few."""

    __slots__ = ()
    operations: int
    """All operations, as far as calls tell."""
    share: float
    """The part of them that was timed on all ranks."""
    wait_rank_us: float
    """Waits of all ranks, summed over ranks."""
    wait_interval_us: list[float] | None
    """Its interval."""
    saving_wall_us: float
    """What operations would have ended earlier with their last rank on time, of the wall."""
    saving_interval_us: list[float] | None
    """Its interval."""


class InheritedFrom(Record):
    """Lateness that a rank brought along from a communicator."""

    __slots__ = ()
    communicator: str | None
    """The communicator in whose kernels it was; null where its definition is lost."""
    name: str | None
    """The program's name for it."""
    cost_rank_us: float
    """Its part of ``inherited_rank_us``."""
    waiting_rank_us: float
    """Of that: the rank waited there for another; the rest moved bytes, or is not known."""
    network_rank_us: float | None
    """Of the rest: data of that operation was in the network's hands; null where that was not recorded."""
    waited_for: int | None
    """The launcher's rank that it waited for most of that time."""


class RankArrivals(Record):
    """One GPU of a process."""

    _parts = {"inherited_from": InheritedFrom}
    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    operations: int
    """Operations it was in."""
    last: int
    """Operations in which it arrived last."""
    wait_rank_us: float
    """Its own waiting, µs."""
    cost_rank_us: float
    """Waiting of others that is charged to it, summed over them, µs."""
    inherited_rank_us: float
    """The part of ``cost_rank_us`` that was charged before: delays that arose on its other communicators."""
    inherited_from: list[InheritedFrom]
    """Where that came from, largest first. Sums to it."""
    saving_wall_us: float
    """What operations would have ended earlier had it not been late by itself, µs of the wall; other work
    may hide a part."""
    excess_wall_us: float
    """That less the mean of what the other ranks of its operations would save."""
    saving_interval_us: list[float] | None
    """95 % interval of the saving; null for too few operations."""
    saving_p: float | None
    """How likely a rank that is late no more than the others is to have such a saving; null for too few
    operations."""
    launched_late_us: float | None
    """The part of the saving in which its launch on the host was late as well, µs of the wall. For a rank
    with a loss, the launch is that of the operation in which it became late. Null if that is not known of
    any operation in which it came last."""
    gpu_busy_us: float | None
    """The part of the saving in which it was launched in time, so its GPU was busy with other work, µs of
    the wall. Null if that is not known of any operation in which it came last."""
    last_over_hosts: int
    """Of ``last``: operations over several hosts."""
    last_proved: int | None
    """Operations in which the hosts' clocks prove that it arrived last, wherever their offset lies within
    its bounds; null where none of them could be judged."""
    last_refuted: int | None
    """Operations in which it seems to have arrived last, and the clocks prove that another came after it:
    ranks do not end together there. Null where none of them could be judged."""
    late_proved_us: float | None
    """How much later than all others it arrived in those that are proved, at least, µs of the wall."""


class Stall(Record):
    """The stalls of one GPU of a process."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    operations: int
    """Operations that it held up."""
    times: int
    """Stretches of operations that follow each other."""
    when_us: list[float]
    """The first and the last of the longest stretch, from the rank's first kernel, µs."""
    at_start: bool
    """Whether all of them come before any other operation of the communicators."""
    held_up_us: float
    """How long it held them up, µs of the wall."""
    longest_us: float
    """The same of the longest stretch."""
    usual_us: float
    """What is usual: the third quartile of the lateness of whoever comes last, µs."""
    launched_late_us: float | None
    """Of ``held_up_us``: its launch on the host was late as well. Null if that is not known of any of
    these operations."""
    gpu_busy_us: float | None
    """Of ``held_up_us``: it was launched in time, so its GPU was busy. Null as ``launched_late_us``."""


class OverNetwork(Record):
    """How much of transfers was the network."""

    __slots__ = ()
    operations: int
    """Operations that used it."""
    transfer_wall_us: float
    """Their transfers, µs of the wall."""
    held_wall_us: float
    """Of these: data of the rank whose data was there longest was in the network's hands, µs of the wall."""


class Link(Record):
    """What a GPU has on the network for a communicator, against the others."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    communicator: str | None
    """The communicator."""
    state: Literal["send_network", "recv_flush"] | None
    """Where most of the time in the network's hands passed: ``send_network`` or ``recv_flush``; null if
    there was none that was long enough to be seen."""
    peer: int | None
    """The launcher's rank of the peer that this was with; null where it is not known."""
    peer_host: str | None
    """The host of the rank that the link leads to."""
    peer_share: float | None
    """Part of the operations in which it was that peer and state."""
    operations: int
    """Operations in which it was compared."""
    transfer_wall_us: float
    """Transfers of these operations, from the last arrival to the end, µs of the wall."""
    held_wall_us: float
    """In the network's hands, µs of the wall: of the network operations of a call the longest, in which a
    step was sent and not done, or being flushed."""
    others_wall_us: float
    """The same of the median of the ranks that moved as many bytes in the same operation."""
    excess_wall_us: float
    """By how much it was longer in the network's hands than these others, µs of the wall."""
    excess_interval_us: list[float] | None
    """95 % interval of the excess; null for too few operations."""
    excess_p: float | None
    """How likely a link that is as fast as the others is to have such an excess; null for too few
    operations."""
    loss_wall_us: float | None
    """What the run would take less, were it as fast as the median of the others, µs of the wall. Null for
    links that are not slower than chance gives."""
    loss_interval_us: list[float] | None
    """95 % interval of the loss; null for too few operations."""
    loss_at_most_us: float | None
    """The loss is an estimate, and no more than this is possible, µs."""


class Arrivals(Record):
    """Who waited and who was waited for."""

    _parts = {
        "sampled": SampledArrivals,
        "ranks": RankArrivals,
        "stalls": Stall,
        "over_network": OverNetwork,
        "links": Link,
    }
    __slots__ = ()
    basis: str
    """What the waits rest on."""
    operations: int
    """Operations with a GPU time on every rank, warm-ups left out."""
    differing: int
    """Operations whose ranks' sizes, datatypes or the like differ: in no figure."""
    transfer_wall_us: float
    """Time from the last arrival to the end, summed over operations, µs of the wall."""
    wait_rank_us: float
    """Waits of all ranks, µs summed over ranks."""
    saving_wall_us: float
    """What each operation would have ended earlier with its last rank on time, µs of the wall."""
    sampled: SampledArrivals | None
    """Of all operations, also if launches were left out of the sample that is timed. All other figures are
    of the timed ones only."""
    ranks: list[RankArrivals]
    """By largest own saving."""
    stalls: list[Stall]
    """Ranks that came late once or a few times by far more than is usual, largest loss first."""
    over_network: OverNetwork | None
    """How much of transfers was the network; null where that was not recorded."""
    links: list[Link]
    """What ranks have on the network, by largest excess; empty where that was not recorded, or no two can
    be compared."""


class RankAccount(Record):
    """One rank's account. All lines are µs of the wall of the steps."""

    __slots__ = ()
    rank: int | None
    """The launcher's rank; null if it is not known."""
    host: str
    """Its host."""
    pid: int | None
    """Its process id; null if it is not known."""
    device: int | None
    """CUDA device ordinal."""
    work_us: float
    """It computed, or its host had launched nothing: without kernel windows, these can't be told apart."""
    wait_us: float
    """It stood still for ranks that had not come."""
    transfer_us: float
    """It stood still while bytes moved."""
    unknown_us: float
    """It was in operations, and if it stood still is not known."""
    known_share: float
    """The part of its launches whose exposed time is known, 0 to 1."""


class Efficiencies(Record):
    """Efficiencies, 0 to 1, each with both ends."""

    __slots__ = ()
    parallel: list[float]
    """The share of the wall time that is the ranks' mean work; lower and upper end."""
    load_balance: list[float]
    """The ranks' mean work as a share of the most work that one has; lower and upper end."""
    serialisation: list[float]
    """The most work that a rank has, as a share of the wall time without that rank's transfers: the rest
    is waiting in turns."""
    transfer: list[float]
    """The share of the wall time that is left without the transfers of the rank with the most work; lower
    and upper end."""
    slowdown: list[float] | None
    """How many times as long a step takes as if nobody was late; lower and upper end, without a unit. It
    is by what the ranks that are named cost. If none is named, it is as if all ranks were equal, and null
    if ranks do not all need each other in what they wait for."""


class AccountAnswer(Record):
    """What late ranks cost."""

    __slots__ = ()
    ranks: list[int]
    """Which of ``account.ranks`` are to blame, by their place there: one, or the ranks of a group; none if
    ranks are late in turns."""
    loss_us: float
    """What the steps would take less without their lateness, µs of the wall."""
    share: float
    """The same as a share of the steps' wall time."""
    interval_us: list[float]
    """Interval of the loss, µs."""
    with_other: list[float] | None
    """Another rank that is late, and what both cost, µs; null if none costs so much that it matters."""
    stalls_us: float
    """Of the loss: in steps that stalled, µs."""
    stalls: int
    """How many stalls these are."""
    longest_us: list[float] | None
    """The longest of them: what it costs, and when its step began after the first launch, µs; null without
    a stall."""
    cause: Literal["host", "gpu", "unknown"]
    """Why it is late."""
    source: Literal["replay", "windows", "sample", "waits", "some_waits", "call_times", "walls"]
    """What the loss rests on. That is a replay of the run, of the steps that kernel windows show, or of a
    typical step from all calls that were timed. Else it is exposed times of all ranks, of some, GPU times
    of calls only, or only how long steps took."""
    last: list[int]
    """Launches in which it came last, of those that were timed on it and another rank."""


class Account(Record):
    """The account of a job's steps."""

    _parts = {"ranks": RankAccount, "efficiencies": Efficiencies, "answers": AccountAnswer}
    __slots__ = ()
    steps: int
    """Steps that the account is of; those of the start-up are left out."""
    skipped: int
    """Steps of the start-up, which are left out."""
    wall_us: float
    """The wall time of these steps, µs."""
    ranks: list[RankAccount]
    """Each rank's: work, wait, transfer and unknown sum to the wall time."""
    together_share: float | None
    """The part of the time that ranks stood still in operations in which all ranks need each other, 0 to
    1; null if they did not."""
    efficiencies: Efficiencies | None
    """POP's efficiencies: the parallel one is the product of the next three; null if exposed times of some
    rank are not known."""
    settles: bool
    """Whether the account says what late ranks cost."""
    answers: list[AccountAnswer]
    """What late ranks cost, largest first; empty if that is not known from the account."""


class HostClock(Record):
    """The clock of one host."""

    __slots__ = ()
    host: str
    """Host."""
    offset_us: float | None
    """Its clock less the reference's, as it was ``at_s``, µs; null where nothing bounds it."""
    low_us: float | None
    """What the offset is at least, µs; null without bounds."""
    high_us: float | None
    """What the offset is at most, µs; null without bounds."""
    source: Literal["common ends", "bounds", "given"] | None
    """What the offset rests on: ``common ends``; ``bounds``, where that lay outside of them and was moved
    to the nearest; ``given``. Null without an offset."""
    given_error_us: float | None
    """The error of an offset that was given, µs; null if none was given."""
    contradicted: bool | None
    """Whether that contradicts the bounds; null without one of them."""
    at_s: float | None
    """The window with the narrowest bounds: its middle, in seconds after the first operation that was
    compared."""
    drift_low_ppm: float | None
    """By how much its clock runs faster over the run at least, millionths; null with fewer than two
    windows, or a step between."""
    drift_high_ppm: float | None
    """By how much its clock runs faster over the run at most, millionths; null with fewer than two
    windows, or a step between."""
    operations: int
    """Operations that were compared."""
    windows: int
    """Windows of a second each that have bounds."""


class ClockStep(Record):
    """Where no offset of two clocks fits all operations: one of them was set, or a stamp is bad."""

    __slots__ = ()
    host: str
    """Host."""
    against: str
    """The other host."""
    from_s: float
    """Not before, in seconds after the first operation that was compared."""
    until_s: float
    """And not after."""
    least_us: float
    """By how much the bounds contradict each other: the clock was set by at least so much, µs."""


class Clocks(Record):
    """Clocks with the words of their notes, as JSON has them."""

    _parts = {"hosts": HostClock, "steps": ClockStep}
    __slots__ = ()
    reference: str
    """The host that the others are compared with: the first rank's."""
    window_s: float
    """A bound holds within so many seconds."""
    frequency_error_ppm: float
    """If clocks run apart by no more than so many millionths."""
    hosts: list[HostClock]
    """By first rank, without the reference."""
    steps: list[ClockStep]
    """Where no offset fits the operations, by host and time."""
    notes: list[str]
    """What is unusual about them, a sentence or two each."""


class Problem(Record):
    """Something unsound in a report."""

    __slots__ = ()
    file: str
    """The file."""
    place: str
    """Where in it."""
    expected: str
    """What should be there."""
    found: str
    """What is there."""


class Finding(Record):
    """A finding."""

    __slots__ = ()
    kind: Literal[
        "dead_rank",
        "standstill",
        "late_rank",
        "stall",
        "slow_network",
        "below_ceiling",
        "differing_operations",
        "clock_step",
        "nccl_memory",
        "missing_nvlink",
        "far_network_card",
        "far_cpus",
    ]
    """Which kind."""
    sentence: str
    """The claim, in words."""
    is_verdict: bool
    """The report's verdict is this sentence and no more."""
    rank: int | None
    """The launcher's rank that is to blame, the first of several; null if no rank is, or its number is not
    known."""
    host: str | None
    """Its host, or the host that the finding is about; null if it is about none."""
    pid: int | None
    """Its process; null if no rank is to blame."""
    device: int | None
    """CUDA's number of its GPU; null if that is not known."""
    gpu: str | None
    """The UUID of its GPU, 32 hex digits; null if that was not recorded."""
    ranks: list[int]
    """All launcher's ranks that are to blame, ascending."""
    communicator: str | None
    """The id of the communicator on which it shows; null if it is about none."""
    communicator_name: str | None
    """The program's name for that communicator; null if it has none."""
    function: str | None
    """The function of the calls that it is about; null if it is about no kind of call."""
    bytes: int | None
    """Bytes of these calls, by the convention of nccl-tests; null as ``function``."""
    peer: int | None
    """The launcher's rank at the other end of a link; null if it is about no link."""
    peer_host: str | None
    """The host at the other end of a link, or the other of two hosts; null if it is about one."""
    link: Literal["send_network", "recv_flush"] | None
    """Which way of a link; null if it is about none."""
    stage: int | None
    """The stage of a pipeline, from 0; null if it is about none."""
    rank_group: str | None
    """The group of ranks that are to blame together; null if it is about none."""
    wall_us: float | None
    """What the run would take less, µs of the wall; null if that is not known."""
    wall_interval_us: list[float] | None
    """Its 95 % interval; null if that is not known."""
    wall_at_most_us: float | None
    """Upper limit of the cost, which is an estimate; null if kernel windows measured it."""
    lost_gpu_hours: float | None
    """The cost on all GPUs of the job, hours; null if it is not known."""
    method: Literal["what_if", "account", "ceiling"] | None
    """How the loss was found; null without a loss."""
    coverage: float | None
    """The part of the run, or of its operations, that the loss rests on; null if that is not known."""
    when_us: list[float] | None
    """From when to when, since the first kernel of the rank that it is about; null where it is all the
    time."""
    cause: Literal["host", "gpu", "unknown"] | None
    """Why a rank is late; null where there is no such question."""
    busier_by: Literal["more_kernels", "longer_kernels"] | None
    """Why the GPU of a late rank is busy: it runs kernels more often than the others, or the same kernels
    take longer on it. Null where kernel windows do not show it."""
    kernel: str | None
    """The kernel that it runs more often, if that is most of it."""
    throttled: list[Literal[
        "hardware_slowdown",
        "hardware_thermal",
        "power_cap",
        "software_thermal",
        "sync_boost",
    ]]
    """What held its clock down in most samples, and those of the others in fewer."""
    candidates: list[Literal["algorithm", "protocol", "channels", "buffers", "size", "path", "computing"]]
    """What may be the reason that calls reach less than their ceiling; empty of other findings."""
    evidence: str
    """What it rests on, in words."""
    figures: dict[str, float]
    """What it rests on, in numbers by name. The unit is in the name."""
    action: Literal[
        "see_how_it_ended",
        "see_what_it_did",
        "profile_host",
        "profile_rank",
        "compare_gpu",
        "find_kernels",
        "check_gpu",
        "compare_kernels",
        "equal_work",
        "see_stall_on_host",
        "see_stall_on_gpu",
        "check_network",
        "check_gpu_path",
        "raise_bandwidth",
        "same_settings",
        "same_order",
        "check_clocks",
        "share_buffers",
        "check_nvlink",
        "use_near_cards",
        "bind_cpus",
    ]
    """What to do, by name; ``advice`` has it in words."""
    advice: str
    """The same in words."""


class Recommendation(Record):
    """A recommendation."""

    __slots__ = ()
    rule: Literal[
        "dead_rank",
        "standstill",
        "late_rank",
        "stall",
        "slow_network",
        "below_ceiling",
        "differing_operations",
        "clock_step",
        "nccl_memory",
        "missing_nvlink",
        "far_network_card",
        "far_cpus",
    ]
    """A kind of finding, or a rule of its own; ``ncclscope explain`` knows it."""
    subject: str
    """What the recommendation is about: a rank, a variable, a function."""
    action: str
    """What to change."""
    evidence: str
    """What it rests on."""
    gain_us: float | None
    """What the run would take less with the recommendation, µs; null where that is not known."""
    gain_interval_us: list[float] | None
    """95 % interval of that."""
    gain_at_most_us: float | None
    """No more than this can be gained, µs."""
    gain_source: Literal["measured", "what_if", "model", "ceiling"] | None
    """Where the gain comes from; null without one."""
    effort: Literal["low", "medium", "high"]
    """How much work it is."""
    risk: Literal["low", "medium", "high"]
    """How likely it makes something else worse."""
    status: Literal["open", "done", "better", "unchanged"]
    """What became of a recommendation: ``open``; in a comparison ``done``, ``better`` or ``unchanged``."""


class ReportFields(Record):
    """A report with the words of its findings, as JSON has it."""

    _parts = {
        "job": Job,
        "completeness": Completeness,
        "deaths": Death,
        "exits": Exit,
        "sightings": Sighting,
        "ranks": Ranks,
        "communicators": Communicator,
        "kinds": Kind,
        "functions": Function,
        "callers": Caller,
        "parts": PartsOfCalls,
        "operations": Operation,
        "efficiency": Efficiency,
        "graphs": GraphRow,
        "warmup": Warmup,
        "settings": Setting,
        "network": NetworkRow,
        "timeline": Timeline,
        "steps": Steps,
        "phases": Phase,
        "critical_path": CriticalPath,
        "streams": Streams,
        "nodes": Nodes,
        "mpi": Mpi,
        "cost": Cost,
        "driver_calls": DriverCalls,
        "stream_waits": StreamWaits,
        "arrivals": Arrivals,
        "account": Account,
        "clocks": Clocks,
        "problems": Problem,
        "findings": Finding,
        "recommendations": Recommendation,
    }
    __slots__ = ()
    schema: str
    verdict: str
    """What matters most, in one sentence."""
    job: Job
    """What was recorded, and how."""
    completeness: Completeness
    """What was announced, recorded and timed."""
    deaths: list[Death]
    """Ranks that died while others went on, the first first."""
    exits: list[Exit]
    """Processes that ended by a signal or with an error, the first first."""
    sightings: list[Sighting]
    """What ``ncclscope hang`` said while the job ran, the oldest first."""
    ranks: Ranks
    """How much of the run each rank spent in NCCL, and which differ."""
    communicators: list[Communicator]
    """The communicators, by first use."""
    kinds: list[Kind]
    """Collectives against point-to-point."""
    functions: list[Function]
    """What each function did in all, and the parts of its calls, largest time first."""
    callers: list[Caller]
    """What each line of the program called, largest GPU time first; empty without recorded stacks."""
    parts: list[PartsOfCalls]
    """Parts of calls by function and size (from one power of two to the next), most calls first."""
    operations: list[Operation]
    """What was done on the communicators, largest total time first."""
    efficiency: list[Efficiency]
    """The bandwidths of operations as shares of ceilings, in the order of ``operations``."""
    graphs: list[GraphRow]
    """CUDA graphs with NCCL calls, most calls executed first."""
    warmup: list[Warmup]
    """The first calls on the communicators, longest first."""
    settings: list[Setting]
    """Which settings of algorithm and protocol took effect."""
    network: list[NetworkRow]
    """What the network did for them, most bytes first; empty where no call used it or it was not recorded."""
    timeline: Timeline | None
    """The run over time, in at most 256 buckets; null without a single time. docs/reference/report.md says
    what is counted where."""
    steps: Steps | None
    """The steps of the job: as the program marked them, or calls that repeat; null without either.
    ``step_us`` is of the rank named."""
    phases: list[Phase]
    """The phases that the program marked, the largest median time of a rank first."""
    critical_path: CriticalPath | None
    """The critical path of a step, over all ranks; null if no step has a GPU time of every call."""
    streams: Streams | None
    """What the GPUs did, from kernel windows; null where there were none."""
    nodes: Nodes
    """Power, energy, CPU time, memory, disks and networks, from the node sampler of ncclscope run."""
    mpi: Mpi | None
    """Time in MPI; null where no process was seen to call it."""
    cost: Cost | None
    """What recording cost this job; null where no time passed between calls."""
    driver_calls: DriverCalls | None
    """How often the CUDA driver was called, by NCCL and by the program; null if no process counted."""
    stream_waits: StreamWaits | None
    """Exposed communication, from streams that waited for calls; null where none was seen to wait."""
    arrivals: Arrivals | None
    """Who waited and who was waited for; null where no operation has a GPU time on every rank. _rank_us:
    summed over ranks; _wall_us: of the wall."""
    account: Account | None
    """Where the wall time of the steps goes; null without steps."""
    clocks: Clocks | None
    """How the hosts' clocks stand to each other; null for one host. docs/concepts/clocks.md says what the
    words mean."""
    notes: list[str]
    """What the figures mean here, and what can't be seen."""
    problems: list[Problem]
    """What was wrong with files that were read."""
    findings: list[Finding]
    """What is wrong, the costliest first."""
    recommendations: list[Recommendation]
    """What to change, what saves most first."""
    summary: str
    """Whether the recording is complete, and what the figures are of."""
    next: str
    """What to run next."""
