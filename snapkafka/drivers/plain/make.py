"""The choice between the two client libraries, by the clients that are given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from snapkafka.config import Config
from snapkafka.errors import BadInputError

from .participant import Plan

if TYPE_CHECKING:
    from .table import Table


def make(
    config: Config,
    *,
    group: str,
    consumer: Any,
    producer: Any,
    inputs: tuple[str, ...],
    table: Table | None,
    on_assign: Any,
    on_revoke: Any,
) -> Any:
    """Return the participant for these clients; arguments as for `snapkafka.clients.participant`.

    Raises:
        BadInputError: they cannot take part.
    """
    by_aiokafka = any(type(client).__module__.startswith("aiokafka.") for client in (consumer, producer))
    named = getattr(consumer, "_group_id", "") if by_aiokafka else _config(consumer).get("group.id", "")
    group = group or str(named or "")
    if not group:
        raise BadInputError("a participant needs a group", hint="group= names its app in snapshots")
    plan = Plan(config=config, group=group, consumer=consumer, producer=producer, inputs=inputs, table=table)
    if by_aiokafka:
        from .aio_loop import AioParticipant

        return AioParticipant(plan, on_assign=on_assign, on_revoke=on_revoke)
    from .confluent_loop import ConfluentParticipant

    return ConfluentParticipant(plan, on_assign=on_assign, on_revoke=on_revoke)


def _config(consumer: Any) -> dict[str, Any]:
    return dict(getattr(consumer, "config", {}))
