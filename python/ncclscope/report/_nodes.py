"""Hosts: power, energy, idle time, threads, and time in MPI."""

from __future__ import annotations

from ._job import Range
from ._record import Record


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


class LinkRow(Record):
    """An NVLink of a GPU."""

    __slots__ = ()
    link: int
    sent_bytes: int | None
    received_bytes: int | None


class GpuRow(Record):
    """One GPU."""

    _parts = {"nvlinks": LinkRow}
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
    nvlinks: list[LinkRow]
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
