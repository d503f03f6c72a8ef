"""A captured snapshot: the whole global state as a vector of offsets, and nothing copied.

This is what the ledger says of one epoch once every expected input is cut and every required sender closed (R11),
gathered into one value. Assembly turns it into tables, verification proves it from the log; both need nothing else
but the broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .records import ChannelRange, Closed, CutReport, Heard, Position, Running, TopicPartition

if TYPE_CHECKING:
    from .completion import LedgerState, SnapshotView

__all__ = ["Captured", "ChangelogCut", "InputCut", "ProcessCut", "SenderEnd", "gather"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessCut:
    """One process of the snapshot: who it is, how it heard, what ran at its cut.

    `left`: it said `Bye` or was `Dead` before the trigger, so it neither cut nor closed; what it sent counts as white
    up to the log ends that the receivers saw (R8). `report`, `closed`: ledger offsets (-1 where it left).
    `cut_us`: how long the cut itself took, microseconds.
    """

    process: int
    app: str
    host: str = ""
    pid: int = 0
    left: bool = False
    previous: int = 0
    heard: Heard | None = None
    report: int = -1
    closed: int = -1
    cut_us: int = 0
    running: tuple[Running, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class InputCut:
    """One input (app, topic-partition): where its reader stood.

    `position`: the least of the agents' positions, first offset not started. `low`: reading may start here: below it
    lies no red record (R1). `log_end`: log end that the receiver saw after the trigger (R8). `receiver`: the process.
    """

    app: str
    topic: str
    topic_id: str
    partition: int
    position: int
    low: int
    log_end: int
    receiver: int
    agents: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SenderEnd:
    """Where the white records of one living sender end in one partition (changelogs too): see `records.SentEnd`."""

    process: int
    topic: str
    partition: int
    white_end: int
    last_seq: int
    marker: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangelogCut:
    """The state of one table partition: the fold of the white records of `topic`[`partition`] below `end`."""

    app: str
    table: str
    topic: str
    topic_id: str
    partition: int
    end: int
    process: int
    key_codec: str = "json"
    value_codec: str = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """A captured snapshot. `epoch` - 1 is the ledger offset of its trigger."""

    id: str
    attempt: int
    epoch: int
    type: str
    parent: str
    storage: str
    processes: tuple[ProcessCut, ...]
    inputs: tuple[InputCut, ...]
    senders: tuple[SenderEnd, ...]
    changelogs: tuple[ChangelogCut, ...]
    recorded: tuple[ChannelRange, ...] = ()


def gather(state: LedgerState, epoch: int) -> Captured:
    """The vector of offsets of the captured snapshot of `epoch`, from what the ledger says of it."""
    snapshot = state.snapshots[epoch]
    assert snapshot.captured_at is not None, "asked of captured snapshots only"
    trigger = snapshot.trigger
    reports = {p: report for p, (_, report) in snapshot.reports.items() if p in snapshot.closed}
    closings = {p: closed for p, (_, closed) in snapshot.closed.items()}
    return Captured(
        id=trigger.id,
        attempt=trigger.attempt,
        epoch=epoch,
        type=trigger.type,
        parent=trigger.parent,
        storage=trigger.storage,
        processes=tuple(
            _process_cut(state, snapshot, p) for p in sorted(snapshot.closed.keys() | snapshot.left)
        ),
        inputs=tuple(_input_cuts(state, snapshot, reports, closings)),
        senders=tuple(
            SenderEnd(
                process=p,
                topic=sent.topic,
                partition=sent.partition,
                white_end=sent.white_end,
                last_seq=sent.last_seq,
                marker=sent.marker,
            )
            for p, closed in sorted(closings.items())
            for sent in closed.sent
        ),
        changelogs=tuple(_changelog_cuts(state, closings)),
        recorded=tuple(item for _, closed in sorted(closings.items()) for item in closed.recorded),
    )


def _process_cut(state: LedgerState, snapshot: SnapshotView, process: int) -> ProcessCut:
    hello = state.processes[process].hello
    if process not in snapshot.closed:
        return ProcessCut(process=process, app=hello.app, host=hello.host, pid=hello.pid, left=True)
    report_offset, report = snapshot.reports[process]
    closed_offset, closed = snapshot.closed[process]
    return ProcessCut(
        process=process,
        app=hello.app,
        host=hello.host,
        pid=hello.pid,
        previous=report.previous,
        heard=report.heard,
        report=report_offset,
        closed=closed_offset,
        cut_us=closed.cut_us,
        running=report.running,
    )


def _input_cuts(
    state: LedgerState, snapshot: SnapshotView, reports: dict[int, CutReport], closings: dict[int, Closed]
) -> Iterator[InputCut]:
    low = {(end.topic, end.partition): end.end for end in snapshot.trigger.ends}
    for process, report in sorted(reports.items()):
        log_end = {(end.topic, end.partition): end.end for end in closings[process].input_ends}
        topic_ids = {source.topic: source.topic_id for source in state.processes[process].hello.inputs}
        for tp in sorted({TopicPartition(p.topic, p.partition) for p in report.positions}):
            agents = tuple(p for p in report.positions if (p.topic, p.partition) == tp)
            position = min(p.offset for p in agents)
            yield InputCut(
                app=state.app_of(process),
                topic=tp.topic,
                topic_id=topic_ids.get(tp.topic, ""),
                partition=tp.partition,
                position=position,
                low=min(position, low.get(tp, 0)),
                log_end=log_end.get(tp, position),
                receiver=process,
                agents=agents,
            )


def _changelog_cuts(state: LedgerState, closings: dict[int, Closed]) -> Iterator[ChangelogCut]:
    for process, closed in sorted(closings.items()):
        tables = {table.name: table for table in state.processes[process].hello.tables}
        for end in closed.changelogs:
            table = tables[end.table]
            yield ChangelogCut(
                app=state.app_of(process),
                table=end.table,
                topic=end.topic,
                topic_id=table.topic_id,
                partition=end.partition,
                end=end.end,
                process=process,
                key_codec=table.key_codec,
                value_codec=table.value_codec,
            )
