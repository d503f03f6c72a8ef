"""Colours: every event keeps the epoch it started with, every effect has the colour of its event (R5).

For a snapshot of epoch E, everything of an epoch < E is white. A process may have effects of several colours in flight
at once (an event of epoch 0 that still awaits something, events of the epoch it turned red for, ...), so it counts per
colour: events running, sends that have entered but are not yet appended, sends not yet acknowledged. "All white is
done" is then a question about the counts of the colours below E.

This is the hot path of a service: these methods run a few times per event, and do one dictionary operation each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from .records import ChangelogEnd, LogEnd, SentEnd, TopicPartition
from .sent import Sent
from .tearing import Cause, RunningEvents, Tally, Torn

__all__ = ["Cause", "Colours", "Effect", "Torn", "effect_of"]


class Effect(NamedTuple):
    """A send or a table write in flight: its colour, and the event that causes it (None: outside any event).

    It refers to the tally that counts it, so that sends under an earlier identity are never mixed up with those of
    this one.
    """

    epoch: int
    cause: Cause | None
    tally: Tally
    sent: dict[TopicPartition, Sent]


#: Makes an `Effect` from its four fields; calling the class costs twice as much.
effect_of: Final = partial(tuple.__new__, Effect)


class Colours(RunningEvents):
    """The colour of each running event, and the effects of each colour that are in flight."""

    def __init__(self, epoch: int = 0) -> None:
        super().__init__(epoch)
        self.sent: dict[TopicPartition, Sent] = {}
        self._forgotten_below = 0  # colours before this one are the same

    # -- sends ------------------------------------------------------------------------------------------------

    def enter(self, event: Cause | None) -> Effect:
        """Enter a send (R5). Every `enter` is followed by `stamp` and an outcome, or by `withdraw`."""
        epoch = self.running.get(event, -1) if event is not None else -1
        if epoch < 0:
            epoch, event = self.epoch, None
        tally = self.tallies[epoch]
        tally.unappended += 1
        tally.unacked += 1
        return effect_of((epoch, event, tally, self.sent))

    def sent_to(self, tp: TopicPartition) -> Sent:
        """Return what was sent to a partition."""
        sent = self.sent.get(tp)
        if sent is None:
            sent = self.sent[tp] = Sent()
        return sent

    def stamp(self, tp: TopicPartition) -> int:
        """Return the next seq of `tp`; called in the instant of the append."""
        sent = self.sent_to(tp)
        seq = sent.next_seq
        sent.next_seq = seq + 1
        return seq

    def marker_failed(self, tp: TopicPartition, seq: int) -> None:
        """Note the seq of a marker that may not be in the log; -1: it had none."""
        sent = self.sent.get(tp)
        if sent is not None and 0 <= seq < sent.next_seq:
            sent.failed(seq, seq, refused=False)

    def keep_unstamped(self, earlier: Colours) -> None:
        """Keep the unstamped records of an earlier identity."""
        for tp, sent in earlier.sent.items():
            if sent.bare_end:
                self.sent_to(tp).bare_end = sent.bare_end

    @staticmethod
    def withdraw(effect: Effect) -> None:
        """Withdraw a send that entered and was never appended."""
        effect.tally.unappended -= 1
        effect.tally.unacked -= 1

    # -- what is white for an epoch ---------------------------------------------------------------------------

    def white_running(self, epoch: int) -> bool:
        """Return whether a white event runs, or a white send is not yet appended."""
        return any(t.running or t.unappended for colour, t in self.tallies.items() if colour < epoch)

    def white_left(self, epoch: int) -> bool:
        return any(t.running or t.unacked for colour, t in self.tallies.items() if colour < epoch)

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
                earlier_seq=earlier_seq,
                earlier_end=earlier_end,
                recreated=sent.recreated >= previous,
            )

    def unstamped_ends(self) -> Iterator[LogEnd]:
        """Yield the end of the records without a header in each partition that has any (R15)."""
        for tp, sent in sorted(self.sent.items()):
            if sent.bare_end:
                yield LogEnd(topic=tp.topic, partition=tp.partition, end=sent.bare_end)

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
