"""Waiting in tests: for a condition, not for a time."""

from collections.abc import Awaitable, Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from snapkafka import until as waits


async def until(
    condition: Callable[[], bool | Awaitable[bool]], *, timeout_s: float = 20.0, every_s: float = 0.05
) -> None:
    """Returns when the condition holds.

    Raises:
        TimedOutError: it does not come to hold in time; it names it.
    """
    await waits.until(
        condition, timeout_s, getattr(condition, "__qualname__", repr(condition)), every_s=every_s
    )


def cluster_id_at(bootstrap: str) -> str | None:
    """The id of the cluster that answers there; None: nobody does."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:
        return str(admin.list_topics(timeout=2).cluster_id)
    except KafkaException:
        return None
