"""The vector of a captured snapshot, gathered from the reports in the ledger (R8).

A snapshot is defined by what stood at its trigger (R11). An input has the id and the codecs that were known to the
process that cut it, whoever joined since; the inputs of an app that does not run are those that its youngest process
knew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from .captured_snapshot import (
    BaseCut,
    Captured,
    ChangelogCut,
    Code,
    InputCut,
    NeverRead,
    OldTopic,
    Outcome,
    Outsider,
    ProcessCut,
    Recorded,
    SenderEnd,
    Uncaptured,
)
from .offsets import SOMEBODY
from .records import (
    NOBODY,
    ChannelRange,
    Hello,
    InputTopic,
    Position,
    Retention,
    SentEnd,
    Skipped,
    TopicPartition,
)

if TYPE_CHECKING:
    from .ledger_view import LedgerView
    from .snapshots import Part, SnapshotView


def gather(state: LedgerView, epoch: int) -> Captured:
    """Return the vector of offsets of the captured snapshot of `epoch`, gathered from the ledger."""
    snapshot = state.snapshots[epoch]
    assert snapshot.captured_at is not None, "asked of captured snapshots only"
    assert not snapshot.forgotten, "asked of a fold that only takes part"
    trigger = snapshot.trigger
    parts = list(snapshot.parts())
    own = {part.process: part for part in parts if not part.app}
    stated = Stated(state, snapshot)
    hellos = [stated.of(part)[-1] for part in parts]
    inputs = tuple(_input_cuts(state, snapshot, parts, stated))
    return Captured(
        id=trigger.id,
        attempt=trigger.attempt,
        epoch=epoch,
        type=trigger.type,
        parent=trigger.parent,
        storage=trigger.storage,
        processes=tuple(
            _process_cut(state, snapshot, own.get(p), p)
            for p in sorted(snapshot.reports.keys() | snapshot.left)
        ),
        inputs=inputs,
        senders=tuple(_sender_ends(snapshot)),
        changelogs=tuple(_changelog_cuts(state, snapshot, parts, stated)),
        recorded=tuple(
            Recorded(app=_app(state, part), **_fields(item))
            for part in parts
            for item in part.report.recorded
        ),
        contaminated=contaminated(state, snapshot),
        retention=_retention(state, epoch),
        unread=snapshot.unread,
        sources=tuple(sorted({topic for hello in hellos for topic in hello.sources})),
        uncaptured=tuple(
            Uncaptured(app=app, what=what)
            for app, what in sorted({(hello.app, what) for hello in hellos for what in hello.uncaptured})
        ),
        bases=tuple(
            BaseCut(topic=tp.topic, partition=tp.partition, **base._asdict())
            for tp, base in sorted(state.restores.bases_below(epoch).items())
        ),
        code=tuple(
            Code(app=app, agents=hello.agents, tables=hello.tables)
            for app, hello in sorted({hello.app: hello for hello in hellos}.items())
            if hello.agents
        ),
        outsiders=tuple(_outsiders(state, snapshot, {it for part in parts for it in part.report.taken})),
        run_without=trigger.run_without,
        old_topics=tuple(
            stated.old_topics({source.topic: source.topic_id for source in inputs if source.topic_id})
        ),
        never_read=tuple(
            NeverRead(app=_app(state, part), process=part.process, **_fields(item))
            for part in parts
            for item in part.report.skipped
        ),
        alignment=Outcome(aligned=True) if trigger.align else None,
    )


def _sender_ends(snapshot: SnapshotView) -> Iterator[SenderEnd]:
    """Yield the ends of what each process has sent in white."""
    for process, (_, report) in sorted(snapshot.reports.items()):
        for sent in report.sent:
            yield SenderEnd(process=process, landed_end=sent.landed_end, **_fields(sent))


class Stated:
    """The `Hello`s that stood at the trigger of a snapshot."""

    def __init__(self, state: LedgerView, snapshot: SnapshotView) -> None:
        self._hellos = {p: view.hello for p, view in sorted(state.processes.items()) if p < snapshot.epoch}
        self._snapshot = snapshot

    def of(self, part: Part) -> list[Hello]:
        """Return what the processes of an app said, the author of this report last: what that did not find when it
        joined is as the latest of the others knew it."""
        author = [] if part.app else [self._hellos[part.process]]
        app = part.app or author[0].app
        return [*(hello for hello in self._hellos.values() if hello.app == app), *author]

    def old_topics(self, present: Mapping[str, str]) -> Iterator[OldTopic]:
        """List the processes of the snapshot that may name offsets of a topic as it was before it was recreated.

        Such a process has a `Hello` with another id than the input; or it joined before any process named the present
        id, and an earlier `Hello` names another: it sends there, and never read the id.

        Args:
            present: the id of each input topic, as far as it is known.
        """
        known: dict[str, dict[int, str]] = defaultdict(dict)
        for process, hello in self._hellos.items():
            for topic, topic_id in hello.topic_ids():
                if topic in present:
                    known[topic][process] = topic_id
        for topic, ids in sorted(known.items()):
            first = min((p for p, topic_id in ids.items() if topic_id == present[topic]), default=-1)
            if all(topic_id == present[topic] for topic_id in ids.values()):
                continue
            for process in sorted(self._snapshot.reports.keys() | self._snapshot.left):
                if ids.get(process, "" if process < first else present[topic]) != present[topic]:
                    yield OldTopic(process=process, topic=topic)


def contaminated(state: LedgerView, snapshot: SnapshotView) -> str:
    """Return why a captured snapshot cannot be proved, whatever its checks find; empty: nothing is known against it."""
    for part in snapshot.parts():
        who = f"process {part.process} of app {_app(state, part)}"
        if part.report.damaged:
            return f"the report of {who}, at ledger offset {part.at}, is damaged"
        if topic := next((sent.topic for sent in part.report.sent if sent.recreated), ""):
            return f"topic {topic} was recreated while {who} sent there: messages in flight went with it"
    return snapshot.contaminated or _may_run_again(state, snapshot)


def _may_run_again(state: LedgerView, snapshot: SnapshotView) -> str:
    """Return who ran without taking part (R15), and perhaps events that come after this cut: no header names them as
    the cause of what they left. They end where the inputs did when its app was captured once it was gone."""
    ran = [it for it in state.processes.values() if it.went_on >= 0 and (it.left or 0) < snapshot.epoch]
    for view in ran:
        app = view.hello.app
        reports = [part.report for part in snapshot.parts() if _app(state, part) == app]
        # One that was killed is gone for those whose inputs nobody else has had since.
        gone = max(view.went_on, *(report.assigned for report in reports if view.goes_on), -1)
        ends = (
            {(end.topic, end.partition): end.end for end in it.trigger.ends}
            for it in state.snapshots.values()
            if it.captured_at is not None and app in it.apps and gone < it.epoch <= snapshot.epoch
        )
        at = [position for report in reports for position in report.positions]
        if not any(all(0 <= known.get((p.topic, p.partition), -1) <= p.offset for p in at) for known in ends):
            return f"{view.name} ran without snapshots, perhaps events from after this cut, too: take another"
    return ""


def _outsiders(state: LedgerView, snapshot: SnapshotView, taken: Collection[int]) -> Iterator[Outsider]:
    """Yield the processes that had joined by the trigger and are not part of the snapshot."""
    for process, view in sorted(state.processes.items()):
        if process >= snapshot.epoch or process in snapshot.reports or process in snapshot.left:
            continue
        left = view.left is not None and view.left < snapshot.epoch
        yield Outsider(
            process=process,
            app=view.hello.app,
            cut=process in snapshot.beside,
            left=left and not (view.dead or view.goes_on),
            taken=process in taken,
        )


def _retention(state: LedgerView, epoch: int) -> tuple[Retention, ...]:
    """Return the settings of each changelog, as the last process that joined before the trigger reported them."""
    reported = {
        promised.topic: promised
        for process, view in sorted(state.processes.items())
        if process < epoch
        for promised in view.hello.retention
    }
    return tuple(promised for _, promised in sorted(reported.items()))


def _process_cut(state: LedgerView, snapshot: SnapshotView, part: Part | None, process: int) -> ProcessCut:
    """Return one process of the snapshot. `part`: its own report, None if it had left."""
    hello = state.processes[process].hello
    formerly = NOBODY if hello.was == SOMEBODY else hello.was
    cut = ProcessCut(
        process=process, app=hello.app, host=hello.host, pid=hello.pid, left=part is None, formerly=formerly
    )
    if part is None:
        return cut
    return replace(
        cut,
        previous=part.report.previous,
        heard=part.report.heard,
        report=part.at,
        cut_us=part.report.cut_us,
        running=part.report.running,
        torn=part.torn(snapshot.epoch),
    )


def _fields(item: SentEnd | ChannelRange | Skipped) -> dict[str, Any]:
    return {field.name: getattr(item, field.name) for field in fields(item)}


def _app(state: LedgerView, part: Part) -> str:
    return part.app or state.app_of(part.process)


def _input_cuts(
    state: LedgerView, snapshot: SnapshotView, parts: list[Part], stated: Stated
) -> Iterator[InputCut]:
    """Yield the inputs as they were cut, in the order of apps and partitions."""
    ends = {TopicPartition(end.topic, end.partition): end.end for end in snapshot.trigger.ends}
    predecessors: dict[str, dict[int, int]] = defaultdict(dict)
    for process, view in sorted(state.processes.items()):
        if view.hello.was != NOBODY and process < snapshot.epoch:
            predecessors[view.hello.app][process] = view.hello.was
    cuts = []
    for part in parts:
        app = _app(state, part)
        topics = {source.topic: source for hello in stated.of(part) for source in hello.inputs}
        for tp in sorted({TopicPartition(p.topic, p.partition) for p in part.report.positions}):
            torn = tuple(t for t in part.torn(snapshot.epoch) if (t.topic, t.partition) == tp)
            noted = [p for p in part.report.positions if (p.topic, p.partition) == tp]
            agents = tuple(_without(p, {t.offset for t in torn if t.agent == p.agent}) for p in noted)
            position = min(p.offset for p in agents)
            topic = topics.get(tp.topic, InputTopic(topic=tp.topic, partitions=0))
            cuts.append(
                InputCut(
                    app=app,
                    topic=tp.topic,
                    topic_id=topic.topic_id,
                    partition=tp.partition,
                    position=position,
                    noted=min(p.offset for p in noted),
                    low=min(position, ends.get(tp, 0)),
                    log_end=max(
                        ends.get(tp, 0), *(at + 1 for p in noted for at in (p.offset - 1, *p.started_above))
                    ),
                    end_known=tp in ends,
                    receiver=part.process,
                    agents=agents,
                    torn=torn,
                    earlier=_with_successors(
                        [reader.process for reader in snapshot.earlier[app, tp]], predecessors[app]
                    ),
                    steady=not part.app and state.processes[part.process].assigned == part.report.assigned,
                    key_codec=topic.key_codec,
                    value_codec=topic.value_codec,
                )
            )
    yield from sorted(cuts, key=lambda cut: (cut.receiver, cut.app, cut.topic, cut.partition))


def _with_successors(readers: list[int], predecessors: dict[int, int]) -> tuple[int, ...]:
    """Add the later ids of processes that went on with an event under another id: they were declared dead (R12), or
    came from a ledger that is gone, where any of them may have read the input.

    `predecessors`: process of the app -> its earlier id, in the order of the ledger.
    """
    found = dict.fromkeys(readers)
    for process, was in predecessors.items():
        if was == SOMEBODY or was in found:
            found[process] = None
    return tuple(found)


def _without(position: Position, torn: set[int]) -> Position:
    """Return the position of an agent if these events count as not processed (R6)."""
    torn = {offset for offset in torn if offset < position.offset or offset in position.started_above}
    if not torn:
        return position
    first = min(position.offset, *torn)
    above = {*range(first, position.offset), *position.started_above} - torn
    return replace(position, offset=first, started_above=tuple(sorted(above)))


def _changelog_cuts(
    state: LedgerView, snapshot: SnapshotView, parts: list[Part], stated: Stated
) -> Iterator[ChangelogCut]:
    """Yield table partitions, each as cut by one process that has it. An event may outlive the assignment
    under which it wrote, so the end lies past whatever any process wrote there in white."""
    white_ends: dict[TopicPartition, int] = {}
    for sent in (sent for _, report in snapshot.reports.values() for sent in report.sent):
        tp = TopicPartition(sent.topic, sent.partition)
        white_ends[tp] = max(sent.white_end, white_ends.get(tp, 0))
    known: set[tuple[str, str, int]] = set()
    for part in parts:
        app = _app(state, part)
        tables = {table.name: table for hello in stated.of(part) for table in hello.tables}
        for end in part.report.changelogs:
            if (app, end.topic, end.partition) in known:
                continue  # of a global table: every process has all of it
            known.add((app, end.topic, end.partition))
            table = tables[end.table]
            yield ChangelogCut(
                app=app,
                table=end.table,
                topic=end.topic,
                topic_id=table.topic_id,
                partition=end.partition,
                end=max(end.end, white_ends.get(TopicPartition(end.topic, end.partition), 0)),
                process=part.process,
                key_codec=table.key_codec,
                value_codec=table.value_codec,
                expires_ms=table.expires_ms,
                sets=table.sets,
                windowed=table.windowed,
                is_global=table.is_global,
                keyed=table.keyed,
            )
