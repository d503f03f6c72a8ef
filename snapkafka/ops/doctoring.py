"""`doctor`: find what in this cluster would spoil a snapshot, before one is needed. It changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.advice import Advice, Weight, worst_first
from snapkafka.kafka.ledger.reading import Opened, captured, latest_of_apps, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.gather import gather
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.records import TopicPartition
from snapkafka.units import wall_ms

from .doctoring_cluster import about_groups, about_lost_headers, about_topics
from .findings import find
from .listing import Clock
from .pruning import checkpoint_due

#: How long after a snapshot its records must still be there.
ASSEMBLY_WITHIN_MS: Final = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The findings, the worst first. `apps`: those that have joined, with the number of running processes."""

    namespace: str
    apps: Mapping[str, int]
    found: tuple[Advice, ...]

    @property
    def well(self) -> bool:
        """Whether no problem was found."""
        return not any(advice.weight is Weight.PROBLEM for advice in self.found)


async def doctor(
    where: Connection | Cluster,
    namespace: str,
    *,
    clock: Clock = wall_ms,
) -> Checkup:
    """Examine the ledger, the topics of the apps that have joined, and the groups that read them.

    Args:
        clock: milliseconds since 1970.
    """
    async with opened(where, namespace) as work:
        return await examine(work, namespace, now_ms=clock())


async def examine(work: Opened, namespace: str, *, now_ms: int) -> Checkup:
    """Examine them as `doctor` does, by a ledger that was read."""
    state = work.reading.state
    views = latest_of_apps(state)
    found = [*_about_apps(state, views), *_about_snapshots(state), *_about_standing_agents(state)]
    found += [find("topic-unread", item.topic, topic=item.topic, app=item.app) for item in state.unread()]
    found += _about_ledger(work, now_ms)
    found += await about_topics(work, views, ASSEMBLY_WITHIN_MS)
    found += await about_lost_headers(work, views)
    found += await about_groups(work, {s.topic for view in views for s in view.hello.inputs})
    living = Counter(view.hello.app for view in state.living())
    return Checkup(
        namespace=namespace,
        apps={view.hello.app: living[view.hello.app] for view in views},
        found=worst_first(found),
    )


def _about_apps(state: LedgerState, views: list[ProcessView]) -> Iterator[Advice]:
    living = list(state.living())
    if not living:
        yield find("nobody")
    if stamping := [view for view in living if view.hello.mode == "stamp"]:
        yield find("stamp-only", apps=_counted(stamping))
    if state.paused:
        yield find("paused")
    for view in state.processes.values():
        if state.goes_on_without(view):
            yield find("stood-down", what=view.withdrawal)
    running = {view.hello.app for view in living}
    for view in views:
        hello = view.hello
        if running and hello.app not in running and (hello.inputs or hello.tables):
            yield find("stopped", app=hello.app)
        yield from (find("not-captured", app=hello.app, what=what) for what in hello.uncaptured)
        for table in hello.tables:
            if table.is_global and table.partitions > 1:  # in an order that no reader can see
                yield find("global-partitions", table=table.name, app=hello.app, count=table.partitions)
    releases = sorted({view.hello.release for view in living})
    if len(releases) > 1:
        of = {it: _counted(view for view in living if view.hello.release == it) for it in releases}
        yield find("releases", releases="; ".join(f"{it or 'unknown'} ({apps})" for it, apps in of.items()))


def _counted(views: Iterable[ProcessView]) -> str:
    counts = Counter(view.hello.app for view in views)
    return ", ".join(f"{count} of {app}" for app, count in sorted(counts.items()))


def _about_snapshots(state: LedgerState) -> Iterator[Advice]:
    """Report the keys in several partitions that the newest verified snapshot shows, and the records that nobody had
    read by the newest captured one."""
    for view in [view for view in state.snapshots.values() if view.verdict][-1:]:
        assert view.verdict is not None
        remarks = (remark for check in view.verdict.checks for remark in check.remarks)
        yield from (find("split-keys", id=view.trigger.id, what=remark) for remark in remarks)
    for epoch in [view.epoch for view in state.snapshots.values() if view.captured_at is not None][-1:]:
        for item in state.captured(epoch).never_read:
            yield find("never-read", item.topic, what=item)


def _about_standing_agents(state: LedgerState) -> Iterator[Advice]:
    """Name the agents that the two newest captured snapshots show at the same positions, while their inputs grew: each
    such snapshot is consistent, as nothing happened in it."""
    taken = [view.epoch for view in state.snapshots.values() if captured(view) and not view.forgotten][-2:]
    if len(taken) < 2:
        return
    before, now = (_positions(gather(state, epoch)) for epoch in taken)
    for (app, agent), (positions, ends) in sorted(now.items()):
        if (app, agent) not in before or before[app, agent][0] != positions:
            continue
        grown = sum(ends.values()) - sum(before[app, agent][1].values())
        unread = sum(max(0, ends[tp] - at) for tp, at in positions.items())
        if grown > 0 and unread:
            yield find("agent-stands", app, agent=agent or "the loop", app=app, grown=grown, unread=unread)


def _positions(
    cut: Captured,
) -> dict[tuple[str, str], tuple[dict[TopicPartition, int], dict[TopicPartition, int]]]:
    """Return the position and the end of each input, by app and agent."""
    found: dict[tuple[str, str], tuple[dict[TopicPartition, int], dict[TopicPartition, int]]] = {}
    for source in cut.inputs:
        tp = TopicPartition(source.topic, source.partition)
        for agent, offset in [(it.agent, it.offset) for it in source.agents] or [("", source.position)]:
            positions, ends = found.setdefault((source.app, agent), ({}, {}))
            positions[tp], ends[tp] = offset, source.log_end
    return found


def _about_ledger(work: Opened, now_ms: int) -> Iterator[Advice]:
    topic = work.reading.topic
    if old := checkpoint_due(work.reading, now_ms):
        yield find("ledger-long", topic=topic, count=old)
    if lost := str(work.reading.state.tails):
        yield find("ledger-cut-short", topic=topic, what=lost)
    if work.reading.garbage:
        yield find("ledger-garbage", topic=topic, count=work.reading.garbage)
