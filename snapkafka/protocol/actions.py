"""The actions that the machine asks of the driver: imperative, frozen. Their order in the list is part of the
contract."""

from __future__ import annotations

from ._dataclass import value
from .records import Heard, LedgerRecord, TopicPartition


@value
class TurnedRed:
    """The cut is done, and nothing has to be done: for metrics and traces, and for the `cut_us` of its `Report`."""

    epoch: int
    previous: int
    heard: Heard


@value
class AppendToLedger:
    """Append in the background, in the order asked; nothing waits for it. It comes back as `LedgerRead`."""

    record: LedgerRecord


@value
class ReadLedgerTo:
    """Do not take the record in before the ledger has been read up to and including `offset`; then ask again (R2)."""

    offset: int


@value
class SendMarkers:
    """Send the marker for `epoch` to each partition, and to none of them a red record before its marker, unless one
    has left already. Each comes back as `MarkerSettled`."""

    epoch: int
    previous: int
    tps: tuple[TopicPartition, ...]


@value
class StartTimer:
    """`TimerExpired(epoch)` after `ttl_ms`; harmless once the snapshot is decided."""

    epoch: int
    ttl_ms: int


@value
class Hold:
    """Do not take the record in, nor what is behind it in its partition, before `LetGo`; then ask again (R16).

    `inputs`: start nothing of any input before that, also nothing that was taken in and has not started.
    """

    epoch: int
    inputs: bool = False


@value
class LetGo:
    """Let what is held back go on, in its order, and ask again for each record."""


@value
class AskState:
    """Ask the process for its state; `StateGiven` once it stands in its changelog, in white. Of several, the lowest
    epoch first: the process cuts for one before it gives its state for the next."""

    epoch: int
    id: str


@value
class AppendHello:
    """Append a fresh `Hello` with this `was`, as the id of this process is void; send nothing before the record is
    read back (R12)."""

    void: int
    was: int


Action = (
    AppendHello
    | TurnedRed
    | AppendToLedger
    | ReadLedgerTo
    | SendMarkers
    | StartTimer
    | Hold
    | LetGo
    | AskState
)
