"""A broker's own reason for refusing a topic or a setting, and the request to delete topics in a version that has one.

A broker answers an administrator with a code and a sentence ("Invalid value soon for configuration retention.ms: ..."),
or with the verdict of a policy of the cluster. The code alone does not show what to change.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from aiokafka import errors
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from snapkafka.errors import LedgerUnusableError
from snapkafka.protocol.records import TopicPartition

from .wire_requests import OwnRequest

#: Reasons that a broker gives by a code alone, and that the client library does not know.
WITHOUT_WORDS: Final = {
    60: "its partitions are being moved",
    73: "topic deletion is disabled (delete.topic.enable)",
    89: "the quota of changes of topics is used up (controller_mutation_rate)",
}


class BrokerRefusedError(errors.KafkaError):  # type: ignore[misc]  # aiokafka is not looked into
    """A refusal with a code that the client library has no class for."""


def raise_refusal(code: int, why: str | None, about: str) -> None:
    """Raise the broker's answer as an error, with its reason. Code 0 means success.

    Args:
        code: of the response, in Kafka's numbering.
        why: the broker's own words; None or empty: it has none.
        about: the topic, named if there is no reason.
    """
    if not code:
        return
    kind = errors.for_code(code)
    if kind is errors.UnknownError and code != errors.UnknownError.errno:
        raise BrokerRefusedError(f"{why or WITHOUT_WORDS.get(code, about)}, error {code}")
    raise kind(why or f"{about}: {kind.description or kind.message}")


class DeleteTopicsRequest(OwnRequest):
    """The request to delete topics; the client's own one is of a version whose response has no reasons.

    Args:
        timeout_ms: how long the broker may wait for that.
    """

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 20, 5  # the first version whose response states a reason; Kafka 2.7 has it
    SCHEMA = Schema(
        ("topics", CompactArray(CompactString("utf-8"))), ("timeout_ms", Int32), ("tags", TaggedFields)
    )
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            CompactArray(
                ("topic", CompactString("utf-8")),
                ("error_code", Int16),
                ("error_message", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )

    def __init__(self, topics: Collection[str], timeout_ms: int) -> None:
        no_tags: dict[int, bytes] = {}
        super().__init__(list(topics), timeout_ms, no_tags)


class ExistingOffsets(dict[TopicPartition, int]):
    """Offsets of the partitions that exist; `[]` of another one raises `LedgerUnusableError`, which names it."""

    def __missing__(self, tp: TopicPartition) -> int:
        raise LedgerUnusableError(f"{tp} does not exist", hint="see whether its topic was deleted just now")
