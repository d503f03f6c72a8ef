"""`doctor`: find what in this cluster would spoil a snapshot, before one is needed. It changes nothing.

A transform, a proxy or a mirror may remove headers. Every `Report` in the ledger names the offset at which the last
white record of its process was acknowledged: that record left with a header, so it must have one in the log.

A snapshot copies nothing, so three causes may remove its records: time (`retention.ms`), size (`retention.bytes`) and
compaction (`min.compaction.lag.ms`). A changelog has to hold the state as well, however old: one that deletes by age
holds it only if the deleted records have expired anyway, as windows do. So an input must keep its records for the time
that assembly needs (`within`); the changelog of a windowed table, for that and the lifetime of its windows; any other
changelog, for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from snapkafka.advice import Advice, Weight, worst_first
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka import HOLDER, Connection
from snapkafka.kafka.ledger.reading import LedgerReading, Opened, captured, latest_of_apps, opened, outputs_of
from snapkafka.kafka.preflight import OWN_GROUPS, knows_markers, still_counted, why_counted, why_unread
from snapkafka.ports import Cluster, Group, Topic
from snapkafka.protocol import REMOTE, RESTORE, Captured, Table, TopicPartition
from snapkafka.protocol.gather import gather
from snapkafka.protocol.ledger_fold import being_restored
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.snapshots import unlike_counts
from snapkafka.topic_config import UNBOUNDED, TopicSettings
from snapkafka.units import format_ms, utc_time, wall_ms
from snapkafka.wire.headers import HEADER

from .findings import find, unseen
from .listing import Clock
from .pruning import checkpoint_due

#: How long after a snapshot its records must still be there.
ASSEMBLY_WITHIN_MS: Final = 3_600_000


Offsets: TypeAlias = dict[TopicPartition, int]


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


async def doctor(where: Connection | Cluster, namespace: str, *, clock: Clock = wall_ms) -> Checkup:
    """Examine the ledger, the topics of the apps that have joined, and the groups that read them."""
    async with opened(where, namespace) as work:
        return await examine(work, namespace, now_ms=clock())


async def examine(work: Opened, namespace: str, *, now_ms: int) -> Checkup:
    """Examine them by a ledger that was read."""
    state = work.reading.state
    views = [view for view in latest_of_apps(state) if view.hello.mode != RESTORE]
    found = [*_about_apps(work.reading, views), *_about_snapshots(state), *_about_standing_agents(state)]
    found += [find("topic-unread", it.topic, topic=it.topic, app=it.app) for it in state.unread()]
    found += _about_ledger(work, now_ms)
    found += await about_topics(work, views, ASSEMBLY_WITHIN_MS)
    found += await about_lost_headers(work, views)
    groups = await about_groups(work, {s.topic for view in views for s in view.hello.inputs})
    running = {advice.subject for advice in groups}  # their groups have members
    found = [it for it in found if it.code != "stopped" or it.subject not in running] + groups
    living = Counter(view.hello.app for view in state.living())
    apps = {view.hello.app: living[view.hello.app] for view in views}
    return Checkup(namespace=namespace, apps=apps, found=worst_first(found))


def _about_apps(reading: LedgerReading, views: list[ProcessView]) -> Iterator[Advice]:
    state, restore = reading.state, reading.state.restores.open
    living = [view for view in state.living() if view.hello.mode != RESTORE]
    if not living and restore is None:
        yield find("nobody")
    if stamping := [view for view in living if view.hello.mode == "stamp"]:
        yield find("stamp-only", apps=_counted(stamping))
    if state.paused:
        yield find("paused")
    if restore is not None:
        since = f"{utc_time(reading.times_ms[restore.begun_at])}Z"
        yield find("restoring", what=being_restored(restore).reason, since=since)
    lacking: dict[str, list[TopicPartition]] = {}
    for app, tp in state.unassigned():
        lacking.setdefault(app, []).append(tp)
    for app, tps in () if stamping else lacking.items():
        waits = why_unread(state, (app, tps[0]), reading.times_ms)
        yield find("input-unassigned", app, app=app, tp=tps[0], count=len(tps), waits=waits)
    for view in state.processes.values():
        if state.goes_on_without(view):
            yield find("stood-down", what=view.withdrawal)
    running = {view.hello.app for view in living}
    awaited = running.union(restore.apps if restore is not None else ())
    for view in views:
        hello = view.hello
        if running and hello.app not in awaited and (hello.inputs or hello.tables):
            yield find("stopped", hello.app, app=hello.app)
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
    """Name the agents that the two newest captured snapshots show at the same positions, while their inputs grew by
    more than markers: each such snapshot is consistent, as nothing happened in it."""
    taken = [view.epoch for view in state.snapshots.values() if captured(view) and not view.forgotten][-2:]
    if len(taken) < 2:
        return
    before, now = (_positions(gather(state, epoch)) for epoch in taken)
    views = (view for epoch, view in state.snapshots.items() if taken[0] <= epoch < taken[1])
    sent = (it for view in views for part in view.parts() for it in part.report.sent)
    markers = {(TopicPartition(it.topic, it.partition), it.marker) for it in sent}
    for (app, agent), (positions, ends) in sorted(now.items()):
        if (app, agent) not in before or before[app, agent][0] != positions:
            continue
        then = before[app, agent][1]
        marked = sum(then.get(tp, 0) <= at < ends.get(tp, 0) for tp, at in markers)
        grown = sum(ends.values()) - sum(then.values()) - marked
        unread = sum(max(0, ends[tp] - at) for tp, at in positions.items())
        if grown > 0 and unread:
            yield find("agent-stands", app, agent=agent or "the loop", app=app, grown=grown, unread=unread)


def _positions(cut: Captured) -> dict[tuple[str, str], tuple[Offsets, Offsets]]:
    """Return the position and the end of each input, by app and agent."""
    found: dict[tuple[str, str], tuple[Offsets, Offsets]] = {}
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
    if lost := work.reading.state.loss:
        yield find("ledger-cut-short", topic=topic, what=lost)
    if work.reading.garbage:
        yield find("ledger-garbage", topic=topic, count=work.reading.garbage)


async def about_topics(work: Opened, views: list[ProcessView], within_ms: int) -> list[Advice]:
    """Check the partitions of topics, and whether they keep what assembly needs."""
    needed = roles(views)
    try:
        described = await work.admin.describe_topics([*needed]) if needed else {}
    except SnapkafkaError as error:
        return [unseen("topics", error)]
    found = list(about_partitions(views, described, work.bootstrap))
    for topic, table in needed.items():
        if topic not in described:
            continue
        try:
            holding, own = await work.admin.topic_settings(topic)
        except SnapkafkaError as error:
            found.append(unseen("settings", error))
            continue
        role = f"input {topic}" if table is None else f"changelog {topic}"
        for code, fields, changes in judged(table, holding, within_ms):
            before = {name: own.get(name) for name in changes}
            fix, undo = (change_command(topic, of, work.bootstrap) for of in (changes, before))
            found.append(find(code, topic, fix, undo, role=role, **fields))
    return found


def about_partitions(
    views: list[ProcessView], described: Mapping[str, Topic], bootstrap: str
) -> Iterator[Advice]:
    counts = {name: topic.partitions for name, topic in described.items()}
    for view in views:
        app = view.hello.app
        for source in view.hello.inputs:
            topic = source.topic
            if topic not in described:
                yield find("topic-missing", topic, topic=topic, app=app)
            elif (now := counts[topic]) != source.partitions and view.hello.mode != REMOTE:
                yield find("partitions-added", topic, topic=topic, app=app, now=now, then=source.partitions)
        for what, topic, number in unlike_counts(view.hello, counts):
            grow = f"kafka-topics.sh --bootstrap-server {bootstrap} --alter --topic {topic} --partitions {number}"
            yield find("partition-counts", topic, grow, what=what)


async def about_groups(work: Opened, inputs: set[str]) -> list[Advice]:
    """Report the groups without snapkafka that read our inputs and outputs."""
    state = work.reading.state
    try:
        groups = await work.admin.groups()
    except SnapkafkaError as error:
        so = ": no markers are sent; headers alone separate before from after"
        return [unseen("groups", error, so)]
    outputs = outputs_of(state) - inputs
    others = [it for it in groups if not it.name.startswith(OWN_GROUPS) and not knows_markers(state, it)]
    return [advice for group in others for advice in _about_group(work.reading, group, inputs, outputs)]


def _about_group(
    reading: LedgerReading, group: Group, inputs: set[str], outputs: set[str]
) -> Iterator[Advice]:
    state, restore = reading.state, reading.state.restores.open
    name, count, topics = group.name, len(group.members), group.topics or frozenset()
    joined, dead = sum(view.hello.app == name for view in state.living()), still_counted(state, group)
    if dead and count <= joined + len(dead):
        yield from (find("still-counted", name, what=why_counted(it, reading.times_ms)) for it in dead)
    elif restore is not None and name in restore.apps and all(it.client == HOLDER for it in group.members):
        return
    elif joined:
        yield find("members-without", name, group=name, count=count, joined=joined)
    elif count and any(view.hello.app == name and state.unretired(view) for view in state.processes.values()):
        yield find("app-runs-without", name, group=name, count=count)
    else:
        reads = {"external-reader": inputs & topics, "external-output-reader": outputs & topics}
        for code, read in reads.items():
            if read:
                yield find(code, name, group=name, topics=", ".join(sorted(read)))


#: One record is read of each of so many partitions at most.
EXAMINED_MAX: Final = 200


async def about_lost_headers(work: Opened, views: list[ProcessView]) -> list[Advice]:
    """Report the topics in which a record that left with a header has none."""
    topics = {source.topic for view in views for source in view.hello.inputs}
    topics |= {table.changelog for view in views for table in view.hello.tables}
    sent = {tp: at for tp, at in _last_sent(work.reading.state).items() if tp.topic in topics}
    wanted = dict(sorted((tp, offset) for tp, (offset, _) in sent.items())[:EXAMINED_MAX])
    if not wanted:
        return []
    try:
        starts, ends = await work.admin.log_starts(wanted), await work.admin.log_ends(wanted)
        found = await work.admin.record_headers(
            {tp: offset for tp, offset in wanted.items() if starts.get(tp, 0) <= offset < ends.get(tp, 0)}
        )
    except SnapkafkaError as error:
        return [unseen("headers", error)]
    lost: dict[str, TopicPartition] = {}
    for tp, pairs in sorted(found.items()):
        if all(name != HEADER for name, _ in pairs):
            lost.setdefault(tp.topic, tp)
    return [
        find("headers-lost", f"offset {at} of {tp}", offset=at, tp=tp, sender=sender, header=HEADER)
        for tp in lost.values()
        for at, sender in [sent[tp]]
    ]


def _last_sent(state: LedgerState) -> dict[TopicPartition, tuple[int, str]]:
    """Return the place of the last acknowledged white record, by the latest snapshot that names the partition, and its
    sender."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for _, snapshot in sorted(state.snapshots.items(), reverse=True):
        latest: dict[TopicPartition, tuple[int, str]] = {}
        for process, (_, report) in snapshot.reports.items():
            name = state.processes[process].name if process in state.processes else f"process {process}"
            for end in report.sent:
                tp = TopicPartition(end.topic, end.partition)
                if end.last_seq >= 0 and end.white_end > latest.get(tp, (-1, ""))[0] + 1:
                    latest[tp] = end.white_end - 1, name
        found = latest | found
    return found


#: A problem of a topic's settings: its code, the fields of its text, and setting -> the value that fixes it.
Shortfall: TypeAlias = tuple[str, Mapping[str, object], Mapping[str, str]]


def roles(views: Iterable[ProcessView]) -> dict[str, Table | None]:
    """Return the topics that snapshots of these processes need: changelogs with their tables, and inputs."""
    found: dict[str, Table | None] = {source.topic: None for view in views for source in view.hello.inputs}
    found |= {table.changelog: table for view in views for table in view.hello.tables}
    return dict(sorted(found.items()))


def judged(table: Table | None, holding: Mapping[str, str], within_ms: int) -> Iterator[Shortfall]:
    """Find what is wrong with the effective settings of a topic.

    Args:
        table: whose changelog it is; None: it is an input.
        within_ms: how long after a snapshot assembly has read everything.
    """
    settings = TopicSettings.parse(holding)
    if table is not None and not table.expires_ms:
        if found := _state_is_lost(table, settings, within_ms):
            yield found
            return
    elif settings.deletes:
        yield from _deleted_too_soon(0 if table is None else table.expires_ms, settings, within_ms)
    lag_ms = settings.uncompacted_ms
    if settings.compacts and lag_ms < within_ms:
        when = f"after {format_ms(lag_ms)}" if lag_ms else "at once"
        yield "compaction", {"when": when, "lag_ms": lag_ms}, {"min.compaction.lag.ms": str(within_ms)}


def _state_is_lost(table: Table, settings: TopicSettings, within_ms: int) -> Shortfall | None:
    """Find a changelog that has to hold all of the state, and does not."""
    bounds: dict[str, str] = {}
    if settings.retention_ms is not None:
        bounds["retention.ms"] = format_ms(settings.retention_ms)
    if settings.retention_bytes is not None:
        bounds["retention.bytes"] = f"{settings.retention_bytes:,} bytes a partition"
    unbounded = dict.fromkeys(bounds, str(UNBOUNDED))
    if table.sets and settings.compacts:
        return "sets-compacted", {"policy": settings.policy}, {"cleanup.policy": "delete"} | unbounded
    if not settings.deletes or not unbounded:
        return None
    changes = unbounded
    if not table.sets:  # as Faust makes it
        changes = {"cleanup.policy": "compact"}
        if settings.uncompacted_ms < within_ms:
            changes["min.compaction.lag.ms"] = str(within_ms)
    name = "a table of sets" if table.sets else f"table {table.name}"
    fields = {"table": name, "policy": settings.policy, "kept": " and ".join(bounds.values())}
    return "state-deleted", fields, changes


def _deleted_too_soon(expires_ms: int, settings: TopicSettings, within_ms: int) -> Iterator[Shortfall]:
    kept_ms, needed_ms = settings.retention_ms, within_ms + expires_ms
    needed = format_ms(needed_ms)
    if kept_ms is not None and kept_ms < needed_ms:
        windows = f" (windows of {format_ms(expires_ms)}, and {format_ms(within_ms)} until it has read them)"
        fields = {"kept": format_ms(kept_ms), "needed": needed, "windows": windows * bool(expires_ms)}
        yield "retention", fields, {"retention.ms": str(needed_ms)}
    if (size := settings.retention_bytes) is not None:
        yield "retention-bytes", {"size": size, "needed": needed}, {"retention.bytes": str(UNBOUNDED)}


def change_command(topic: str, changes: Mapping[str, str | None], bootstrap: str) -> str:
    """Return Kafka's command that makes these settings of a topic; None removes a setting from the topic itself."""
    add = ",".join(
        f"{name}={f'[{value}]' if ',' in value else value}"
        for name, value in changes.items()
        if value is not None
    )
    delete = ",".join(name for name, value in changes.items() if value is None)
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {topic}"
        + (f" --add-config {add}" if add else "")
        + (f" --delete-config {delete}" if delete else "")
    )
