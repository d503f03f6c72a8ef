"""The settings of confluent-kafka's clients: what a participant can do with them, and what it cannot."""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from typing import Any, Final

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import ALIASES, TABLE, Security

from .confluent_clients import Consumer, Producer
from .participant import Plan

#: With both, a record is committed soon after it was read.
COMMITS_BY_ITSELF: Final = ("enable.auto.commit", "enable.auto.offset.store")
#: What librdkafka writes before the generation in the metadata of a consumer group.
MAGIC: Final = b"CGMDv2:"


def require_usable(plan: Plan) -> None:
    """Refuse clients that cannot take part.

    Raises:
        BadInputError: names the setting.
    """
    plan.validate()
    for client, ours in ((plan.consumer, Consumer), (plan.producer, Producer)):
        if client is not None and not isinstance(client, ours):
            raise BadInputError(
                f"{type(client).__module__}.{type(client).__name__} has no hooks for a participant",
                hint=f"from snapkafka.clients import {ours.__name__}: it takes the same settings",
            )
    if plan.consumer is None:
        return
    config: Mapping[str, Any] = plan.consumer.config
    if all(str(config.get(name, True)).lower() != "false" for name in COMMITS_BY_ITSELF):
        raise BadInputError(
            "the consumer commits by itself, also records that are not processed",
            hint="set enable.auto.commit to False, and commit after the event; or enable.auto.offset.store, and store"
            " offsets then",
        )
    if config.get("group.id") != plan.group:
        raise BadInputError(
            f"the consumer is in group {config.get('group.id')}, not in {plan.group}",
            hint="leave group= out, or make it the consumer's group.id",
        )
    strategy = str(config.get("partition.assignment.strategy", ""))
    if "cooperative" in strategy or config.get("group.protocol", "classic") != "classic":
        raise BadInputError(
            "incremental rebalances are not supported in a participant",
            hint="set partition.assignment.strategy to range, and leave group.protocol out",
        )
    plan.require_equal_partitions(
        strategy.startswith("range") or not strategy,  # the default of librdkafka is range, too
        hint="set partition.assignment.strategy to range",
    )


def connection_of(config: Mapping[str, Any]) -> Connection:
    """Return the connection of these clients, for clients of our own: from `SNAPKAFKA_KAFKA_*` if set."""
    bootstrap = str(config.get("bootstrap.servers", config.get("metadata.broker.list", "")))
    settings = Security.from_environment(os.environ)
    if not settings:
        names = (*TABLE, *ALIASES)
        settings = Security.of({name: str(config[name]) for name in names if config.get(name) is not None})
    return Connection.secured(bootstrap, settings) if settings else Connection(bootstrap=bootstrap)


def generation_of(metadata: object) -> tuple[int, str]:
    """Return the generation and the member id in librdkafka's metadata of a consumer group.

    Raises:
        BadInputError: it has another form.
    """
    if not isinstance(metadata, bytes) or not metadata.startswith(MAGIC):
        raise BadInputError(
            "this release of confluent-kafka does not show the generation of the group",
            hint="use one of 2.6 to 2.16",
        )
    (generation,) = struct.unpack_from("=i", metadata, len(MAGIC))
    _, member, _ = (metadata[len(MAGIC) + 4 :] + b"\0\0").split(b"\0", 2)
    return generation, member.decode()
