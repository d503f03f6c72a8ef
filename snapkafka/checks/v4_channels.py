"""V4, channels: all records in flight are there, up to the last seq that their sender counted, as receivers saw them.

One function per kind of finding, named as it; `gone` and `gone-left` follow from the bounds of the log alone
(`ranges`). `snapkafka.assembly.spark.verify.v4_channels` has the same rules in Spark.

*Records that lost their header in transit*, because a transform, a proxy or a mirror removed it: without its header a
record is external to every reader. It turns no receiver red, and no check can see its colour. The report of its sender
reveals the loss: it sent its last white record with a header, and the broker acknowledged it at one offset. So the
record at that offset must have the header, whether it was in flight (`unstamped`) or received, or is part of a table
(`unstamped_received`). Sends with an unknown outcome name no offset: only the last *acknowledged* record is checked,
never a log end or a marker. Not seen: a topic to which no living sender had sent in white, and single records between
others (V1 reports a gap).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from snapkafka.protocol.captured_snapshot import InputCut, SenderEnd
from snapkafka.protocol.records import TopicPartition

from .log import EXTERNAL, LogRecord
from .ranges import ReadRange
from .sequences import CutLog, Gap
from .view import CutView
from .witness import Finding

#: Below what the other checks read, so many offsets of a partition are read for `unstamped_received` at most: in a
#: topic through which more has passed since, the last records of the other senders show the same.
LOOK_BACK_MAX: Final = 10_000


def last_missing(log: CutLog) -> Iterator[Finding]:
    """Find last white records in flight that are not where their sender counted them."""
    for tp, end, source, found in _not_as_counted(log):
        if not (_old_topic(log, tp, end) or _is_external(found)):
            yield _last("last-missing", tp, end, source.app)


def last_recreated(log: CutLog) -> Iterator[Finding]:
    """Find such records of processes that joined before their topic was recreated."""
    for tp, end, source, _ in _not_as_counted(log):
        if _old_topic(log, tp, end):
            yield _last("last-recreated", tp, end, source.app)


def unstamped(log: CutLog) -> Iterator[Finding]:
    """Find last white records in flight that lack their header."""
    for tp, end, source, found in _not_as_counted(log):
        if _is_external(found) and not _old_topic(log, tp, end):
            yield _last("unstamped", tp, end, source.app)


def unstamped_received(log: CutLog) -> Iterator[Finding]:
    """Find last white records that were received, or are part of a table, and lack their header."""
    external = {r[:3] for r in (*log.records, *log.below) if r.process == EXTERNAL}
    yield from received_without_header(log.view, external)


def incomplete(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs of living processes in flight that no missing offset explains."""
    for gap, source in _gaps_in_flight(log):
        if not gap.explained:
            yield _missing("incomplete", gap, source, gap.record.offset)


def hole(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs of living processes in flight that missing offsets explain."""
    for gap, source in _gaps_in_flight(log):
        if gap.explained:
            yield _missing("hole", gap, source, max(gap.after + 1, source.position))


def recorded_differs(log: CutLog) -> Iterator[Finding]:
    """Find white records in only one of two ranges: the one that a receiver recorded, and the one that follows from
    its position and the sender's white end."""
    view = log.view
    for item, source in view.recorded():
        tp = TopicPartition(item.topic, item.partition)
        white_end = view.white_end(item.sender, tp)
        for _, record in log.sent.get((tp, item.sender), ()):
            in_recorded = item.start <= record.offset < item.end
            in_derived = source.noted <= record.offset < white_end
            if in_recorded == in_derived or not view.white_stamped(record):
                continue
            if record[:3] not in log.copies and not view.is_unacknowledged(record):
                yield Finding.at("recorded-differs", record, app=source.app, a=item.start, b=item.end)


# --- What several of them share -------------------------------------------------------------------------------------


def received_without_header(view: CutView, external: Collection[tuple[str, int, int]]) -> list[Finding]:
    """Return the findings of `unstamped_received`.

    Args:
        external: the places of external records; at least those that `CutView.last_behind` names.
    """
    return [
        _last("unstamped-received", tp, end, app)
        for tp, end, app in view.last_behind()
        if (*tp, end.white_end - 1) in external
    ]


def look_back_ranges(view: CutView, read: Collection[ReadRange]) -> list[ReadRange]:
    """Return the offsets to read below the reading ranges for `unstamped_received`, one range per partition of an
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


def _not_as_counted(log: CutLog) -> Iterator[tuple[TopicPartition, SenderEnd, InputCut, LogRecord | None]]:
    """Yield the last white records in flight that are not where their sender counted them, with what is there."""
    due = list(log.view.last_in_flight())
    places = {(*tp, end.white_end - 1) for tp, end, _ in due}
    there = {r[:3]: r for tp, _, _ in due for r in log.by_partition.get(tp, ()) if r[:3] in places}
    for tp, end, source in due:
        found = there.get((*tp, end.white_end - 1))
        if found is None or (found.process, found.seq, found.marker) != (end.process, end.last_seq, False):
            yield tp, end, source, found


def _is_external(record: LogRecord | None) -> bool:
    return record is not None and record.process == EXTERNAL


def _old_topic(log: CutLog, tp: TopicPartition, end: SenderEnd) -> bool:
    return (end.process, tp.topic) in log.view.old_topics


def _last(kind: str, tp: TopicPartition, end: SenderEnd, app: str) -> Finding:
    return Finding(kind, *tp, end.white_end - 1, end.process, end.last_seq, app)


def _gaps_in_flight(log: CutLog) -> Iterator[tuple[Gap, InputCut]]:
    for gap in log.gaps:
        if log.view.living(gap.record.process):
            for source in log.view.inputs.get(gap.record.tp, ()):
                if gap.record.offset > source.position:
                    yield gap, source


def _missing(kind: str, gap: Gap, source: InputCut, offset: int) -> Finding:
    record = gap.record
    return Finding.at(kind, record._replace(offset=offset), app=source.app, a=gap.first_seq, b=record.seq - 1)
