"""V4 for records that lost their header in transit, because a transform, a proxy or a mirror removed it.

Without its header a record is external to every reader: it turns no receiver red, and no check can see its colour. The
report of its sender reveals the loss: it sent its last white record with a header, and the broker acknowledged it at
one offset. So the record at that offset must have the header, whether it was in flight (`log_checks.v4`) or received,
or is part of a table (here). Sends with an unknown outcome name no offset: only the last *acknowledged* record is
checked, never a log end or a marker.

Not seen: a topic to which no living sender had sent in white, and single records between others (V1 reports a gap).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from snapkafka.protocol.records import TopicPartition

from .log import EXTERNAL, LogRecord
from .ranges import ReadRange
from .view import CutView
from .witness import Finding

#: Below what the other checks read, so many offsets of a partition are read for these records at most: in a topic
#: through which more has passed since, the last records of the other senders show the same.
LOOK_BACK_MAX: Final = 10_000


def unstamped_received(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Find last white records that were received, or are part of a table, and have no header."""
    external = {record[:3] for record in records if record.process == EXTERNAL}
    return [
        Finding("unstamped-received", *tp, end.white_end - 1, end.process, end.last_seq, app=app)
        for tp, end, app in view.last_behind()
        if (*tp, end.white_end - 1) in external
    ]


def look_back_ranges(view: CutView, read: Collection[ReadRange]) -> list[ReadRange]:
    """Return the offsets to read below the reading ranges for these records, one range per partition of an input.

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
