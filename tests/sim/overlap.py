"""A random world in which events have several steps and overlap, as those of a real service do.

Every process has one inbox, which all others send to. Colours come from the machines; what really happened is kept as
a sequence of steps (`computations`).
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from snapkafka.checks import CutView
from snapkafka.protocol import (
    Cause,
    Hello,
    InputTopic,
    Status,
    Table,
    TopicPartition,
    Trigger,
    TriggerAppended,
)
from tests.scenarios.stage import AGENT, Actor, Stage

from .computations import Act, State


@dataclass
class Running:
    cause: Cause
    label: str
    left: int


class Overlap:
    """One world; `run` it once.

    Args:
        seed: decides everything.
        hear: by what the processes may learn of the snapshot.
        markers: are there any?
    """

    def __init__(self, seed: int, *, hear: frozenset[str], markers: bool = True) -> None:
        self.rng = random.Random(seed)
        self.stage = Stage(lambda _: None)
        self.markers = markers
        self.names = [f"P{k}" for k in range(self.rng.randint(2, 4))]
        self.running: dict[str, list[Running]] = {name: [] for name in self.names}
        self.next: dict[str, int] = dict.fromkeys(self.names, 0)
        self.history: list[tuple[Act, int]] = []  # step, epoch
        self.epoch = -1
        self._count = 0
        for name in self.names:
            hello = Hello(
                n=0,
                app=name,
                inputs=(InputTopic(topic=name, partitions=1),),
                tables=(Table(name="t", changelog=f"{name}-t", partitions=1),),
            )
            actor = Actor(self.stage, name, hello, hear=hear)
            actor.append_hello()
            actor.catch_up()
            actor.give({TopicPartition(name, 0): 0})
            actor.catch_up()

    def run(self, length: int) -> None:
        """Random steps, a snapshot somewhere in it; then all of it comes to an end."""
        start = self.rng.randrange(length // 2)
        for at in range(length):
            if at == start:
                self._trigger(self.rng.choice(self.names))
            self._step(self.rng.choice(self.names))
        for name in self.names:
            while self.running[name]:
                self._go_on(name, self.running[name][0])
        for _ in self.names:  # everybody tells everybody: whoever is red makes the others red
            for name in self.names:
                for other in self.names:
                    self._send(name, None, other)
                while self._take_in(name):
                    while self.running[name]:
                        self._go_on(name, self.running[name][0], quiet=True)
        for actor in self.stage.actors.values():
            for sending in list(actor.sending):
                actor.ack(sending)
        for _ in range(3):
            for actor in self.stage.actors.values():
                actor.catch_up()
        assert self.stage.fold.snapshots[self.epoch].status is Status.CAPTURED

    def recorded(self) -> State:
        """The snapshot, from offsets: tables are white changelog records, channels what lies in the ranges."""
        captured = self.stage.fold.captured(self.epoch)
        view, state = CutView(captured), State()
        for end in captured.changelogs:
            log = self.stage.logs[TopicPartition(end.topic, end.partition)][: end.end]
            for stored in log:
                if stored.epoch < self.epoch:
                    key, _, value = stored.name.partition("=")
                    state.tables.setdefault(self.stage.actor_of(end.process), {})[key] = value
        for source in captured.inputs:
            for record in self.stage.log_records():
                if (record.topic, record.partition) == (source.topic, 0) and view.in_channel(record, source):
                    channel = (self.stage.actor_of(record.process), source.topic)
                    name = self.stage.logs[record.tp][record.offset].name
                    state.channels.setdefault(channel, []).append(name)
        return state

    @property
    def acts(self) -> list[Act]:
        return [act for act, _ in self.history]

    @property
    def white(self) -> list[bool]:
        return [epoch < self.epoch for _, epoch in self.history]

    def overtaken(self) -> int:
        """Red records that lie before a white one of the same sender, in one partition."""
        found = 0
        for name in self.names:
            log = [s for s in self.stage.logs[TopicPartition(name, 0)] if not s.marker]
            for k, red in enumerate(log):
                later = (s for s in log[k + 1 :] if s.process == red.process)
                found += red.epoch >= self.epoch and any(s.epoch < self.epoch for s in later)
        return found

    def late(self) -> int:
        """White steps of events that were running when their process turned red, after its first red step."""
        found, red = 0, set()
        for act, epoch in self.history:
            if epoch >= self.epoch:
                red.add(act.process)
            else:
                found += act.process in red
        return found

    # -- steps ------------------------------------------------------------------------------------------------

    def _trigger(self, name: str) -> None:
        actor = self.stage.actors[name]
        topics = tuple(self.names) if self.markers else ()
        trigger = Trigger(n=self.stage.number(), id="s", marker_topics=topics)
        actor.feed(TriggerAppended(n=trigger.n))
        self.epoch = self.stage.append(trigger) + 1
        actor.catch_up()

    def _step(self, name: str) -> None:
        actor, dice = self.stage.actors[name], self.rng.random()
        if dice < 0.3:
            self._take_in(name)
        elif dice < 0.75 and self.running[name]:
            self._go_on(name, self.rng.choice(self.running[name]))
        elif dice < 0.85:
            self._send(name, None, self.rng.choice(self.names))
        elif dice < 0.95 and actor.sending:
            actor.ack(actor.sending[0])
        elif dice < 0.97:
            actor.catch_up()

    def _take_in(self, name: str) -> bool:
        """The next record of the inbox: an event starts on it, and overwrites a key that all events share."""
        actor, tp, offset = self.stage.actors[name], TopicPartition(name, 0), self.next[name]
        if offset >= len(self.stage.logs[tp]):
            return False
        self.next[name] = offset + 1
        stored = actor.come_to(tp, offset)
        if stored.marker:
            return True
        cause, label = Cause(AGENT, tp, offset), f"{name}@{offset}"
        actor.do(actor.machine.event_started(cause))
        self.running[name].append(Running(cause, label, self.rng.randrange(4)))
        received = ((self.stage.actor_of(stored.process), name), stored.name)
        write = (f"k{self.rng.randrange(2)}", label)
        self._out(actor, cause, label, write=write, received=received)
        return True

    def _go_on(self, name: str, event: Running, *, quiet: bool = False) -> None:
        """The event sends, or writes a key of its own, or is done."""
        actor = self.stage.actors[name]
        if event.left == 0 or quiet:
            self.running[name].remove(event)
            actor.do(actor.machine.event_ended(event.cause))
            return
        event.left -= 1
        if self.rng.random() < 0.3:
            write = (f"{event.label}.{event.left}", "late")
            self._out(actor, event.cause, event.label, write=write)
        else:
            self._send(name, event, self.rng.choice(self.names))

    def _send(self, name: str, event: Running | None, to: str) -> None:
        self._count += 1
        actor, message = self.stage.actors[name], f"m{self._count}"
        cause, label = (event.cause, event.label) if event is not None else (None, message)
        self._out(actor, cause, label, send=((name, to), message))

    def _out(
        self,
        actor: Actor,
        cause: Cause | None,
        label: str,
        *,
        received: tuple[tuple[str, str], str] | None = None,
        write: tuple[str, str] | None = None,
        send: tuple[tuple[str, str], str] | None = None,
    ) -> None:
        """One step: what goes out of it is entered, stamped, appended; acknowledged some time later."""
        epoch = -1
        if write is not None:
            tp, what = TopicPartition(f"{actor.name}-t", 0), "=".join(write)
        else:
            assert send is not None
            tp, what = TopicPartition(send[0][1], 0), send[1]
        sending = actor.enter(tp, what, cause)
        epoch = sending.effect.epoch
        actor.leave(sending)
        self.history.append((Act(actor.name, label, received, write, send), epoch))
