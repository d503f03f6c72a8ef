"""The world of the simulator: workers that join and leave, groups that rebalance, and triggers.

One random number generator decides; the same seed gives the same run, byte for byte. What happens next is drawn by
`steps`, or enumerated by the explorer (`tests/sim/explore`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from snapkafka.protocol.alignment import known_graph
from snapkafka.protocol.events import StopAsked
from snapkafka.protocol.records import (
    Bye,
    Dead,
    Hello,
    InputTopic,
    LogEnd,
    RunsWithout,
    TopicPartition,
    Trigger,
)

from .broker_log import ABORTED
from .cluster import Cluster
from .process import Process
from .world_plan import WorldPlan


class World(Cluster):
    """The whole world."""

    processes: list[Process]
    processes_ever: list[Process]

    def __init__(self, plan: WorldPlan, seed: int) -> None:
        super().__init__(plan, seed)
        self.inputs_left, self.snapshots_left = plan.inputs, plan.snapshots
        for name in plan.off:
            topics = self.apps[name].topics if not plan.scope else ()
            inputs = tuple(InputTopic(topic=t, partitions=self.partitions[t]) for t in topics)
            hello = Hello(n=self.number(), app=name, inputs=inputs)
            self.append_to_ledger(Bye(process=self.append_to_ledger(hello), n=1))
        while missing := self.missing():
            self.launch(missing[0])

    # -- workers and their groups ------------------------------------------------------------------------------

    def missing(self) -> list[str]:
        """List the apps that have too few workers."""
        return [a.name for a in self.plan.apps if sum(p.app is a for p in self.processes) < a.workers]

    def launch(self, app: str) -> None:
        without = (app in self.plan.off and not self.healthy) or self.chance("bare")
        late = not without and self.chance("late-hello")
        process = Process(self, len(self.processes_ever), self.apps[app], without=without, late=late)
        self.processes.append(process)
        self.processes_ever.append(process)
        self.unbalanced.add(app)
        self.say(f"p{process.number} launched for {app}")

    def crash(self, process: Process) -> None:
        self._end(process, "crashed")
        for running in (*process.running, *process.finished):
            running.execution.died = True
        for sending in process.transaction:
            sending.record = self.broker.end(sending.tp, sending.offset, ABORTED)

    def stop(self, process: Process) -> None:
        """Stop a process in order, one that may (`Process.may_stop`)."""
        process.commit()
        process.feed(StopAsked())
        while process.posts:
            self.append_to_ledger(process.posts.popleft())
        self._end(process, "stopped")

    def _end(self, process: Process, how: str) -> None:
        self.processes.remove(process)
        self.unbalanced.add(process.app.name)
        self.say(f"p{process.number} {how}")

    def rebalance(self, name: str) -> None:
        """Revoke everything from all members, and assign it again. A paused member learns of it later."""
        self.unbalanced.discard(name)
        app = self.apps[name]
        members = [p for p in self.processes if p.app is app and p.connected]
        self.count("rebalances")
        self.say(f"rebalance {name}")
        for process in members:
            if self.chance("fence"):
                process.fence()
            elif not self.chance("revoke-uncommitted"):
                process.commit()
            process.revoke()
        self.generation[name] += 1
        if not members:
            return
        shift = self.rng.randrange(len(members))
        everything = [TopicPartition(t, p) for t in app.topics for p in range(self.partitions[t])]
        for index, process in enumerate(members):
            process.give([tp for tp in everything if (tp.partition + shift) % len(members) == index])

    # -- snapshots -----------------------------------------------------------------------------------------------

    def ends(self) -> tuple[LogEnd, ...]:
        """Return the present log ends of all inputs."""
        return tuple(
            LogEnd(topic=tp.topic, partition=tp.partition, end=len(self.broker.log(tp)))
            for tp in sorted(self.inputs())
            if self.readers[tp.topic]
        )

    def run_without(self) -> tuple[RunsWithout, ...]:
        """List the apps out of scope that joined once, and have members that take no part."""
        joined = {view.hello.app for view in self.fold.processes.values()} - {*self.plan.scope}
        members = Counter(p.app.name for p in self.processes if p.connected)
        taking_part = Counter(view.hello.app for view in self.fold.participants())
        return tuple(
            RunsWithout(app=app, topics=self.apps[app].topics)
            for app in sorted(joined)
            if members[app] > taking_part[app]
        )

    def trigger(self, name: str, attempt: int = 1, *, align: bool | None = None) -> int:
        """Trigger a snapshot; return its epoch, 0: it is refused, or not in the ledger yet.

        Args:
            align: None: by chance, if the plan has aligned ones.
        """
        self.say(f"trigger {name}")
        if align is None:
            align = self.plan.align and self.rng.random() < 0.7
        graph = known_graph(self.fold, self.fold.topics_of(self.fold.standing(self.plan.scope)))
        align = align and not graph.cycle()
        seen = self.asked or self.look(self.ends())
        self.asked = None
        if seen is None:
            return 0
        asked_at, ends, stopped = seen
        record = Trigger(
            n=self.number(),
            id=name,
            attempt=attempt,
            ends=() if self.chance("unread-ends") else ends,  # who triggers may not describe the inputs
            marker_topics=self.plan.marker_topics,
            apps=self.plan.scope,
            run_without=self.run_without() if self.plan.scope else (),
            stopped=stopped,
            asked_at=asked_at,
            align=align,
            sends=graph.stated() if align else (),
        )
        if "ledger" in self.plan.hear:
            return self.append_to_ledger(record) + 1
        # No process learns of it by the ledger, so a participant triggers it.
        joined = [p for p in self.processes if p.joined and not p.paused]
        if joined:
            process = self.rng.choice(joined)
            process.posts.append(replace(record, process=process.machine.author))
        return 0

    # -- the end -----------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """End all faults: missing processes come back, suspended ones wake up, and who is not there is declared
        dead. What was sent so far leads to nothing more."""
        self.healthy = True
        for record in (record for log in self.broker.logs.values() for record in log):
            record.hops = 0
        for process in self.processes:
            process.hung = False
            if process.paused or not process.connected:
                process.paused = False
                if process.consumer.generation != self.generation[process.app.name]:
                    process.revoke()
                process.connected = True
                self.unbalanced.add(process.app.name)
        while missing := self.missing():
            self.launch(missing[0])
        here = {p.machine.process for p in self.processes}
        for dead in [view.process for view in self.fold.living() if view.process not in here]:
            self.append_to_ledger(Dead(n=self.number(), dead=dead))
