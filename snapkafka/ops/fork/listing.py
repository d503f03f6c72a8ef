"""Which forks there are, and their removal. Production's ledger knows nothing of them: each has one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, cast

from snapkafka.errors import ForkFailedError, ForkRefusedError, LedgerUnusableError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.groups import positions_group
from snapkafka.kafka.lasting import wall_ms
from snapkafka.kafka.reading import Opened, opened
from snapkafka.ops.restore.topics import Topics, admin_of
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, fork_of, of_fork, prefixed

from .creating import await_gone

__all__ = [
    "Dropped",
    "Fork",
    "GroupRemoval",
    "drop_expired",
    "drop_fork",
    "fork_in",
    "list_forks",
    "removed",
]


class GroupRemoval(Protocol):
    """Removes consumer groups; the call blocks."""

    def delete_groups(self, groups: list[str]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """A fork as its ledger describes it.

    `stage`: "creating" or "ready". `namespace`: the fork's; `source`: production's. `created_ms`, `expires_ms`: since
    1970, by the ledger's time; 0: unknown, never. `apps`: by their names in the fork. `topics`: what its creation
    created, with their ids.
    """

    fork: str
    namespace: str
    source: str
    stage: str
    snapshot: str
    epoch: int
    plan: str
    apps: tuple[str, ...]
    topics: tuple[tuple[str, str], ...]
    created_ms: int
    expires_ms: int
    who: str

    def expired(self, now_ms: int) -> bool:
        """May it be removed?"""
        return 0 < self.expires_ms <= now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """Hold what was removed. `left`: topics of the fork that its creation did not create, and that expiry leaves.
    `kept`: why nothing was removed; empty: it was."""

    fork: str
    topics: tuple[str, ...]
    groups: tuple[str, ...]
    left: tuple[str, ...] = ()
    kept: str = ""


def fork_in(work: Opened) -> Fork | None:
    """Read which fork a ledger is of; None: of none, or nothing of it was written yet."""
    state = work.reading.state
    if state.fork is None:
        return None
    begun = state.fork.begun
    restore = state.restores.views.get(begun.plan)
    times = work.reading.times_ms
    return Fork(
        fork=begun.fork,
        namespace=work.namespace,
        source=begun.source,
        stage="ready" if restore is not None and restore.stage == "done" else "creating",
        snapshot=begun.snapshot,
        epoch=begun.epoch,
        plan=begun.plan,
        apps=tuple(prefixed(begun.fork, app) for app in begun.apps),
        topics=tuple((it.topic, it.topic_id) for it in state.fork.topics()),
        created_ms=min(times.values(), default=0),
        expires_ms=begun.expires_ms,
        who=begun.who,
    )


async def list_forks(where: Connection | Cluster, namespace: str = "") -> tuple[Fork, ...]:
    """List the forks of a cluster, by name.

    Args:
        namespace: of the systems that they are forks of; empty: all.
    """
    admin = admin_of(where)
    try:
        names = sorted(await admin.describe_topics())
    finally:
        await admin.close()
    found = []
    for name in names:
        if name.startswith(LEDGER) and fork_of(name):
            async with opened(where, name.removeprefix(LEDGER)) as work:
                fork = fork_in(work)
            if fork is not None and namespace in ("", fork.source):
                found.append(fork)
    return tuple(sorted(found, key=lambda it: (it.fork, it.source)))


async def drop_fork(
    where: Connection | Cluster,
    namespace: str,
    fork: str,
    *,
    groups: GroupRemoval | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Dropped:
    """Remove a fork: every topic with its prefix, its consumer groups, and its ledger last.

    Args:
        namespace: of the system that it is a fork of.
        groups: for tests; None: by librdkafka, where it is installed.

    Raises:
        ForkRefusedError: no such fork exists, it is of another namespace, or workers of it run.
        ForkFailedError: topics are still there; run again it continues.
    """
    admin = admin_of(where)
    try:
        names = sorted(name for name in await admin.describe_topics() if of_fork(fork, name))
        own = LEDGER + prefixed(fork, namespace)
        if not names:
            raise ForkRefusedError(
                f"there is no fork {fork}", hint="`snapkafka fork list` lists those there are"
            )
        others = [name for name in names if name.startswith(LEDGER) and name != own]
        if others:
            raise ForkRefusedError(
                f"fork {fork} is not of namespace {namespace}: its ledger is {others[0]}",
                hint=f"add --namespace {others[0].removeprefix(LEDGER + prefixed(fork, ''))}",
            )
        apps = await _apps(where, own, fork, names)
        if reason := await _running(admin, apps):
            raise ForkRefusedError(
                f"fork {fork} stays: {reason}", hint="stop its workers, and run this again"
            )
        return await removed(admin, where, fork, names, own, apps, groups=groups, say=say)
    finally:
        await admin.close()


async def drop_expired(
    where: Connection | Cluster,
    namespace: str = "",
    *,
    now_ms: int | None = None,
    groups: GroupRemoval | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> tuple[Dropped, ...]:
    """Remove the forks whose time is over: only topics that their creation created, while they have the same ids."""
    found = []
    for fork in await list_forks(where, namespace):
        if not fork.expired(wall_ms() if now_ms is None else now_ms):
            continue
        admin = admin_of(where)
        try:
            there = await admin.describe_topics()
            made = [
                name for name, topic_id in fork.topics if name in there and there[name].topic_id == topic_id
            ]
            left = sorted(name for name in there if of_fork(fork.fork, name) and name not in made)
            if reason := await _running(admin, fork.apps):
                found.append(Dropped(fork=fork.fork, topics=(), groups=(), left=tuple(left), kept=reason))
                continue
            own = LEDGER + fork.namespace
            done = await removed(admin, where, fork.fork, made, own, fork.apps, groups=groups, say=say)
            found.append(Dropped(fork=fork.fork, topics=done.topics, groups=done.groups, left=tuple(left)))
        finally:
            await admin.close()
    return tuple(found)


async def removed(
    admin: Topics,
    where: Connection | Cluster,
    fork: str,
    names: Iterable[str],
    ledger: str,
    apps: Iterable[str],
    *,
    groups: GroupRemoval | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Dropped:
    """Remove topics of a fork, the ledger last: as long as it is there the rest is known.

    Args:
        names: all of them begin with its prefix.
    """
    first = [name for name in names if name != ledger]
    for name in (*first, ledger):
        if not of_fork(fork, name):
            raise ForkFailedError(f"topic {name} is not of fork {fork}: nothing is removed")
    say(f"removing {len(first)} topics")
    if first:
        await admin.delete_topics(*first)
        await await_gone(admin, first)
    shown = [positions_group(ledger.removeprefix(LEDGER), app) for app in apps]
    gone = await _remove_groups(admin, where, [*apps, *shown], groups)
    await admin.delete_topics(ledger)
    await await_gone(admin, [ledger])
    return Dropped(fork=fork, topics=(*first, ledger), groups=tuple(gone))


async def _remove_groups(
    admin: Topics, where: Connection | Cluster, names: list[str], groups: GroupRemoval | None
) -> list[str]:
    if not names:
        return []
    if groups is None and isinstance(where, Connection):
        groups = cast(GroupRemoval, KafkaBulk(where))
    there = [name for name in names if await admin.committed(name)]
    if groups is None:
        return []
    await asyncio.to_thread(groups.delete_groups, names)
    return there


async def _apps(where: Connection | Cluster, ledger: str, fork: str, names: Iterable[str]) -> tuple[str, ...]:
    """The apps of a fork; none where its ledger is not there or cannot be read."""
    if ledger not in names:
        return ()
    try:
        async with opened(where, ledger.removeprefix(LEDGER)) as work:
            found = fork_in(work)
            joined = {view.hello.app for view in work.reading.state.processes.values()}
    except LedgerUnusableError:
        return ()
    known = {*(found.apps if found is not None else ()), *joined}
    return tuple(sorted(app for app in known if of_fork(fork, app) and ":" not in app))


async def _running(admin: Topics, apps: Iterable[str]) -> str:
    """Name an app that has workers; empty: none."""
    for app in apps:
        if members := await admin.members(app):
            return f"consumer group {app} has {members} member{'s' if members > 1 else ''}"
    return ""
