"""The outcome of a send (R7): acknowledged at an offset, refused, or unknown.

A producer's time-out does not mean that the record is absent: the request may wait in the broker's queue, and be
served after its sender has given up. Only an error that says that the record can never be appended is a refusal. After
any other error the outcome is unknown.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from aiokafka import errors

from snapkafka.protocol.hot_path import SendOutcome

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
    """The reason why a send was not acknowledged, and what became of it."""

    outcome: SendOutcome
    reason: str


def outcome_of(error: BaseException | None) -> Unacknowledged:
    """Return why a batch was not acknowledged; None: the broker has reported no offset."""
    if error is None:
        return Unacknowledged(SendOutcome.UNKNOWN, "the broker reported no offset (acks=0?)")
    return Unacknowledged(
        SendOutcome.REFUSED if isinstance(error, REFUSED) else SendOutcome.UNKNOWN, repr(error)
    )


def not_committed(error: BaseException) -> Unacknowledged:
    """Return the outcome of the sends of a transaction whose commit raised this: they are aborted, or it is unknown."""
    aborted = SendOutcome.ABORTED if isinstance(error, FENCED) else SendOutcome.UNKNOWN
    return Unacknowledged(aborted, f"its transaction was not committed: {error!r}")
