"""Records sent to one partition, as far as a snapshot may ask for them: seqs and ends, by colour (R7, R8)."""

from __future__ import annotations

from typing import Final

from .records import SeqRange

#: A process remembers so many ranges of unacknowledged seqs per partition. Where there are more, the two that are
#: closest together become one, with what lies between them: a verdict then doubts more than it has to, and accuses
#: nobody. A `Report` has to fit into one ledger record however many partitions it names.
RANGES_MAX: Final = 16


class Sent:
    """The sends of this process to one partition: the next seq, and per colour the last seq and the end."""

    __slots__ = (
        "bare_end",
        "before",
        "by_colour",
        "highest",
        "next_seq",
        "recreated",
        "top",
        "unacknowledged",
    )

    def __init__(self) -> None:
        self.next_seq = 0
        self.bare_end = 0  # one past the last record without a header
        self.by_colour: dict[int, tuple[int, int]] = {}  # colour -> (last seq, one past its offset)
        self.before = (-1, 0)  # what the colour before the latest had when colours were last forgotten
        self.unacknowledged: tuple[SeqRange, ...] = ()
        self.highest, self.top = -1, 0  # the highest seq that is acknowledged, and one past its offset
        #: The colour of the send whose acknowledgement showed that the topic is another one.
        self.recreated = -1

    def acked(self, epoch: int, seq: int, offset: int) -> None:
        if seq > self.highest:
            if offset < self.top:
                self._begin_anew(epoch)
            self.highest = seq
            self.top = offset + 1
        elif self.recreated >= 0 and offset >= self.top:
            return  # an earlier record at a later offset: of the old topic
        last_seq, end = self.by_colour.get(epoch, (-1, 0))
        self.by_colour[epoch] = (max(last_seq, seq), max(end, offset + 1))

    def _begin_anew(self, epoch: int) -> None:
        """Start over: the topic was recreated, as a later record lies below an earlier one. All ends so far belong to
        the old topic."""
        self.by_colour.clear()
        self.before, self.recreated = (-1, 0), epoch
        self.bare_end, self.unacknowledged = 0, ()

    def failed(self, first: int, last: int, *, refused: bool, undone: bool = False) -> None:
        """Note that no acknowledgement will come for these seqs."""
        added = SeqRange(first=first, last=last, refused=refused, undone=undone)
        self.unacknowledged = _joined((*self.unacknowledged, added))

    def unused(self, first: int, last: int) -> None:
        """Take back seqs that are in no record. If later ones were issued, they are gaps, as those of failed sends."""
        if self.next_seq == last + 1:
            self.next_seq = first
        else:
            self.failed(first, last, refused=True, undone=True)

    def white(self, epoch: int) -> tuple[int, int]:
        """Return (last seq, end) of the records that are white for `epoch`; (-1, 0) if there are none."""
        whites = [ends for colour, ends in self.by_colour.items() if colour < epoch]
        return max(whites, key=lambda ends: ends[1], default=(-1, 0))

    def earlier(self, epoch: int) -> tuple[int, int]:
        """Return (seq, end) of a colour before the latest that is white for `epoch`; (-1, 0) if none is known."""
        whites = sorted(
            (ends for colour, ends in self.by_colour.items() if colour < epoch), key=lambda e: e[1]
        )
        return whites[-2] if len(whites) > 1 else self.before

    @property
    def end(self) -> int:
        """Return one past the last record of any colour."""
        return max((end for _, end in self.by_colour.values()), default=0)

    def forget(self, epoch: int) -> None:
        """Keep one entry for all colours below `epoch`: no snapshot <= `epoch` will ask again."""
        whites = [colour for colour in self.by_colour if colour < epoch]
        if len(whites) > 1:
            merged, self.before = self.white(epoch), self.earlier(epoch)
            for colour in whites:
                del self.by_colour[colour]
            self.by_colour[max(whites)] = merged


def _joined(ranges: tuple[SeqRange, ...]) -> tuple[SeqRange, ...]:
    """Return the same seqs in order, in as few ranges as possible, and in no more than `RANGES_MAX`."""
    found: list[SeqRange] = []
    for item in sorted(ranges, key=lambda item: item.first):
        last = found[-1] if found else item
        alike = (item.refused, item.undone) == (last.refused, last.undone)
        if found and item.first <= last.last + 1 and alike:
            found[-1] = _spanning(found[-1], item)
        else:
            found.append(item)
    while len(found) > RANGES_MAX:
        closest = min(range(1, len(found)), key=lambda n: found[n].first - found[n - 1].last)
        found[closest - 1 : closest + 1] = [_spanning(found[closest - 1], found[closest])]
    return tuple(found)


def _spanning(one: SeqRange, other: SeqRange) -> SeqRange:
    return SeqRange(
        first=min(one.first, other.first),
        last=max(one.last, other.last),
        refused=one.refused and other.refused,
        undone=one.undone and other.undone,
    )
