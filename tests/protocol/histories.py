"""Random histories: a few processes of three apps in a `World`, which join, work, hand over inputs, stop, die, come
back, and take snapshots that end well or badly. One seed decides everything."""

from __future__ import annotations

import random

from snapkafka.protocol import (
    NOBODY,
    RESTORE,
    Abort,
    AgentPosition,
    AppendHello,
    AskStopped,
    Cause,
    ChangelogEnd,
    Dead,
    Hello,
    InputsRevoked,
    LogEnd,
    Pause,
    Position,
    Restore,
    RestoreStage,
    Retire,
    StopAsked,
    StoppedSeen,
    TimerExpired,
    TopicPartition,
    Trigger,
    Verdict,
)

from .world import Process, World

APPS = {
    "p": (TopicPartition("a", 0), TopicPartition("a", 1)),
    "q": (TopicPartition("b", 0),),
    "r": (TopicPartition("c", 0),),
}
TOPICS = [tp for inputs in APPS.values() for tp in inputs]

STEPS = {
    "hear": 12,
    "work": 6,
    "finish": 6,
    "send": 4,
    "ack": 5,
    "trigger": 3,
    "ask": 3,
    "join": 1,
    "move": 2,
    "wake": 0.4,
    "stop": 0.5,
    "die": 0.5,
    "abort": 0.4,
    "expire": 0.4,
    "repeat": 0.7,
    "verdict": 0.7,
    "retire": 0.3,
    "pause": 0.15,
    "resume": 0.4,
    "restore": 0.8,
    "garbage": 0.2,
}


class History:
    """A world that moves by itself: `step` does one random thing."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = World()
        self.processes: list[Process] = []
        self.running: list[tuple[Process, Cause]] = []
        self.generation = 0
        for app in APPS:
            self._join(app)

    def play(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        kind = self.rng.choices(list(STEPS), list(STEPS.values()))[0]
        getattr(self, f"_{kind}")()
        for process in self.processes:
            self._answer(process)

    def _answer(self, process: Process) -> None:
        """What only a driver can do: join again, ask the broker about an app that does not run."""
        for action in [a for a in process.asked if isinstance(a, AppendHello | AskStopped)]:
            process.asked.remove(action)
            if isinstance(action, AppendHello):
                process.join(action.was)
            elif self.rng.random() < 0.8:
                process.feed(
                    StoppedSeen(
                        epoch=action.epoch,
                        app=action.app,
                        asked_at=action.asked_at,
                        positions=tuple(
                            Position(agent="*", topic=tp.topic, partition=tp.partition, offset=0)
                            for tp in action.inputs
                        ),
                        changelogs=tuple(
                            ChangelogEnd(table=t.name, topic=t.changelog, partition=0, end=0)
                            for t in action.tables
                        ),
                        ends=tuple(
                            LogEnd(topic=tp.topic, partition=tp.partition, end=9) for tp in action.inputs
                        ),
                    )
                )

    # -- what processes do ------------------------------------------------------------------------------------

    def _hear(self) -> None:
        process = self.rng.choice(self.processes)
        process.catch_up(min(len(self.world.ledger), process.read + self.rng.randint(1, 8)))

    def _work(self) -> None:
        process = self.rng.choice(self.processes)
        if process.machine.process is not None and process.machine.inputs.ready:
            for position in process.machine.positions.note()[:1]:
                tp = TopicPartition(position.topic, position.partition)
                self.running.append((process, process.start(tp, position.offset)))

    def _finish(self) -> None:
        if self.running:
            process, event = self.running.pop(self.rng.randrange(len(self.running)))
            process.end(event)

    def _send(self) -> None:
        process = self.rng.choice(self.processes)
        if process.machine.process is not None:
            mine = [event for other, event in self.running if other is process]
            process.send(self.rng.choice(TOPICS), self.rng.choice([None, *mine]), ack=False)

    def _ack(self) -> None:
        self.rng.choice(self.processes).ack()

    # -- who has what -----------------------------------------------------------------------------------------

    def _join(self, app: str = "") -> None:
        if len(self.processes) < 6:
            app = app or self.rng.choice(list(APPS))
            self.processes.append(Process(self.world, app, APPS[app], assign=False))
            self._move(app)

    def _move(self, app: str = "") -> None:
        """A rebalance of one app."""
        app = app or self.rng.choice(list(APPS))
        members = [process for process in self.processes if process.app == app]
        if not members:
            return
        self.generation += 1
        given: dict[int, list[TopicPartition]] = {k: [] for k in range(len(members))}
        for tp in APPS[app]:
            given[self.rng.randrange(len(members))].append(tp)
        for k, process in enumerate(members):
            process.feed(InputsRevoked())
            process.give(*given[k], generation=self.generation)

    def _wake(self) -> None:
        """Somebody says late what it was given long ago."""
        process = self.rng.choice(self.processes)
        process.give(*APPS[process.app], generation=max(1, self.generation - 2))

    def _stop(self) -> None:
        if len(self.processes) > 1:
            process = self.processes.pop(self.rng.randrange(len(self.processes)))
            process.feed(StopAsked())
            self._forget(process)

    def _die(self) -> None:
        """Somebody is taken for dead; it may live all the same."""
        living = [process for process in self.processes if process.machine.process is not None]
        if len(living) > 1:
            process = self.rng.choice(living)
            self._say(Dead(n=self._number(), dead=process.id))
            if self.rng.random() < 0.6:
                self.processes.remove(process)
                self._forget(process)

    def _forget(self, gone: Process) -> None:
        self.running = [(process, event) for process, event in self.running if process is not gone]

    # -- snapshots --------------------------------------------------------------------------------------------

    def _trigger(self) -> None:
        name = f"snapshot {self.rng.randint(1, 30)}"
        apps = self.rng.choice([(), (), (), ("p",), ("p", "q")])
        self._say(Trigger(n=self._number(), id=name, apps=apps, marker_topics=("a", "b")))

    def _ask(self) -> None:
        """Everybody reads on and finishes: a snapshot is captured now and then."""
        for process, event in self.running:
            process.end(event)
        self.running.clear()
        for process in [*self.processes, *self.processes]:
            process.ack()
            process.catch_up()

    def _abort(self) -> None:
        if self.world.fold.snapshots:
            epoch = self.rng.choice(list(self.world.fold.snapshots))
            self._say(Abort(n=self._number(), epoch=epoch, code="by-hand", reason="because"))

    def _expire(self) -> None:
        if self.world.fold.open:
            self.rng.choice(self.processes).feed(
                TimerExpired(epoch=self.rng.choice(list(self.world.fold.open)))
            )

    def _verdict(self) -> None:
        if self.world.fold.snapshots:
            epoch = self.rng.choice(list(self.world.fold.snapshots))
            self._say(Verdict(n=self._number(), epoch=epoch, verdict=f"VERIFIED {self._number()}"))

    def _retire(self) -> None:
        self._say(Retire(n=self._number(), app=self.rng.choice(list(APPS))))

    def _pause(self) -> None:
        self._say(Pause(n=self._number(), paused=True))

    def _resume(self) -> None:
        self._say(Pause(n=self._number(), paused=False))

    def _restore(self) -> None:
        """A restore takes a step, or one that lost its plan tries to."""
        open_plan = self.world.fold.restores.open
        stages: tuple[RestoreStage, ...] = ("begun", "ready", "done") if open_plan is not None else ("begun",)
        stage = self.rng.choice(stages)
        author = self.rng.choice([NOBODY, open_plan.author]) if open_plan is not None else NOBODY
        if stage == "begun" and self.rng.random() < 0.7:
            self._say(Hello(n=self._number(), app="restoring", mode=RESTORE))
            author = len(self.world.ledger) - 1
        apps = self.rng.choice([("p",), ("p", "q"), ("q", "r")])
        tps = [tp for app in apps for tp in APPS[app]]
        self._say(
            Restore(
                n=self._number(),
                plan=open_plan.plan if open_plan is not None else f"plan {self._number()}",
                stage=stage if self.rng.random() < 0.7 else "aborted",
                apps=apps,
                author=author,
                ends=tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=5) for tp in tps),
                positions=tuple(
                    AgentPosition(app=app, agent="*", topic=tp.topic, partition=tp.partition, offset=4)
                    for app in apps
                    for tp in APPS[app]
                ),
            )
        )

    def _repeat(self) -> None:
        """A producer retries: one of the latest records is in the ledger a second time."""
        self._say(self.rng.choice(self.world.ledger[-20:]))

    def _garbage(self) -> None:
        """A record of somebody who is none of ours."""
        self._say(Abort(process=NOBODY, n=self._number(), epoch=10**6, code="x", reason="y"))

    def _say(self, record: object) -> None:
        self.world.append(record)  # type: ignore[arg-type]

    def _number(self) -> int:
        self.world.numbers += 1
        return self.world.numbers
