"""Describe what became of a send (R7): acknowledged at an offset, refused, or unknown.

A producer's time-out does not state that the record is not there: the request may lie in the broker's queue, and be
served after its sender has given it up. Only an error that states that the record itself cannot be appended, whenever
it is tried, is a refusal. Of any other the result is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from aiokafka import errors

if TYPE_CHECKING:
    import asyncio

__all__ = ["Unacknowledged", "not_committed", "outcome"]

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
    """Why a send was not acknowledged. `refused`: it was not appended; False: it is unknown. `undone`: so was what made
    it, for its transaction was aborted, positions and all."""

    reason: str
    refused: bool = False
    undone: bool = False


def outcome(future: asyncio.Future[Any]) -> tuple[int, Unacknowledged | None]:
    """The offset of what was sent, or why there is not one."""
    if future.cancelled():
        return -1, Unacknowledged("cancelled")
    if (error := future.exception()) is not None:
        return -1, Unacknowledged(repr(error), refused=is_refusal(error))
    told = future.result()
    if told is None or told.offset < 0:
        return -1, Unacknowledged("the broker reported no offset (producer_acks=0?)")
    return told.offset, None


def is_refusal(error: BaseException) -> bool:
    """Does it report that the record can never have been appended?"""
    return isinstance(error, REFUSED)


def not_committed(error: BaseException) -> Unacknowledged:
    """Of the sends of a transaction whose commit raised this: they are aborted, or it is unknown."""
    aborted = isinstance(error, FENCED)
    return Unacknowledged(f"its transaction was not committed: {error!r}", refused=aborted, undone=aborted)
