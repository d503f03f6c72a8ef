"""The driver for loops with plain Kafka clients: consume, process, produce, by confluent-kafka or aiokafka.

| module | what it does |
|---|---|
| `plan`, `participant` | what takes part, and how, whichever library it has; its inputs that are held back |
| `running_events` | which event runs where; what became of a transaction |
| `table` | its table, and the changelog of that |
| `confluent_*` | clients that block: threads, and a loop of asyncio beside them |
| `aio_loop` | aiokafka: all in the loop of the app |

A record that `poll` hands out is an event until its `event` block ends. Where Kafka's clients are called on the way
(committed offsets, flush, seek), it is by the loop's own ones; the ledger has connections of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from snapkafka.errors import BadInputError

from .plan import Plan


def make(plan: Plan) -> Any:
    """Return the participant of a plan, by the library of its clients; its group may be that of the consumer.

    Raises:
        BadInputError: the clients cannot take part.
    """
    by_aiokafka = any(type(it).__module__.startswith("aiokafka.") for it in (plan.consumer, plan.producer))
    config = getattr(plan.consumer, "config", {})
    named = plan.group or (
        getattr(plan.consumer, "_group_id", "") if by_aiokafka else config.get("group.id", "")
    )
    if not named:
        raise BadInputError("a participant needs a group", hint="group= names its app in snapshots")
    plan = replace(plan, group=str(named))
    if by_aiokafka:
        from .aio_loop import AioParticipant

        return AioParticipant(plan)
    from .confluent_loop import ConfluentParticipant

    return ConfluentParticipant(plan)
