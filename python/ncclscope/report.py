"""A report as objects.

:class:`Report` and what it holds have the fields of ``ncclscope report --json`` as attributes, under the same
names and in the same units. The types are those of ``crates/render/schema/report-1.json``, with which a test
compares them.

Rule: what is not known is None, as it is null there. Nothing is computed here.
"""

from __future__ import annotations

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


class Job(Record):
    """What was recorded, and how."""

    _parts = {"jobs": OneJob}
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
    restarts: int
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
    pid: int
    announced: int
    recorded: int
    timed: int
    lost: dict[str, int]
    odd: dict[str, int]
    missing_at_least: int
    live: Literal["adopted", "here", "snapshot", "elsewhere", "running", "gone", "unreadable", "unknown"]
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
    pid: int
    found: str


class Absent(Record):
    """Ranks that are not here, and how many calls they made at least."""

    _parts = {"communicators": AbsentMember, "unreadable": UnreadableFile}
    __slots__ = ()
    ranks: str | None
    nranks: int
    world_size: int | None
    restart: int
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
    graph_launches: int
    in_graphs: int
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
    """A rank: its wall time, and its time in NCCL; times in µs, ``share`` in [0, 1]."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    device: int | None
    calls: int
    timed: int
    p2p: int
    wall_us: float | None
    basis: Literal["gpu", "sample", "host"] | None
    nccl_us: float | None
    share: float | None
    sum_us: float | None


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
    pid: int
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
    host_sum_over_ranks_us: float | None


class Part(Record):
    """A part of one call, µs; ``n`` calls have it."""

    __slots__ = ()
    n: int
    mean: float
    p50: float


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
    share_of_time: float | None
    host_sum_over_ranks_us: float | None
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
    share_of_time: float | None
    host_sum_over_ranks_us: float | None
    exposed_us: float | None
    wait_rank_us: float | None
    stacks: int


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
    warmup: int
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
    captured: int
    replays: int
    percentile_error: float
    on_idle_stream: int


class ShareOfCeiling(Record):
    """A ceiling of a bandwidth, where it comes from, and how much of it was reached."""

    __slots__ = ()
    source: Literal["given", "bench", "link", "nccl_graph", "best_here"]
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
    pid: int
    device: int
    windows: int
    seen_us: float
    computing: Share
    beside: Share
    exposed: Share
    copies: Share
    idle: Share
    idle_causes: IdleCauses | None
    exposed_waiting: Share
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
    pid: int
    device: int
    name: str
    kind: str
    kernels: int
    sum_us: float
    share: float
    beside_us: float


class WaitedFor(Record):
    """A GPU that the others waited for, and what that cost the job."""

    _parts = {"loss": Share}
    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    device: int
    last: int
    operations: int
    by_events: bool
    loss: Share
    loss_us: float
    loss_interval_us: list[float] | None
    host_late: bool


class Replay(Record):
    """What communication takes in one replay of a CUDA graph on one rank: of a decode graph, in one token."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
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
    pid: int
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
    pid: int
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
        "waited_for": WaitedFor,
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
    waited_for: list[WaitedFor]
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
    """How often one kind of call was made of the CUDA driver."""

    __slots__ = ()
    counter: str
    nccl: int | None
    nccl_per_step: float | None
    program: int | None
    program_per_step: float | None
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
    pid: int
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


class PathRow(Record):
    """Segments of one kind on the critical path, over all steps."""

    __slots__ = ()
    what: str
    kind: Literal["work", "operation", "other_kernel"]
    rank: int | None
    host: str
    pid: int
    device: int | None
    why: Literal["launch", "busy_gpu"] | None
    function: str | None
    datatype: str | None
    bytes: int | None
    communicator: str | None
    count: int
    sum_us: float
    share: float


class PathSegment(Record):
    """A segment of the critical path of one step."""

    __slots__ = ()
    what: str
    kind: Literal["work", "operation", "other_kernel"]
    rank: int | None
    host: str
    pid: int
    device: int | None
    why: Literal["launch", "busy_gpu"] | None
    function: str | None
    datatype: str | None
    bytes: int | None
    communicator: str | None
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
    pid: int
    steps: int
    calls: int
    calls_beyond: int
    step_us: Statistics | None
    communication_us: Statistics | None
    startup_us: float | None
    between_us: float | None


class Steps(Record):
    """The steps of the job: calls that repeat. ``step_us`` is of ``rank``, the others of all ranks."""

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
    rank: int | None
    step_us: Statistics | None
    steps: Range | None
    calls: Range | None
    communication_us: Range | None
    startup_us: Range | None
    between_us: Range | None
    without: int
    rows: list[StepsRow]


class InheritedFrom(Record):
    """Lateness that a rank brought along from a communicator, µs summed over ranks."""

    __slots__ = ()
    communicator: str | None
    name: str | None
    cost_rank_us: float
    waiting_rank_us: float
    network_rank_us: float | None
    waited_for: int | None


class RankArrivals(Record):
    """One GPU of a process, as late and waiting. ``_rank_us`` is summed over ranks, ``_wall_us`` is of the
    wall.
    """

    _parts = {"inherited_from": InheritedFrom}
    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    device: int | None
    operations: int
    last: int
    wait_rank_us: float
    cost_rank_us: float
    inherited_rank_us: float
    inherited_from: list[InheritedFrom]
    saving_wall_us: float
    excess_wall_us: float
    saving_interval_us: list[float] | None
    saving_p: float | None
    loss_wall_us: float | None
    loss_interval_us: list[float] | None
    loss_at_most_us: float | None
    launched_late_us: float
    gpu_busy_us: float
    last_over_hosts: int
    last_proved: int | None
    last_refuted: int | None
    late_proved_us: float | None


class SampledArrivals(Record):
    """Estimates for all operations from those that were timed on all ranks, µs; intervals are of 95 %, None
    for too few.
    """

    __slots__ = ()
    operations: int
    share: float
    wait_rank_us: float
    wait_interval_us: list[float] | None
    saving_wall_us: float
    saving_interval_us: list[float] | None


class OverNetwork(Record):
    """How much of transfers was the network, µs of the wall."""

    __slots__ = ()
    operations: int
    transfer_wall_us: float
    held_wall_us: float


class Link(Record):
    """What a GPU has on the network for a communicator, against the others. ``_wall_us`` is of the wall."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    communicator: str | None
    state: Literal["send_network", "recv_flush"] | None
    peer: int | None
    peer_host: str | None
    peer_share: float | None
    operations: int
    transfer_wall_us: float
    held_wall_us: float
    others_wall_us: float
    excess_wall_us: float
    excess_interval_us: list[float] | None
    excess_p: float | None
    loss_wall_us: float | None
    loss_interval_us: list[float] | None
    loss_at_most_us: float | None


class Arrivals(Record):
    """Who waited and who was waited for."""

    _parts = {"sampled": SampledArrivals, "ranks": RankArrivals, "over_network": OverNetwork, "links": Link}
    __slots__ = ()
    basis: str
    operations: int
    differing: int
    transfer_wall_us: float
    wait_rank_us: float
    saving_wall_us: float
    sampled: SampledArrivals | None
    ranks: list[RankArrivals]
    over_network: OverNetwork | None
    links: list[Link]


class HostClock(Record):
    """The clock of one host against the reference's: what it is estimated or given to be, and its proved
    bounds.
    """

    __slots__ = ()
    host: str
    offset_us: float | None
    low_us: float | None
    high_us: float | None
    source: Literal["common ends", "bounds", "given"] | None
    given_error_us: float | None
    contradicted: bool | None
    at_s: float | None
    drift_low_ppm: float | None
    drift_high_ppm: float | None
    operations: int
    windows: int


class ClockStep(Record):
    """Where no offset of two hosts' clocks fits all operations: one was set, or a time is wrong."""

    __slots__ = ()
    host: str
    against: str
    from_s: float
    until_s: float
    least_us: float


class Clocks(Record):
    """How the hosts' clocks stand to each other."""

    _parts = {"hosts": HostClock, "steps": ClockStep}
    __slots__ = ()
    reference: str
    window_s: float
    frequency_error_ppm: float
    hosts: list[HostClock]
    steps: list[ClockStep]
    notes: list[str]


class Finding(Record):
    """A claim with its evidence."""

    __slots__ = ()
    kind: Literal[
        "dead_rank",
        "late_rank",
        "stall",
        "slow_network",
        "differing_operations",
        "clock_step",
        "nccl_memory",
        "missing_nvlink",
        "far_network_card",
        "far_cpus",
    ]
    sentence: str
    wall_us: float | None
    wall_interval_us: list[float] | None
    wall_at_most_us: float | None
    evidence: str
    advice: str


class Recommendation(Record):
    """Something to do, and what it would save."""

    __slots__ = ()
    rule: str
    subject: str
    action: str
    evidence: str
    gain_us: float | None
    gain_interval_us: list[float] | None
    gain_at_most_us: float | None
    gain_source: Literal["measured", "what_if", "model"] | None
    effort: Literal["low", "medium", "high"]
    risk: Literal["low", "medium", "high"]
    status: Literal["open"]


class Death(Record):
    """A rank that died while others went on."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    seen_ns: int
    before_others_ns: int
    communicator: str
    calls: int
    last_function: str | None
    last_bytes: int | None
    left: list[int]
    most_calls: int


class Sighting(Record):
    """What ``ncclscope hang`` said while the job ran."""

    __slots__ = ()
    at_ns: int
    host: str
    hang: bool | None
    verdict: str
    sentence: str
    calls_since: bool


class Problem(Record):
    """Something unsound in a capture."""

    __slots__ = ()
    file: str
    place: str
    expected: str
    found: str


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
    pid: int
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
        "cpus_busy": SampledCurve,
        "job_cpus_busy": SampledCurve,
        "job_threads_ready": SampledCurve,
        "disk_read_bytes": SampledCurve,
        "net_sent_bytes": SampledCurve,
    }
    __slots__ = ()
    why_null: str | None
    power_w: SampledCurve | None
    sm_mhz: SampledCurve | None
    nvlink_sent_bytes: SampledCurve | None
    cpus_busy: SampledCurve | None
    job_cpus_busy: SampledCurve | None
    job_threads_ready: SampledCurve | None
    disk_read_bytes: SampledCurve | None
    net_sent_bytes: SampledCurve | None


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
    bytes: Curve
    bytes_sent: Curve | None
    bytes_received: Curve | None
    nccl: Curve
    waiting: Curve | None
    transfer: Curve | None
    exposed: Curve | None
    exposed_in_windows: InWindows
    nic: Curve | None
    sampled: SampledCurves
    durations_us: Band | None
    late: list[LateRank]
    steps: StepMarks | None
    marks: list[Mark]


class EnergyPhase(Record):
    """A part of the run."""

    __slots__ = ()
    phase: str
    time_s: float
    energy_j: float
    mean_w: float


class StepEnergy(Record):
    """The energy of steps."""

    _parts = {"each_j": Range}
    __slots__ = ()
    steps: int
    mean_j: float
    each_j: Range | None


class EnergySplit(Record):
    """An estimate of what energy was spent on, joules."""

    __slots__ = ()
    computing_or_idle_j: float
    waiting_j: float
    transfer_j: float
    transfer_j_per_gb: float | None


class Energy(Record):
    """The energy of the job's GPUs."""

    _parts = {"phases": EnergyPhase, "step": StepEnergy, "split": EnergySplit}
    __slots__ = ()
    gpus: int
    source: str
    time_s: float
    energy_j: float
    mean_w: float
    integrated_j: float | None
    gap: float | None
    phases: list[EnergyPhase]
    step: StepEnergy | None
    split: EnergySplit | None
    energy_j_per_gb: float | None


class NodeRow(Record):
    """One node."""

    __slots__ = ()
    host: str
    time_s: float
    gpus: int
    why_no_gpu: str | None
    energy_j: float | None
    mean_w: float | None
    cpus_busy: float | None
    job_cpus_busy: float | None
    cpus: int | None
    job_threads_ready: float | None
    memory_bytes: int | None
    disk_read_bytes: int | None
    disk_written_bytes: int | None
    net_received_bytes: int | None
    net_sent_bytes: int | None
    ib_received_bytes: int | None
    ib_sent_bytes: int | None
    sampler_share: float | None
    sampler_in_nvml_share: float | None
    sampler_late_ticks: int | None


class GpuRow(Record):
    """One GPU."""

    __slots__ = ()
    host: str
    uuid: str
    name: str
    counter_j: float | None
    integrated_j: float | None
    gap: float | None
    mean_w: float | None
    max_w: float | None
    sm_mhz: float | None
    throttled: dict[str, float]
    temperature_c: int | None
    lost_after_s: float | None
    memory_bytes: int | None
    busy: float | None
    nvlink_sent_bytes: int | None
    nvlink_received_bytes: int | None
    pcie_sent_bytes: int | None
    pcie_received_bytes: int | None


class ThreadRow(Record):
    """A thread of the job."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    tid: int
    name: str
    calls_nccl: bool
    time_s: float
    running: float
    ready: float
    in_io: float
    blocked: float


class JitterRow(Record):
    """Calls of a thread that took long on the host, and what it did meanwhile."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    tid: int
    source: str
    calls: int
    long: int
    long_us: float
    longest_us: float
    preempted: float | None
    asleep: float | None
    running: float | None


class Nodes(Record):
    """Power, energy, CPU time, memory, disks and networks of the job's nodes."""

    _parts = {
        "energy": Energy,
        "rows": NodeRow,
        "gpus": GpuRow,
        "threads": ThreadRow,
        "jitter": JitterRow,
    }
    __slots__ = ()
    why_none: str | None
    energy: Energy | None
    rows: list[NodeRow]
    gpus: list[GpuRow]
    threads: list[ThreadRow]
    jitter: list[JitterRow]


class MpiRow(Record):
    """Time in MPI of one process."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int
    seen_s: float
    calls: int
    time_us: float
    share: float
    point_to_point_us: float
    collective_us: float
    waits_us: float
    one_sided_us: float
    files_us: float
    other_us: float
    step_us: float | None
    step_share: float | None
    open: str | None
    open_us: float | None
    untimed: int


class MpiFunction(Record):
    """Calls of one function of MPI, over all processes."""

    __slots__ = ()
    function: str
    calls: int
    time_us: float
    mean_us: float
    ranks: int


class Mpi(Record):
    """Time in MPI."""

    _parts = {
        "rows": MpiRow,
        "functions": MpiFunction,
    }
    __slots__ = ()
    rows: list[MpiRow]
    functions: list[MpiFunction]


class Report(Record):
    """What ``ncclscope report`` says. ``str()`` is its text; notebooks show the verdict and a picture."""

    _parts = {
        "job": Job,
        "completeness": Completeness,
        "deaths": Death,
        "sightings": Sighting,
        "ranks": Ranks,
        "communicators": Communicator,
        "kinds": Kind,
        "functions": Function,
        "callers": Caller,
        "operations": Operation,
        "efficiency": Efficiency,
        "graphs": GraphRow,
        "warmup": Warmup,
        "settings": Setting,
        "network": NetworkRow,
        "timeline": Timeline,
        "steps": Steps,
        "critical_path": CriticalPath,
        "streams": Streams,
        "nodes": Nodes,
        "mpi": Mpi,
        "cost": Cost,
        "driver_calls": DriverCalls,
        "stream_waits": StreamWaits,
        "arrivals": Arrivals,
        "clocks": Clocks,
        "problems": Problem,
        "findings": Finding,
        "recommendations": Recommendation,
    }
    __slots__ = ("_source",)
    schema: str
    verdict: str
    job: Job
    completeness: Completeness
    deaths: list[Death]
    sightings: list[Sighting]
    ranks: Ranks
    communicators: list[Communicator]
    kinds: list[Kind]
    functions: list[Function]
    callers: list[Caller]
    operations: list[Operation]
    efficiency: list[Efficiency]
    graphs: list[GraphRow]
    warmup: list[Warmup]
    settings: list[Setting]
    network: list[NetworkRow]
    timeline: Timeline | None
    steps: Steps | None
    critical_path: CriticalPath | None
    streams: Streams | None
    nodes: Nodes
    mpi: Mpi | None
    cost: Cost | None
    driver_calls: DriverCalls | None
    stream_waits: StreamWaits | None
    arrivals: Arrivals | None
    clocks: Clocks | None
    notes: list[str]
    problems: list[Problem]
    findings: list[Finding]
    recommendations: list[Recommendation]
    summary: str
    next: str

    _source: _native.Report

    @classmethod
    def _of(cls, native: _native.Report) -> Report:
        report = cls(json.loads(native.json()))
        report._source = native
        return report

    def text(self, *, all: bool = False, explain: bool = False) -> str:
        """As ``ncclscope report`` prints it; ``all`` and ``explain`` are its options."""
        return self._source.text(all, explain)

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        done = self.completeness
        at_least = "at least " if done.announced_is_lower_bound else ""
        announced = done.announced + done.missing_at_least
        return (
            f"<ncclscope.Report on {self.job.capture!r}: {done.recorded} of {at_least}{announced} "
            f"announced calls recorded, {done.timed} timed, {len(self.operations)} operations>"
        )

    def _repr_html_(self) -> str:
        from ._notebook import page

        return page(self)
