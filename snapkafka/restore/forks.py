"""The list of forks, and their removal. Production's ledger knows nothing of them: each fork has its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol, cast

from snapkafka.errors import ForkFailedError, ForkRefusedError, PlanChangedError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.reading import Opened, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.bulk import KafkaBulk
from snapkafka.ports import Cluster, TopicAdmin
from snapkafka.protocol.forking import LEDGER, fork_of, fork_problem, of_fork, prefixed
from snapkafka.units import wall_ms
from snapkafka.until import Tries
from snapkafka.verbs import Result

from .session import admin_of

#: A topic that was deleted is unknown to every broker within this time.
GONE_WITHIN_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.1


class GroupRemoval(Protocol):
    """A remover of consumer groups; its call blocks."""

    def delete_groups(self, groups: list[str]) -> None: ...


class Fork(Result, frozen=True, kw_only=True):
    """A fork as its ledger describes it.

    `stage`: "creating" or "ready". `namespace`: the fork's; `source`: production's. `created_ms`, `expires_ms`: since
    1970, by the ledger's clock; 0: unknown, never. `apps`, `topics`: by their names in the fork.
    """

    fork: str
    namespace: str
    source: str
    stage: str
    snapshot: str
    epoch: int
    plan: str
    apps: tuple[str, ...]
    topics: tuple[str, ...]
    created_ms: int
    expires_ms: int
    who: str

    def expired(self, now_ms: int) -> bool:
        """Return whether its time is over, so that it may be removed."""
        return 0 < self.expires_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropping:
    """The removal of a fork, planned or done: all topics (with their ids) and consumer groups with its prefix. `kept`:
    why nothing is removed; empty: it is."""

    fork: str
    namespace: str
    topics: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    kept: str = ""


def _fork_in(work: Opened, topics: Iterable[str]) -> Fork | None:
    """Return the fork of a ledger; None: it belongs to none, or nothing of the fork was written yet."""
    state = work.reading.state
    if (begun := state.fork) is None:
        return None
    restore = state.restores.views.get(begun.plan)
    return Fork(
        fork=begun.fork,
        namespace=work.namespace,
        source=begun.source,
        stage="ready" if restore is not None and restore.stage == "done" else "creating",
        snapshot=begun.snapshot,
        epoch=begun.epoch,
        plan=begun.plan,
        apps=tuple(prefixed(begun.fork, app) for app in begun.apps),
        topics=tuple(sorted(name for name in topics if of_fork(begun.fork, name))),
        created_ms=min(work.reading.times_ms.values(), default=0),
        expires_ms=begun.expires_ms,
        who=begun.who,
    )


async def list_forks(where: Connection | Cluster, namespace: str = "") -> tuple[Fork, ...]:
    """List the forks of a cluster, by name.

    Args:
        namespace: of the forked systems; empty: all.
    """
    async with admin_of(where) as admin:
        names = sorted(await admin.describe_topics())
    found = []
    for name in names:
        if name.startswith(LEDGER) and fork_of(name):
            async with opened(where, name.removeprefix(LEDGER)) as work:
                fork = _fork_in(work, names)
            if fork is not None and namespace in ("", fork.source):
                found.append(fork)
    return tuple(sorted(found, key=lambda it: (it.fork, it.source)))


async def plan_drop(
    where: Connection | Cluster,
    namespace: str,
    fork: str = "",
    *,
    expired: bool = False,
    now_ms: int | None = None,
) -> tuple[Dropping, ...]:
    """Plan the removal of a fork, or of all expired ones: every topic with its prefix, its consumer groups, and its
    ledger last. Change nothing.

    Args:
        namespace: of the forked systems.
        expired: all expired forks, instead of `fork`.

    Raises:
        ForkRefusedError: no such fork exists, or it is of another namespace.
    """
    if not expired:
        return (await _plan_one(where, namespace, fork),)
    now = wall_ms() if now_ms is None else now_ms
    over = [it for it in await list_forks(where, namespace) if it.expired(now)]
    return tuple([await _plan_one(where, it.source, it.fork) for it in over])


async def _plan_one(where: Connection | Cluster, namespace: str, fork: str) -> Dropping:
    async with admin_of(where) as admin:
        described = await admin.describe_topics()
        names = sorted(name for name in described if of_fork(fork, name))
        ledgers, own = [name for name in names if name.startswith(LEDGER)], LEDGER + prefixed(fork, namespace)
        if fork_problem(fork) or not ledgers:
            raise ForkRefusedError(
                f"there is no fork {fork}", hint="`snapkafka fork list` lists those there are"
            )
        if others := [name for name in ledgers if name != own]:
            raise ForkRefusedError(
                f"fork {fork} is not of namespace {namespace}: its ledger is {others[0]}",
                hint=f"add --namespace {others[0].removeprefix(LEDGER + prefixed(fork, ''))}",
            )
        groups, kept = await _groups(admin, fork)
        return Dropping(
            fork=fork,
            namespace=own.removeprefix(LEDGER),
            topics=tuple((name, described[name].topic_id) for name in names),
            groups=groups,
            kept=kept,
        )


async def drop_forks(
    where: Connection | Cluster,
    planned: Iterable[Dropping],
    *,
    groups: GroupRemoval | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> tuple[Dropping, ...]:
    """Remove what was planned, and nothing else.

    Args:
        groups: for tests; None: by librdkafka, if it is installed.

    Raises:
        PlanChangedError: a topic is another one by now, or topics of the fork were added; nothing of it was removed.
        ForkFailedError: topics still exist; another run continues.
    """
    found = []
    async with admin_of(where) as admin:
        if groups is None and isinstance(where, Connection):
            groups = cast(GroupRemoval, KafkaBulk(where))
        for it in planned:
            if kept := it.kept or (await _groups(admin, it.fork))[1]:
                found.append(replace(it, kept=kept))
                continue
            there = await admin.describe_topics()
            if {name: of.topic_id for name, of in there.items() if of_fork(it.fork, name)} != dict(it.topics):
                raise PlanChangedError(f"fork {it.fork} has other topics by now: nothing of it was removed")
            await _remove(admin, it, groups, notify)
            found.append(it)
    return tuple(found)


async def _remove(
    admin: KafkaTopicAdmin, it: Dropping, groups: GroupRemoval | None, notify: Callable[[str], None]
) -> None:
    """Remove a fork, its ledger last: as long as that exists, the rest is known."""
    ledger = LEDGER + it.namespace
    first = [name for name, _ in it.topics if name != ledger]
    notify(f"removing {len(first)} topics")
    if first:
        await admin.delete_topics(*first)
        await await_gone(admin, first)
    if groups is not None and it.groups:
        await asyncio.to_thread(groups.delete_groups, list(it.groups))
    await admin.delete_topics(ledger)
    await await_gone(admin, [ledger])


async def _groups(admin: KafkaTopicAdmin, fork: str) -> tuple[tuple[str, ...], str]:
    """Return the consumer groups of a fork; and one that has members, in words, if there is any."""
    found = [it for it in await admin.groups() if of_fork(fork, it.name)]
    running = (f"consumer group {it.name} has {len(it.members)} members" for it in found if it.members)
    return tuple(it.name for it in found), next(running, "")


async def await_gone(admin: TopicAdmin, topics: Iterable[str]) -> None:
    """Wait until no broker knows the deleted topics.

    Raises:
        ForkFailedError: one still exists.
    """
    wanted = list(topics)
    async for _ in Tries(GONE_WITHIN_S, LOOK_AGAIN_S):
        there = sorted((await admin.describe_topics(wanted)).keys() & set(wanted))
        if not there:
            return
    raise ForkFailedError(
        f"topic {there[0]} was deleted and is still there after {GONE_WITHIN_S:g} s",
        hint="check whether delete.topic.enable is on, and run the command again",
    )
