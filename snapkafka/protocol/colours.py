"""Colours: every event keeps the epoch it started with, every effect has the colour of its event (R5).

For a snapshot of epoch E, everything of an epoch < E is white. A process may have effects of several colours in flight
at once (an event of epoch 0 that still awaits something, events of the epoch it turned red for, ...), so it counts per
colour: events running, sends that have entered but are not yet appended, sends not yet acknowledged. "All white is
done" is then a question about the counts of the colours below E.

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


class _Tally:
    """The counts of one colour."""

    __slots__ = ("running", "unacked", "unappended")

    def __init__(self) -> None:
        self.running = self.unappended = self.unacked = 0

    @property
    def empty(self) -> bool:
        return not (self.running or self.unappended or self.unacked)


class Effect(NamedTuple):
    """A send or a table write in flight: its colour, and the event that causes it (None: outside any event).

    It refers to the tally that counts it, so that sends under an earlier identity are never mixed up with those of
    this one.
    """

    epoch: int
    cause: Cause | None
    tally: _Tally
    sent: dict[TopicPartition, Sent]


#: Makes an `Effect` from its four fields; calling the class costs twice as much.
effect_of: Final = partial(tuple.__new__, Effect)


class Colours:
    """The colour of each running event, and the effects of each colour that are in flight."""

    def __init__(self, epoch: int = 0) -> None:
        self.epoch = epoch
        self.tearing = False  # does an event run that started before the latest cut?
        self.running: dict[Cause, int] = {}
        self.sent: dict[TopicPartition, Sent] = {}
        self._asked = False  # was there a cut since the latest `forget`?
        self._forgotten_below = 0  # colours before this one are the same
        self.tallies: dict[int, _Tally] = {epoch: _Tally()}  # also counted in by `hot_path`
        #: Table key -> latest colours that wrote and that read it, while it matters.
        self._touched: dict[tuple[str, object], tuple[int, int]] = {}
        #: Table -> latest colour that read all of it, while it matters.
        self._read_whole: dict[str, int] = {}
        #: Table -> latest colour in which any key of it may have changed, nobody knows which, while it matters.
        self._rewritten: dict[str, int] = {}
        self.held: Held[Cause] = Held()

    @property
    def stamped(self) -> int:
        """The number of seqs that were issued, whatever became of them."""
        return sum(sent.next_seq for sent in self.sent.values())

    def turn(self, epoch: int) -> None:
        """Give events that start from now on the colour `epoch`."""
        self.epoch = epoch
        self.tallies = {colour: tally for colour, tally in self.tallies.items() if not tally.empty}
        # An event may run in it already: one that was torn while the process was absent.
        self.tallies.setdefault(epoch, _Tally())
        self.tearing = bool(self.running)
        self._asked = True

    # -- events -----------------------------------------------------------------------------------------------

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
        """Note that an event looks up a value that can change in place, and may read it until it ends (R6).

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
        """Note that an event begins to iterate over a table, and reads on until `stop`, or until it ends (R6)."""
        if event not in self.running:
            return []
        self.held.iterate(event, table)
        return self.touch_whole(event, table) if self.tearing else []

    def stop(self, event: Cause, table: str) -> None:
        """Note that one of its iterators ended or was dropped."""
        self.held.stop(event, table)

    def received(self, table: str, key: object, epoch: int) -> list[Torn]:
        """Note that a record of another process (of a global table) wrote a key: an event that touches or holds it
        takes in that colour."""
        return self._changed((table, key), epoch) if self.tearing else []

    def rewritten(self, table: str) -> list[Torn]:
        """Note that any key of a table may have changed, outside any event (R6): an event of an earlier colour that
        holds something of it takes that in, and so does any event that reads it later."""
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

    def tear(self, event: Cause, by: int, table: str = "") -> list[Torn]:
        """Let a running event continue in the later colour `by`, because it takes in something of that colour (R6).
        Values that it may change without a record then count as written in that colour, and events that hold them are
        torn with it."""
        torn: list[Torn] = []
        todo = [(event, table)]
        for event, table in todo:
            epoch = self.running.get(event, by)
            if epoch >= by:
                continue
            self.running[event] = by
            self.tallies[epoch].running -= 1
            self.tallies.setdefault(by, _Tally()).running += 1
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

    # -- sends ------------------------------------------------------------------------------------------------

    def enter(self, event: Cause | None) -> Effect:
        """Enter a send (R5). Every `enter` is followed by `stamp`..`ack`/`fail`, or by `withdraw`."""
        epoch = self.running.get(event, -1) if event is not None else -1
        if epoch < 0:
            epoch, event = self.epoch, None
        tally = self.tallies[epoch]
        tally.unappended += 1
        tally.unacked += 1
        return effect_of((epoch, event, tally, self.sent))

    @staticmethod
    def unsend(effect: Effect, tp: TopicPartition, seq: int) -> None:
        """Undo `send_at_once`."""
        effect.tally.unacked -= 1
        Colours.unstamp(effect.sent[tp], seq)

    def stamp(self, tp: TopicPartition) -> int:
        """Return the next seq of `tp`; called under the lock that keeps stamp and append together."""
        sent = self.sent.get(tp)
        if sent is None:
            sent = self.sent[tp] = Sent()
        seq = sent.next_seq
        sent.next_seq = seq + 1
        return seq

    @staticmethod
    def unstamp(sent: Sent, seq: int) -> None:
        """Take back a seq whose record was never appended. The lock is still held, so it is the last one issued,
        unless an unstamped record has failed meanwhile (`lost`)."""
        if sent.next_seq == seq + 1:
            sent.next_seq = seq
        else:
            sent.failed(seq, seq, refused=True, undone=True)

    @staticmethod
    def append(effect: Effect) -> None:
        effect.tally.unappended -= 1

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
        """Fail `count` sends in a row; the seq is that of the last one. `refused`, `undone`: see `SeqRange`."""
        effect.tally.unacked -= count
        effect.sent[tp].failed(seq - count + 1, seq, refused=refused, undone=undone)

    def marker_failed(self, tp: TopicPartition, seq: int) -> None:
        """Note the seq of a marker that may not be in the log; -1: it had none."""
        sent = self.sent.get(tp)
        if sent is not None and 0 <= seq < sent.next_seq:
            sent.failed(seq, seq, refused=False)

    def unused(self, tp: TopicPartition, first: int, last: int) -> None:
        """Note seqs that are in no record. If later ones were issued, they are gaps, as those of failed sends."""
        sent = self.sent.setdefault(tp, Sent())
        if sent.next_seq == last + 1:
            sent.next_seq = first
        else:
            sent.failed(first, last, refused=True, undone=True)

    def bare(self, effect: Effect, tp: TopicPartition, end: int, count: int = 1) -> None:
        """Settle so many sends without a seq; those that are in the log lie below `end`."""
        effect.tally.unacked -= count
        sent = self.sent.setdefault(tp, Sent())
        sent.bare_end = max(sent.bare_end, end)

    def lost(self, tp: TopicPartition, count: int, *, refused: bool, undone: bool) -> None:
        """Note that so many records without a seq failed: they get the next seqs, which are in no record."""
        sent = self.sent.setdefault(tp, Sent())
        first = sent.next_seq
        sent.next_seq = first + count
        sent.failed(first, sent.next_seq - 1, refused=refused, undone=undone)

    def keep_bare(self, earlier: Colours) -> None:
        """Keep the unstamped records of an earlier identity."""
        for tp, sent in earlier.sent.items():
            if sent.bare_end:
                self.sent.setdefault(tp, Sent()).bare_end = sent.bare_end

    @staticmethod
    def withdraw(effect: Effect) -> None:
        """Withdraw a send that entered and was never appended."""
        effect.tally.unappended -= 1
        effect.tally.unacked -= 1

    # -- what is white for an epoch ---------------------------------------------------------------------------

    def white_running(self, epoch: int) -> bool:
        """Return whether a white event runs, or a white send is not yet appended."""
        return any(t.running or t.unappended for colour, t in self.tallies.items() if colour < epoch)

    def white_unacked(self, epoch: int) -> bool:
        return any(tally.unacked for colour, tally in self.tallies.items() if colour < epoch)

    def ask_ends(self) -> tuple[TopicPartition, ...]:
        """Return the partitions whose log end has to be known before a cut can close: outcomes of sends there are
        unknown."""
        return exact(tp for tp, sent in sorted(self.sent.items()) if sent.unacknowledged and sent.asks_end)

    def ends_seen(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note the ends that `ask_ends` asked for, once the outcome of every white send has come."""
        for tp, end in ends.items():
            sent = self.sent[tp]
            sent.landed_end, sent.end_due = max(end, sent.landed_end), False

    def sent_ends(
        self, epoch: int, markers: dict[TopicPartition, int], *, previous: int
    ) -> Iterator[SentEnd]:
        """Yield the end of the white records in each partition. `previous`: the epoch of the cut before."""
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
        """Yield per table partition one past our last white write, or the recovered end if we wrote nothing white
        there."""
        for end in recovered:
            sent = self.sent.get(TopicPartition(end.topic, end.partition))
            white_end = max(sent.white(epoch)[1], sent.bare_end) if sent is not None else 0
            yield ChangelogEnd(
                table=end.table, topic=end.topic, partition=end.partition, end=max(end.end, white_end)
            )

    def forget(self) -> None:
        """Merge all colours before the present one: no snapshot of a cut so far will ask again, and nothing can be
        torn between them."""
        if self._asked:
            self._asked = self.tearing = False
            self.forget_below(self.epoch)
            self._forget_touched()

    def forget_below(self, epoch: int) -> None:
        """Merge all colours below `epoch`: no snapshot below it will ask again, and accesses of those colours tear
        nothing any more."""
        if epoch <= self._forgotten_below:
            return
        self._forgotten_below = epoch
        for sent in self.sent.values():
            sent.forget(epoch)
        self._touched = {key: by for key, by in self._touched.items() if max(by) >= epoch}
        self._read_whole = {table: by for table, by in self._read_whole.items() if by >= epoch}

    @property
    def busy(self) -> bool:
        """Whether anything of any colour is running or in flight."""
        return any(not tally.empty for tally in self.tallies.values())
