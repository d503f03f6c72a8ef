"""What happens next in a random run: a step of a process, something from outside, or a fault, each with its own
chance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from snapkafka.protocol.events import LedgerRecreated
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import TopicPartition

from .broker_log import COMMITTED, FORGER, SimStored
from .cluster import RARE
from .process import Process
from .world import World

#: Stands for every process of a ledger that is gone.
GONE: Final = -2
#: So many records are lost at once, as far as there are so many: mostly few.
TAILS: Final = (1, 2, 4, 8, 16, 25)
#: What other processes see.
SEEN: Final = frozenset({"post", "append", "commit-transaction"})


def step(world: World) -> bool:
    """Let one thing happen; False: nothing can."""
    if not world.healthy and strike(world):
        return True
    if world.healthy and _restart_bare(world):
        return True
    if world.unbalanced and (world.healthy or world.rng.random() < 0.2):
        world.rebalance(min(world.unbalanced))
        return True
    if _outside(world):
        return True
    waiting = [process for process in world.processes if not (process.paused or process in world.idle)]
    while waiting:
        process = waiting.pop(int(world.rng.random() * len(waiting)))
        options = list(process.choices())
        if not options:
            world.idle.add(process)
            continue
        weights = RARE if world.healthy else world.slow
        ((kind, what),) = world.rng.choices(options, [weights.get(kind, 1.0) for kind, _ in options])
        line = f"p{process.number} {kind} {'' if what is None else getattr(what, 'cause', what)}"
        (world.say if kind in SEEN else world.trace.append)(line)
        process.perform(kind, what)
        return True
    return bool(world.unbalanced)


def _restart_bare(world: World) -> bool:
    """Restart with snapkafka a process that runs without it, as soon as it has nothing in flight."""
    process = next((p for p in world.processes if p.bare and p.may_stop), None)
    if process is not None:
        world.stop(process)
        world.launch(process.app.name)
    return process is not None


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
    return world.plan.retries > 0 and world.rng.random() < 0.02 and _ask_again(world)


def _able(world: World) -> bool:
    """Return whether a process takes part, and each input has a reader, if the author looks."""
    ready = world.rng.random() < 0.2 or not world.fold.unassigned(world.plan.scope)
    return ready and any(True for _ in world.fold.living())


def _ask_again(world: World) -> bool:
    """Trigger a snapshot again that failed, as the next attempt."""
    for id_, attempt in [
        (it.trigger.id, it.trigger.attempt) for it in world.fold.snapshots.values() if it.failure
    ]:
        if attempt <= world.plan.retries and (id_, attempt + 1) not in world.fold.by_id and _able(world):
            world.count("retries")
            world.trigger(id_, attempt=attempt + 1)
            return True
    return False


# -- faults ---------------------------------------------------------------------------------------------------------


def strike(world: World) -> bool:
    """Inject a fault, if chance decides so; return whether it did."""
    for fault in world.plan.faults:
        if fault in FAULTS and world.draws(fault):
            able, suffer = FAULTS[fault]
            if them := able(world):
                world.count(fault)
                world.say(fault)
                suffer(world, world.rng.choice(them))
            return bool(them)
    return False


def awake(world: World) -> list[Process]:
    return [process for process in world.processes if not process.paused]


def _timers(world: World) -> list[tuple[Process, int]]:
    return [(p, epoch) for p in awake(world) for epoch in sorted(p.timers & world.fold.open.keys())]


def _wake(world: World, process: Process) -> None:
    """Resume a paused process; if its group had expelled it meanwhile, it is a zombie for a while."""
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


def _add_partition(world: World, topic: str) -> None:
    world.partitions[topic] += 1
    world.unbalanced |= {*world.readers[topic]}


def _forge(world: World, tp: TopicPartition) -> None:
    """Let an external writer write a record with an invented header."""
    epoch = world.rng.randrange(1, len(world.broker.ledger) + 20)
    if not world.fold.is_epoch(epoch):  # that one would be true
        world.broker.append(tp, SimStored(process=FORGER, epoch=epoch, seq=0, ledger=world.broker.ledger_id))


def _written(world: World) -> list[tuple[TopicPartition, SimStored]]:
    logs = [(tp, log) for tp, log in world.broker.logs.items() if tp.topic in world.plan.externals]
    return [(tp, it) for tp, log in logs for it in log if it.step >= 0 and it.state == COMMITTED]


def _queue_again(world: World, written: tuple[TopicPartition, SimStored]) -> None:
    """Let a retry tool, or a tool for dead letters, write a record again, with all its headers."""
    tp, record = written
    world.broker.append(tp, replace(record, copied=True, hops=0))


def _recreate_topic(world: World, topic: str) -> None:
    """Recreate a topic, and restart its readers; its senders run on."""
    readers = [p for p in world.processes if topic in p.app.topics]
    for process in readers:
        world.crash(process)
    world.topic_ids[topic] += 1
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


def _recreate_ledger(world: World, _: object) -> None:
    """Recreate the ledger: every id and epoch of the old one is void."""
    world.broker.ledger = []
    world.broker.ledger_id += 1
    world.fold, world.asked = LedgerState(), None
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


def _ends(world: World) -> list[int]:
    """Return where the ledger may end after it has lost its tail.

    The protocol promises nothing where all who had seen the last records of the tail have ended. So a process that has
    not reported its loss does not crash here, and no tail is lost of which the living have seen less than the dead, nor
    one that says of a loss.
    """
    ledger, fold = world.broker.ledger, world.fold
    if len(ledger) < 2 or fold.loss:
        return []
    seen = max((process.seen for process in world.processes), default=0)
    stamped = (n for log in world.broker.logs.values() for r in log for n in (r.process + 1, r.epoch))
    used = max((n for n in stamped if n <= len(ledger)), default=0)
    used = max(used, *(p + 1 for p in fold.processes), fold.highest_epoch, 0)
    ends = [max(1, len(ledger) - tail) for tail in TAILS]
    return [since for since in ends if used <= max(seen, since)]


def _cut_short(world: World, since: int) -> None:
    """Let the ledger lose its tail, acknowledged records, some of them read.

    A process that had read or written beyond the new end notices that at some later step, and not before: until then
    it goes on, and reads on where the ledger has grown past that place again. Then it says so, and takes no part any
    more.
    """
    del world.broker.ledger[since:]
    world.fold, world.asked = LedgerState(), None
    for offset, record in enumerate(world.broker.ledger):
        world.fold.apply(offset, record)
    for process in world.processes:
        if process.seen > since:
            process.lost = since if process.lost is None else min(process.lost, since)


def _passed(world: World) -> list[tuple[Process, TopicPartition]]:
    """Return the inputs in which there is something to skip."""
    joined, log = [p for p in awake(world) if p.joined], world.broker.log
    return [(p, tp) for p in joined for tp, at in p.consumer.fetch.items() if at < len(log(tp))]


#: By the name of a fault: what it may happen to, and what it does to one of these.
FAULTS: Final[dict[str, tuple[Callable[[World], Sequence[Any]], Callable[[World, Any], object]]]] = {
    "crash": (lambda world: [p for p in awake(world) if not p.knows_of_a_loss], World.crash),
    "restart": (World.missing, World.launch),
    "rebalance": (lambda world: world.plan.apps, lambda world, app: world.unbalanced.add(app.name)),
    "pause": (awake, lambda _, process: setattr(process, "paused", True)),
    "wake": (lambda world: [p for p in world.processes if p.paused], _wake),
    "expire": (_timers, lambda _, timer: timer[0].expire(timer[1])),
    "stop": (lambda world: [p for p in awake(world) if p.may_stop], World.stop),
    "partition": (lambda world: world.plan.externals, _add_partition),
    "forge": (World.inputs, _forge),
    "queue-again": (_written, _queue_again),
    # The broker serves a send that its sender has given up.
    "land-late": (
        lambda world: range(len(world.in_queue)),
        lambda world, at: world.append_late(*world.in_queue.pop(at)),
    ),
    "recreate": (lambda world: ("the ledger",), _recreate_ledger),
    "cut-short": (_ends, _cut_short),
    # A worker has waited long enough for the ledger, and runs its inputs unannounced (R15).
    "impatient": (
        lambda world: [
            p for p in awake(world) if p.machine.process is not None and not (p.joined or p.impatient)
        ],
        lambda _, process: process.go_on(),
    ),
    "stand-down": (
        lambda world: [p for p in awake(world) if p.joined],
        lambda _, process: process.stand_down(),
    ),
    "recreate-topic": (lambda world: world.plan.recreated, _recreate_topic),
    # The ledger hangs for a process out of scope.
    "hang": (
        lambda world: [
            p for p in world.processes if p.joined and p.app.name not in world.plan.scope and not p.hung
        ],
        lambda _, process: setattr(process, "hung", True),
    ),
    "abort": (
        lambda world: [p for p in awake(world) if p.may_abort()],
        lambda _, process: process.perform("abort-transaction", None),
    ),
    "skip": (_passed, lambda _, passed: passed[0].skip(passed[1])),
    "window": (
        lambda world: [
            (p, f"t{partition}", memory)
            for p in awake(world)
            for partition, memory in p.memory.items()
            if memory and p.machine.process is not None
        ],
        lambda _, window: window[0].expire_window(*window[1:]),
    ),
}
