"""The choice between the two client libraries, by the clients that are given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from snapkafka.errors import BadInputError

from .participant import Plan


def make(plan: Plan) -> Any:
    """Return the participant of a plan; its group may be that of the consumer.

    Raises:
        BadInputError: the clients cannot take part.
    """
    by_aiokafka = any(type(it).__module__.startswith("aiokafka.") for it in (plan.consumer, plan.producer))
    named = plan.group or (
        getattr(plan.consumer, "_group_id", "")
        if by_aiokafka
        else getattr(plan.consumer, "config", {}).get("group.id", "")
    )
    if not named:
        raise BadInputError("a participant needs a group", hint="group= names its app in snapshots")
    plan = replace(plan, group=str(named))
    if by_aiokafka:
        from .aio_loop import AioParticipant

        return AioParticipant(plan)
    from .confluent_loop import ConfluentParticipant

    return ConfluentParticipant(plan)
