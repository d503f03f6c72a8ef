"""Consumer groups of the simulator: assignments, the recovery of tables, and commits."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from snapkafka.protocol.events import AssignedInput, InputsAssigned, InputsRevoked
from snapkafka.protocol.records import ChangelogEnd, LogEnd, RunsWithout, TopicPartition

from .broker_log import ABORTED, OPEN
from .history import Memory
from .underway import SimConsumer

if TYPE_CHECKING:
    from .process import Process
    from .surroundings import Surroundings


def rebalance(world: Surroundings[Process], app_name: str) -> None:
    """Revoke everything from all members, and assign it again. A paused member learns of it later."""
    world.unbalanced.discard(app_name)
    app = world.apps[app_name]
    members = [p for p in world.processes if p.app is app and p.connected]
    world.count("rebalances")
    world.say(f"rebalance {app_name}")
    for process in members:
        if world.chance("fence"):
            process.fence()
        elif not world.chance("revoke-uncommitted"):
            commit(world, process)
        revoke(world, process)
    world.generation[app_name] += 1
    if not members:
        return
    shift = world.rng.randrange(len(members))
    everything = [TopicPartition(t, p) for t in app.topics for p in range(world.partitions[t])]
    for index, process in enumerate(members):
        mine = [tp for tp in everything if (tp.partition + shift) % len(members) == index]
        give(world, process, mine)


def revoke(world: Surroundings[Process], process: Process) -> None:
    process.consumer = SimConsumer()
    process.to_announce = None
    process.feed(InputsRevoked())


def rewind(world: Surroundings[Process], process: Process) -> None:
    inputs = list(process.consumer.fetch)
    process.consumer = SimConsumer()
    kept = (LogEnd(topic=tp.topic, partition=tp.partition, end=end) for tp, end in process.kept.items())
    process.feed(InputsRevoked(undone_from=tuple(kept)))
    give(world, process, inputs)


def give(world: Surroundings[Process], process: Process, inputs: list[TopicPartition]) -> None:
    """Recover the tables (R2 holds for their records too), and start at the committed offsets. The broker may be slow
    to report these."""
    app = process.app
    partitions = sorted({tp.partition for tp in inputs})
    memory: dict[int, Memory] = {}
    for partition in partitions:
        memory[partition] = process.memory.get(partition) or _recover(world, process, partition)
    process.memory = memory
    process.consumer = SimConsumer(generation=world.generation[app.name])
    for tp in inputs:
        process.consumer.fetch[tp] = world.broker.committed.get((app.name, tp), 0)
    given = InputsAssigned(
        generation=world.generation[app.name],
        inputs=tuple(
            AssignedInput(
                tp=tp,
                agents=tuple(a.name for a in app.agents if a.topic == tp.topic),
                position=process.consumer.fetch[tp],
                replay_until=_replay_until(world, app.name, tp),
            )
            for tp in inputs
        ),
        changelogs=tuple(
            ChangelogEnd(
                table="t",
                topic=app.changelog,
                partition=p,
                end=len(world.broker.log(TopicPartition(app.changelog, p))),
            )
            for p in partitions
        ),
    )
    if world.chance("late-told"):
        world.count("late_told")
        process.to_announce = given
    else:
        process.feed(given)


def announce_inputs(world: Surroundings[Process], process: Process) -> None:
    """Feed the broker's answer to the machine: the offsets recovered then, and those committed by now."""
    given, process.to_announce = process.to_announce, None
    assert given is not None
    committed = world.broker.committed
    inputs = (replace(item, position=committed.get((process.app.name, item.tp), 0)) for item in given.inputs)
    process.feed(replace(given, inputs=tuple(inputs)))


def _recover(world: Surroundings[Process], process: Process, partition: int) -> Memory:
    memory: Memory = {}
    for record in world.broker.log(TopicPartition(process.app.changelog, partition)):
        if record.state == ABORTED or record.state == OPEN or record.step < 0:
            continue
        world.meets(process, record, "recovery")
        world.history.recovered(memory, record.key, record.value, record.step)
    return memory


def _replay_until(world: Surroundings[Process], app: str, tp: TopicPartition) -> int:
    """Return the offset up to which the changelog shows effects of events of this input."""
    log = world.broker.log(TopicPartition(world.apps[app].changelog, tp.partition))
    readable = (r for r in log if r.state != ABORTED and not r.stripped)
    causes = [r.cause[1] + 1 for r in readable if r.cause is not None and r.cause[0] == tp]
    return max(causes, default=0)


def run_without(world: Surroundings[Process]) -> tuple[RunsWithout, ...]:
    """List the apps out of scope that joined once, and have members that take no part."""
    joined = {view.hello.app for view in world.fold.processes.values()} - {*world.plan.scope}
    members = Counter(p.app.name for p in world.processes if p.connected)
    taking_part = Counter(view.hello.app for view in world.fold.participants())
    return tuple(
        RunsWithout(app=app, topics=world.apps[app].topics)
        for app in sorted(joined)
        if members[app] > taking_part[app]
    )


def commit(world: Surroundings[Process], process: Process) -> None:
    if process.consumer.generation != world.generation[process.app.name] or not process.connected:
        world.count("fenced_commits")
        return
    for tp in process.consumer.fetch:
        key = (process.app.name, tp)
        world.broker.committed[key] = max(process.committable(tp), world.broker.committed.get(key, 0))
