"""Colours: every event keeps the epoch it started with, every effect has the colour of its event (R5).

For a snapshot of epoch E, what has an epoch < E is white. A process may have effects of several colours in flight
at once (an event of epoch 0 that still awaits something, events of the epoch it turned red for, ...), so it counts
per colour: events running, sends that have entered but are not yet appended, sends not yet acknowledged. "All white
is done" is then a question about the counts of the colours below E.

This is the hot path of a service: these methods run a few times per event, and do one dictionary operation each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Final, NamedTuple

from .exact import exact
from .held import Held, Key
from .records import ChangelogEnd, Running, SentEnd, TopicPartition
from .sent import Sent

__all__ = ["Cause", "Colours", "Effect", "Torn"]


class Cause(NamedTuple):
    """The running event that an effect comes from. `run` distinguishes two runs of one event, if they overlap (a replay
    may begin while the first run still goes on)."""

    agent: str
    tp: TopicPartition
    offset: int
    run: int = 0


class Torn(NamedTuple):
    """An event of colour `epoch` met the work of a later colour `by` in `table` (empty: in a reply), and took it."""

    event: Cause
    epoch: int
    by: int
    table: str


class _Tally:
    """Counts of one colour."""

    __slots__ = ("running", "unacked", "unappended")

    def __init__(self) -> None:
        self.running = self.unappended = self.unacked = 0

    @property
    def empty(self) -> bool:
        return not (self.running or self.unappended or self.unacked)


class Effect(NamedTuple):
    """A send or a table write in flight: its colour, and the event that causes it (None: outside any event).

    It knows the tally that counts it, so that what a process sent under an earlier identity is never mixed up with what
    it sends in this one.
    """

    epoch: int
    cause: Cause | None
    tally: _Tally
    sent: dict[TopicPartition, Sent]


#: Makes an `Effect` from its four fields; calling the class costs twice as much.
_effect_of: Final = partial(tuple.__new__, Effect)


class Colours:
    """Hold who runs in which colour, and what of it is still in flight."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.tearing = False  # does an event run that started before the latest cut?
        self.running: dict[Cause, int] = {}
        self.sent: dict[TopicPartition, Sent] = {}
        self._asked = False  # was there a cut since the latest `forget`?
        self._forgotten_below = 0  # colours before this one are the same
        self._tallies: dict[int, _Tally] = {epoch: _Tally()}
        #: Table key -> latest colours that wrote and that read it, while it matters.
        self._touched: dict[tuple[str, object], tuple[int, int]] = {}
        #: Table -> latest colour that read all of it, while it matters.
        self._read_whole: dict[str, int] = {}
        #: Table -> latest colour in which any key of it may have changed, nobody knows which, while it matters.
        self._rewritten: dict[str, int] = {}
        self.held: Held[Cause] = Held()

    @property
    def stamped(self) -> int:
        """How many seqs were given out, whatever became of them."""
        return sum(sent.next_seq for sent in self.sent.values())

    def turn(self, epoch: int) -> None:
        """Events that start from now on have the colour `epoch`."""
        self.epoch = epoch
        self._tallies = {colour: tally for colour, tally in self._tallies.items() if not tally.empty}
        # An event may run in it already: one that was torn while the process was absent.
        self._tallies.setdefault(epoch, _Tally())
        self.tearing = bool(self.running)
        self._asked = True

    # -- events -----------------------------------------------------------------------------------------------

    def start(self, event: Cause) -> None:
        if event not in self.running:
            self.running[event] = self.epoch
            self._tallies[self.epoch].running += 1

    def end(self, event: Cause) -> None:
        epoch = self.running.pop(event, None)
        if epoch is not None:
            self._tallies[epoch].running -= 1
            if self.held.by_event:
                self.held.end(event)
            if self.tearing and epoch != self.epoch:
                self._settle_tearing()

    def running_white(self) -> Iterator[Running]:
        for agent, tp, offset, _ in self.running:
            yield Running(agent=agent, topic=tp.topic, partition=tp.partition, offset=offset)

    def touch(self, event: Cause | None, table: str, key: object, *, write: bool) -> list[Torn]:
        """R6: an event that takes in what a later colour wrote, or overwrites what one wrote or read, goes on in that:
        the two do not commute, so no computation of white events before red ones could have had this outcome. So does
        one of an earlier colour that holds what is written here, for it sees it.

        Needs to be asked only while `tearing`: otherwise there is nobody whose colour could be crossed. `event` is not
        one for what is written outside any event, in the colour of the process.
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
        """R6: likewise of an event that reads a table as a whole, and so takes in whatever was written to any key."""
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
        """R6: an event looks up a value that can change in place, and may look at it until it ends.

        Args:
            unrecorded: it may change, too, with no record of it until it is set again: so whoever holds it counts as
                writing it.
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
        """R6: an event begins to go over a table, and reads on until `stop`, or until it ends."""
        if event not in self.running:
            return []
        self.held.iterate(event, table)
        return self.touch_whole(event, table) if self.tearing else []

    def stop(self, event: Cause, table: str) -> None:
        """One of its iterators is at its end, or dropped."""
        self.held.stop(event, table)

    def received(self, table: str, key: object, epoch: int) -> list[Torn]:
        """A key was written by a record of another process (a global table): who touches it takes in that colour, and
        so does who holds it."""
        return self._changed((table, key), epoch) if self.tearing else []

    def rewritten(self, table: str) -> list[Torn]:
        """R6: any key of a table may have changed, outside any event: an event of an earlier colour that holds anything
        of it takes that in, and whoever looks at it later does."""
        if not self.tearing:
            return []
        self._rewritten[table] = max(self.epoch, self._rewritten.get(table, -1))
        return [
            torn for event in self.held.who_holds_of(table) for torn in self.tear(event, self.epoch, table)
        ]

    def _changed(self, key: Key, epoch: int) -> list[Torn]:
        """A key was written in this colour, or may have been."""
        if self.tearing:
            written, read = self._touched.get(key, (-1, -1))
            self._touched[key] = (max(written, epoch), read)
        return [torn for event in self.held.who_sees(key) for torn in self.tear(event, epoch, key[0])]

    def tear(self, event: Cause, by: int, table: str = "") -> list[Torn]:
        """R6: a running event takes in something of the later colour `by`, and goes on in that. Anything that it may
        change with no record of it then counts as written in that colour, and who holds that is torn with it."""
        torn: list[Torn] = []
        todo = [(event, table)]
        for event, table in todo:
            epoch = self.running.get(event, by)
            if epoch >= by:
                continue
            self.running[event] = by
            self._tallies[epoch].running -= 1
            self._tallies.setdefault(by, _Tally()).running += 1
            torn.append(Torn(event, epoch, by, table))
            if event in self.held.by_event:
                todo += [
                    (other, key[0]) for key in self._held_in(event, by) for other in self.held.who_sees(key)
                ]
        if torn:
            self._settle_tearing()
        return torn

    def _held_in(self, event: Cause, by: int) -> list[Key]:
        """Return the keys that an event may change, as it may read in its new colour `by` all that it holds."""
        for table in self.held.iterated_by(event):
            self._read_whole[table] = max(by, self._read_whole.get(table, -1))
        for key, unrecorded in self.held.by_event[event].items():
            written, read = self._touched.get(key, (-1, -1))
            self._touched[key] = (max(written, by) if unrecorded else written, max(read, by))
        return [key for key, unrecorded in self.held.by_event[event].items() if unrecorded]

    def _settle_tearing(self) -> None:
        if not any(t.running for colour, t in self._tallies.items() if colour != self.epoch):
            self.tearing = False
            self._forget_touched()

    def _forget_touched(self) -> None:
        self._touched.clear()
        self._read_whole.clear()
        self._rewritten.clear()

    # -- sends ------------------------------------------------------------------------------------------------

    def enter(self, event: Cause | None) -> Effect:
        """A send enters (R5). Every `enter` is followed by `stamp`..`ack`/`fail`, or by `withdraw`."""
        epoch = self.running.get(event, -1) if event is not None else -1
        if epoch < 0:
            epoch, event = self.epoch, None
        tally = self._tallies[epoch]
        tally.unappended += 1
        tally.unacked += 1
        return _effect_of((epoch, event, tally, self.sent))

    def send(self, event: Cause | None, tp: TopicPartition) -> tuple[Effect, int]:
        """`enter`, `stamp` and `append` in one step, which nothing comes between: an effect and its seq."""
        epoch = self.running.get(event, -1) if event is not None else -1
        if epoch < 0:
            epoch, event = self.epoch, None
        tally = self._tallies[epoch]
        tally.unacked += 1
        sent = self.sent.get(tp)
        if sent is None:
            sent = self.sent[tp] = Sent()
        seq = sent.next_seq
        sent.next_seq = seq + 1
        return _effect_of((epoch, event, tally, self.sent)), seq

    @staticmethod
    def unsend(effect: Effect, tp: TopicPartition, seq: int) -> None:
        """Undo `send`."""
        effect.tally.unacked -= 1
        Colours.unstamp(effect.sent[tp], seq)

    def stamp(self, tp: TopicPartition) -> int:
        """The next seq of `tp`; called under the lock that keeps stamp and append together."""
        sent = self.sent.get(tp)
        if sent is None:
            sent = self.sent[tp] = Sent()
        seq = sent.next_seq
        sent.next_seq = seq + 1
        return seq

    @staticmethod
    def unstamp(sent: Sent, seq: int) -> None:
        """A seq whose record was never appended. The lock still stands, so it is the last one given, unless a record
        without a header has failed meanwhile (`lost`)."""
        if sent.next_seq == seq + 1:
            sent.next_seq = seq
        else:
            sent.failed(seq, seq, refused=True, undone=True)

    @staticmethod
    def append(effect: Effect) -> None:
        effect.tally.unappended -= 1

    @staticmethod
    def ack(effect: Effect, tp: TopicPartition, seq: int, offset: int, count: int = 1) -> None:
        """Of `count` sends in a row, all of one colour: that seq and offset are of the last one."""
        effect.tally.unacked -= count
        effect.sent[tp].acked(effect.epoch, seq, offset)

    @staticmethod
    def fail(
        effect: Effect,
        tp: TopicPartition,
        seq: int,
        count: int = 1,
        *,
        refused: bool = True,
        undone: bool = False,
    ) -> None:
        """Of `count` sends in a row, that seq is of the last one. `refused`, `undone`: see `SeqRange`."""
        effect.tally.unacked -= count
        effect.sent[tp].failed(seq - count + 1, seq, refused=refused, undone=undone)

    def marker_failed(self, tp: TopicPartition, seq: int) -> None:
        """The seq of a marker that may not be in the log; -1: it had none."""
        sent = self.sent.get(tp)
        if sent is not None and 0 <= seq < sent.next_seq:
            sent.failed(seq, seq, refused=False)

    def unused(self, tp: TopicPartition, first: int, last: int) -> None:
        """These seqs stand in no record. Where later ones were given out they are missing, as those of failed sends."""
        sent = self.sent.setdefault(tp, Sent())
        if sent.next_seq == last + 1:
            sent.next_seq = first
        else:
            sent.failed(first, last, refused=True, undone=True)

    def bare(self, effect: Effect, tp: TopicPartition, end: int, count: int = 1) -> None:
        """So many sends are settled that have no seq; those that are in the log lie below `end`."""
        effect.tally.unacked -= count
        sent = self.sent.setdefault(tp, Sent())
        sent.bare_end = max(sent.bare_end, end)

    def lost(self, tp: TopicPartition, count: int, *, refused: bool, undone: bool) -> None:
        """So many records failed that have no seq: they get the next ones, which stand in no record."""
        sent = self.sent.setdefault(tp, Sent())
        first = sent.next_seq
        sent.next_seq = first + count
        sent.failed(first, sent.next_seq - 1, refused=refused, undone=undone)

    def keep_bare(self, earlier: Colours) -> None:
        """Note what was sent without a header under an earlier identity."""
        for tp, sent in earlier.sent.items():
            if sent.bare_end:
                self.sent.setdefault(tp, Sent()).bare_end = sent.bare_end

    @staticmethod
    def withdraw(effect: Effect) -> None:
        """A send that entered was never appended."""
        effect.tally.unappended -= 1
        effect.tally.unacked -= 1

    # -- what is white for an epoch ---------------------------------------------------------------------------

    def white_running(self, epoch: int) -> bool:
        """Does a white event run, or is a white send not yet appended?"""
        return any(t.running or t.unappended for colour, t in self._tallies.items() if colour < epoch)

    def white_unacked(self, epoch: int) -> bool:
        return any(tally.unacked for colour, tally in self._tallies.items() if colour < epoch)

    def ask_ends(self) -> tuple[TopicPartition, ...]:
        """Partitions whose log end has to be known before a cut can close: results of sends there are unknown."""
        return exact(tp for tp, sent in sorted(self.sent.items()) if sent.unacknowledged and sent.asks_end)

    def ends_seen(self, ends: Mapping[TopicPartition, int]) -> None:
        """The ends that `ask_ends` asked for, while no white send was left whose result was still to come."""
        for tp, end in ends.items():
            sent = self.sent[tp]
            sent.landed_end, sent.end_due = max(end, sent.landed_end), False

    def sent_ends(
        self, epoch: int, markers: dict[TopicPartition, int], *, previous: int
    ) -> Iterator[SentEnd]:
        """Return what was sent to each partition in white. `previous`: the epoch of the cut before."""
        for tp, sent in sorted(self.sent.items()):
            last_seq, white_end = sent.white(epoch)
            earlier_seq, earlier_end = sent.earlier(epoch)
            yield SentEnd(
                topic=tp.topic,
                partition=tp.partition,
                white_end=white_end,
                last_seq=last_seq,
                marker=markers.get(tp, -1),
                unacknowledged=sent.unacknowledged,
                bare_end=sent.bare_end,
                landed_end=sent.landed(markers.get(tp, -1)),
                earlier_seq=earlier_seq,
                earlier_end=earlier_end,
                recreated=sent.recreated >= previous,
            )

    def changelog_ends(self, epoch: int, recovered: tuple[ChangelogEnd, ...]) -> Iterator[ChangelogEnd]:
        """Per table partition: one past our last white write, or what was recovered where we wrote nothing white."""
        for end in recovered:
            sent = self.sent.get(TopicPartition(end.topic, end.partition))
            white_end = max(sent.white(epoch)[1], sent.bare_end) if sent is not None else 0
            yield ChangelogEnd(
                table=end.table, topic=end.topic, partition=end.partition, end=max(end.end, white_end)
            )

    def forget(self) -> None:
        """No snapshot of a cut so far will ask again: all colours before the present one are the same, and nothing can
        be torn between them."""
        if self._asked:
            self._asked = self.tearing = False
            self.forget_below(self.epoch)
            self._forget_touched()

    def forget_below(self, epoch: int) -> None:
        """No snapshot below `epoch` will ask again: all colours before that are the same, and what was touched in one
        of them tears nothing any more."""
        if epoch <= self._forgotten_below:
            return
        self._forgotten_below = epoch
        for sent in self.sent.values():
            sent.forget(epoch)
        self._touched = {key: by for key, by in self._touched.items() if max(by) >= epoch}
        self._read_whole = {table: by for table, by in self._read_whole.items() if by >= epoch}

    @property
    def busy(self) -> bool:
        """Is anything of any colour running or in flight?"""
        return any(not tally.empty for tally in self._tallies.values())
