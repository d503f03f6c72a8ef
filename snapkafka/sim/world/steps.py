"""What happens next in a random run: a step of a process, something from outside, or a fault, each with its own
chance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from snapkafka.protocol.events import Absence, LedgerRecreated
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import pause_after

from .broker_log import COMMITTED, FORGER, SimStored
from .process import Process
from .world import World

T = TypeVar("T")
#: Stands for every process of a ledger that is gone.
GONE: Final = -2
#: So many records are lost at once, as far as there are so many: mostly few.
TAILS: Final = (1, 2, 4, 8, 16, 25)
#: What a process does now and then, by how often beside all else; in some worlds other things are slow, too.
RARE: Final = dict.fromkeys(("commit", "commit-transaction", "tick"), 0.1)
#: Steps of the system between a failed attempt and the next one: the first time, and at most.
PAUSE_STEPS: Final = 10
PAUSE_STEPS_MAX: Final = 100


def step(world: World) -> bool:
    """Let one thing happen; False: nothing can."""
    if not world.healthy and strike(world):
        return True
    if world.healthy and world.restart_bare():
        return True
    if world.unbalanced and (world.healthy or world.rng.random() < 0.2):
        world.rebalance(min(world.unbalanced))
        return True
    if _outside(world):
        return True
    awake = [process for process in world.processes if not process.paused]
    world.rng.shuffle(awake)
    for process in awake:
        options = list(process.choices())
        if not options:
            continue
        weights = RARE if world.healthy else world.plan.slow | RARE
        ((kind, what),) = world.rng.choices(options, [weights.get(kind, 1.0) for kind, _ in options])
        world.say(f"p{process.number} {kind} {'' if what is None else getattr(what, 'cause', what)}")
        process.perform(kind, what)
        return True
    return bool(world.unbalanced)


def _outside(world: World) -> bool:
    """Send external input, or trigger a snapshot."""
    if world.inputs_left and world.rng.random() < 0.05:
        world.inputs_left -= 1
        world.input_comes()
        return True
    if world.plan.asked_early and (world.asked is None or world.rng.random() < 0.02):
        world.asked = world.look(world.ends())
    if world.snapshots_left and world.rng.random() < 0.02 and _able(world):
        world.snapshots_left -= 1
        world.trigger(f"s{world.snapshots_left}")
        return True
    return world.plan.retries > 0 and _ask_again(world)


def _able(world: World) -> bool:
    """Return whether a process takes part, and each input has a reader, if the author looks."""
    ready = world.rng.random() < 0.2 or not world.fold.unassigned(world.plan.scope)
    return ready and any(True for _ in world.fold.living())


def _ask_again(world: World) -> bool:
    """Trigger a snapshot again that failed some time ago, as the next attempt."""
    for epoch, view in world.fold.snapshots.items():
        id_, attempt = view.trigger.id, view.trigger.attempt
        if view.failure is None or attempt > world.plan.retries or (id_, attempt + 1) in world.fold.by_id:
            continue
        place = (world.broker.ledger_id, epoch)
        if place not in world.due:
            pause = pause_after(attempt, world.rng.random(), first=PAUSE_STEPS, most=PAUSE_STEPS_MAX)
            world.due[place] = len(world.trace) + pause
        if len(world.trace) >= world.due[place] and _able(world):
            world.due[place] = math.inf
            world.count("retries")
            world.trigger(id_, attempt=attempt + 1)
            return True
    return False


# -- faults ---------------------------------------------------------------------------------------------------------


def strike(world: World) -> bool:
    """Inject a fault, if chance decides so; return whether it did."""
    processes = [p for p in world.processes if not p.paused]
    if processes and world.chance("crash"):
        mortal = [p for p in processes if not p.knows_of_a_loss]  # see `_cut_short`
        if mortal:
            world.crash(world.rng.choice(mortal))
    elif world.chance("restart"):
        missing = [a.name for a in world.plan.apps if sum(p.app is a for p in world.processes) < a.workers]
        return _one(world, missing, world.launch)
    elif world.chance("rebalance"):
        world.unbalanced.add(world.rng.choice(world.plan.apps).name)
    elif processes and world.chance("pause"):
        world.rng.choice(processes).paused = True
        world.count("pauses")
    elif world.chance("wake"):
        return _one(world, [p for p in world.processes if p.paused], _wake)
    elif world.chance("expire"):
        asking = [(p, epoch) for p in processes for epoch in sorted(p.timers & world.fold.open.keys())]
        return _one(world, asking, _expire)
    elif processes and world.chance("stop"):
        return world.stop(world.rng.choice(processes))
    elif world.chance("partition"):
        topic = world.rng.choice(world.plan.externals)
        world.partitions[topic] += 1
        world.count("partitions_added")
        world.unbalanced |= {app.name for app in world.plan.apps if topic in app.topics}
    elif world.chance("forge"):
        _forge(world)
    elif world.chance("copy"):  # with a header that an external writer copied from elsewhere: it is external
        world.broker.append(world.any_input(), SimStored())
        world.count("copied")
    elif world.chance("queue-again"):
        return _queue_again(world)
    elif world.chance("land-late"):
        return world.land()
    elif world.chance("recreate"):
        _recreate_ledger(world)
    elif world.chance("cut-short"):
        return _cut_short(world)
    elif processes and world.chance("absent"):
        _absent(world, world.rng.choice(processes))
    elif world.chance("impatient"):
        waiting = [p for p in processes if p.machine.process is not None and not (p.joined or p.impatient)]
        return _one(world, waiting, _go_on_unannounced)
    elif world.chance("stand-down"):
        return _one(world, [p for p in processes if p.joined], Process.stand_down)
    elif world.chance("recreate-topic"):
        _recreate_topic(world)
    elif world.chance("hang"):
        outside = [p for p in world.processes if p.joined and p.app.name not in world.plan.scope]
        return _one(world, [p for p in outside if not p.hung], _hang)
    elif world.chance("abort"):
        able = [p for p in processes if p.may_abort()]
        return _one(world, able, lambda process: process.perform("abort-transaction", None))
    elif processes and world.chance("skip"):
        return world.rng.choice(processes).skip()
    elif processes and world.chance("window"):
        return world.rng.choice(processes).expire_window()
    else:
        return False
    return True


def _one(world: World, able: list[T], suffer: Callable[[T], object]) -> bool:
    """Let one of those suffer that can; return whether there is one."""
    if able:
        suffer(world.rng.choice(able))
    return bool(able)


def _expire(asking: tuple[Process, int]) -> None:
    process, epoch = asking
    process.world.count("expired")
    process.expire(epoch)


def _hang(process: Process) -> None:
    """Let the ledger hang for a process."""
    process.hung = True
    process.world.count("hung")


def _wake(process: Process) -> None:
    """Resume a paused process; if its group had expelled it meanwhile, it is a zombie for a while."""
    world = process.world
    if process.connected and world.rng.random() < 0.5:
        process.connected = False  # the group gives up on it, and somebody else reads its inputs
        world.unbalanced.add(process.app.name)
        return
    process.paused = False
    if not process.connected and process.consumer.generation != world.generation[process.app.name]:
        world.count("zombies")
        for _ in range(world.rng.randrange(8)):
            options = [c for c in process.choices() if c[0] not in ("commit", "ledger")]
            if not options:
                break
            process.perform(*world.rng.choice(options))
        process.revoke()
    if not process.connected:
        process.connected = True
        world.unbalanced.add(process.app.name)


def _forge(world: World) -> None:
    """Let an external writer write a record with an invented header."""
    tp = world.any_input()
    epoch = world.rng.randrange(1, len(world.broker.ledger) + 20)
    if world.fold.is_epoch(epoch):
        return  # that one would be true
    world.broker.append(tp, SimStored(process=FORGER, epoch=epoch, seq=0, ledger=world.broker.ledger_id))
    world.count("forged")


def _queue_again(world: World) -> bool:
    """Let a retry tool, or a tool for dead letters, write a record again, with all its headers."""
    written = [
        (tp, record)
        for tp, log in world.broker.logs.items()
        if tp.topic in world.plan.externals
        for record in log
        if record.step >= 0 and record.state == COMMITTED
    ]
    if not written:
        return False
    tp, record = world.rng.choice(written)
    world.broker.append(tp, replace(record, copied=True, hops=0))
    world.count("queued_again")
    return True


def _absent(world: World, process: Process) -> None:
    if process.running or process.buffer or not process.joined:
        return
    world.count("absences")
    process.feed(Absence())
    process.feed(Absence(over=True))


def _go_on_unannounced(process: Process) -> None:
    """Let a worker run its inputs unannounced: it has waited long enough for the ledger (R15)."""
    process.world.count("unannounced")
    process.go_on()


def _recreate_topic(world: World) -> None:
    """Recreate a topic, and restart its readers; its senders run on."""
    topic = world.rng.choice(sorted(world.plan.recreated))
    readers = [p for p in world.processes if topic in p.app.topics]
    for process in readers:
        world.crash(process)
    world.topic_ids[topic] += 1
    world.count("topics_recreated")
    world.say(f"{topic} recreated")
    for tp in [tp for tp in world.broker.logs if tp.topic == topic]:
        gone = TopicPartition(f"{topic} before {world.topic_ids[topic]}", tp.partition)
        del world.broker.logs[tp]
        world.broker.committed = {at: n for at, n in world.broker.committed.items() if at[1] != tp}
        for step in world.history.steps.values():
            if step.record is not None and step.record[0] == tp:
                step.record, step.failed = (gone, step.record[1]), True
        for execution in world.history.executions.values():
            if execution.tp == tp:
                execution.tp = gone
    for process in readers:
        world.launch(process.app.name)


def _recreate_ledger(world: World) -> None:
    """Recreate the ledger: every id and epoch of the old one is void."""
    world.count("ledgers_recreated")
    world.say("ledger recreated")
    world.broker.ledger = []
    world.broker.ledger_id += 1
    world.fold = LedgerState()
    world.asked = None
    for execution in world.history.executions.values():
        execution.process = GONE  # its number may be that of another process from here on
    for step in world.history.steps.values():
        step.instant = None  # likewise
    for process in world.processes:
        process.read = 0
        process.posts.clear()
        process.timers.clear()
        process.missed = None  # an offset of a ledger that is gone
        process.feed(LedgerRecreated())
        process.made_up_for()


def _cut_short(world: World) -> bool:
    """Let the ledger lose its tail, acknowledged records, some of them read; return whether it did.

    A process that had read or written beyond the new end notices that at some later step, and not before: until then
    it goes on, and reads on where the ledger has grown past that place again. Then it says so, and takes no part any
    more.

    The protocol promises nothing where all who had seen the last records of the tail have ended. So a process that has
    not reported its loss does not crash here, and no tail is lost of which the living have seen less than the dead, nor
    one that says of a loss.
    """
    ledger, fold = world.broker.ledger, world.fold
    if len(ledger) < 2 or fold.loss:
        return False
    since = max(1, len(ledger) - world.rng.choice(TAILS))
    seen = max((process.seen for process in world.processes), default=0)
    stamped = (n for log in world.broker.logs.values() for r in log for n in (r.process + 1, r.epoch))
    used = max((n for n in stamped if n <= len(ledger)), default=0)
    if max(used, *(p + 1 for p in fold.processes), fold.highest_epoch, 0) > max(seen, since):
        return False
    world.count("ledgers_cut_short")
    world.say(f"the ledger ends at {since} again")
    del ledger[since:]
    world.fold = LedgerState()
    for offset, record in enumerate(ledger):
        world.fold.apply(offset, record)
    world.due = {place: due for place, due in world.due.items() if place[1] <= since}
    world.asked = None
    for process in world.processes:
        if process.seen > since:
            process.lost = since if process.lost is None else min(process.lost, since)
    return True
