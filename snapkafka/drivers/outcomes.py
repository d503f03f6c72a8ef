"""The outcome of a send (R7): acknowledged at an offset, refused, or unknown.

A producer's time-out does not mean that the record is absent: the request may wait in the broker's queue, and be
served after its sender has given up. Only an error that says that the record can never be appended is a refusal. After
any other error the outcome is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from aiokafka import errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from snapkafka.protocol.actions import Action
    from snapkafka.protocol.colours import Effect
    from snapkafka.protocol.records import TopicPartition
    from snapkafka.protocol.worker import WorkerProtocol

#: The record itself is at fault, so no earlier try of the same batch can have been appended either. By name: releases
#: of aiokafka have more or fewer of them. (A record without a key in a compacted topic is refused as well; aiokafka
#: has no error of its own for that, so it counts as unknown.)
REFUSED: Final = tuple(
    getattr(errors, name)
    for name in (
        "InvalidTimestampError",
        "InvalidTopicError",
        "MessageSizeTooLargeError",
        "PolicyViolationError",
        "RecordListTooLargeError",
        "UnsupportedForMessageFormatError",
    )
    if hasattr(errors, name)
)
#: Who is fenced may not commit, and whatever was in his transaction is aborted.
FENCED: Final = tuple(
    getattr(errors, name)
    for name in ("InvalidProducerEpoch", "InvalidTxnState", "ProducerFenced")
    if hasattr(errors, name)
)


class Unacknowledged(NamedTuple):
    """The reason why a send was not acknowledged. `refused`: it was not appended; False: the outcome is unknown.
    `undone`: its transaction was aborted, so its cause was undone as well, positions included."""

    reason: str
    refused: bool = False
    undone: bool = False


def outcome_of(error: BaseException | None) -> Unacknowledged:
    """Return why a batch was not acknowledged; None: the broker has reported no offset."""
    if error is None:
        return Unacknowledged("the broker reported no offset (acks=0?)")
    return Unacknowledged(repr(error), refused=isinstance(error, REFUSED))


def not_committed(error: BaseException) -> Unacknowledged:
    """Return the outcome of the sends of a transaction whose commit raised this: they are aborted, or it is unknown."""
    aborted = isinstance(error, FENCED)
    return Unacknowledged(f"its transaction was not committed: {error!r}", refused=aborted, undone=aborted)


def settled(
    machine: WorkerProtocol,
    effect: Effect,
    tp: TopicPartition,
    seq: int | None,
    outcome: tuple[int, Unacknowledged | None],
    count: int = 1,
) -> Sequence[Action]:
    """Tell the machine what became of sends, and return what it asks for.

    Args:
        seq: of the last one; None: they have no stamp.
        outcome: the offset of the last one, or why there is none.
        count: of consecutive seqs and offsets.
    """
    offset, failure = outcome
    if failure is None:
        if seq is None:
            return machine.unstamped_settled(effect, tp, offset + 1, count)
        return machine.send_acked(effect, tp, seq, offset, count)
    if seq is None:
        return machine.unstamped_failed(
            effect, tp, failure.reason, count, refused=failure.refused, undone=failure.undone
        )
    if failure.refused:
        return machine.send_failed(effect, tp, seq, failure.reason, count, undone=failure.undone)
    return machine.send_unsettled(effect, tp, seq, failure.reason, count)
