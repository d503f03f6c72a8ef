"""Loops with plain Kafka clients take part in snapshots: consume, process, produce, with confluent-kafka or aiokafka.

::

    from snapkafka.clients import Consumer, Producer, Table, participant

    with participant(namespace="shop", consumer=c, producer=p, inputs=["orders"], state=table) as part:
        for message in part.poll():
            with part.event(message):
                table[order] = "billed"
                p.produce("invoices", invoice)
            c.commit(message)

`Consumer` and `Producer` are those of confluent-kafka with hooks; aiokafka's own are used as they are. Names are
resolved on first use: each library is needed where its clients are used, and Faust nowhere.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Unpack

from snapkafka.config import Config, Settings
from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from snapkafka.drivers import Consumer, Producer, Table
else:
    __getattr__ = lazily(__name__)

__all__ = ["Consumer", "Producer", "Table", "participant"]


def participant(
    *,
    namespace: str | None = None,
    group: str = "",
    consumer: Any = None,
    producer: Any = None,
    inputs: Collection[str] = (),
    state: Table | None = None,
    on_assign: Any = None,
    on_revoke: Any = None,
    **settings: Unpack[Settings],
) -> Any:
    """Return a block in which a loop takes part in snapshots.

    Args:
        namespace: of the snapshots; None: that of `SNAPKAFKA_NAMESPACE`.
        group: the consumer group, and the app's name in snapshots; empty: the `group.id` of the consumer.
        consumer: of the loop; None: it only sends.
        producer: of the loop; None: it only reads.
        inputs: the topics that the consumer reads; the participant subscribes it.
        state: its table.
        on_assign, on_revoke: the loop's own callbacks of a rebalance.
        settings: as for `snapkafka.install`.

    Raises:
        BadInputError: a client cannot take part, or a setting is invalid; the message says which.
    """
    from snapkafka.drivers.plain import make
    from snapkafka.drivers.plain.plan import Plan

    named = os.environ.get("SNAPKAFKA_NAMESPACE", "") if namespace is None else namespace
    known: dict[str, Any] = dict(settings)
    if switch := os.environ.get("SNAPKAFKA"):
        known["mode"] = switch
    return make(
        Plan(
            config=Config(namespace=named, **known),
            group=group,
            consumer=consumer,
            producer=producer,
            inputs=tuple(dict.fromkeys(inputs)),
            table=state,
            on_assign=on_assign,
            on_revoke=on_revoke,
        )
    )
