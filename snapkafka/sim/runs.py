"""One run: a safety phase with faults, a liveness phase without, and the judgement of every captured snapshot."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from snapkafka.checks import (
    GOOD,
    CutView,
    Finding,
    LogBounds,
    Verdict,
    bounds_findings,
    decide,
    find,
    in_flight,
    listed,
    outcome,
    outside_senders,
)
from snapkafka.protocol import LEDGER_CUT_SHORT, NOT_ALIGNED
from snapkafka.protocol.alignment import UNKNOWN, known_graph
from snapkafka.protocol.ledger_state import Status
from snapkafka.protocol.records import NOBODY, TopicPartition
from snapkafka.protocol.snapshots import SnapshotView

from .judge import Truth, Violation, causal
from .world.broker_log import COMMITTED
from .world.steps import step
from .world.world import World
from .world.world_plan import WorldPlan, make_plan

#: The liveness phase: a snapshot triggered when nothing goes wrong any more is captured within so many steps.
LIVENESS_STEPS = 40_000
#: Its names, attempt by attempt: the reports of each show who sends where.
ATTEMPTS: Final = ("at the end", "again", "once more", "at last")
#: So many records come in before a snapshot that must be aligned, and so many steps after each.
LOAD: Final = 8
#: The checks of its logs. No record here has a key, so there is no V3.
CHECKS: Final = ("V1", "V2", "V4", "V5")
#: With other faults a record may get into the log when its sender has left.
IN_ORDER: Final = frozenset({"stop", "restart"})
#: Doubts that come of what processes report of their own sends.
REPORTED: Final = frozenset({"gap-failed", "send-failed"})


@dataclass(slots=True)
class RunOutcome:
    """The result of one seed."""

    seed: int
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    trace: list[str] = field(default_factory=list)
    #: What the causal checker found in snapshots that their verdict calls inconsistent: the protocol's failure all the
    #: same, though nobody would have been misled.
    condemned: list[Violation] = field(default_factory=list)


def run(seed: int, plan: WorldPlan | None = None) -> RunOutcome:
    """Run one seed."""
    world, violations = played(seed, plan)
    condemned: list[Violation] = []
    for epoch in world.fold.snapshots:
        found, verdict = judge(world, epoch)
        (condemned if verdict is Verdict.INCONSISTENT else violations).extend(found)
        if verdict is Verdict.INCONSISTENT and not found:
            what = f"snapshot {epoch} is consistent, and its verdict is {verdict}"
            violations.append(Violation("accused", what))
    return RunOutcome(seed, violations, world.counts, world.trace, condemned)


def played(seed: int, plan: WorldPlan | None = None) -> tuple[World, list[Violation]]:
    """Play the world of a seed through both of its phases; return it with the violations of its liveness."""
    world = World(plan or make_plan(seed), seed)
    for _ in range(world.plan.steps):
        step(world)  # where nothing can happen time goes by, until something comes from outside or goes wrong
    return world, _liveness(world)


def judge(world: World, epoch: int) -> tuple[list[Violation], Verdict | None]:
    """Judge a captured snapshot: return the violations of a consistent cut, and its verdict (None: it was not
    captured).

    If the verdict is that it cannot be proved, nothing is held against it.
    """
    snapshot = world.fold.snapshots[epoch]
    world.count("aborted" if snapshot.status is Status.FAILED else "captured")
    if snapshot.failure is not None:
        world.count(f"failed: {snapshot.failure.code}")
    if snapshot.captured_at is None:
        return [], None
    captured = world.fold.captured(epoch)
    if ran := world.ran.get((world.broker.ledger_id, epoch)):
        captured = replace(captured, contaminated=captured.contaminated or ran)
    records = world.broker.records()
    view = CutView(captured, _bounds(world) if world.plan.recreated else None)
    in_flight_of_living = 0
    for record in records:
        if any(view.in_channel(record, source) for source in view.inputs.get(record.tp, ())):
            world.count("in_flight_of_left" if view.left(record.process) else "in_flight")
            in_flight_of_living += view.living(record.process)
    log = listed(view, records)
    findings = [*(it for check in CHECKS for it in find(check, log)), *bounds_findings(view)]
    outside = [f"process {sender.process}" for sender in outside_senders(view, records)]
    open_paths = [*outside, *(it.app for it in captured.run_without)]
    verdict = verdict_of(view, findings, open_paths)
    world.count(verdict.value)
    world.counts.update(f"found: {finding.kind}" for finding in findings)
    # Who was told that a send failed knows of it: for the rest the snapshot is to be as sound as any other.
    otherwise = verdict_of(view, [finding for finding in findings if finding.kind not in REPORTED], ())
    found = causal(truth_of(world, view, replays=otherwise is Verdict.VERIFIED_WITH_REPLAYS))
    found += [] if verdict not in GOOD else list(_unreported(world, view))
    found += _aligned(world, view, in_flight_of_living)
    found += _handed_over(world, epoch)
    if verdict in GOOD and world.fold.lost_from is not None and snapshot.captured_at >= world.fold.lost_from:
        found.append(Violation("lost", f"the ledger had lost its tail when snapshot {epoch} was captured"))
    if world.plan.stripped and not _shows_stripping(world, view):
        found = []  # nobody who lives had sent there in white: no check can see it
        world.count("stripped_unseen")
    found = [] if otherwise is Verdict.UNVERIFIABLE or verdict is Verdict.VERIFIED_OPEN else found
    found += _doubted(world, view, findings)
    return [*found, *_unlisted(world, view, findings), *_never_read(world, view)], verdict


def truth_of(world: World, view: CutView, *, replays: bool) -> Truth:
    """Return a snapshot with the true history. `replays`: whether its verdict lists some."""
    return Truth(
        view=view,
        steps=world.history.steps,
        executions=world.history.executions,
        records=world.broker.records(truth=True),
        replays=replays,
        readers=world.readers,
        unstamped=world.broker.unstamped,
    )


def _aligned(world: World, view: CutView, in_flight: int) -> Iterator[Violation]:
    """Check that an aligned snapshot has no message in flight."""
    if view.captured.alignment is None:
        return
    world.count("aligned")
    if in_flight:
        what = f"snapshot {view.epoch} is aligned, and {in_flight} messages are in flight"
        yield Violation("aligned", what)


def _handed_over(world: World, epoch: int) -> Iterator[Violation]:
    """Check that whoever hands over its state stood there then where it has cut."""
    for process, (_, report) in world.fold.snapshots[epoch].reports.items():
        given = world.given.get((world.broker.ledger_id, process, epoch))
        if world.fold.app_of(process) in world.plan.states and given != report.positions:
            yield Violation(
                "state", f"process {process} cut for snapshot {epoch}, and handed over another state"
            )


def _unreported(world: World, view: CutView) -> Iterator[Violation]:
    """Check that a failed table write is in no snapshot, and that no good verdict ignores it."""
    there = {(r.ledger, r.process, tp, r.seq) for tp in view.changelogs for r in world.broker.log(tp)}
    for ledger, process, tp, seq in sorted(world.failed.keys() - there):
        of_tables = ledger == world.broker.ledger_id and tp in view.changelogs and view.living(process)
        if of_tables and world.failed[ledger, process, tp, seq] < view.epoch:
            what = f"process {process} was informed that seq {seq} to {tp} failed, and the verdict is good"
            yield Violation("lost", what)


def _shows_stripping(world: World, view: CutView) -> bool:
    """Return whether a living sender knows of a white record of its own that has lost its header."""
    ends = ((end.topic, end.white_end) for ends in view.senders.values() for end in ends.values())
    return any(end > 0 for topic, end in ends if topic in world.plan.stripped)


def _doubted(world: World, view: CutView, findings: list[Finding]) -> Iterator[Violation]:
    """Find doubts without a cause: about sends that were undone with their event, which are not lost; about a topic
    that was recreated, of which its sender knows, as it has sent there in white since; and about processes that left in
    order, when all that they had sent to what is in a snapshot was acknowledged (R8)."""
    for found in findings:
        process, place = found.process, TopicPartition(found.topic, found.partition)
        if found.kind == "send-failed" and not any(
            failed[:3] == (world.broker.ledger_id, process, place) and found.a <= failed[3] <= found.b
            for failed in world.failed
        ):
            what = f"seq {found.a} to {found.b} of process {process} to {place} were undone"
            yield Violation("doubted", what)
        if found.kind == "last-recreated" and any(
            record.process == process and record.epoch < view.epoch and not record.marker
            for record in world.broker.log(place)
        ):
            yield Violation("doubted", f"process {process} knows that {place} was recreated")
        late = found.kind == "left-late" and place in {*view.inputs, *view.changelogs}
        sender = world.fold.processes.get(process) if late else None
        in_order = sender is not None and not (sender.dead or sender.goes_on)
        if in_order and world.plan.faults.keys() <= IN_ORDER:
            what = f"process {process} left in order, and offset {found.offset} is taken for later"
            yield Violation("doubted", what)


def _unlisted(world: World, view: CutView, findings: list[Finding]) -> Iterator[Violation]:
    """Compare the events that V5 lists as run twice with those that two workers truly ran, each with an effect in the
    snapshot. Where the ledger has lost who had read an input, a contaminated snapshot need not list them."""
    if world.fold.loss and view.captured.contaminated:
        return
    at = {(record.tp, record.offset): record for record in world.broker.records(truth=True)}
    sources = {(s.app, TopicPartition(s.topic, s.partition)): s for s in view.captured.inputs}
    by_event: dict[tuple[str, TopicPartition, int], set[int]] = defaultdict(set)
    for execution in world.history.executions.values():
        source = sources.get((execution.app, execution.tp))
        if source is None or in_flight(source, execution.offset):
            continue
        places = (world.history.steps[step].record for step in execution.steps)
        left = (at[place] for place in places if place in at)
        by_event[execution.app, execution.tp, execution.offset] |= {
            view.worker(record.process) for record in left if view.counts_white(record)
        }
    truly = Counter((app, tp.topic) for (app, tp, _), workers in by_event.items() if len(workers) > 1)
    listed = Counter({(f.app, f.topic): f.a for f in findings if f.kind == "ran-twice"})
    for place in sorted(truly.keys() | listed.keys()):
        if truly[place] != listed[place]:
            what = f"{truly[place]} events of {place} ran twice, and {listed[place]} are listed"
            yield Violation("unlisted", what)


def _never_read(world: World, view: CutView) -> Iterator[Violation]:
    """Compare the records below positions that no agent has run with those that the snapshot lists."""
    if "skip" not in world.plan.faults:
        return
    ran = {(it.app, it.agent, it.tp, it.offset) for it in world.history.executions.values()}
    listed = {
        (it.app, TopicPartition(it.topic, it.partition), offset)
        for it in view.captured.never_read
        for offset in range(it.start, it.end)
    }
    for source in view.captured.inputs:
        tp = TopicPartition(source.topic, source.partition)
        log = world.broker.log(tp)
        for agent in source.agents:
            for offset in range(min(agent.offset, len(log))):
                if log[offset].marker or log[offset].state != COMMITTED:
                    continue
                never = (source.app, agent.agent, tp, offset) not in ran
                if never != ((source.app, tp, offset) in listed):
                    what = "was never run, and is not listed" if never else "was run, and is listed"
                    yield Violation("unlisted", f"{tp}@{offset} {what} as never read by {source.app}")


def _bounds(world: World) -> dict[TopicPartition, LogBounds]:
    """Return the present bounds of the logs, and their topics' ids."""
    places = {*world.broker.logs, *world.inputs()}
    return {
        tp: LogBounds(start=0, end=len(world.broker.log(tp)), topic_id=world.topic_id(tp.topic))
        for tp in places
    }


def verdict_of(view: CutView, findings: list[Finding], open_paths: Iterable[str] = ()) -> Verdict:
    """Derive the verdict from the checks' findings."""
    outcomes = [outcome(check, findings) for check in CHECKS]
    replays, contaminated = view.captured.replays, view.captured.contaminated
    return decide(outcomes, replays=replays, open_paths=open_paths, contaminated=contaminated)


def _liveness(world: World) -> list[Violation]:
    """Check that, without further faults, a snapshot is captured within a bound."""
    world.heal()
    _settle(world)
    if not any(True for _ in world.fold.living()) or "ledger" not in world.plan.hear:
        return []  # whoever is told by markers or headers only may never hear of it: no bound holds
    for name in ATTEMPTS:
        if world.plan.acyclic:  # who has cut for an aligned snapshot holds its inputs until its time is over
            for process in list(world.processes):
                for due in sorted(process.timers):
                    process.expire(due)
            _settle(world)
            _load(world)
        world.asked = None
        epoch, steps = world.trigger(name, align=world.plan.acyclic), _settle(world)
        snapshot = world.fold.snapshots.get(epoch or NOBODY)
        code = getattr(getattr(snapshot, "failure", None), "code", "")
        waits_in_vain = snapshot is not None and snapshot.open and _sends_more(world, snapshot)
        if code != NOT_ALIGNED and not waits_in_vain:
            break
    if snapshot is None:
        what = "a snapshot is refused when nothing goes wrong any more"
        return [] if world.fold.loss else [Violation("liveness", what)]
    if world.fold.loss or any(process.lost is not None for process in world.processes):
        what = f"snapshot {snapshot.epoch} is not refused, and its ledger has lost its tail"
        return [] if code == LEDGER_CUT_SHORT else [Violation("liveness", what)]
    unknown = code == NOT_ALIGNED and str(snapshot.failure).endswith(UNKNOWN)
    if snapshot.captured_at is not None or unknown:
        return []
    waits = list(map(str, world.fold.waiting(snapshot.epoch))) if snapshot.open else [str(snapshot.failure)]
    return [Violation("liveness", f"snapshot {snapshot.epoch} was not captured in {steps} steps: {waits}")]


def _sends_more(world: World, snapshot: SnapshotView) -> bool:
    """Return whether an app sends to more than the trigger states; behind that others wait until the time is over."""
    return world.plan.acyclic and known_graph(world.fold, snapshot.apps).stated() != snapshot.trigger.sends


def _load(world: World) -> None:
    """Put records in flight: nothing else could show whether a snapshot is aligned."""
    for _ in range(LOAD):
        world.input_comes()
        for _ in range(LOAD):
            step(world)


def _settle(world: World) -> int:
    """Let everything go on until nothing happens any more, or for very long. Return the number of steps."""
    world.idle.clear()
    return next((steps for steps in range(LIVENESS_STEPS) if not step(world)), LIVENESS_STEPS)
