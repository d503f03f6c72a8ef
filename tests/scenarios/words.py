"""What the machine and the ledger say, in words, for the golden scenarios."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from snapkafka.checks import CutView
from snapkafka.protocol import (
    Captured,
    Hello,
    LedgerState,
    Report,
    SendMarkers,
    SnapshotView,
    TopicPartition,
    Verdict,
)
from snapkafka.protocol.actions import Action, AppendHello, AppendToLedger, Hold, LetGo, ReadLedgerTo
from snapkafka.protocol.actions import TurnedRed as Turned
from snapkafka.protocol.records import Abort, Assigned, Bye, Dead, LedgerRecord, Pause, Retire, Trigger

if TYPE_CHECKING:
    from tests.protocol.world import World


def snapshot_name(fold: LedgerState, epoch: int) -> str:
    trigger = fold.snapshots[epoch].trigger
    return trigger.id if trigger.attempt == 1 else f"{trigger.id} (attempt {trigger.attempt})"


def epochs(above: int, upto: int, stage: World) -> str:
    """The snapshots with an epoch in (above, upto]."""
    names = [name for epoch, name in sorted(stage.ids.items()) if above < epoch <= upto]
    return " and ".join(names) or f"epoch {upto}, which is none"


def epoch(number: int, stage: World) -> str:
    return f"red since {stage.ids[number]}" if number in stage.ids else "white" if not number else str(number)


def action(action: Action, stage: World) -> str:
    match action:
        case Turned(epoch=number, previous=previous, heard=heard):
            return f"turns red for {epochs(previous, number, stage)}: {HEARD[heard]}"
        case AppendToLedger(record=what):
            return record(what, stage)
        case SendMarkers(epoch=number, previous=previous, tps=tps):
            return f"markers for {epochs(previous, number, stage)} to {listed(str(tp) for tp in tps)}"
        case ReadLedgerTo(offset=offset):
            return f"must have read the ledger up to {offset} first"
        case Hold(inputs=True):
            return "holds back all of its inputs"
        case Hold():
            return "holds it back, and all behind it"
        case LetGo():
            return "lets go what it held back"
        case AppendHello(void=void):
            return f"is not process {void} any more, and says hello anew"
        case _:
            return type(action).__name__


HEARD = {
    "trigger": "it asked for it",
    "ledger": "it read the trigger",
    "marker": "it met a marker",
    "header": "it met a red record",
}


def listed(items: Iterable[str]) -> str:
    return ", ".join(items) or "nothing"


def record(record: LedgerRecord, stage: World) -> str:
    """A ledger record as a sentence."""
    who = stage.actor_of(record.process) if record.process >= 0 else "somebody"
    match record:
        case Hello(app=app, inputs=inputs, host=host):
            reads = listed(source.topic for source in inputs)
            return f"hello from {host} of app {app}, which reads {reads}"
        case Assigned(inputs=tps):
            return f"{who} was given {listed(str(tp) for tp in tps)}"
        case Trigger(id=name, attempt=attempt, who=asked):
            again = "" if attempt == 1 else f", attempt {attempt}"
            aligned = ", to be aligned" if record.align else ""
            return f"trigger {name}{again}, asked for by {asked or 'somebody'}{aligned}"
        case Report():
            return (
                f"{who} reports its cut for {epochs(record.previous, record.epoch, stage)}: {_report(record)}"
            )
        case Abort(epoch=number, code=code, reason=reason):
            return f"{who} aborts {stage.ids.get(number, number)}: {code}, {reason}"
        case Dead(dead=dead):
            return f"{who} says that {stage.actor_of(dead)} is dead"
        case Bye():
            return f"{who} says bye"
        case Retire(app=app):
            return f"app {app} is gone for good"
        case Verdict(epoch=number, verdict=verdict):
            return f"{stage.ids.get(number, number)} was examined: {verdict}"
        case Pause(paused=paused):
            return f"{who} says: {'no snapshots until further notice' if paused else 'snapshots again'}"
        case _:
            raise AssertionError(f"no scenario has {record}")


def _report(report: Report) -> str:
    positions = listed(
        f"{TopicPartition(p.topic, p.partition)} from {p.offset}"
        + "".join(f", {above} started" for above in p.started_above)
        + (f", replaying up to {p.replay_until}" if p.replay_until else "")
        for p in report.positions
    )
    running = listed(f"{TopicPartition(r.topic, r.partition)}@{r.offset}" for r in report.running)
    sent = [
        f"{TopicPartition(s.topic, s.partition)} below {s.white_end}"
        + (f" (marker at {s.marker})" if s.marker >= 0 else "")
        for s in report.sent
        if s.white_end or s.marker >= 0
    ]
    torn = "".join(f"; torn {TopicPartition(t.topic, t.partition)}@{t.offset}" for t in report.torn)
    ran = f"; running {running}" if report.running else ""
    return f"still to read {positions}{ran}; sent in white {listed(sent)}{torn}"


def status(view: SnapshotView, stage: World) -> str:
    """One line: what has become of a snapshot."""
    name = stage.ids[view.epoch]
    if view.failure is not None:
        return f"{name} has FAILED: {view.failure.code}, {view.failure.reason}"
    verdict = f", {view.verdict.verdict}" if view.verdict is not None else ""
    return f"{name} is {view.status}{verdict}"


def snapshot(view: SnapshotView, stage: World) -> list[str]:
    """A snapshot as a reader wants it: what was done before the cut, and what was on its way."""
    lines = [status(view, stage)]
    if view.captured_at is None:
        waits = stage.fold.waiting(view.epoch) if view.open else []
        return lines + [f"  waits for {stage.actor_of(wait.process)} to report" for wait in waits]
    captured = stage.fold.captured(view.epoch)
    if captured.alignment is not None:
        lines.append("  aligned")
    whose = {cut.process: cut.app for cut in captured.processes}
    for cut in captured.processes:
        reported = "had left before" if cut.left else _stood(captured, cut.process, cut.app, stage)
        lines.append(f"  {stage.actor_of(cut.process)} {reported}")
    stopped = {(i.receiver, i.app) for i in captured.inputs if whose.get(i.receiver) != i.app}
    for process, app in sorted(stopped):
        lines.append(f"  app {app}, which does not run, {_stood(captured, process, app, stage)}")
    for source in captured.inputs:
        lines += [
            f"  torn: {TopicPartition(t.topic, t.partition)}@{t.offset} counts as not processed"
            for t in source.torn
        ]
        lines += [
            f"  replayed: {source.topic}[{source.partition}] up to {agent.replay_until} may be in the state"
            for agent in source.agents
            if agent.replay_until
        ]
    return lines + _in_flight(captured, stage)


def _stood(captured: Captured, process: int, app: str, stage: World) -> str:
    """What was read and done at the cut: the white records of each changelog, below its end."""
    read = listed(
        f"{i.topic}[{i.partition}] below {i.position}"
        for i in captured.inputs
        if (i.receiver, i.app) == (process, app) and i.position > 0
    )
    done = [
        stored.name
        for end in captured.changelogs
        if (end.process, end.app) == (process, app)
        for stored in stage.logs[TopicPartition(end.topic, end.partition)][: end.end]
        if stored.epoch < captured.epoch and not stored.marker
    ]
    return f"had read {read}; had done {listed(done)}"


def _in_flight(captured: Captured, stage: World) -> list[str]:
    view = CutView(captured)
    lines = []
    for source in captured.inputs:
        for found in stage.log_records():
            if (found.topic, found.partition) == (source.topic, source.partition) and view.in_channel(
                found, source
            ):
                name = stage.logs[found.tp][found.offset].name
                runs = any((c.process, c.app) == (source.receiver, source.app) for c in captured.processes)
                reader = stage.actor_of(source.receiver) if runs else f"app {source.app}"
                where = f"{stage.actor_of(found.process)} -> {found.tp}@{found.offset} -> {reader}"
                lines.append(f"  on its way: {name} ({where})")
    return lines or ["  on its way: nothing"]
