"""The settings of aiokafka's clients: what a participant can do with them, and what it cannot."""

from __future__ import annotations

import os
from typing import Any

from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.login.security import Security

from .participant import Plan


def require_usable(plan: Plan) -> None:
    """Refuse clients that cannot take part.

    Raises:
        BadInputError: names the setting.
    """
    plan.validate()
    consumer = plan.consumer
    if consumer is None:
        return
    if consumer._enable_auto_commit:
        raise BadInputError(
            "the consumer commits by itself, also records that are not processed",
            hint="set enable_auto_commit to False, and commit after the event",
        )
    if consumer._group_id != plan.group:
        raise BadInputError(
            f"the consumer is in group {consumer._group_id}, not in {plan.group}",
            hint="leave group= out, or make it the consumer's group_id",
        )
    plan.require_equal_partitions(
        tuple(consumer._partition_assignment_strategy) == (RangePartitionAssignor,),
        hint="set partition_assignment_strategy to (RangePartitionAssignor,)",
    )


def connection_of(client: Any) -> Connection:
    """Return the connection of this client, for clients of our own: from `SNAPKAFKA_KAFKA_*` if set."""
    given = client._bootstrap_servers
    bootstrap = given if isinstance(given, str) else ",".join(given)
    if settings := Security.from_environment(os.environ):
        return Connection.secured(bootstrap, settings)
    security = {
        "security_protocol": client._security_protocol,
        "ssl_context": client._ssl_context,
        "sasl_mechanism": client._sasl_mechanism,
        "sasl_plain_username": client._sasl_plain_username,
        "sasl_plain_password": client._sasl_plain_password,
        "sasl_kerberos_service_name": client._sasl_kerberos_service_name,
        "sasl_kerberos_domain_name": client._sasl_kerberos_domain_name,
        "sasl_oauth_token_provider": client._sasl_oauth_token_provider,
    }
    return Connection(bootstrap=bootstrap, security=security)
