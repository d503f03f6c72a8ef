"""What Spark says when the world fails under it, in our words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from snapkafka.errors import BrokerUnavailableError, OffsetsGoneError, SnapkafkaError, StorageError

__all__ = ["translate"]

#: What is in a Java message -> what it means. The first that fits counts.
_SIGNS: Final[tuple[tuple[str, type[SnapkafkaError], str], ...]] = (
    ("data may have been lost", OffsetsGoneError, "records were deleted while they were read"),
    ("OffsetOutOfRange", OffsetsGoneError, "records were deleted while they were read"),
    ("UnknownTopicOrPartition", OffsetsGoneError, "a topic was deleted while it was read"),
    ("No space left on device", StorageError, "the disk is full"),
    ("Permission denied", StorageError, "tables cannot be written"),
    ("Mkdirs failed", StorageError, "tables cannot be written"),
    ("TimeoutException", BrokerUnavailableError, "the broker stopped answering while it was read"),
    ("DisconnectException", BrokerUnavailableError, "the broker stopped answering while it was read"),
)


def translate(error: Exception) -> SnapkafkaError | None:
    """The error as one of ours; None where nobody has foreseen it."""
    for text in _texts(error):
        for sign, kind, told in _SIGNS:
            if sign in text:
                line = next((line.strip() for line in text.splitlines() if sign in line), "")
                return kind(f"{told}: {line[:200]}")
    return None


def _texts(error: BaseException | None) -> Iterator[str]:
    while error is not None:
        yield str(error)
        error = error.__cause__
