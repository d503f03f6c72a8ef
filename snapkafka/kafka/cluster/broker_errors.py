"""A broker's own reason for refusing a topic or a setting: a code and a sentence ("Invalid value soon for configuration
retention.ms: ..."), or the verdict of a policy of the cluster; and requests that are repeated while it passes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from aiokafka import errors

from snapkafka.errors import LedgerUnusableError
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import succeed

T = TypeVar("T")

#: A group whose coordinator moves just now has another one within this time; so has the first group of a new cluster,
#: on a busy machine: its broker creates the topic of offsets when it is first asked.
PASSES_WITHIN_S: Final = 15.0
#: A group has no coordinator just now; the broker is briefly away, perhaps one that was picked at random.
PASSING: Final = (
    errors.GroupCoordinatorNotAvailableError,
    errors.NotCoordinatorForGroupError,
    errors.GroupLoadInProgressError,
    errors.NodeNotReadyError,
    errors.KafkaConnectionError,
)


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
        raise errors.KafkaError(f"{why or about}, error {code}")  # the client library has no class for it
    raise kind(why or f"{about}: {kind.description or kind.message}")


class ExistingOffsets(dict[TopicPartition, int]):
    """Offsets of the partitions that exist; `[]` of another one raises `LedgerUnusableError`, which names it."""

    def __missing__(self, tp: TopicPartition) -> int:
        raise LedgerUnusableError(f"{tp} does not exist", hint="check whether its topic was deleted just now")


async def ask_patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until the answer is none of `PASSING`, or for `PASSES_WITHIN_S`."""
    return await succeed(ask, PASSES_WITHIN_S, *PASSING)
