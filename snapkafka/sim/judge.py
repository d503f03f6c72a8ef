"""The judge of a consistent cut: it decides from the true history, by causality, without any knowledge of the
protocol.

Only a simulator knows the true history. It passes every step with the steps on which it directly depends, every
execution of an event, the logs, and the snapshot as users get it: positions, channels, states. From these alone:

1. *A step is in the snapshot* if its record is in a recorded state, in a recorded channel, or was received before the
   receiver's position. An execution is in it if its reader's position is past its input.
2. *Whole*: of an execution in the snapshot every effect is in it; of one that is not, none is. Torn executions are in
   it up to where they were torn, and only if the snapshot lists them. Of an input with a later reader, an earlier
   reader's execution may be in it in part: then the snapshot must list replays.
3. *Consistent* (Chandy and Lamport 1985): the steps on which a step in the snapshot depends are in the snapshot. It is
   enough to check direct dependencies: this is equivalent to comparing vector clocks.
4. *Channels* are exactly the records sent before minus the records received before, for every app that reads a
partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from snapkafka.checks import CutView, read_before, received
from snapkafka.checks.log import EXTERNAL, LogRecord
from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition

#: The process of an execution that ran in a worker without snapkafka.
WITHOUT: Final = -3


@dataclass(slots=True)
class Step:
    """One step, the numbers of those on which it directly depends, and the place of its record (None: it left none)."""

    number: int
    execution: int
    what: str
    after: tuple[int, ...]
    record: tuple[TopicPartition, int] | None = None
    effect: bool = False  # it sends something
    failed: bool = False  # and was told that it did not arrive
    #: Of one that leaves no record and is of no event: its process, and for what that was red then.
    instant: tuple[int, int] | None = None


@dataclass(slots=True)
class Execution:
    """One run of one event: its process (below 0: of a deleted ledger), agent and record; its steps in their order."""

    number: int
    process: int
    app: str
    agent: str
    tp: TopicPartition
    offset: int
    steps: list[int] = field(default_factory=list)
    torn_at: dict[tuple[int, int], int] = field(default_factory=dict)  # (was, met) -> number of steps before
    died: bool = False  # its process crashed before all of its effects were acknowledged
    undone: int | None = None  # for what its process was red when it aborted its transaction, to go back


@dataclass(frozen=True, slots=True)
class Violation:
    """A violation, in words."""

    rule: str
    what: str


@dataclass(slots=True, kw_only=True)
class Truth:
    """A snapshot, and the true history.

    Args:
        view: the snapshot.
        steps, executions: the history.
        records: the content of the logs.
        replays: whether its verdict lists replays.
        readers: per topic, the apps that read it.
        unstamped: the places of records of workers that have no header, and the processes that answer for them.
    """

    view: CutView
    steps: dict[int, Step]
    executions: dict[int, Execution]
    records: Sequence[LogRecord]
    replays: bool
    readers: Mapping[str, Collection[str]]
    unstamped: Mapping[tuple[TopicPartition, int], int] = field(default_factory=dict)
    at: dict[tuple[TopicPartition, int], LogRecord] = field(init=False)
    sources: dict[tuple[str, TopicPartition], InputCut] = field(init=False)
    apps: set[str] = field(init=False)
    #: By step, whether its record is in the snapshot.
    inside: dict[int, bool | None] = field(init=False)

    def __post_init__(self) -> None:
        self.at = {(record.tp, record.offset): record for record in self.records}
        self.sources = {(s.app, TopicPartition(s.topic, s.partition)): s for s in self.view.captured.inputs}
        self.apps = {cut.app for cut in self.view.processes.values()} | {app for app, _ in self.sources}
        self.inside = {step.number: self.record_in(step) for step in self.steps.values()}

    def reads_unknown(self, app: str, tp: TopicPartition) -> bool:
        """Return whether an app of the snapshot reads a partition of which the snapshot knows no position."""
        return app in self.apps and app in self.readers.get(tp.topic, ()) and (app, tp) not in self.sources

    def lost(self, step: Step, execution: Execution) -> bool:
        """Return whether the record of a step is nowhere, without a report. A crash does not excuse a process that
        reported that all records were there. An abort excuses it for an event that ran again."""
        excused = step.failed or (execution.died and not self.view.living(execution.process))
        excused = excused or (execution.undone is not None and self.ran_again(execution))
        return step.effect and not excused and step.record not in self.at

    def ran_again(self, execution: Execution) -> bool:
        """Return whether its event ran once more, and the snapshot has that."""
        return any(
            (other.agent, other.tp, other.offset) == (execution.agent, execution.tp, execution.offset)
            and other.number > execution.number
            and all(self.record_in(self.steps[n]) is not False for n in other.steps)
            for other in self.executions.values()
        )

    def record_in(self, step: Step) -> bool | None:
        """Return whether the record of a step is in the snapshot; None: it left nothing that the snapshot could
        show."""
        if step.instant is not None:
            process, epoch = step.instant
            return epoch < self.view.epoch if self.view.living(process) else None
        record = self.at.get(step.record) if step.record is not None else None
        if record is None or (record.process < 0 and step.record not in self.unstamped):
            return None
        tp = record.tp
        if self.outsiders(record):  # what is past a position is replayable input
            return any(received(s, record.offset) for s in self.view.inputs.get(tp, ())) or None
        if record.process < 0:
            if tp in self.view.changelogs:
                return record.offset < self.view.state_end(tp)
            if any(received(s, record.offset) for s in self.view.inputs.get(tp, ())):
                return True
            # Past a position it is replayable input, whatever it came from; but a sender that lives answers for it.
            alive = self.view.living(self.unstamped.get((tp, record.offset), -1))
            return False if alive and tp in self.view.inputs else None
        if tp in self.view.changelogs:
            return self.view.in_state(record)
        answers = [
            received(source, record.offset) or self.view.in_channel(record, source)
            for source in self.view.inputs.get(tp, ())
        ]
        return any(answers) if answers else None

    def outsiders(self, record: LogRecord) -> bool:
        """Return whether a record was sent by a process that had joined by the trigger, and is not part of the
        snapshot."""
        return EXTERNAL < record.process < self.view.epoch and record.process not in self.view.processes

    def execution_in(self, execution: Execution) -> bool | None:
        """Return whether an execution is in the snapshot; None: its app or input is not part of it."""
        source = self.sources.get((execution.app, execution.tp))
        if source is None:
            return None
        for agent in source.agents:
            if agent.agent in (execution.agent, "*"):
                return execution.offset < agent.offset or execution.offset in agent.started_above
        return received(source, execution.offset)

    def torn_after(self, execution: Execution) -> int | None:
        """Return the number of steps of an execution that are in a snapshot that lists it as torn."""
        cut = self.view.processes.get(execution.process)
        for torn in cut.torn if cut is not None else ():
            where = (torn.agent, TopicPartition(torn.topic, torn.partition), torn.offset)
            if (
                where == (execution.agent, execution.tp, execution.offset)
                and (torn.was, torn.met) in execution.torn_at
            ):
                return execution.torn_at[torn.was, torn.met]
        return None

    def elsewhere(self, execution: Execution) -> bool:
        """Return whether it ran in an earlier process than the one that cut its input for the snapshot."""
        source = self.sources.get((execution.app, execution.tp))
        return source is None or self._before(source, execution)

    @staticmethod
    def _before(source: InputCut, execution: Execution) -> bool:
        if execution.process == WITHOUT:
            return False
        return execution.process < 0 or read_before(source, execution.process)

    def replayed(self, execution: Execution) -> bool:
        """Return whether an execution past the position may have left effects, which a verdict with replays tells."""
        source = self.sources.get((execution.app, execution.tp))
        if source is None or not self.replays:
            return False
        if any((torn.agent, torn.offset) == (execution.agent, execution.offset) for torn in source.torn):
            return True  # it ran before, and was torn when it ran again
        until = max((agent.replay_until for agent in source.agents), default=0)
        own = execution.process == source.receiver or self.sent_as(execution) == {source.receiver}
        unannounced = execution.process != source.receiver and received(source, execution.offset)
        return unannounced or (own and execution.offset < until) or self._before(source, execution)

    def sent_as(self, execution: Execution) -> set[int]:
        """Return the processes that sent what the snapshot has of an execution: it may go on under another id."""
        places = (self.steps[n].record for n in execution.steps if self.record_in(self.steps[n]))
        return {self.at[place].process for place in places if place is not None}


def causal(truth: Truth) -> list[Violation]:
    """Find what is wrong with a snapshot, by the true history."""
    runs: dict[tuple[str, str, TopicPartition, int], list[Execution]] = defaultdict(list)
    for execution in truth.executions.values():
        runs[execution.app, execution.agent, execution.tp, execution.offset].append(execution)
    found = [violation for same in runs.values() for violation in _whole(truth, same)]
    found += _channels(truth)
    found += _unread(truth)
    found += _unplaced(truth)
    return [*found, *_depends(truth)]


def _depends(truth: Truth) -> Iterator[Violation]:
    """Check that the snapshot contains what each of its steps depends on, also by way of apps out of its scope."""
    apps, inside = truth.apps, truth.inside
    passed_on: set[int] = set()  # steps of other apps that something in the snapshot depends on
    for step in reversed(truth.steps.values()):
        if not (inside[step.number] or step.number in passed_on):
            continue
        for before in step.after:
            earlier = truth.steps[before]
            if inside[before] is False:
                what = f"{_name_step(step)} is in the snapshot, {_name_step(earlier)} is not"
                yield Violation("consistent", what)
            elif inside[before] is None and earlier.execution >= 0:
                outside = truth.executions[earlier.execution].app not in apps
                passed_on |= {before} if outside else set()


def _whole(truth: Truth, runs: list[Execution]) -> Iterator[Violation]:
    """Check that all effects of an event are in the snapshot, or none. It may have run several times (a replay): then
    each run is in or out as a whole, and of an event in the snapshot one run is in. Set `inside` for the steps that
    left no record."""
    inside, taken = truth.inside, truth.execution_in(runs[0])
    if taken is None:
        return
    some_run_is_in = False
    for execution in runs:
        if execution.undone is not None and execution.undone < truth.view.epoch:
            continue  # undone before its process cut: who has seen its writes has seen what no state ever had
        upto = truth.torn_after(execution)
        judged = [i for i, n in enumerate(execution.steps) if inside[n] is not None]
        effects = [i for i in judged if inside[execution.steps[i]]]
        if upto is None and not taken and truth.replayed(execution):
            # It may have run in white in part; which of its steps that left no record did, nobody can say.
            for n in execution.steps[: effects[-1] + 1 if effects else 0]:
                inside[n] = True if inside[n] is None else inside[n]
            continue
        if upto is None:
            if taken and len(runs) > 1 and not judged:
                # It left nothing: it may have been this one or another, unless it should have left something.
                lost = any(truth.lost(truth.steps[n], execution) for n in execution.steps)
                some_run_is_in = some_run_is_in or not lost
                continue
            if not taken and not judged and truth.elsewhere(execution):
                continue  # an earlier reader ran it and it left nothing: nobody can say when
            upto = len(execution.steps) if taken and (effects or len(runs) == 1) else 0
            some_run_is_in = some_run_is_in or upto > 0
        else:
            some_run_is_in = True
        for i, n in enumerate(execution.steps):
            step = truth.steps[n]
            should = i < upto
            if inside[n] is not None and inside[n] != should:
                how = "is in the snapshot" if inside[n] else "is missing in the snapshot"
                yield Violation("whole", f"{_name_step(step)} of {_name(execution)} {how}")
            elif should and taken and truth.lost(step, execution):
                yield Violation("whole", f"{_name_step(step)} of {_name(execution)} is in no log")
            inside[n] = should
    if taken and not some_run_is_in:
        yield Violation("whole", f"no run of {_name(runs[0])} is in the snapshot")


def _channels(truth: Truth) -> Iterator[Violation]:
    """Check that every app that reads a partition agrees on what was sent before: it is received, or in its channel."""
    for (tp, offset), record in truth.at.items():
        sources = truth.view.inputs.get(tp, ())
        if record.marker or record.process < 0 or not sources:
            continue
        if record.process >= truth.view.epoch and any(received(source, offset) for source in sources):
            yield Violation("channels", f"{tp}@{offset} was received, its sender is not in the snapshot")
        counted = {it.app: received(it, offset) or truth.view.in_channel(record, it) for it in sources}
        if len(set(counted.values())) > 1 and not truth.outsiders(record):
            yield Violation("channels", f"{tp}@{offset} was sent before for one app only: {counted}")


def _unread(truth: Truth) -> Iterator[Violation]:
    """Check that records for an app of the snapshot went into a partition that the snapshot knows."""
    for step in truth.steps.values():
        if truth.inside[step.number] and step.record is not None and step.record in truth.at:
            tp = step.record[0]
            for app in truth.readers.get(tp.topic, ()):
                if truth.reads_unknown(app, tp):
                    what = f"{_name_step(step)} is in the snapshot, and {tp} of app {app} is not"
                    yield Violation("channels", what)


def _unplaced(truth: Truth) -> Iterator[Violation]:
    """Check that the snapshot knows the position of each input whose events have effects in it."""
    for execution in truth.executions.values():
        unknown = truth.reads_unknown(execution.app, execution.tp)
        if unknown and any(truth.inside[n] for n in execution.steps):
            what = f"an effect of {_name(execution)} is in the snapshot, and its input is not"
            yield Violation("channels", what)


def _name_step(step: Step) -> str:
    where = f" at {step.record[0]}@{step.record[1]}" if step.record is not None else ""
    return f"step {step.number} ({step.what}{where})"


def _name(execution: Execution) -> str:
    return (
        f"event {execution.tp}@{execution.offset} of agent {execution.agent}, process {execution.process} "
        f"(execution {execution.number})"
    )
