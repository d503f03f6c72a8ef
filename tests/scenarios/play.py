"""The commands of the golden scenarios, each told by its docstring."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from snapkafka.protocol import (
    HEAR_ALL,
    NOBODY,
    RESTORE,
    Abort,
    Absence,
    AgentPosition,
    Cause,
    Dead,
    Hello,
    InputsRevoked,
    InputTopic,
    LogEnd,
    MarkerMet,
    Pause,
    RecordMet,
    Restore,
    RestoreStage,
    Retire,
    StopAsked,
    Table,
    TimerExpired,
    TopicPartition,
    Trigger,
    Verdict,
)
from snapkafka.protocol.alignment import known_graph
from snapkafka.sim import load_story, play_story

from . import words
from .language import SEPARATOR, Words, parts_of, place_of, tp_of
from .stage import AGENT, HELD, Actor, Sending, Stage


class Play:
    """One scenario, played."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines: list[str] = []
        self.stage = Stage(says=self._lines.append)
        self._entered: dict[str, Sending] = {}
        self._asked: tuple[int, tuple[LogEnd, ...]] | None = (
            None  # how far the ledger was read, and the log ends then
        )

    def run(self, commands: list[str]) -> list[str]:
        """What came of the commands, line by line."""
        self._lines.clear()
        for line in commands:
            before = len(self._lines)
            command = Words(line)
            do: Callable[[Words], None] | None = getattr(self, f"do_{command.next()}", None)
            assert do is not None, f"{line!r}: there is no such command"
            do(command)
            command.done()
            if len(commands) > 1:
                self._lines[before:] = [f"> {line}", *(f"  {said}" for said in self._lines[before:])]
        return list(self._lines) or ["(nothing)"]

    def say(self, line: str) -> None:
        self.stage.says(line)

    def actor(self, command: Words) -> Actor:
        name = command.next()
        assert name in self.stage.actors, f"{command.line!r}: there is no process {name}"
        return self.stage.actors[name]

    def epoch(self, name: str) -> int:
        """The snapshot of that name; `s#2` is its second attempt."""
        snapshot, _, attempt = name.partition("#")
        return self.stage.fold.by_id[snapshot, int(attempt or 1)]

    # -- processes and the ledger -----------------------------------------------------------------------------

    def do_process(self, command: Words) -> None:
        """process P1 app=a [inputs=A[0]@2,B] [topics=A:2] [tables=t] [outputs=C] [hear=markers]
        [unassigned]: it joins, reads the ledger, and is given its inputs"""
        name, app = command.next(), command.option("app")
        inputs = dict(place_of(item) for item in command.options_list("inputs"))
        counts = {tp.topic: 1 + max(t.partition for t in inputs if t.topic == tp.topic) for tp in inputs}
        counts |= {
            item.partition(":")[0]: int(item.partition(":")[2]) for item in command.options_list("topics")
        }
        tables = command.options_list("tables")
        hello = Hello(
            n=0,
            app=app or name,
            host=name,
            inputs=tuple(
                InputTopic(topic=topic, partitions=count) for topic, count in sorted(counts.items())
            ),
            tables=tuple(
                Table(name=table, changelog=f"{app or name}-{table}-changelog", partitions=1)
                for table in tables
            ),
        )
        hear = frozenset(command.options_list("hear")) or HEAR_ALL
        actor = Actor(self.stage, name, hello, hear=hear)
        actor.append_hello()
        actor.catch_up()
        for output in command.options_list("outputs"):
            # known before anything was sent there, so that markers go there too
            actor.machine.colours.sent_to(tp_of(output))
        if not command.flag("unassigned"):
            actor.give(inputs)
            actor.catch_up()

    def do_trigger(self, command: Words) -> None:
        """trigger s1 [by=P1] [attempt=2] [ttl_ms=100] [apps=a,b] [markers=none] [align]"""
        asker = command.option("by")
        topics = {source.topic for actor in self.stage.actors.values() for source in actor.hello.inputs}
        apps = tuple(command.options_list("apps"))
        asked_at, ends = self._asked or self._asks()
        fold = self.stage.fold
        trigger = Trigger(
            process=self.stage.actors[asker].machine.author if asker else NOBODY,
            n=self.stage.number(),
            id=command.next(),
            attempt=int(command.option("attempt", "1")),
            who=asker,
            ttl_ms=int(command.option("ttl_ms", "5000")),
            apps=apps,
            marker_topics=() if command.option("markers") == "none" else tuple(sorted(topics)),
            ends=ends,
            asked_at=asked_at,
            stopped=self.stage.stopped(self.stage.committed, apps),
            align=command.flag("align"),
            sends=known_graph(fold, fold.topics_of(fold.standing(apps))).stated(),
        )
        self._asked = None
        offset = self.stage.append(trigger)
        if asker:
            self.stage.actors[asker].catch_up(offset)

    def do_asks(self, command: Words) -> None:
        """asks: the author of the next trigger has read the ledger, and asks for the log ends of all inputs"""
        self._asked = self._asks()

    def _asks(self) -> tuple[int, tuple[LogEnd, ...]]:
        return len(self.stage.ledger), self.stage.ends()

    def do_read(self, command: Words) -> None:
        """read P1 [upto=5] | read all"""
        if command.flag("all"):
            while any(actor.read < len(self.stage.ledger) for actor in self.stage.actors.values()):
                for actor in self.stage.actors.values():
                    actor.catch_up()
            return
        upto = command.option("upto")
        self.actor(command).catch_up(int(upto) if upto else None)

    def do_hold(self, command: Words) -> None:
        """hold P1 ledger markers ends"""
        actor = self.actor(command)
        for kind in command.rest():
            assert kind in HELD, f"{kind} cannot be held back, only {', '.join(HELD)}"
            actor.held.setdefault(kind, deque())

    def do_release(self, command: Words) -> None:
        """release P1 [ledger]"""
        actor = self.actor(command)
        actor.release(command.rest() or list(actor.held))

    def do_lose(self, command: Words) -> None:
        """lose P1 REASON: the markers held back cannot be sent"""
        self.actor(command).lose_markers(command.next())

    # -- events and sends -------------------------------------------------------------------------------------

    def do_come(self, command: Words) -> None:
        """come P2 B[0]@1: P2 is about to take this record in"""
        actor, (tp, offset) = self.actor(command), place_of(command.next())
        stored = actor.come_to(tp, offset)
        what = "a marker, for the recorder" if stored.marker else f"{stored.name or 'a record'}"
        self.say(f"{actor.name} comes to {what} ({words.epoch(stored.epoch, self.stage)})")

    def do_forge(self, command: Words) -> None:
        """forge P2 77 header|marker: P2 meets an epoch that nobody asked for"""
        actor, epoch = self.actor(command), int(command.next())
        event = MarkerMet(epoch=epoch) if command.next() == "marker" else RecordMet(epoch=epoch)
        actor.meet(event)
        self.say(f"{actor.name} is {words.epoch(actor.machine.colours.epoch, self.stage)}")

    def do_start(self, command: Words) -> None:
        """start P1 A[0]@3"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        actor.do(actor.machine.event_started(cause))
        colour = words.epoch(actor.machine.colours.running[cause], self.stage)
        self.say(f"{actor.name} starts {cause.tp}@{cause.offset}, {colour}")

    def do_end(self, command: Words) -> None:
        """end P1 A[0]@3"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        actor.do(actor.machine.event_ended(cause))

    def do_touch(self, command: Words) -> None:
        """touch P1 A[0]@3 t KEY read|write: the running event uses a key of a table"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        table, key, write = command.next(), command.next(), command.next() == "write"
        if actor.machine.colours.tearing:
            with self._says_who_is_torn(actor):
                actor.do(actor.machine.torn(actor.machine.colours.touch(cause, table, key, write=write)))
        if write:
            changelog = next(t.changelog for t in actor.hello.tables if t.name == table)
            self._send(actor, TopicPartition(changelog, cause.tp.partition), key, cause)

    def do_value(self, command: Words) -> None:
        """value P1 A[0]@3 t KEY [unrecorded]: the running event looks up what changes in place, and holds it; a change
        of that leaves no record until it is set"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        table, key, unrecorded = command.next(), command.next(), command.flag("unrecorded")
        with self._says_who_is_torn(actor):
            actor.do(actor.machine.torn(actor.machine.colours.hold(cause, table, key, unrecorded=unrecorded)))

    def do_iterate(self, command: Words) -> None:
        """iterate P1 A[0]@3 t: the running event begins to go over a table"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        with self._says_who_is_torn(actor):
            actor.do(actor.machine.torn(actor.machine.colours.iterate(cause, command.next())))

    @contextmanager
    def _says_who_is_torn(self, actor: Actor) -> Iterator[None]:
        before = dict(actor.machine.colours.running)
        yield
        for cause, colour in actor.machine.colours.running.items():
            if colour != before[cause]:
                now = words.epoch(colour, self.stage)
                self.say(f"{actor.name} tears {cause.tp}@{cause.offset}, which goes on {now}")

    def do_send(self, command: Words) -> None:
        """send P1 B[0] [NAME] [from=A[0]@3] [unacked]"""
        actor, tp, cause = self.actor(command), tp_of(command.next()), self._cause(command)
        unacked = command.flag("unacked")
        self._send(actor, tp, next(iter(command.rest()), ""), cause, ack=not unacked)

    def do_enter(self, command: Words) -> None:
        """enter P1 B[0] NAME [from=A[0]@3]: a send enters; it leaves later"""
        actor, tp, name = self.actor(command), tp_of(command.next()), command.next()
        sending = self._entered[name] = actor.enter(tp, name, self._cause(command))
        self.say(f"{name} is {words.epoch(sending.effect.epoch, self.stage)}")

    def do_leave(self, command: Words) -> None:
        """leave P1 NAME: it is appended, and acknowledged"""
        actor, sending = self.actor(command), self._entered.pop(command.next())
        actor.leave(sending)
        self._say_sent(actor, sending)
        actor.ack(sending)

    def do_ack(self, command: Words) -> None:
        """ack P1: all that is on its way is acknowledged"""
        actor = self.actor(command)
        for sending in [sending for sending in actor.sending if sending.offset >= 0]:
            actor.ack(sending)

    def do_fail(self, command: Words) -> None:
        """fail P1 REASON: the oldest send that is on its way fails"""
        actor = self.actor(command)
        actor.fail(next(s for s in actor.sending if s.offset >= 0), command.next())

    def do_does(self, command: Words) -> None:
        """does P1 EVENT [on=A[0]@3] [sends=B[0]:NAME]: a whole event, which writes its name to the first table"""
        actor, event = self.actor(command), command.next()
        on, sends = command.option("on"), command.option("sends")
        cause = None
        if on:
            cause = Cause(AGENT, *place_of(on))
            stored = actor.come_to(*place_of(on))
            assert not stored.marker, f"{on} is a marker"
            actor.do(actor.machine.event_started(cause))
        changelog = TopicPartition(actor.hello.tables[0].changelog, cause.tp.partition if cause else 0)
        self._send(actor, changelog, event, cause, quiet=True)
        if sends:
            to, _, name = sends.partition(":")
            self._send(actor, tp_of(to), name, cause)
        if cause is not None:
            actor.do(actor.machine.event_ended(cause))

    def _cause(self, command: Words) -> Cause | None:
        place = command.option("from")
        return Cause(AGENT, *place_of(place)) if place else None

    def _send(
        self,
        actor: Actor,
        tp: TopicPartition,
        name: str,
        cause: Cause | None,
        *,
        ack: bool = True,
        quiet: bool = False,
    ) -> None:
        sending = actor.enter(tp, name, cause)
        actor.leave(sending)
        if not quiet:
            self._say_sent(actor, sending)
        if ack:
            actor.ack(sending)

    def _say_sent(self, actor: Actor, sending: Sending) -> None:
        colour = words.epoch(sending.effect.epoch, self.stage)
        what = sending.name or "a record"
        self.say(f"{sending.tp}@{sending.offset}: {what} of {actor.name}, {colour}, seq {sending.seq}")

    # -- inputs that move, processes that go ------------------------------------------------------------------

    def do_take(self, command: Words) -> None:
        """take P1: a rebalance takes its inputs away"""
        self.actor(command).feed(InputsRevoked())

    def do_give(self, command: Words) -> None:
        """give P1 [A[0]@3 ...] [replay_until=5]: a rebalance gives it these, and it reads the ledger up to its end"""
        actor, until = self.actor(command), int(command.option("replay_until", "0"))
        actor.give(dict(place_of(item) for item in command.rest()), replay_until=until)
        actor.catch_up()

    def do_rebalance(self, command: Words) -> None:
        """rebalance A[0]@3 from=P1 to=P2: P2 gets it on top of what it has"""
        tp, offset = place_of(command.next())
        giver, taker = (self.stage.actors[command.option(side)] for side in ("from", "to"))
        held = {actor: actor.positions() for actor in (giver, taker)}
        for actor in (giver, taker):
            actor.feed(InputsRevoked())
        giver.give({other: at for other, at in held[giver].items() if other != tp})
        taker.give({**held[taker], tp: offset})
        taker.catch_up()

    def do_commits(self, command: Words) -> None:
        """commits A[0]@3: what the group of its reader has committed, for when it does not run"""
        tp, offset = place_of(command.next())
        self.stage.committed[tp] = offset

    def do_reply(self, command: Words) -> None:
        """reply P1 A[0]@3 B[0]@1: the running event takes in the reply that lies there"""
        actor, cause = self.actor(command), Cause(AGENT, *place_of(command.next()))
        stored = actor.come_to(*place_of(command.next()))
        actor.do(actor.machine.torn(actor.machine.colours.tear(cause, stored.epoch)))

    def do_absent(self, command: Words) -> None:
        """absent P1: from here on it works without the machine being asked (R15)"""
        self.actor(command).feed(Absence())

    def do_back(self, command: Words) -> None:
        """back P1: the machine is asked again"""
        self.actor(command).feed(Absence(over=True))

    def do_pause(self, command: Words) -> None:
        """pause on|off"""
        self.stage.append(Pause(n=self.stage.number(), paused=command.next() == "on"))

    def do_stop(self, command: Words) -> None:
        """stop P1"""
        self.actor(command).feed(StopAsked())

    def do_crash(self, command: Words) -> None:
        """crash P1: it is gone, and says nothing"""
        del self.stage.actors[command.next()]

    def do_dead(self, command: Words) -> None:
        """dead P1: somebody says so"""
        name = command.next()
        process = max(process for process, actor in self.stage.names.items() if actor == name)
        self.stage.append(Dead(n=self.stage.number(), dead=process))

    def do_expire(self, command: Words) -> None:
        """expire P1 s1: the time to live of s1 is over, and P1 notices; again: the while after it"""
        actor, epoch = self.actor(command), self.epoch(command.next())
        actor.feed(TimerExpired(epoch=epoch))

    def do_abort(self, command: Words) -> None:
        """abort s1 REASON"""
        epoch = self.epoch(command.next())
        self.stage.append(Abort(n=self.stage.number(), epoch=epoch, code="by-hand", reason=command.next()))

    def do_retire(self, command: Words) -> None:
        """retire APP"""
        self.stage.append(Retire(n=self.stage.number(), app=command.next()))

    def do_verdict(self, command: Words) -> None:
        """verdict s1 VERIFIED"""
        epoch = self.epoch(command.next())
        self.stage.append(Verdict(n=self.stage.number(), epoch=epoch, verdict=command.next()))

    def do_restore(self, command: Words) -> None:
        """restore PLAN begun apps=a [by=R] | restore PLAN done by=R [apps=a] [at=A[0]@3,A[0]@5] | restore PLAN
        aborted: a restore reaches a stage; R joins with the mode "restore" when it is first named. `at`: where the
        agent starts, and what it does not take above"""
        plan, reached, by = command.next(), command.next(), command.option("by")
        apps = tuple(command.options_list("apps"))
        if by and by not in self.stage.names.values():
            hello = Hello(n=self.stage.number(), app=f"restore-{plan}", host=by, mode=RESTORE)
            self.stage.append(hello)
        author = next((process for process, name in self.stage.names.items() if name == by), NOBODY)
        places: dict[TopicPartition, list[int]] = {}
        for item in command.options_list("at"):
            tp, offset = place_of(item)
            places.setdefault(tp, []).append(offset)
        self.stage.append(
            Restore(
                n=self.stage.number(),
                plan=plan,
                stage=cast(RestoreStage, reached),
                snapshot="s1",
                apps=apps,
                author=author,
                ends=self.stage.ends(self.stage.logs) if reached == "done" else (),
                positions=tuple(
                    AgentPosition(
                        app=app,
                        agent=AGENT,
                        topic=tp.topic,
                        partition=tp.partition,
                        offset=offset,
                        started_above=tuple(above),
                    )
                    for app in apps
                    for tp, (offset, *above) in places.items()
                ),
            )
        )

    def do_repeat(self, command: Words) -> None:
        """repeat 4: the record at this ledger offset is in the ledger a second time"""
        self.stage.append(self.stage.ledger[int(command.next())])

    # -- looking ----------------------------------------------------------------------------------------------

    def do_show(self, command: Words) -> None:
        """show s1 | show P1 | show log B[0] | show ledger"""
        what = command.next()
        if what == "log":
            for offset, stored in enumerate(self.stage.logs[tp_of(command.next())]):
                colour = words.epoch(stored.epoch, self.stage)
                name = "marker" if stored.marker else stored.name or "a record"
                self.say(f"@{offset} {name} of {self.stage.actor_of(stored.process)}, {colour}")
        elif what == "ledger":
            for offset, record in enumerate(self.stage.ledger):
                self.say(f"{offset}: {words.record(record, self.stage)}")
        elif what in self.stage.actors:
            machine = self.stage.actors[what].machine
            who = "a stranger" if machine.process is None else f"process {machine.process}"
            open_cuts = ", ".join(self.stage.ids[epoch] for epoch in sorted(machine.open.cuts)) or "none"
            colour = words.epoch(machine.colours.epoch, self.stage)
            self.say(f"{what} is {who}, {colour}, open cuts: {open_cuts}")
        else:
            for line in words.snapshot(self.stage.fold.snapshots[self.epoch(what)], self.stage):
                self.say(line)

    def do_story(self, command: Words) -> None:
        """story FILE.json [one-ledger]: what `python -m snapkafka.sim run` says"""
        one_ledger = command.flag("one-ledger")
        for outcome in play_story(load_story(self._directory / command.next()), one_ledger=one_ledger):
            self.say(json.dumps(outcome.as_data()))


def played(text: str, directory: Path) -> str:
    """The text of a file as it should be: the same commands, and what really comes of them."""
    play = Play(directory)
    blocks = []
    for part in parts_of(text):
        output = play.run(part.commands)
        blocks.append("\n".join([part.head, *([SEPARATOR, *output] if part.commands else [])]))
    return "\n\n".join(blocks) + "\n"
