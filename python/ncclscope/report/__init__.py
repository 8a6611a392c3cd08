"""A report as objects.

:class:`Report` and what it holds have the fields of ``ncclscope report --json`` as attributes, under the same
names and in the same units. The types are those of ``crates/render/schema/report-1.json``, with which a test
compares them.

Rule: what is not known is None, as it is null there. Nothing is computed here.
"""

from __future__ import annotations

import json

from ._account import (
    Account as Account,
    AccountAnswer as AccountAnswer,
    Efficiencies as Efficiencies,
    RankAccount as RankAccount,
)
from ._arrivals import (
    Arrivals as Arrivals,
    ClockStep as ClockStep,
    Clocks as Clocks,
    HostClock as HostClock,
    InheritedFrom as InheritedFrom,
    Link as Link,
    OverNetwork as OverNetwork,
    RankArrivals as RankArrivals,
    SampledArrivals as SampledArrivals,
    Stall as Stall,
)
from ._findings import (
    Death as Death,
    Exit as Exit,
    Finding as Finding,
    Problem as Problem,
    Recommendation as Recommendation,
    Sighting as Sighting,
)
from ._job import (
    Absent as Absent,
    AbsentMember as AbsentMember,
    Caller as Caller,
    Communicator as Communicator,
    Completeness as Completeness,
    Function as Function,
    Job as Job,
    Kind as Kind,
    Member as Member,
    OneAttempt as OneAttempt,
    OneJob as OneJob,
    Outlier as Outlier,
    Part as Part,
    Parts as Parts,
    PartsOfCalls as PartsOfCalls,
    Range as Range,
    RankCompleteness as RankCompleteness,
    RankRow as RankRow,
    Ranks as Ranks,
    UnreadableFile as UnreadableFile,
)
from ._nodes import (
    Energy as Energy,
    EnergyPhase as EnergyPhase,
    EnergySplit as EnergySplit,
    GpuRow as GpuRow,
    JitterRow as JitterRow,
    LinkRow as LinkRow,
    Mpi as Mpi,
    MpiFunction as MpiFunction,
    MpiRow as MpiRow,
    NodeRow as NodeRow,
    Nodes as Nodes,
    StepEnergy as StepEnergy,
    ThreadRow as ThreadRow,
)
from ._operations import (
    CallsInGraph as CallsInGraph,
    Efficiency as Efficiency,
    GraphRow as GraphRow,
    NetworkRow as NetworkRow,
    Operation as Operation,
    Sampled as Sampled,
    Setting as Setting,
    ShareOfCeiling as ShareOfCeiling,
    Statistics as Statistics,
    Waits as Waits,
    Warmup as Warmup,
)
from ._record import (
    Record as Record,
)
from ._steps import (
    CriticalPath as CriticalPath,
    PathRow as PathRow,
    PathSegment as PathSegment,
    PathStep as PathStep,
    Phase as Phase,
    Steps as Steps,
    StepsRow as StepsRow,
)
from ._streams import (
    Bubble as Bubble,
    BubbleFor as BubbleFor,
    Cost as Cost,
    DriverCallRow as DriverCallRow,
    DriverCalls as DriverCalls,
    FunctionStreams as FunctionStreams,
    IdleCauses as IdleCauses,
    KernelOfRank as KernelOfRank,
    KernelRow as KernelRow,
    OperationStreamWaits as OperationStreamWaits,
    OtherCommunication as OtherCommunication,
    RankStreamWaits as RankStreamWaits,
    RankStreams as RankStreams,
    Replay as Replay,
    Share as Share,
    StreamWaits as StreamWaits,
    Streams as Streams,
)
from ._timeline import (
    Band as Band,
    Curve as Curve,
    InWindows as InWindows,
    LateRank as LateRank,
    Mark as Mark,
    SampledCurve as SampledCurve,
    SampledCurves as SampledCurves,
    StepMarks as StepMarks,
    Timeline as Timeline,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .. import _native


class Report(Record):
    """What ``ncclscope report`` says. ``str()`` is its text; notebooks show the verdict and a picture."""

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
        "account": Account,
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
    exits: list[Exit]
    sightings: list[Sighting]
    ranks: Ranks
    communicators: list[Communicator]
    kinds: list[Kind]
    functions: list[Function]
    callers: list[Caller]
    parts: list[PartsOfCalls]
    operations: list[Operation]
    efficiency: list[Efficiency]
    graphs: list[GraphRow]
    warmup: list[Warmup]
    settings: list[Setting]
    network: list[NetworkRow]
    timeline: Timeline | None
    steps: Steps | None
    phases: list[Phase]
    critical_path: CriticalPath | None
    streams: Streams | None
    nodes: Nodes
    mpi: Mpi | None
    cost: Cost | None
    driver_calls: DriverCalls | None
    stream_waits: StreamWaits | None
    account: Account | None
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

    def svg(self, *, dark: bool = False) -> str:
        """The first picture: the answer, where the time of each rank went, and a typical step.

        ``Path("first.svg").write_text(report.svg())`` is ``ncclscope report --svg first.svg``.
        """
        return self._source.svg(dark)

    def png(self, *, dark: bool = False) -> bytes:
        """The same picture as PNG, 1200 x 630, for what shows no SVG.

        ``Path("first.png").write_bytes(report.png())`` is ``ncclscope report --png first.png``.
        """
        picture = self._source.png(dark)
        if picture is None:
            raise RuntimeError("the picture can't be drawn")
        return picture

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
        from .._notebook import page

        return page(self)
