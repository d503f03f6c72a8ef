"""Requests that are repeated: to a broker that is briefly unavailable, or about a group whose coordinator moves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from aiokafka import errors

from snapkafka.until import succeed

#: Per broker: with one of two away, none of a dozen tries reaches the other once in four thousand times.
TRIES: Final = 6
#: A group whose coordinator moves just now has another one within this time; so has the first group of a new cluster,
#: on a busy machine: its broker creates the topic of offsets when it is first asked.
COORDINATOR_WITHIN_S: Final = 15.0
COORDINATOR_MOVES: Final = (
    errors.GroupCoordinatorNotAvailableError,
    errors.NotCoordinatorForGroupError,
    errors.GroupLoadInProgressError,
)

T = TypeVar("T")


async def ask_coordinator(admin: Any, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask about a group. Its coordinator may be moving; a new cluster has none until one is asked for."""
    return await succeed(lambda: ask_again(admin, ask), COORDINATOR_WITHIN_S, *COORDINATOR_MOVES)


async def ask_again(admin: Any, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask several times: aiokafka asks a broker that it picks at random, and one of them may be unavailable."""
    for _ in range(TRIES * len(admin._client.cluster.brokers())):
        try:
            return await ask()
        except (errors.NodeNotReadyError, errors.KafkaConnectionError):
            continue
    return await ask()
