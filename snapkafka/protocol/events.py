"""Define what the driver feeds the machine: past tense, frozen, complete. Time and ids come in here or not at all."""

from __future__ import annotations

from ._dataclass import value
from .records import ChangelogEnd, Hello, LedgerRecord, LogEnd, Position, TopicPartition

__all__ = [
    "CameBack",
    "ChannelEnded",
    "CutTimed",
    "EndsSeen",
    "Event",
    "InputGiven",
    "InputsAdded",
    "InputsGiven",
    "InputsTaken",
    "Joined",
    "LedgerBegins",
    "LedgerCutShort",
    "LedgerRead",
    "LedgerRecreated",
    "MarkerFailed",
    "MarkerMet",
    "MarkerSent",
    "RanWithout",
    "RecordMet",
    "StopAsked",
    "StoppedSeen",
    "TimerExpired",
    "TriggerAppended",
    "WentAbsent",
]


@value
class Joined:
    """The driver has appended this `Hello`; the machine recognises it by its `n` when it reads it back (R11)."""

    hello: Hello


@value
class LedgerRead:
    """The ledger was read at `offset`; `record` is None for garbage. `refused`: what garbage states that is a record,
    but for its signature."""

    offset: int
    record: LedgerRecord | None
    refused: LedgerRecord | None = None


@value
class LedgerRecreated:
    """The ledger was deleted and recreated: every id and epoch of the old one is void."""


@value
class LedgerCutShort:
    """The ledger has lost its tail: of what this process has read or written, up to `upto`, it holds nothing from
    offset `since` on. It is read from its beginning again. `n`: a random number of 63 bits, for the record of it."""

    since: int
    upto: int
    n: int


@value
class LedgerBegins:
    """Fed before the first record is read: what stood below `start` has been deleted, and a checkpoint stands for it.

    A process that had not read so far starts over: anything that it missed, it cannot show.
    """

    start: int


@value
class TriggerAppended:
    """This process asks for a snapshot with a trigger numbered `n`: it cuts for it however little it may hear."""

    n: int


@value
class RecordMet:
    """A record with the header epoch `epoch` is about to be taken in, whoever reads it (R2)."""

    epoch: int


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
class InputGiven:
    """One input of an assignment: who reads it, from which offset (the first not started).

    `replay_until`: what was recovered holds effects of events up to there (exclusive; 0: of none past the position).
    """

    tp: TopicPartition
    agents: tuple[str, ...]
    position: int
    replay_until: int = 0


@value
class InputsGiven:
    """A rebalance gave these inputs (all that the process has now), and this much of each changelog was recovered.

    It may come when events have started on them (R15): then a position may be one of any moment since they were given
    of which it is true that nothing below is still to be started; of what has started the machine knows itself.
    `member`: its id in the consumer group.
    """

    generation: int
    inputs: tuple[InputGiven, ...]
    changelogs: tuple[ChangelogEnd, ...]
    member: str = ""


@value
class InputsAdded:
    """Partitions that came to exist are given to a process beside the inputs that it has, which it goes on with."""

    inputs: tuple[InputGiven, ...]


@value
class InputsTaken:
    """A rebalance took all inputs away. All that starts before the next `InputsGiven` is of the inputs that it
    reports."""


@value
class MarkerSent:
    """The marker for `epoch` lies at `offset` of `tp`."""

    epoch: int
    tp: TopicPartition
    offset: int


@value
class MarkerFailed:
    """The marker for `epoch` could not be sent to `tp`. `seq`: the one it had been given; -1: none, or taken back."""

    epoch: int
    tp: TopicPartition
    reason: str
    seq: int = -1


@value
class EndsSeen:
    """The log ends of the inputs of the report numbered `report`, asked for after its cut."""

    report: int
    ends: tuple[LogEnd, ...]


@value
class StoppedSeen:
    """Where an app that does not run stands: what its group committed, and the ends of its changelogs and inputs.

    `members`: of its group, before or after the rest was asked for; 0: it was seen to have none. `unseen`: why that
    could not be seen; empty: it could.
    """

    epoch: int
    app: str
    asked_at: int
    positions: tuple[Position, ...]
    changelogs: tuple[ChangelogEnd, ...]
    ends: tuple[LogEnd, ...]
    members: int = 0
    unseen: str = ""


@value
class RanWithout:
    """This process has joined late: its app ran in it before, from when the ledger ended at `since` (R10)."""

    since: int


@value
class CutTimed:
    """The cut for `epoch` took `us` microseconds, measured by the driver around the instant."""

    epoch: int
    us: int


@value
class TimerExpired:
    """The time to live of the snapshot of `epoch` is over."""

    epoch: int


@value
class WentAbsent:
    """From here on the process takes in and sends without the machine being asked (R15)."""


@value
class CameBack:
    """The machine is asked again, for everything."""


@value
class StopAsked:
    """The process stops: its events are done and its sends acknowledged."""


Event = (
    Joined
    | LedgerRead
    | LedgerBegins
    | LedgerCutShort
    | LedgerRecreated
    | TriggerAppended
    | RecordMet
    | MarkerMet
    | ChannelEnded
    | InputsAdded
    | InputsGiven
    | InputsTaken
    | MarkerSent
    | MarkerFailed
    | EndsSeen
    | StoppedSeen
    | RanWithout
    | CutTimed
    | TimerExpired
    | WentAbsent
    | CameBack
    | StopAsked
)
