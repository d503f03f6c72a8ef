"""Snapshots that an open restore, a fork or a violated invariant still names. They stay in their storage.

An open restore reads tables and messages of its snapshot, also after a crash; a fork is compared with the snapshot
from which it was created; the rows of an invariant lie in the snapshot that first violates it. Only ledgers know them:
that of the fork itself a fork, that of the namespace the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.ledger.reading import opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, fork_of
from snapkafka.protocol.records import Fork
from snapkafka.recovery.session import admin_of
from snapkafka.recovery.topics import Topics

from .invariants import invariants_in


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """The snapshots that ledgers of a cluster name.

    `why`: id of a snapshot -> what needs it, a phrase. `unknown`: namespaces whose ledger is not in this cluster, so
    that open restores are unknown.
    """

    why: Mapping[str, str] = field(default_factory=dict)
    unknown: frozenset[str] = frozenset()


async def snapshots_in_use(where: Connection | Cluster, namespaces: Collection[str]) -> InUse:
    """Read the snapshots that the open restores and violated invariants of these namespaces, and all forks of the
    cluster, name.

    Raises:
        LedgerUnusableError: reading a ledger is unauthorized.
        BrokerUnavailableError: no broker answers.
    """
    why: dict[str, str] = {}
    async with admin_of(where) as admin:
        topics = set(await admin.describe_topics())
        for topic in sorted(topics):
            if topic.startswith(LEDGER) and fork_of(topic):
                fork = await _fork(where, admin, topic)
                if fork is not None:
                    why[fork.snapshot] = f"fork {fork.fork} was created from it"
    there = {namespace for namespace in namespaces if LEDGER + namespace in topics}
    for namespace in sorted(there):
        async with opened(where, namespace) as work:
            view = work.reading.state.restores.open
            watched = invariants_in(work.reading)
        for item in watched:
            if item.violated and item.broke is not None:
                why[item.broke.id] = f"invariant {item.name} is first violated in it"
        if view is not None:
            why[view.begun.snapshot] = f"plan {view.plan} restores it, and is {view.stage}"
    return InUse(why=why, unknown=frozenset(namespaces) - there)


async def _fork(where: Connection | Cluster, admin: Topics, ledger: str) -> Fork | None:
    """Read the fork of a ledger; None: it was dropped meanwhile, or nothing of it was written yet."""
    try:
        async with opened(where, ledger.removeprefix(LEDGER)) as work:
            return work.reading.state.fork
    except LedgerUnusableError:
        if ledger in await admin.describe_topics([ledger]):
            raise
        return None
