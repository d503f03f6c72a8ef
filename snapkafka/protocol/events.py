"""The events that the driver feeds the machine: past tense, frozen, complete. Time and ids come in here or not at
all."""

from __future__ import annotations

from ._dataclass import value
from .records import ChangelogEnd, Hello, LedgerRecord, LogEnd, TopicPartition


@value
class Joined:
    """The driver has appended this `Hello`; the machine recognises it by its `n` when it reads it back (R11)."""

    hello: Hello


@value
class LedgerRead:
    """The ledger was read at `offset`; `record` is None for garbage. A checkpoint that stands for what was removed
    comes first (see `LedgerState.apply`)."""

    offset: int
    record: LedgerRecord | None


@value
class LedgerRecreated:
    """The ledger was deleted and recreated, so every id and epoch of the old one is void."""


@value
class RecordMet:
    """A record with the header epoch `epoch` is about to be taken in, whoever reads it (R2).

    `may_wait`: it is one of an input, and its partition can be held back (R16).
    """

    epoch: int
    may_wait: bool = False


@value
class MarkerMet:
    """A marker was read: its sender turned red for `epoch` (R2)."""

    epoch: int


@value
class ChannelEnded:
    """The recorder has the marker that `MarkerMet` reported: the channel from `sender` ends there for these epochs."""

    tp: TopicPartition
    offset: int
    sender: int
    epoch: int
    previous: int


@value
class AssignedInput:
    """One input of an assignment: who reads it, from which offset (the first not started).

    `replay_until`: the recovered state holds effects of events up to there (exclusive; 0: of none past the position).
    """

    tp: TopicPartition
    agents: tuple[str, ...]
    position: int
    replay_until: int = 0


@value
class InputsAssigned:
    """A rebalance assigned these inputs (all that the process has now), and this much of each changelog was recovered.

    It may come when events have started on them (R15): then a position may belong to any moment since the assignment,
    as long as no event below it is still to be started; the machine knows which ones have started.
    `member`: its id in the consumer group.
    """

    generation: int
    inputs: tuple[AssignedInput, ...]
    changelogs: tuple[ChangelogEnd, ...]
    member: str = ""


@value
class InputsRevoked:
    """All inputs are revoked, by a rebalance or for now. All events that start before the next `InputsAssigned` belong
    to the inputs in that. `undone_from`: the process has aborted a transaction, and the events of an input at and above
    this end were undone, effects included: running them again is no replay. An input that is not named: all of them."""

    undone_from: tuple[LogEnd, ...] | None = None


@value
class MarkerSettled:
    """The marker for `epoch` lies at `offset` of `tp`; or, with a `failure`, it could not be sent. `seq`: its seq then;
    -1: none, or taken back."""

    epoch: int
    tp: TopicPartition
    offset: int = -1
    failure: str = ""
    seq: int = -1


@value
class RanWithout:
    """This process has joined late: its app has been running in it since the ledger ended at `since` (R10)."""

    since: int


@value
class TimerExpired:
    """The time of a `StartTimer` for the snapshot of `epoch` is over."""

    epoch: int


@value
class Absence:
    """From here on the process receives and sends without asking the machine (R15); or `over`: the machine is asked
    again, for everything."""

    over: bool = False


@value
class StateGiven:
    """The process has handed over its state for the snapshot of `epoch`, and cuts for it here and now."""

    epoch: int


@value
class StopAsked:
    """The process stops: its events are done and its sends acknowledged. `reason`: it leaves by itself, a clause."""

    reason: str = ""


Event = (
    Joined
    | LedgerRead
    | LedgerRecreated
    | RecordMet
    | MarkerMet
    | ChannelEnded
    | InputsAssigned
    | InputsRevoked
    | MarkerSettled
    | RanWithout
    | TimerExpired
    | Absence
    | StateGiven
    | StopAsked
)
