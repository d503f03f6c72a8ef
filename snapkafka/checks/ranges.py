"""The offsets that have to be read, and the findings from the bounds of the log alone.

Of an input only the ranges that matter are read: from the lower of its position and the bound of R1 (below which no
red record can lie) to the highest end that the snapshot names. Of a changelog, everything below its end is read, or
the records since the parent and the last one of the parent's state (the join). Then a *tail* follows, for white
records that entered the log after all ends were known. The tail ends at the present end of the log, or after
`TAIL_MAX` offsets, whichever comes first; the manifest records its end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from snapkafka.protocol.records import TopicPartition

from .stretch import Stretch
from .view import CutView
from .witness import Finding

#: How many offsets past the ends of a snapshot are read, per partition. Assembly follows the capture within
#: seconds or minutes, so this is the whole log there; for a verification years later it is what bounds the reading.
TAIL_MAX: Final = 100_000
#: How many offsets below its range are read of an input at most, for the last record of each sender there.
LEAD_MAX: Final = 1_000


class ReadRange(NamedTuple):
    """Offsets `[start, end)` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


def reading_ranges(view: CutView) -> list[ReadRange]:
    """Return the offsets to read, per partition, in order; ranges that are empty or deleted are left out."""
    assert view.bounds is not None, "reading a log needs to know its bounds"
    ranges = []
    for tp in sorted({*view.inputs, *view.changelogs}):
        if tp in view.recreated:
            continue
        now = view.bounds[tp]
        begins = view.starts.get(tp, now.start)
        if (seam := view.seam(tp)) is not None:
            begins = min(begins, seam)
        needed = [begins for _ in view.changelogs.get(tp, ())]
        needed += [min(source.position, source.low) for source in view.inputs.get(tp, ())]
        start, end = max(min(needed), now.start), min(view.closed_end(tp) + TAIL_MAX, now.end)
        if start < end:
            ranges.append(ReadRange(*tp, start, end))
    return ranges


def lead_ranges(view: CutView, read: Iterable[ReadRange]) -> list[ReadRange]:
    """Return the offsets right below the reading ranges of inputs in which something may have been in flight."""
    found = []
    for item in read:
        tp = TopicPartition(*item[:2])
        ends = [end.white_end for end in view.senders.get(tp, {}).values()]
        if tp not in view.changelogs and (view.any_left or max(ends, default=0) > item.start):
            found.append(ReadRange(*tp, max(view.log_start(tp), item.start - LEAD_MAX), item.start))
    return found


def bounds_findings(view: CutView) -> list[Finding]:
    """Find what is wrong with the bounds of the log themselves, and with those of what was read: missing records,
    recreated topics, records that nobody read. There is one finding per range."""
    return [*_recreated(view), *_deleted(view), *_never_read(view)]


def _never_read(view: CutView) -> Iterator[Finding]:
    """Find what readers passed without reading it."""
    for item in view.captured.never_read:
        kind = "never-read" if item.start >= 0 else "never-read-unclear"
        place = (item.topic, item.partition, item.start)
        yield Finding(kind, *place, item.process, app=item.app, text=str(item), number=item.records)


def _recreated(view: CutView) -> Iterator[Finding]:
    """Find topics that are not those of the snapshot: recreated since, or cut short."""
    for tp in sorted(view.recreated):
        for check in ("V1", "V2", "V3", "V4") if tp in view.changelogs else ("V1", "V2", "V4"):
            yield Finding(f"recreated-{check}", *tp, 0)


def _deleted(view: CutView) -> Iterator[Finding]:
    """Find offsets that are no longer in the log: received ones that may be red; and those in flight, also if a
    process that left had sent them."""
    for tp, sources in sorted(view.inputs.items()):
        start, senders = view.log_start(tp), view.senders.get(tp, {}).values()
        white_end = max((sender.white_end for sender in senders), default=0)
        for source in sources if tp not in view.recreated else ():
            app, position = source.app, source.position
            log_end = source.log_end if source.end_known else start
            if source.low < (end := min(position, start)):
                yield Finding("unread", *tp, source.low, app=app, a=end - 1)
            if (gone := min(start, white_end) - position) > 0:
                yield Finding("gone", *tp, position, app=app, a=white_end, b=start, number=gone)
            first = max(position, white_end)
            if view.any_left and (gone := min(start, log_end) - first) > 0:
                yield Finding("gone-left", *tp, first, app=app, b=start, number=gone)


def crowded(of: Stretch) -> Iterator[Finding]:
    """Find that more records of a partition may break rules than are judged."""
    last = of.kept[-1].record.offset
    yield from (
        Finding(f"crowded-{check}", *of.tp, last, a=len(of.kept)) for check in ("V1", "V2", "V4", "V5")
    )
