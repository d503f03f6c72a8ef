"""V1, colours: per process and partition, seqs have no gap, offsets and seqs rise together, and no white record
follows the white end.

One function per kind of finding (`kinds.KINDS`), named as it. docs/explanation/verification.md explains each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.protocol.records import TopicPartition

from .log import LogRecord
from .sequences import CutLog, Gap
from .view import CutView
from .witness import Finding


def white_after_end(log: CutLog) -> Iterator[Finding]:
    """Find white records past the white end of their sender, which knows of no such send."""
    for record, end in _past_end(log):
        if not log.view.is_unacknowledged(record):
            yield Finding.at("white-after-end", record, a=end)


def white_unsettled(log: CutLog) -> Iterator[Finding]:
    """Find white records past the white end of their sender, which got no result for them."""
    for record, end in _past_end(log):
        if log.view.is_unacknowledged(record):
            yield Finding.at("white-unsettled", record, a=end)


def landed(log: CutLog) -> Iterator[Finding]:
    """Find records below the white end of their sender that it got no acknowledgement for: they count as sent."""
    view = log.view
    for (tp, process), sent in log.sent.items():
        if view.living(process) and view.unacknowledged(process, tp):
            end = view.white_end(process, tp)
            for _, record, _ in sent:
                if record.offset < end and view.is_unacknowledged(record):
                    yield Finding.at("landed", record)


def copy(log: CutLog) -> Iterator[Finding]:
    """Find records that were sent before, and queued again with their headers: as their sender reports, or as one of
    theirs with that seq, or a lower one, comes before them."""
    yield from (Finding.at("copy", record) for record in log.copies.values())
    for late in log.late:
        if late.below and not late.again:
            yield Finding.at("copy", late.record, a=late.highest)
    yield from (Finding.at("copy", record) for record, _, known in _after_left(log) if known)


def duplicate(log: CutLog) -> Iterator[Finding]:
    """Find records whose seq is in the log a second time."""
    yield from (Finding.at("duplicate", late.record, a=late.highest) for late in log.late if late.again)


def disorder(log: CutLog) -> Iterator[Finding]:
    """Find records of living processes that come after a higher seq."""
    yield from _out_of_order(log, "disorder", left=False)


def disorder_left(log: CutLog) -> Iterator[Finding]:
    """Find records that come after a higher seq, of processes that left."""
    yield from _out_of_order(log, "disorder-left", left=True)


def gap(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs of living processes that no missing offset explains."""
    yield from (
        _missing("gap", it) for it in log.gaps if not it.explained and not log.view.left(it.record.process)
    )


def gap_left(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs that no missing offset explains, of processes that left."""
    yield from (
        _missing("gap-left", it) for it in log.gaps if not it.explained and log.view.left(it.record.process)
    )


def gap_failed(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs whose sender reports some of them as unacknowledged, while missing offsets explain the
    others."""
    yield from (_missing("gap-failed", it) for it in log.gaps if it.explained and it.reported)


def gap_explained(log: CutLog) -> Iterator[Finding]:
    """Find missing seqs that missing offsets explain. In a changelog older values of a key are compacted by design:
    whether it is whole is for V3 to say."""
    for it in log.gaps:
        if it.explained and not it.reported and not _only_state(log, it):
            yield _missing("gap-explained", it)


def send_failed(log: CutLog) -> Iterator[Finding]:
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


def left_late(log: CutLog) -> Iterator[Finding]:
    """Find records of a process that was declared dead past the observed end: it sent again, or its records were
    copied."""
    for record, end, known in _after_left(log):
        if not known:
            yield Finding.at("left-late", record, a=end)


# --- What several of them share -------------------------------------------------------------------------------------


def _past_end(log: CutLog) -> Iterator[tuple[LogRecord, int]]:
    """Yield white records past the white end of their sender, with that end; without copies."""
    view = log.view
    for (tp, process), sent in log.sent.items():
        end = view.white_end(process, tp)
        for _, record, _ in sent:
            if record.offset >= end and view.white_stamped(record) and record[:3] not in log.copies:
                yield record, end


def _out_of_order(log: CutLog, kind: str, *, left: bool) -> Iterator[Finding]:
    for late in log.late:
        if not (late.again or late.below) and log.view.left(late.record.process) is left:
            yield Finding.at(kind, late.record, a=late.highest)


def _missing(kind: str, it: Gap) -> Finding:
    return Finding.at(kind, it.record, a=it.first_seq, b=it.record.seq - 1)


def _only_state(log: CutLog, it: Gap) -> bool:
    """Return whether an explained gap concerns V3 alone: no offset is missing from `CutView.only_state_below` on, and
    the record after it was not in flight. (One lost there, whose offset was written again, would look the same.)"""
    tp, upto = it.record.tp, it.record.offset
    end, sources = log.view.only_state_below(tp), log.view.inputs.get(tp, ())
    below = sum(group.count for group in log.stretches[tp].groups if group.record.offset < end)
    return upto - end <= it.nth - 1 - below and all(upto < source.position for source in sources)


def _after_left(log: CutLog) -> Iterator[tuple[LogRecord, int, bool]]:
    """Yield the records of processes that left past the observed end, with that end, and whether one with that seq is
    known from before: a copy, or one of below what is read."""
    for (tp, process), sent in log.sent.items():
        if not log.view.left(process):
            continue
        end = log.view.left_end(tp)
        before = [kept.record.seq for kept in sent if kept.record.offset < end]
        seqs, first = set(before), before[0] if before else 0
        for _, record, _ in sent:
            if record.offset >= end and not record.marker:
                yield record, end, record.seq in seqs or record.seq < first


def _unseen(
    view: CutView, tp: TopicPartition, end: SenderEnd, seqs: Sequence[int]
) -> Iterator[tuple[int, int]]:
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
