"""The possible next steps of an explored world, and those that need not be tried in every order.

A *lens* (`SmallWorld.slow`) makes a world smaller: kinds of steps that are not in it happen at once. Within the lens
all orders count, but some need not be examined one by one. A step that is possible now, that nothing else can prevent
or change, and that prevents or changes nothing else, may as well be done now: every run without it has a run with it
that ends the same (a persistent set of one). Time only goes forward here, so no step is delayed for ever. These are:

* *fetching a record that is not red*. It only moves the record into the queue of its agent; the position of a cut
  depends on started events. A rebalance discards both.
* *a step of the only event that can run*, if it reads, writes or sends. Its colour was settled when it started, and
  nobody else has its table. Its markers wait for its end; what it sends waits in the outbox, and leaving that is a
  step of its own. Not if a process may be declared dead, which ends its colour, nor if it may still crash, or its
  inputs be assigned again, in the middle of the event, nor if they were. (This rests on R5, which it could therefore
  not test: the worlds `closing` and `torn` go without.)
* *starting and ending an event that is red for all snapshots*, when no fault can happen any more: no cut asks again.
* *reading ledger records that change nothing*: reports. Not if a process may give up on a
  snapshot, as its record names what it waited for, and not with two snapshots, of which one may have failed meanwhile.
* *appending to a changelog*, if no process ever recovers from it: it has one writer and no reader.

That the outcomes are the same is a test: `tests/sim/test_explore.py` goes through small worlds without all this.

A run is *over* when nothing can happen of itself; or when every snapshot failed, because the first record counts; or
when every snapshot is decided and nothing white is left anywhere: later events lie past every end, and are red.
"""

from __future__ import annotations

from typing import Final

from snapkafka.protocol import Abort, Dead, Hello, Report, TopicPartition, Trigger
from snapkafka.sim import App, Process
from snapkafka.sim.world.history import SimRunning

from .choices import Choice, ExploredWorld
from .lens import PROMPT, SmallWorld

#: Faults by which somebody leaves, or an input moves.
MOVES: Final = frozenset({"abort", "crash", "expel", "fence", "rebalance", "restart", "stop", "expire"})

#: Those after which inputs are assigned again.
GIVEN_ANEW: Final = frozenset({"abort", "expel", "fence", "rebalance", "restart"})


def choices(world: ExploredWorld, small: SmallWorld, *, reduced: bool = True) -> list[Choice]:
    """Return the possible next steps that have to be tried; empty if the run is over."""
    if over(world):
        return []
    moving = bool(MOVES & small.kinds)
    # Without moves nobody asks what was committed.
    moves = [choice for choice in world.possible() if choice.kind != "commit" or moving]
    prompt = [c for c in moves if c.kind in PROMPT and not _slow(world, small, c)]
    if prompt:
        return [min(prompt, key=lambda choice: PROMPT.index(choice.kind))]
    if reduced and small.reduced:
        for choice in moves:
            if choice.process >= 0 and _independent(world, small, choice):
                return [choice]
    if world.triggers and not world.may_trigger():
        pass
    elif world.triggers and "ledger" in world.plan.hear:
        moves.append(Choice("trigger"))
    elif world.triggers:
        joined = [p.number for p in world.processes if p.joined]
        moves += [Choice("trigger", n) for n in joined if small.asks in (-1, n)]
    return [*moves, *world.faulty()] if moves else []


def _slow(world: ExploredWorld, small: SmallWorld, choice: Choice) -> bool:
    """Return whether a choice may be late: by its kind, by its object, or by that and its app."""
    what = world.finely(choice)
    app = world.processes_ever[choice.process].app.name if choice.process >= 0 else ""
    return not small.slow.isdisjoint((choice.kind, what, f"{app} {what}"))


def _independent(world: ExploredWorld, small: SmallWorld, choice: Choice) -> bool:
    """Return whether a choice may be done now without trying the others. (See above.)"""
    process = world.processes_ever[choice.process]
    match choice.kind:
        case "fetch":
            record = world.broker.logs[choice.what][process.consumer.fetch[choice.what]]
            red = record.process >= 0 and record.epoch > process.machine.colours.epoch
            return not record.marker and not red
        case "start":
            return _one_at_a_time(process) and _red_for_good(world, process)
        case "step":
            (running, *others) = (r for r in process.running if r.cause == choice.what)
            return not others and _one_at_a_time(process) and _step_alone(world, small, process, running)
        case "ledger":
            return small.kinds.isdisjoint({"expire"}) and world.plan.snapshots == 1 and _inert(world, process)
        case "append":
            harmless = not (MOVES | {"fail-send", "duplicate"}) & small.kinds
            in_transactions = world.plan.exactly_once  # it may decide which of them the record is in
            return harmless and not in_transactions and choice.what.topic == process.app.changelog
        case _:
            return False


def _one_at_a_time(process: Process) -> bool:
    return sum(agent.concurrency for agent in process.app.agents) == 1


def _step_alone(world: ExploredWorld, small: SmallWorld, process: Process, running: SimRunning) -> bool:
    if running.awaits or running.answer is not None:
        return False
    if "expire" in small.kinds or not _undisturbed(world, process.app):
        return False
    if running.at == len(running.program):
        colours = process.machine.colours
        return _red_for_good(world, process) and colours.running.get(running.cause) == colours.epoch
    kind = running.program[running.at][0]
    return kind in ("read", "write", "buffer", "pause") or (kind == "send" and not process.buffer)


def _undisturbed(world: ExploredWorld, app: App) -> bool:
    """Return whether nothing will interrupt an event of this app any more, and none has lost its input."""
    to_come = any(left and _cuts_in(name, app) for name, left in world.faults.items())
    lost = any(r.consumer is not p.consumer for p in world.processes if p.app is app for r in p.running)
    return not (to_come or app.name in world.unbalanced or lost)


def _cuts_in(name: str, app: App) -> bool:
    fault, _, whose = name.partition(" ")
    return whose in ("", app.name) and (fault == "crash" or (fault in GIVEN_ANEW and app.workers > 1))


def _red_for_good(world: ExploredWorld, process: Process) -> bool:
    """Return whether a process is as red as it will ever be, in a world without further faults."""
    quiet = not world.triggers and not any(world.faults.values()) and not world.unbalanced
    return quiet and process.machine.colours.epoch == world.fold.highest_epoch


def _inert(world: ExploredWorld, process: Process) -> bool:
    record = world.broker.ledger[process.read]
    me = process.machine.process
    if me is None:
        return False
    return isinstance(record, Report)


# -- the end -----------------------------------------------------------------------------------------------------------


def over(world: ExploredWorld) -> bool:
    """Return whether everything is decided that will ever be asked."""
    asked = any(isinstance(record, Trigger) for p in world.processes for record in p.posts)
    if asked or world.triggers or not world.fold.snapshots or world.fold.open:
        return False
    captured = [epoch for epoch, snapshot in world.fold.snapshots.items() if snapshot.failure is None]
    return not captured or all(_all_red(world, process, max(captured)) for process in world.processes)


def _all_red(world: ExploredWorld, process: Process, epoch: int) -> bool:
    """Return whether everything that it does from here on is red for the snapshot, and it keeps its id."""
    machine = process.machine
    view = world.fold.processes.get(machine.process) if machine.process is not None else None
    sends = [*process.buffer, *process.waiting, *(s for queue in process.outbox.values() for s in queue)]
    return (
        view is not None
        and view.left is None
        and machine.colours.epoch >= epoch
        and all(colour >= epoch for colour in machine.colours.running.values())
        and all(sending.effect is None or sending.effect.epoch >= epoch for sending in sends)
        and not any(isinstance(record, Abort | Dead | Hello) for record in process.posts)
        and not _passed_over(process)
    )


def _passed_over(process: Process) -> bool:
    """Return whether a record waits that a cut took for started, because a later one was."""
    queues = process.consumer.queues
    return any(
        waiting[0][0] < noted.offset
        for noted in process.machine.positions.note()
        if (waiting := queues.get((noted.agent, TopicPartition(noted.topic, noted.partition))))
    )
