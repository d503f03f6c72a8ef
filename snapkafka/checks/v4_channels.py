"""V4, channels: all records in flight are there, up to the last seq that their sender counted, as receivers saw them.

`gone` and `gone-left` follow from the bounds of the log alone (`ranges`).

*Records that lost their header in transit*, because a transform, a proxy or a mirror removed it: without its header a
record is external to every reader. It turns no receiver red, and no check can see its colour. The report of its sender
reveals the loss: it sent its last white record with a header, and the broker acknowledged it at one offset. So the
record at that offset must have the header, whether it was in flight (`unstamped`) or received, or is part of a table
(`unstamped-received`). Sends with an unknown outcome name no offset: only the last *acknowledged* record is checked,
never a log end or a marker. Not seen: a topic to which no living sender had sent in white, and single records between
others (V1 reports a gap).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.protocol.records import TopicPartition

from .log import EXTERNAL
from .ranges import ReadRange
from .sequences import CutLog
from .view import CutView
from .witness import Finding

#: Below what the other checks read, so many offsets of a partition are read for `unstamped-received` at most: in a
#: topic through which more has passed since, the last records of the other senders show the same.
LOOK_BACK_MAX: Final = 10_000


def find(log: CutLog) -> Iterator[Finding]:
    """Find last white records that are not where their sender counted them, and ranges that differ."""
    yield from _not_as_counted(log)
    external = {r[:3] for r in (*log.records, *log.below) if r.process == EXTERNAL}
    for tp, end, app in log.view.last_behind():
        if (*tp, end.white_end - 1) in external:
            yield _last("unstamped-received", tp, end, app)
    yield from _recorded_differs(log)


def _not_as_counted(log: CutLog) -> Iterator[Finding]:
    """Find last white records in flight that are not where their sender counted them."""
    due = list(log.view.last_in_flight())
    places = {(*tp, end.white_end - 1) for tp, end, _ in due}
    there = {record[:3]: record for record in log.records if record[:3] in places}
    for tp, end, source in due:
        found = there.get((*tp, end.white_end - 1))
        if found is None or (found.process, found.seq, found.marker) != (end.process, end.last_seq, False):
            external = found is not None and found.process == EXTERNAL
            of_old = (end.process, tp.topic) in log.view.old_topics  # from before it was recreated
            kind = "last-recreated" if of_old else "unstamped" if external else "last-missing"
            yield _last(kind, tp, end, source.app)


def _recorded_differs(log: CutLog) -> Iterator[Finding]:
    """Find white records in only one of two ranges: the one that a receiver recorded, and the one that follows from
    its position and the sender's white end."""
    view = log.view
    for tp, item, source in ((tp, *it) for tp, of_tp in view.recorded.items() for it in of_tp):
        white_end = view.white_end(item.sender, tp)
        for _, record, _ in log.sent.get((tp, item.sender), ()):
            in_recorded = item.start <= record.offset < item.end
            in_derived = source.noted <= record.offset < white_end
            if in_recorded == in_derived or not view.white_stamped(record):
                continue
            if record[:3] not in log.copies and not view.is_unacknowledged(record):
                yield Finding.at("recorded-differs", record, app=source.app, a=item.start, b=item.end)


def _last(kind: str, tp: TopicPartition, end: SenderEnd, app: str) -> Finding:
    return Finding(kind, *tp, end.white_end - 1, end.process, end.last_seq, app)


def look_back_ranges(view: CutView, read: Collection[ReadRange]) -> list[ReadRange]:
    """Return the offsets to read below the reading ranges for `unstamped-received`, one range per partition of an
    input.

    Args:
        read: the reading ranges.
    """
    starts = {TopicPartition(item.topic, item.partition): item.start for item in read}
    below: dict[TopicPartition, set[int]] = {}
    for tp, end, _ in view.last_behind():
        if tp in view.inputs and end.white_end <= starts.get(tp, end.white_end):
            below.setdefault(tp, set()).add(end.white_end - 1)
    return [
        ReadRange(*tp, max(min(offsets), max(offsets) + 1 - LOOK_BACK_MAX), max(offsets) + 1)
        for tp, offsets in sorted(below.items())
    ]
