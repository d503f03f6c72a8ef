"""The golden scenarios, played: each command is a case of `Play.do`.

A file is a story in parts: comments (`#`), commands, a line `----`, and what came of the commands, up to an empty line.
`pytest tests/scenarios --rewrite` writes that part again.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import NamedTuple

from snapkafka.protocol.alignment import known_graph
from snapkafka.protocol.events import Absence, InputsRevoked, MarkerMet, RecordMet, StopAsked, TimerExpired
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.offsets import NOBODY, InputTopic, LogEnd, Table, TopicPartition
from snapkafka.protocol.records import Abort, Dead, Hello, Pause, Retire, Verdict
from snapkafka.protocol.tearing import Cause
from snapkafka.protocol.worker import HEAR_ALL
from snapkafka.sim import load_story, play_story
from tests.protocol.world import AGENT, Process, Sending, World

from . import words

SEPARATOR = "----"
#: What a scenario can hold back.
HELD = ("ledger", "markers")


class Part(NamedTuple):
    """Comments and commands as they stand, and the commands alone."""

    head: str
    commands: list[str]


def parts_of(text: str) -> list[Part]:
    """The parts of a file."""
    parts = []
    for block in text.strip().split("\n\n"):
        head, separator, _ = block.partition(f"\n{SEPARATOR}")
        lines = [line.split(" #")[0].strip() for line in head.splitlines()]
        commands = [line for line in lines if line and not line.startswith("#")]
        assert separator or not commands, f"no {SEPARATOR} after {head!r}"
        parts.append(Part(head, commands))
    return parts


def tp_of(text: str) -> TopicPartition:
    """`A[0]`, or `A` for the only partition of A."""
    topic, _, partition = text.partition("[")
    return TopicPartition(topic, int(partition.rstrip("]") or 0))


def place_of(text: str) -> tuple[TopicPartition, int]:
    """`A[0]@3`."""
    tp, _, offset = text.partition("@")
    return tp_of(tp), int(offset or 0)


class Command:
    """One command: its words, and its options, which are taken one by one."""

    def __init__(self, line: str) -> None:
        self.line = line
        every = shlex.split(line)
        self.words = [word for word in every if "=" not in word]
        self.options = dict(word.split("=", 1) for word in every if "=" in word)

    def option(self, name: str, default: str = "") -> str:
        return self.options.pop(name, default)

    def options_list(self, name: str) -> list[str]:
        return [item for item in self.option(name).split(",") if item]


class Play:
    """One scenario, played."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lines: list[str] = []
        self.stage, self.actors = World(says=self._lines.append), dict[str, Process]()
        #: By the groups of their readers, for when these do not run.
        self._committed: dict[TopicPartition, int] = {}
        self._entered: dict[str, Sending] = {}
        self._line = ""
        #: How far the ledger was read, and the log ends then, by the author of the next trigger.
        self._asked: tuple[int, tuple[LogEnd, ...]] | None = None

    def run(self, commands: list[str]) -> list[str]:
        """What came of the commands, line by line."""
        self._lines.clear()
        for line in commands:
            before = len(self._lines)
            self._line, command = line, Command(line)
            self.do(command)
            assert not command.options, f"{line!r}: what is {command.options}?"
            if len(commands) > 1:
                self._lines[before:] = [f"> {line}", *(f"  {said}" for said in self._lines[before:])]
        return list(self._lines) or ["(nothing)"]

    def do(self, command: Command) -> None:
        stage, actor, option = self.stage, self._actor, command.option
        number = stage.number
        match command.words:
            # -- processes and the ledger -------------------------------------------------------------------------
            case ["process", name]:  # it joins, reads the ledger, and is given its inputs
                self._process(name, command)
            case ["trigger", name, *flags]:
                self._trigger(name, command, align=flags == ["align"])
            case ["asks"]:  # the author of the next trigger has read the ledger, and asks for all log ends
                self._asked = len(stage.ledger), stage.ends()
            case ["read", "all"]:
                while any(who.read < len(stage.ledger) for who in self.actors.values()):
                    for who in self.actors.values():
                        who.catch_up()
            case ["read", name]:
                actor(name).catch_up()
            case ["hold", name, *kinds] if {*kinds} <= {*HELD}:
                actor(name).held |= {kind: [] for kind in kinds}
            case ["release", name, *kinds]:
                actor(name).release(kinds or list(actor(name).held))
            case ["repeat", offset]:  # the record at this ledger offset is in the ledger a second time
                stage.append(stage.ledger[int(offset)])
            # -- events and sends ---------------------------------------------------------------------------------
            case ["come", name, place]:  # it is about to take this record in
                stored = actor(name).come_to(*place_of(place))
                what = "a marker, for the recorder" if stored.marker else f"{stored.name or 'a record'}"
                stage.tell(f"{name} comes to {what} ({words.epoch(stored.epoch, stage)})")
            case ["forge", name, epoch, kind]:  # it meets an epoch that nobody asked for
                met: type[MarkerMet] | type[RecordMet] = MarkerMet if kind == "marker" else RecordMet
                actor(name).meet(met(epoch=int(epoch)))
                stage.tell(f"{name} is {words.epoch(actor(name).machine.colours.epoch, stage)}")
            case ["start", name, place]:
                cause = _cause(place)
                actor(name).do(actor(name).machine.event_started(cause))
                colour = words.epoch(actor(name).machine.colours.running[cause], stage)
                stage.tell(f"{name} starts {cause.tp}@{cause.offset}, {colour}")
            case ["end", name, place]:
                actor(name).do(actor(name).machine.event_ended(_cause(place)))
            case ["touch", name, place, table, key, "read" | "write" as how]:  # the running event uses a key
                who, cause = actor(name), _cause(place)
                colours, before = who.machine.colours, dict(who.machine.colours.running)
                if colours.tearing:
                    who.do(who.machine.torn(colours.touch(cause, table, key, write=how == "write")))
                for torn in (torn for torn, colour in colours.running.items() if colour != before[torn]):
                    now = words.epoch(colours.running[torn], stage)
                    stage.tell(f"{name} tears {torn.tp}@{torn.offset}, which goes on {now}")
                if how == "write":
                    changelog = next(t.changelog for t in who.hello.tables if t.name == table)
                    self._leave(who, who.enter(TopicPartition(changelog, cause.tp.partition), cause, key))
            case ["send", name, to, *what]:
                named = next((word for word in what if word != "unacked"), "")
                sending = actor(name).enter(tp_of(to), _caused(option("from")), named)
                self._leave(actor(name), sending, ack="unacked" not in what)
            case ["enter", name, to, what]:  # a send enters; it leaves later
                sending = actor(name).enter(tp_of(to), _caused(option("from")), what)
                self._entered[what] = sending
                stage.tell(f"{what} is {words.epoch(sending.effect.epoch, stage)}")
            case ["leave", name, what]:  # it is appended, and acknowledged
                self._leave(actor(name), self._entered.pop(what))
            case ["ack", name]:  # all that is on its way is acknowledged
                actor(name).ack()
            case ["fail", name, reason]:  # the oldest send that is on its way fails
                actor(name).settle(SendOutcome.REFUSED, reason=reason)
            case ["does", name, event]:  # a whole event, which writes its name to the first table
                self._does(actor(name), event, option("on"), option("sends"))
            # -- inputs that move, processes that go --------------------------------------------------------------
            case ["take", name]:  # a rebalance takes its inputs away
                actor(name).feed(InputsRevoked())
            case ["give", name, *places]:  # a rebalance gives it these, and it reads the ledger up to its end
                until = int(option("replay_until", "0"))
                given = dict(map(place_of, places))
                actor(name).give(*given, positions=given, replay_until=until)
            case ["rebalance", place]:  # the taker gets it on top of what it has
                (tp, start), giver, taker = place_of(place), actor(option("from")), actor(option("to"))
                held = {who: who.positions() for who in (giver, taker)}
                for who in held:
                    who.feed(InputsRevoked())
                left = {other: at for other, at in held[giver].items() if other != tp}
                giver.give(*left, positions=left, read=False)
                taker.give(*held[taker], tp, positions={**held[taker], tp: start})
            case ["commits", place]:  # what the group of its reader has committed, for when it does not run
                self._committed.update([place_of(place)])
            case ["absent" | "back" as how, name]:  # it works unasked (R15), until it is back
                actor(name).feed(Absence(over=how == "back"))
            case ["stop", name]:
                actor(name).feed(StopAsked())
            case ["crash", name]:  # it is gone, and says nothing
                del self.actors[name]
            case ["expire", name, snapshot]:  # its time to live is over; again: the while after it
                actor(name).feed(TimerExpired(epoch=self._epoch(snapshot)))
            # -- what somebody says -------------------------------------------------------------------------------
            case ["pause", how]:
                stage.append(Pause(n=number(), paused=how == "on"))
            case ["dead", name]:
                dead = max(process for process, actor in stage.names.items() if actor == name)
                stage.append(Dead(n=number(), dead=dead))
            case ["abort", snapshot, reason]:
                stage.append(Abort(n=number(), epoch=self._epoch(snapshot), code="by-hand", reason=reason))
            case ["retire", app]:
                stage.append(Retire(n=number(), app=app))
            case ["verdict", snapshot, verdict]:
                stage.append(Verdict(n=number(), epoch=self._epoch(snapshot), verdict=verdict))
            # -- looking ------------------------------------------------------------------------------------------
            case ["show", *what]:
                self._show(what)
            case ["story", file]:  # what `python -m snapkafka.sim run` says
                for outcome in play_story(load_story(self._directory / file)):
                    stage.tell(json.dumps(outcome.as_data()))
            case _:
                raise AssertionError(f"{command.line!r}: there is no such command")

    def _actor(self, name: str) -> Process:
        assert name in self.actors, f"{self._line!r}: there is no process {name}"
        return self.actors[name]

    def _epoch(self, name: str) -> int:
        """The snapshot of that name; `s#2` is its second attempt."""
        snapshot, _, attempt = name.partition("#")
        return self.stage.fold.by_id[snapshot, int(attempt or 1)]

    def _process(self, name: str, command: Command) -> None:
        """process P1 app=a [inputs=A[0]@2,B] [topics=A:2] [tables=t] [outputs=C] [hear=markers]"""
        app = command.option("app") or name
        inputs = dict(map(place_of, command.options_list("inputs")))
        counts = {tp.topic: 1 + max(t.partition for t in inputs if t.topic == tp.topic) for tp in inputs}
        counts |= {
            item.partition(":")[0]: int(item.partition(":")[2]) for item in command.options_list("topics")
        }
        tables = (
            Table(name=table, changelog=f"{app}-{table}-changelog", partitions=1)
            for table in command.options_list("tables")
        )
        topics = (InputTopic(topic=topic, partitions=count) for topic, count in sorted(counts.items()))
        hello = Hello(n=0, app=app, host=name, inputs=tuple(topics), tables=tuple(tables))
        hear = frozenset(command.options_list("hear")) or HEAR_ALL
        actor = self.actors[name] = Process(self.stage, hello=hello, hear=hear)
        for output in command.options_list("outputs"):
            # known before anything was sent there, so that markers go there too
            actor.machine.colours.sent_to(tp_of(output))
        actor.give(*inputs, positions=inputs)

    def _trigger(self, name: str, command: Command, *, align: bool) -> None:
        """trigger s1 [by=P1] [attempt=2] [ttl_ms=100] [align]"""
        stage, asker = self.stage, command.option("by")
        topics = {source.topic for actor in self.actors.values() for source in actor.hello.inputs}
        asked_at, ends = self._asked or (len(stage.ledger), stage.ends())
        self._asked = None
        epoch = stage.trigger(
            name,
            process=self.actors[asker].machine.author if asker else NOBODY,
            attempt=int(command.option("attempt", "1")),
            who=asker,
            ttl_ms=int(command.option("ttl_ms", "5000")),
            marker_topics=tuple(sorted(topics)),
            ends=ends,
            asked_at=asked_at,
            stopped=stage.stopped(self._committed),
            align=align,
            sends=known_graph(stage.fold, stage.fold.topics_of(stage.fold.standing())).stated(),
        )
        if asker:
            self.actors[asker].catch_up(epoch)

    def _does(self, actor: Process, event: str, on: str, sends: str) -> None:
        """does P1 EVENT [on=A[0]@3] [sends=B[0]:NAME]"""
        cause = _caused(on)
        if cause is not None:
            assert not actor.come_to(cause.tp, cause.offset).marker, f"{on} is a marker"
            actor.do(actor.machine.event_started(cause))
        changelog = TopicPartition(actor.hello.tables[0].changelog, cause.tp.partition if cause else 0)
        self._leave(actor, actor.enter(changelog, cause, event), quiet=True)
        if sends:
            to, _, name = sends.partition(":")
            self._leave(actor, actor.enter(tp_of(to), cause, name))
        if cause is not None:
            actor.do(actor.machine.event_ended(cause))

    def _leave(self, actor: Process, sending: Sending, *, ack: bool = True, quiet: bool = False) -> None:
        actor.leave(sending)
        if not quiet:
            colour, what = words.epoch(sending.effect.epoch, self.stage), sending.name or "a record"
            place = f"{sending.tp}@{sending.offset}"
            self.stage.tell(f"{place}: {what} of {actor.name}, {colour}, seq {sending.seq}")
        if ack:
            actor.settle(SendOutcome.ACKED, sending)

    def _show(self, what: list[str]) -> None:
        """show s1 | show P1 | show log B[0]"""
        stage = self.stage
        match what:
            case ["log", place]:
                for offset, stored in enumerate(stage.logs[tp_of(place)]):
                    name = "marker" if stored.marker else stored.name or "a record"
                    colour = words.epoch(stored.epoch, stage)
                    stage.tell(f"@{offset} {name} of {stage.actor_of(stored.process)}, {colour}")
            case [name] if name in self.actors:
                machine = self.actors[name].machine
                who = "a stranger" if machine.process is None else f"process {machine.process}"
                cuts = ", ".join(stage.ids[epoch] for epoch in sorted(machine.open.cuts)) or "none"
                stage.tell(f"{name} is {who}, {words.epoch(machine.colours.epoch, stage)}, open cuts: {cuts}")
            case [snapshot]:
                for line in words.snapshot(stage.fold.snapshots[self._epoch(snapshot)], stage):
                    stage.tell(line)
            case _:
                raise AssertionError(f"show {what}?")


def _cause(place: str) -> Cause:
    return Cause(AGENT, *place_of(place))


def _caused(place: str) -> Cause | None:
    return _cause(place) if place else None


def played(text: str, directory: Path) -> str:
    """The text of a file as it should be: the same commands, and what really comes of them."""
    play = Play(directory)
    blocks = []
    for part in parts_of(text):
        output = play.run(part.commands)
        blocks.append("\n".join([part.head, *([SEPARATOR, *output] if part.commands else [])]))
    return "\n\n".join(blocks) + "\n"
