"""`doctor`: find what in this cluster would spoil a snapshot, before one is needed. It changes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.advice import Advice, Weight, note, problem, warning, worst_first
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.ledger.reading import Opened, captured, latest_of_apps, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.gather import gather
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.records import TopicPartition
from snapkafka.topic_config import TopicSettings
from snapkafka.units import wall_ms

from .doctoring_cluster import about_groups, about_lost_headers, about_topics, not_examined
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
    found = [*_about_apps(state, views), *_about_releases(state), *_about_uncaptured(views)]
    found += [*_about_global_tables(views), *_about_split_keys(state)]
    found += [*_about_standing_agents(state), *_about_never_read(state)]
    found += await _about_unread(work)
    found += await _about_ledger(work, now_ms)
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
        yield problem(
            "nobody",
            "no process is running",
            "start the services; each joins when it calls snapkafka.install",
        )
    if stamping := Counter(view.hello.app for view in living if view.hello.mode == "stamp"):
        yield warning(
            "stamp-only",
            f"{', '.join(f'{count} of {app}' for app, count in sorted(stamping.items()))} refuse snapshots: mode"
            " stamp",
            'start them with mode="on", or SNAPKAFKA=on, once all are upgraded',
        )
    if state.paused:
        yield problem("paused", "snapshots are paused", "snapkafka resume")
    for view in state.processes.values():
        if state.goes_on_without(view):
            yield problem(
                "stood-down",
                f"{view.withdrawal}; every snapshot with its app fails",
                "restart it, and report the error in its log; if it has ended, start the app or retire it",
            )
    running = {view.hello.app for view in living}
    for view in views if living else ():
        if view.hello.app not in running and (view.hello.inputs or view.hello.tables):
            yield note(
                "stopped",
                f"app {view.hello.app} does not run; snapshots use the positions where it stopped",
                f"if it will not return: snapkafka retire --app {view.hello.app}",
            )


def _about_releases(state: LedgerState) -> Iterator[Advice]:
    """Report that processes run several releases."""
    running: dict[str, Counter[str]] = {}
    for view in state.living():
        running.setdefault(view.hello.release, Counter())[view.hello.app] += 1
    if len(running) < 2:
        return
    releases_of = [
        f"{release or 'unknown'} ({', '.join(f'{count} of {app}' for app, count in sorted(apps.items()))})"
        for release, apps in sorted(running.items())
    ]
    yield note(
        "releases",
        f"processes run several releases: {'; '.join(releases_of)}",
        "only neighbouring releases share a ledger; finish the upgrade",
    )


def _about_global_tables(views: list[ProcessView]) -> Iterator[Advice]:
    """Find global tables with keys in several partitions, whose order no reader can see."""
    for view in views:
        for table in view.hello.tables:
            if table.is_global and table.partitions > 1:
                yield warning(
                    "global-partitions",
                    f"global table {table.name} of app {view.hello.app} has {table.partitions} changelog"
                    " partitions: V3 is unverifiable",
                    "use app.GlobalTable(..., partitions=1) and recreate its changelog",
                )


def _about_split_keys(state: LedgerState) -> Iterator[Advice]:
    """Report the keys in several partitions that the newest verified snapshot shows."""
    verified = [(epoch, of.trigger.id, of.verdict) for epoch, of in state.snapshots.items() if of.verdict]
    if not verified:
        return
    _, name, newest = max(verified, key=lambda of: of[0])
    for remark in (remark for check in newest.checks for remark in check.remarks):
        yield warning(
            "split-keys",
            f"snapshot {name}: {remark}",
            "place keys by murmur2_random, or group_by before the table; then write these keys again",
        )


def _about_never_read(state: LedgerState) -> Iterator[Advice]:
    """Name the records that nobody read, by the newest captured snapshot."""
    newest = max(
        (view.epoch for view in state.snapshots.values() if view.captured_at is not None), default=None
    )
    for item in state.captured(newest).never_read if newest is not None else ():
        yield warning(
            "never-read",
            str(item),
            "keep records for as long as readers may lag (retention.ms), and process these from elsewhere",
            subject=item.topic,
        )


def _about_uncaptured(views: list[ProcessView]) -> Iterator[Advice]:
    for view in views:
        for what in view.hello.uncaptured:
            yield warning(
                "not-captured",
                f"app {view.hello.app}: {what}",
                "see docs/reference/features.md; `snapkafka doctor --offline` examines an app",
            )


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
            yield warning(
                "agent-stands",
                f"{agent or 'the loop'} of {app} has not moved between the two newest snapshots, while its inputs"
                f" grew by {grown:,} records; {unread:,} are unread",
                "see its log: while an agent fails at each record, snapshots are consistent, and nothing happens",
                subject=app,
            )


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


async def _about_unread(work: Opened) -> list[Advice]:
    """Name the topics to which an app subscribes and that no worker has, whether they exist by now or not."""
    unread = work.reading.state.unread()
    try:
        exist = await work.admin.describe_topics([item.topic for item in unread]) if unread else {}
    except SnapkafkaError:
        exist = {}
    return [
        problem(
            "topic-unread",
            f"topic {item.topic} did not exist when {item.app} started, so no worker reads it",
            f"it exists now: restart {item.app}"
            if item.topic in exist
            else f"create it and restart {item.app}: Faust notices a new topic only after minutes",
            subject=item.topic,
        )
        for item in unread
    ]


async def _about_ledger(work: Opened, now_ms: int) -> list[Advice]:
    """Check whether the ledger, which was read just now, can be written. This is asked, not tried: nothing is
    appended."""
    found: list[Advice] = []
    topic = work.reading.topic
    if old := checkpoint_due(work.reading, now_ms):
        found.append(
            warning(
                "ledger-long",
                f"{topic}: each worker first reads {old:,} records that a checkpoint would remove",
                "run `snapkafka checkpoint` regularly",
            )
        )
    if lost := str(work.reading.state.tails):
        found.append(
            warning(
                "ledger-cut-short",
                f"{topic}: {lost}; snapshots that may need them fail, or are listed as contaminated",
                "find out why its broker lost them (docs/reference/ledger.md); services join again by themselves",
            )
        )
    if work.reading.garbage:
        found.append(
            note(
                "ledger-garbage",
                f"{work.reading.garbage} records in {topic} cannot be read: not"
                " written by snapkafka, or by another release",
                "see who may write to it; if processes of a later release run, upgrade the command",
            )
        )
    return [*found, *await _about_access(work)]


async def _about_access(work: Opened) -> list[Advice]:
    """Check the rights on the ledger, and its replicas."""
    found: list[Advice] = []
    topic = work.reading.topic
    try:
        access = await work.admin.access(topic)
    except SnapkafkaError as error:
        return [not_examined("ledger-unseen", error)]
    if access.rights is not None and (missing := {"Read", "Write"} - access.rights):
        found.append(
            warning(
                "ledger-rights",
                f"these credentials lack {' and '.join(sorted(missing))} on {topic}: they cannot trigger, pause or"
                " retire",
                "docs/reference/ledger.md lists the rights that each role needs",
            )
        )
    try:
        holding, _ = await work.admin.topic_settings(topic)
    except SnapkafkaError as error:
        return [*found, not_examined("ledger-unseen", error)]
    needed = TopicSettings.parse(holding).in_sync
    if access.in_sync < needed:
        found.append(
            problem(
                "ledger-replicas",
                f"{topic} has {access.in_sync} replicas in sync, fewer than min.insync.replicas={needed}",
                "restart the brokers that hold it",
            )
        )
    return found
