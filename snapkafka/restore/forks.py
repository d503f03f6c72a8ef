"""The list of forks, and their removal. Production's ledger knows nothing of them: each fork has its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from snapkafka.errors import ForkFailedError, ForkRefusedError, PlanChangedError
from snapkafka.kafka import Connection, read_ledger
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin, administration
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER, fork_of, fork_problem, of_fork, prefixed
from snapkafka.units import wall_ms
from snapkafka.until import Tries
from snapkafka.verbs import Result

#: A topic that was deleted is unknown to every broker within this time.
GONE_WITHIN_S: Final = 20.0
LOOK_AGAIN_S: Final = 0.1


class Fork(Result, frozen=True, kw_only=True):
    """A fork as its ledger describes it. `stage`: "creating" or "ready". `namespace`: the fork's; `source`:
    production's. `created_ms`, `expires_ms`: since 1970, by the ledger's clock; 0: unknown, never."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropping:
    """The removal of a fork, planned or done: all topics (with their ids) and consumer groups with its prefix. `kept`:
    why nothing is removed; empty: it is."""

    fork: str
    namespace: str
    topics: tuple[tuple[str, str], ...]
    groups: tuple[str, ...]
    kept: str = ""


async def list_forks(where: Connection | Cluster, namespace: str = "") -> tuple[Fork, ...]:
    """List the forks of a cluster, or those of systems of a namespace, by name."""
    async with administration(where) as admin:
        names = sorted(await admin.describe_topics())
    found = []
    for own in (name.removeprefix(LEDGER) for name in names if name.startswith(LEDGER) and fork_of(name)):
        reading = await read_ledger(where, own)
        begun = reading.state.fork
        if begun is None or namespace not in ("", begun.source):
            continue  # nothing of the fork was written yet
        restore = reading.state.restores.views.get(begun.plan)
        found.append(
            Fork(
                fork=begun.fork,
                namespace=own,
                source=begun.source,
                stage="ready" if restore is not None and restore.stage == "done" else "creating",
                snapshot=begun.snapshot,
                epoch=begun.epoch,
                plan=begun.plan,
                apps=tuple(prefixed(begun.fork, app) for app in begun.apps),
                topics=tuple(name for name in names if of_fork(begun.fork, name)),
                created_ms=min(reading.times_ms.values(), default=0),
                expires_ms=begun.expires_ms,
                who=begun.who,
            )
        )
    return tuple(sorted(found, key=lambda it: (it.fork, it.source)))


async def plan_drop(
    where: Connection | Cluster,
    namespace: str,
    fork: str = "",
    *,
    expired: bool = False,
    now_ms: int | None = None,
) -> tuple[Dropping, ...]:
    """Plan the removal of a fork, or of all `expired` ones: every topic with its prefix, its consumer groups, and its
    ledger last. Change nothing.

    Raises:
        ForkRefusedError: no such fork exists, or it is of another namespace.
    """
    forks = [(namespace, fork)]
    if expired:
        now = wall_ms() if now_ms is None else now_ms
        there = await list_forks(where, namespace)
        forks = [(it.source, it.fork) for it in there if 0 < it.expires_ms <= now]
    async with administration(where) as admin:
        return tuple([await _planned(admin, *it) for it in forks])


async def _planned(admin: KafkaTopicAdmin, namespace: str, fork: str) -> Dropping:
    described = await admin.describe_topics()
    names = sorted(name for name in described if of_fork(fork, name))
    ledgers, own = [name for name in names if name.startswith(LEDGER)], LEDGER + prefixed(fork, namespace)
    if fork_problem(fork) or not ledgers:
        raise ForkRefusedError(f"there is no fork {fork}", hint="`snapkafka fork list` lists those there are")
    if others := [name for name in ledgers if name != own]:
        raise ForkRefusedError(
            f"fork {fork} is not of namespace {namespace}: its ledger is {others[0]}",
            hint=f"add --namespace {others[0].removeprefix(LEDGER + prefixed(fork, ''))}",
        )
    groups = [it for it in await admin.groups() if of_fork(fork, it.name)]
    running = (f"consumer group {it.name} has {len(it.members)} members" for it in groups if it.members)
    return Dropping(
        fork=fork,
        namespace=own.removeprefix(LEDGER),
        topics=tuple((name, described[name].topic_id) for name in names),
        groups=tuple(it.name for it in groups),
        kept=next(running, ""),
    )


async def drop_forks(
    where: Connection | Cluster,
    planned: Iterable[Dropping],
    *,
    notify: Callable[[str], None] = lambda text: None,
) -> tuple[Dropping, ...]:
    """Remove what was planned, and nothing else; what has running groups by now is kept.

    Raises:
        PlanChangedError: a topic is another one by now, or topics of the fork were added; nothing of it was removed.
        ForkFailedError: topics still exist; another run continues.
    """
    found = []
    async with administration(where) as admin:
        for it in planned:
            now = await _planned(admin, it.namespace.removeprefix(prefixed(it.fork, "")), it.fork)
            if not now.kept and now.topics != it.topics:
                raise PlanChangedError(f"fork {it.fork} has other topics by now: nothing of it was removed")
            if not now.kept:
                await _remove(admin, now, notify)
            found.append(now)
    return tuple(found)


async def _remove(admin: KafkaTopicAdmin, it: Dropping, notify: Callable[[str], None]) -> None:
    """Remove a fork, its ledger last: as long as that exists, the rest is known."""
    ledger = LEDGER + it.namespace
    first = [name for name, _ in it.topics if name != ledger]
    notify(f"removing {len(first)} topics")
    if first:
        await admin.delete_topics(*first)
        await _await_gone(admin, first)
    await admin.delete_groups(*it.groups)
    await admin.delete_topics(ledger)
    await _await_gone(admin, [ledger])


async def _await_gone(admin: KafkaTopicAdmin, topics: list[str]) -> None:
    async for _ in Tries(GONE_WITHIN_S, LOOK_AGAIN_S):
        there = sorted((await admin.describe_topics(topics)).keys() & set(topics))
        if not there:
            return
    raise ForkFailedError(
        f"topic {there[0]} was deleted and is still there after {GONE_WITHIN_S:g} s",
        hint="check whether delete.topic.enable is on, and run the command again",
    )
