"""Where the wall time of the steps goes, and what a late rank costs."""

from __future__ import annotations

from ._record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal


class RankAccount(Record):
    """The time of the steps of one rank. Work, wait, transfer and unknown sum to it."""

    __slots__ = ()
    rank: int | None
    host: str
    pid: int | None
    device: int | None
    work_us: float
    wait_us: float
    transfer_us: float
    unknown_us: float
    known_share: float


class AccountAnswer(Record):
    """What late ranks cost. ``ranks`` are places in ``ranks`` of the account, none if they take turns."""

    __slots__ = ()
    ranks: list[int]
    loss_us: float
    share: float
    interval_us: list[float]
    with_other: list[float] | None
    stalls_us: float
    stalls: int
    longest_us: list[float] | None
    cause: Literal["host", "gpu", "unknown"]
    source: Literal["replay", "windows", "sample", "waits", "some_waits", "call_times", "walls"]
    last: list[int]


class Efficiencies(Record):
    """POP's efficiencies, each with its lower and upper end. The first is the product of the next three."""

    __slots__ = ()
    parallel: list[float]
    load_balance: list[float]
    serialisation: list[float]
    transfer: list[float]
    slowdown: list[float] | None


class Account(Record):
    """The account of the steps' wall time."""

    _parts = {"ranks": RankAccount, "answers": AccountAnswer, "efficiencies": Efficiencies}
    __slots__ = ()
    steps: int
    skipped: int
    wall_us: float
    ranks: list[RankAccount]
    together_share: float | None
    efficiencies: Efficiencies | None
    settles: bool
    answers: list[AccountAnswer]
