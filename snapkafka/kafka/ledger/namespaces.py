"""The namespaces of a cluster: each has a ledger."""

from __future__ import annotations

from snapkafka.errors import SnapkafkaError
from snapkafka.ports import TopicAdmin
from snapkafka.protocol.forking import LEDGER


async def namespaces(admin: TopicAdmin) -> tuple[str, ...]:
    """List the namespaces whose ledgers we may see, by name; those of forks begin with `fork.`.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: the topics cannot be listed.
    """
    topics = await admin.describe_topics()
    return tuple(sorted(name.removeprefix(LEDGER) for name in topics if name.startswith(LEDGER)))


async def namespaces_hint(admin: TopicAdmin) -> str:
    """Advise on a namespace that is missing or unknown: choose one of the cluster, if it has any."""
    try:
        found = await namespaces(admin)
    except SnapkafkaError:
        return "give --namespace, or set SNAPKAFKA_NAMESPACE"
    if not found:
        return "this cluster has no namespace yet: start a service that calls snapkafka.install"
    known = f"this cluster has {', '.join(found)}"
    return f"{known}: choose one by --namespace"
