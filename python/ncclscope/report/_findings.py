"""Findings, recommendations, deaths and problems."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class Finding(Record):
    """A claim with its evidence."""

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
    sentence: str
    is_verdict: bool
    rank: int | None
    host: str | None
    pid: int | None
    device: int | None
    gpu: str | None
    ranks: list[int]
    communicator: str | None
    communicator_name: str | None
    function: str | None
    bytes: int | None
    peer: int | None
    peer_host: str | None
    link: Literal["send_network", "recv_flush"] | None
    stage: int | None
    rank_group: str | None
    wall_us: float | None
    wall_interval_us: list[float] | None
    wall_at_most_us: float | None
    lost_gpu_hours: float | None
    method: Literal["what_if", "account", "ceiling"] | None
    coverage: float | None
    when_us: list[float] | None
    cause: Literal["host", "gpu", "unknown"] | None
    busier_by: Literal["more_kernels", "longer_kernels"] | None
    kernel: str | None
    throttled: list[
        Literal[
            "power_cap", "hardware_slowdown", "software_thermal", "hardware_thermal", "sync_boost"
        ]
    ]
    candidates: list[
        Literal["algorithm", "protocol", "channels", "buffers", "size", "path", "computing"]
    ]
    evidence: str
    figures: dict[str, float]
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
    gain_source: Literal["measured", "what_if", "model", "ceiling"] | None
    effort: Literal["low", "medium", "high"]
    risk: Literal["low", "medium", "high"]
    status: Literal["open"]


class Death(Record):
    """A rank that died while others went on."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    exited: bool
    exit_status: int | None
    signal: int | None
    out_of_memory: bool
    seen_ns: int
    before_others_ns: int
    communicator: str
    calls: int
    last_function: str | None
    last_bytes: int | None
    left: list[int]
    most_calls: int


class Exit(Record):
    """A process that ended by a signal or with an error."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    at_ns: int
    exit_status: int | None
    signal: int | None
    out_of_memory: bool
    last_function: str | None
    last_bytes: int | None
    last_caller: str | None


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
