"""`namespaces`: the namespaces of a cluster."""

from __future__ import annotations

from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.ledger import namespaces as ledgers
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster


async def namespaces(where: Connection | Cluster) -> tuple[str, ...]:
    """List the namespaces whose ledgers these credentials may see, by name.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: the topics cannot be listed.
    """
    async with administration(where) as admin:
        return await ledgers.namespaces(admin)
