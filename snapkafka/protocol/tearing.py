"""The colours of running events, and the events that are torn between two (R5, R6).

An event keeps the colour that its process has when it starts. One that takes in work of a later colour continues in
that colour: it is torn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .records import Running, TopicPartition

#: A table, and a key of it.
Key = tuple[str, object]


class Cause(NamedTuple):
    """The running event that causes an effect. `run` distinguishes two runs of one event that overlap (a replay may
    begin while the first run still goes on)."""

    agent: str
    tp: TopicPartition
    offset: int
    run: int = 0


class Torn(NamedTuple):
    """An event of colour `epoch` that took in work of a later colour `by` in `table` (empty: in a reply)."""

    event: Cause
    epoch: int
    by: int
    table: str


class Tally:
    """The counts of one colour."""

    __slots__ = ("running", "unacked", "unappended")

    def __init__(self) -> None:
        self.running = self.unappended = self.unacked = 0

    @property
    def empty(self) -> bool:
        return not (self.running or self.unappended or self.unacked)


class Held:
    """The values and tables that running events hold and may read again (R6), in the order in which it came.

    A value that can change in place (a set, a list, a record in memory) is one object for all events that have looked
    it up. An event that holds it sees later changes by others without another look-up. An event that iterates over a
    table, or reads it as a whole in another way, may read any key until it ends. So both are noted from the first read
    on, whatever the colour of the process, because the cut may come in between; an event that holds neither costs
    nothing.
    """

    __slots__ = ("_holders", "_iterating", "by_event")

    def __init__(self) -> None:
        #: Running event -> the keys whose values it holds; True: it may change that one with no record of it. Also of
        #: those that hold tables only. Asked at the end of each event, so no more than a dictionary.
        self.by_event: dict[Cause, dict[Key, bool]] = {}
        self._holders: dict[Key, dict[Cause, None]] = {}
        #: Table -> the events that hold it.
        self._iterating: dict[str, dict[Cause, None]] = {}

    def hold(self, event: Cause, key: Key, *, unrecorded: bool) -> None:
        """Note that an event has looked up a value that can change in place."""
        keys = self.by_event.setdefault(event, {})
        if key not in keys:
            self._holders.setdefault(key, {})[event] = None
        keys[key] = unrecorded or keys.get(key, False)

    def iterate(self, event: Cause, table: str) -> None:
        """Note that an event iterates over a table."""
        self.by_event.setdefault(event, {})
        self._iterating.setdefault(table, {})[event] = None

    def end(self, event: Cause) -> None:
        """Note that an event is over: it reads nothing any more."""
        for key in self.by_event.pop(event, ()):
            holders = self._holders[key]
            del holders[event]
            if not holders:
                del self._holders[key]
        for table in self.iterated_by(event):
            del self._iterating[table][event]
            if not self._iterating[table]:
                del self._iterating[table]

    def iterated_by(self, event: Cause) -> list[str]:
        """Return the tables over which an event iterates."""
        return [table for table, iterating in self._iterating.items() if event in iterating]

    def who_holds_of(self, table: str) -> list[Cause]:
        """Return the events that see a change of any key of this table without looking it up."""
        found = {
            event: None for (name, _), holders in self._holders.items() if name == table for event in holders
        }
        return [*found, *self._iterating.get(table, ())]

    def who_sees(self, key: Key) -> list[Cause]:
        """Return the events that see a change of this key without looking it up."""
        return [*self._holders.get(key, ()), *self._iterating.get(key[0], ())]


class RunningEvents:
    """The colour of each running event, and what events of several colours have in common."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.tearing = False  # does an event run that started before the latest cut?
        self.running: dict[Cause, int] = {}
        self.tallies: dict[int, Tally] = {epoch: Tally()}  # also counted in by `hot_path`
        self._asked = False  # was there a cut since the latest `forget`?
        #: Table key -> latest colours that wrote and that read it, while it matters.
        self._touched: dict[tuple[str, object], tuple[int, int]] = {}
        #: Table -> latest colour that read all of it, while it matters.
        self._read_whole: dict[str, int] = {}
        #: Table -> latest colour in which any key of it may have changed, nobody knows which, while it matters.
        self._rewritten: dict[str, int] = {}
        self.held: Held = Held()

    def turn(self, epoch: int) -> None:
        """Give events that start from now on the colour `epoch`."""
        self.epoch = epoch
        self.tallies = {colour: tally for colour, tally in self.tallies.items() if not tally.empty}
        # An event may run in it already: one that was torn while the process was absent.
        self.tallies.setdefault(epoch, Tally())
        self.tearing = bool(self.running)
        self._asked = True

    def end(self, event: Cause) -> None:
        epoch = self.running.pop(event, None)
        if epoch is not None:
            self.tallies[epoch].running -= 1
            if self.held.by_event:
                self.held.end(event)
            if self.tearing and epoch != self.epoch:
                self._settle_tearing()

    def running_white(self) -> Iterator[Running]:
        for agent, tp, offset, _ in self.running:
            yield Running(agent=agent, topic=tp.topic, partition=tp.partition, offset=offset)

    # -- torn events (R6) -------------------------------------------------------------------------------------

    def touch(self, event: Cause | None, table: str, key: object, *, write: bool) -> list[Torn]:
        """Tear an event that takes in what a later colour wrote, or overwrites what one wrote or read (R6). It
        continues in that colour: the two do not commute, so no computation of white events before red ones could have
        had this outcome. An event of an earlier colour that holds what is written here sees it, and is torn as well.

        To be called only while `tearing`: otherwise no event's colour can be crossed. `event` is None for a write
        outside any event, in the colour of the process.
        """
        epoch = self.running.get(event, self.epoch) if event is not None else self.epoch
        written, read = self._touched.get((table, key), (-1, -1))
        if self._rewritten:
            written = max(written, self._rewritten.get(table, -1))
        by = max(written, read, self._read_whole.get(table, -1)) if write else written
        torn: list[Torn] = []
        if event is not None and by > epoch:
            torn = self.tear(event, by, table)
            epoch = by
        if self.tearing:
            self._touched[table, key] = (max(written, epoch), read) if write else (written, max(read, epoch))
        if write and self.held.by_event:
            torn += self._changed((table, key), epoch)
        return torn

    def touch_whole(self, event: Cause | None, table: str) -> list[Torn]:
        """Tear likewise (R6) an event that reads a table as a whole, and so takes in whatever was written to any
        key."""
        epoch = self.running.get(event, self.epoch) if event is not None else self.epoch
        by = max((written for (name, _), (written, _) in self._touched.items() if name == table), default=-1)
        by = max(by, self._rewritten.get(table, -1))
        torn: list[Torn] = []
        if event is not None and by > epoch:
            torn = self.tear(event, by, table)
            epoch = by
        if self.tearing:
            self._read_whole[table] = max(epoch, self._read_whole.get(table, -1))
        return torn

    def hold(self, event: Cause, table: str, key: object, *, unrecorded: bool) -> list[Torn]:
        """Note that an event looks up a value that can change in place, and may read it until it ends; to be called at
        any time, in place of `touch` (R6).

        Args:
            unrecorded: the value may change without a record until it is set again, so every event that holds it
                counts as writing it.
        """
        epoch = self.running.get(event)
        if epoch is None:
            return []
        self.held.hold(event, (table, key), unrecorded=unrecorded)
        if not self.tearing:
            return []
        torn = self.touch(event, table, key, write=False)
        return torn + self._changed((table, key), self.running[event]) if unrecorded else torn

    def iterate(self, event: Cause, table: str) -> list[Torn]:
        """Note that an event iterates over a table, or counts or copies it: it may read any key until it ends; to be
        called at any time, in place of `touch_whole` (R6)."""
        if event not in self.running:
            return []
        self.held.iterate(event, table)
        return self.touch_whole(event, table) if self.tearing else []

    def received(self, table: str, key: object, epoch: int) -> list[Torn]:
        """Note that a record of another process (of a global table), which was met, wrote a key: an event that touches
        or holds it takes in that colour."""
        return self._changed((table, key), epoch) if self.tearing else []

    def rewritten(self, table: str) -> list[Torn]:
        """Note that any key of a table may have changed, outside any event (R6), as in a rebalance: an event of an
        earlier colour that holds something of it takes that in, and so does any event that reads it later."""
        if not self.tearing:
            return []
        self._rewritten[table] = max(self.epoch, self._rewritten.get(table, -1))
        return [
            torn for event in self.held.who_holds_of(table) for torn in self.tear(event, self.epoch, table)
        ]

    def _changed(self, key: Key, epoch: int) -> list[Torn]:
        """Note that a key was, or may have been, written in this colour."""
        if self.tearing:
            written, read = self._touched.get(key, (-1, -1))
            self._touched[key] = (max(written, epoch), read)
        return [torn for event in self.held.who_sees(key) for torn in self.tear(event, epoch, key[0])]

    def tear(self, event: Cause, by: int | None, table: str = "") -> list[Torn]:
        """Let a running event continue in the later colour `by`, because it takes in something of that colour (R6), as
        a reply, or because work on it was done in that one. None: it may be as red as the process. Values that it may
        change without a record then count as written in that colour, and events that hold them are torn with it."""
        by = self.epoch if by is None else by
        torn: list[Torn] = []
        todo = [(event, table)]
        for event, table in todo:
            epoch = self.running.get(event, by)
            if epoch >= by:
                continue
            self.running[event] = by
            self.tallies[epoch].running -= 1
            self.tallies.setdefault(by, Tally()).running += 1
            torn.append(Torn(event, epoch, by, table))
            if event in self.held.by_event:
                todo += [
                    (other, key[0]) for key in self._held_in(event, by) for other in self.held.who_sees(key)
                ]
        if torn:
            self._settle_tearing()
        return torn

    def _held_in(self, event: Cause, by: int) -> list[Key]:
        """Return the keys that an event may change: in its new colour `by` it may read everything that it holds."""
        for table in self.held.iterated_by(event):
            self._read_whole[table] = max(by, self._read_whole.get(table, -1))
        for key, unrecorded in self.held.by_event[event].items():
            written, read = self._touched.get(key, (-1, -1))
            self._touched[key] = (max(written, by) if unrecorded else written, max(read, by))
        return [key for key, unrecorded in self.held.by_event[event].items() if unrecorded]

    def _settle_tearing(self) -> None:
        if not any(t.running for colour, t in self.tallies.items() if colour != self.epoch):
            self.tearing = False
            self._forget_touched()

    def _forget_touched(self) -> None:
        self._touched.clear()
        self._read_whole.clear()
        self._rewritten.clear()
