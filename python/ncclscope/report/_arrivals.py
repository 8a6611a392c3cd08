"""Who was waited for, over which link, and how the clocks stand."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


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
    pid: int | None
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
    launched_late_us: float | None
    gpu_busy_us: float | None
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
    pid: int | None
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


class Stall(Record):
    """A GPU of a process that came late once or a few times. ``when_us`` is since its first kernel."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    operations: int
    times: int
    when_us: list[float]
    at_start: bool
    held_up_us: float
    longest_us: float
    usual_us: float
    launched_late_us: float | None
    gpu_busy_us: float | None


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
    operations: int
    differing: int
    transfer_wall_us: float
    wait_rank_us: float
    saving_wall_us: float
    sampled: SampledArrivals | None
    ranks: list[RankArrivals]
    stalls: list[Stall]
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
