"""V1, colours: per process and partition, seqs have no gap, offsets and seqs rise together, and no white record
follows the white end.

docs/explanation/verification.md explains each kind of finding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.protocol.records import TopicPartition

from .log import LogRecord
from .sequences import CutLog
from .stretch import Kept, Span
from .view import CutView
from .witness import Finding


def find(log: CutLog) -> Iterator[Finding]:
    """Find what is wrong with the seqs and ends of each sender."""
    view = log.view
    yield from (Finding.at("copy", record) for record in log.copies.values())
    for (_, process), own in log.judged.items():
        yield from _late(view, own, left=view.left(process))
        yield from _gaps(log, own, left=view.left(process))
    for (tp, process), sent in log.sent.items():
        records = [kept.record for kept in sent]
        yield from _of_left(view, tp, records) if view.left(process) else _of_living(log, tp, records)
    yield from _send_failed(log)


def _late(view: CutView, own: Sequence[Kept], *, left: bool) -> Iterator[Finding]:
    """Find records after a higher seq of their sender. The order of unacknowledged ones is unknown: they are none."""
    highest, seen, lowest = -1, set[int](), own[0].record.seq
    for _, record, _ in own:
        if record.seq <= highest and not view.is_unacknowledged(record):
            # A seq below all that are read: it is of a copy, whose original lies before.
            once = "copy" if record.seq < lowest else "disorder-left" if left else "disorder"
            yield Finding.at("duplicate" if record.seq in seen else once, record, a=highest)
        highest = max(highest, record.seq)
        seen.add(record.seq)


def _gaps(log: CutLog, own: Sequence[Kept], *, left: bool) -> Iterator[Finding]:
    """Find missing seqs. Between what is read and the last record below it, what as many missing offsets explain may be
    what was received."""
    view, seqs = log.view, sorted({kept.record.seq for kept in own})
    lead = log.last_below(own[0].record.tp, own[0].record.process)
    highest: Kept | None = None  # so far
    for kept in own:
        nth, record, skipped = kept
        before = highest or lead
        if before is not None and record.seq > before.record.seq + 1 and not skipped:
            between = range(before.record.seq + 1, record.seq)
            missing = _missing(between, seqs)
            reported = sum(
                _missing(range(max(item.first, between[0]), min(item.last, between[-1]) + 1), seqs)
                for item in view.unacknowledged(record.process, record.tp)
            )
            holes = (record.offset - before.record.offset) - (nth - before.nth)
            if holes < missing - reported:
                yield Finding.at("gap-left" if left else "gap", record, a=between[0], b=between[-1])
            elif missing and highest is not None and (reported or not _only_state(log, kept)):
                kind = "gap-failed" if reported else "gap-explained"
                yield Finding.at(kind, record, a=between[0], b=between[-1])
        if highest is None or record.seq > highest.record.seq:
            highest = kept


def _missing(wanted: range, seqs: Sequence[int]) -> int:
    """Count the numbers of a range that are not among sorted seqs."""
    return len(wanted) - (bisect_left(seqs, wanted.stop) - bisect_left(seqs, wanted.start)) if wanted else 0


def _only_state(log: CutLog, after: Kept) -> bool:
    """Return whether an explained gap concerns V3 alone, which judges what compaction took of a changelog: no offset is
    missing from `CutView.only_state_below` on, and the record after it was not in flight. (One lost there, whose offset
    was written again, would look the same.)"""
    tp, upto = after.record.tp, after.record.offset
    end, sources = log.view.only_state_below(tp), log.view.inputs.get(tp, ())
    below = sum(group.count for group in log.stretches[tp].groups if group.record.offset < end)
    return upto - end <= after.nth - 1 - below and all(upto < source.position for source in sources)


def _of_living(log: CutLog, tp: TopicPartition, records: Iterable[LogRecord]) -> Iterator[Finding]:
    """Find white records past the white end of their sender, which knows of no such send, or got no result for it; and
    those below that it got no acknowledgement for: they count as sent."""
    view = log.view
    for record in records:
        unsettled, end = view.is_unacknowledged(record), view.white_end(record.process, tp)
        if record.offset < end:
            if unsettled:
                yield Finding.at("landed", record)
        elif view.white_stamped(record) and record[:3] not in log.copies:
            yield Finding.at("white-unsettled" if unsettled else "white-after-end", record, a=end)


def _of_left(view: CutView, tp: TopicPartition, records: Sequence[LogRecord]) -> Iterator[Finding]:
    """Find records past the observed end of a process that left: it was taken for dead and sent again, or its records
    were copied. One whose seq is known from before is a copy, or of one below what is read."""
    end = view.left_end(tp)
    before = [record.seq for record in records if record.offset < end]
    seqs, first = set(before), before[0] if before else 0
    for record in records:
        if record.offset >= end and not record.marker:
            copied = record.seq in seqs or record.seq < first
            yield Finding.at("copy", record) if copied else Finding.at("left-late", record, a=end)


def _send_failed(log: CutLog) -> Iterator[Finding]:
    """Find sends that were refused, or have no outcome and are not in the log, before and after all records of their
    sender. (Those between two records are gaps.)

    In a changelog each of them counts: a table may hold what was not written. In an input they count from the first
    unread record on: readers are past anything that failed before. Undone sends are not lost.
    """
    view = log.view
    crowded = {tp for tp, one in log.stretches.items() if one.crowded}
    for tp in sorted({*view.inputs, *view.changelogs} - view.recreated - crowded):
        for process, end in sorted(view.senders.get(tp, {}).items()):
            seqs = [kept.record.seq for kept in log.judged.get((tp, process), ())]
            for first, last in _unseen(view, tp, end, seqs):
                if first <= last and len({seq for seq in seqs if first <= seq <= last}) < last - first + 1:
                    place = (*tp, view.white_end(process, tp), process, last)
                    yield Finding("send-failed", *place, a=first, b=last)


def _unseen(view: CutView, tp: TopicPartition, end: SenderEnd, seqs: Sequence[int]) -> Iterator[Span]:
    """Yield the ranges of unacknowledged seqs of a sender before and after its records.

    Args:
        seqs: of its records below its white end, in the order of the log.
    """
    whole = tp in view.changelogs
    for item in view.unacknowledged(end.process, tp, lost=True):
        if not seqs:
            yield item.first if whole else max(item.first, end.last_seq + 1), item.last
            continue
        yield max(item.first, max(seqs) + 1), item.last
        if whole or item.last >= seqs[0] - 1:
            yield item.first, min(item.last, seqs[0] - 1)
