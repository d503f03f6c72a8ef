"""Findings of `doctor` in the cluster: topics, headers, partitions and consumer groups.

A transform, a proxy or a mirror may remove headers. Every `Closed` in the ledger names the offset at which the last
white record of its process was acknowledged: that record left with a header, so it must have one in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from snapkafka.advice import Advice, Weight
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.ledger.reading import Opened, outputs_of
from snapkafka.kafka.preflight import OWN_GROUPS, knows_markers, unlike_counts
from snapkafka.ports import Group, Topic
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.records import FOREIGN, TopicPartition
from snapkafka.wire.headers import HEADER

from .topics import judged, roles


def not_examined(code: str, error: SnapkafkaError, so: str = "") -> Advice:
    """Compose the finding that something could not be examined."""
    return Advice(code=code, weight=Weight.WARNING, what=f"{error}{so}", do=error.hint)


async def about_topics(work: Opened, views: list[ProcessView], within_ms: int) -> list[Advice]:
    """Check the partitions of topics, and whether they keep what assembly needs."""
    needed = roles(views)
    try:
        described = await work.admin.describe_topics([role.topic for role in needed]) if needed else {}
    except SnapkafkaError as error:
        return [not_examined("topics-unseen", error)]
    found = list(about_partitions(views, described))
    for role in needed:
        if role.topic not in described:
            continue
        try:
            holding, own = await work.admin.topic_settings(role.topic)
        except SnapkafkaError as error:
            found.append(not_examined("settings-unseen", error))
            continue
        wrong = judged(role, holding, within_ms)
        found += [finding.advice(role.topic, own, work.bootstrap) for finding in wrong]
    return found


def about_partitions(views: list[ProcessView], described: Mapping[str, Topic]) -> Iterator[Advice]:
    counts = {name: topic.partitions for name, topic in described.items()}
    for view in views:
        app = view.hello.app
        for source in view.hello.inputs:
            if source.topic not in described:
                yield Advice(
                    code="topic-missing",
                    weight=Weight.PROBLEM,
                    what=f"topic {source.topic}, an input of app {app}, does not exist",
                    do="create it and restart the app: Faust does not see topics created later",
                    subject=source.topic,
                )
            elif (now := counts[source.topic]) != source.partitions and view.hello.mode != FOREIGN:
                yield Advice(
                    code="partitions-added",
                    weight=Weight.WARNING,
                    what=f"topic {source.topic} has {now} partitions, app {app} joined with {source.partitions}",
                    do="restart the app",
                    subject=source.topic,
                )
        for said in unlike_counts(view.hello, counts):
            yield Advice(
                code="partition-counts",
                weight=Weight.PROBLEM,
                what=said,
                do="make the counts equal and restart the app: Faust fails at the first write to the table",
            )


async def about_groups(work: Opened, inputs: set[str]) -> list[Advice]:
    """Report the groups without snapkafka that read our inputs and outputs."""
    state = work.reading.state
    try:
        groups = await work.admin.groups()
    except SnapkafkaError as error:
        return [
            not_examined(
                "groups-unseen", error, ": no markers are sent; headers alone separate before from after"
            )
        ]
    found = []
    for group in groups:
        if group.name.startswith(OWN_GROUPS) or knows_markers(state, group):
            continue
        found += list(_about_external_group(state, group, inputs, outputs_of(state) - inputs))
    return found


def _about_external_group(
    state: LedgerState, group: Group, inputs: set[str], outputs: set[str]
) -> Iterator[Advice]:
    joined = sum(view.hello.app == group.name for view in state.living())
    topics = group.topics or frozenset()
    if joined:
        yield Advice(
            code="members-without",
            weight=Weight.PROBLEM,
            what=f"group {group.name} has {len(group.members)} members, {joined} of them with snapkafka",
            do="install it in all of them: what the others do is in no snapshot",
        )
        return
    known = any(view.hello.app == group.name and state.unretired(view) for view in state.processes.values())
    if known and group.members:
        yield Advice(
            code="app-runs-without",
            weight=Weight.PROBLEM,
            what=f"app {group.name} runs without snapkafka ({len(group.members)} group members): every snapshot"
            " with it fails",
            do=f"restart it with snapkafka; if it is to run without for good: snapkafka retire --app {group.name}",
        )
        return
    if read := sorted(inputs & topics):
        yield Advice(
            code="external-reader",
            weight=Weight.NOTE,
            what=f"group {group.name} reads {', '.join(read)} without snapkafka; no markers are sent there",
            do="if it skips records with a null value: trigger with --knows-markers " + group.name,
            subject=group.name,
        )
    if read := sorted(outputs & topics):
        yield Advice(
            code="external-output-reader",
            weight=Weight.NOTE,
            what=f"group {group.name} reads the outputs {', '.join(read)} without snapkafka: what it has read is in no"
            " snapshot",
            do="if it writes back to inputs, install snapkafka in it: what came through it cannot be verified",
            subject=group.name,
        )


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
        return [Advice(code="headers-unseen", weight=Weight.WARNING, what=str(error), do=error.hint)]
    lost: dict[str, TopicPartition] = {}
    for tp, pairs in sorted(found.items()):
        if all(name != HEADER for name, _ in pairs):
            lost.setdefault(tp.topic, tp)
    return [
        Advice(
            code="headers-lost",
            weight=Weight.PROBLEM,
            what=f"the record at offset {wanted[tp]} of {tp}, sent by {sent[tp][1]}, lost its header {HEADER}",
            do=f"let the proxy, mirror or transform on the way to this topic pass the header {HEADER} on",
            subject=f"offset {wanted[tp]} of {tp}",
        )
        for tp in lost.values()
    ]


def _last_sent(state: LedgerState) -> dict[TopicPartition, tuple[int, str]]:
    """Return the place of the last acknowledged white record, by the latest snapshot that names the partition, and its
    sender."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for _, snapshot in sorted(state.snapshots.items(), reverse=True):
        latest: dict[TopicPartition, tuple[int, str]] = {}
        for process, (_, closed) in snapshot.closed.items():
            name = state.processes[process].name if process in state.processes else f"process {process}"
            for end in closed.sent:
                tp = TopicPartition(end.topic, end.partition)
                if end.last_seq >= 0 and end.white_end > latest.get(tp, (-1, ""))[0] + 1:
                    latest[tp] = end.white_end - 1, name
        found = latest | found
    return found
