"""Spark's reports of external failures, in our words."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import Final

from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    DependencyMissingError,
    InternalError,
    LedgerUnusableError,
    OffsetsGoneError,
    SnapkafkaError,
    StorageError,
)

#: What is in a Java message -> what it means. The first that fits counts.
_SIGNS: Final[tuple[tuple[str, type[SnapkafkaError], str], ...]] = (
    ("snapkafka.errors.StorageError: ", StorageError, "a task failed"),
    ("data source: kafka", DependencyMissingError, "this Spark session has no Kafka source"),
    ("data may have been lost", OffsetsGoneError, "records were deleted while they were read"),
    ("OffsetOutOfRange", OffsetsGoneError, "records were deleted while they were read"),
    ("UnknownTopicOrPartition", OffsetsGoneError, "a topic was deleted while it was read"),
    ("No space left on device", StorageError, "the disk is full"),
    (
        "ArithmeticException: long overflow",
        BadInputError,
        "a record has a timestamp that Spark's Kafka source cannot read",
    ),
    ("AuthorizationException", LedgerUnusableError, "not allowed to read what the snapshot needs"),
    ("SaslAuthenticationException", BrokerUnavailableError, "the broker refuses these credentials"),
    ("TimeoutException", BrokerUnavailableError, "the broker stopped answering while it was read"),
    ("DisconnectException", BrokerUnavailableError, "the broker stopped answering while it was read"),
)

#: How Spark and Kafka's client name a partition in their messages.
_PARTITION: Final = re.compile(r"(?:[Pp]artitions?|TopicPartition:?) [\[{(]*([\w.-]+)-(\d+)\b")

HINTS: Final[dict[type[SnapkafkaError], str]] = {
    LedgerUnusableError: "docs/reference/ledger.md lists the rights that the assembly job needs",
    DependencyMissingError: "give spark-submit --jars or --packages as docs/guide/assembly.md describes",
}


def as_ours(error: Exception, notify: Callable[[str], None]) -> SnapkafkaError:
    """Return an error as one of ours; of an unforeseen one the traceback is printed."""
    if isinstance(error, SnapkafkaError):
        return error
    cause: BaseException | None = error
    while cause is not None:
        text = str(cause)
        for sign, kind, meaning in _SIGNS:
            if sign in text:
                lines = (line.strip() for line in text.splitlines() if sign in line)
                # Spark's first lines tell where it was, and begin with that.
                line = min(lines, key=lambda line: line.index(sign))
                place = _PARTITION.search(text) if kind is OffsetsGoneError else None
                where = f" ({place[1]}[{place[2]}])" if place else ""
                return kind(f"{meaning}{where}: {line[:200]}", hint=HINTS.get(kind))
        cause = cause.__cause__
    notify("".join(traceback.format_exception(error)))
    return InternalError(f"{type(error).__name__}: {error}"[:300])
