"""V1, colours: per process and partition, seqs have no gap, offsets and seqs rise together, and no white record
follows the white end.

One function per kind of finding (`kinds.KINDS`), named as it. docs/explanation/verification.md explains each.
`snapkafka.assembly.spark.verify.v1_colour` has the same rules in Spark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from typing import NamedTuple

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
            for _, record in sent:
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
    """Find sends that were refused, or have no outcome and are not in the log."""
    sent = {place: [record.seq for _, record in of] for place, of in log.judged.items()}
    parts = unseen(log.view, {place: (seqs[0], max(seqs)) for place, seqs in sent.items()})
    held = {part: len({s for s in sent.get(part[:2], ()) if part.first <= s <= part.last}) for part in parts}
    yield from lost_sends(log.view, held)


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
        for _, record in sent:
            if record.offset >= end and view.white_stamped(record) and record[:3] not in log.copies:
                yield record, end


def _out_of_order(log: CutLog, kind: str, *, left: bool) -> Iterator[Finding]:
    for late in log.late:
        if not (late.again or late.below) and log.view.left(late.record.process) is left:
            yield Finding.at(kind, late.record, a=late.highest)


def _missing(kind: str, it: Gap) -> Finding:
    return Finding.at(kind, it.record, a=it.first_seq, b=it.record.seq - 1)


def _only_state(log: CutLog, it: Gap) -> bool:
    """Return whether everything that an explained gap misses concerns V3 alone: no offset is missing from
    `CutView.only_state_below` to the record after it."""
    end = log.view.only_state_below(it.record.tp)
    lines, upto = log.by_partition[it.record.tp], it.record.offset
    held = bisect_left(lines, upto, key=_offset) - bisect_left(lines, end, key=_offset)
    return upto - end <= held


def _offset(record: LogRecord) -> int:
    return record.offset


def _after_left(log: CutLog) -> Iterator[tuple[LogRecord, int, bool]]:
    """Yield the records of processes that left past the observed end, with that end, and whether one with that seq is
    known from before: a copy, or one of below what is read."""
    for (tp, process), sent in log.sent.items():
        if not log.view.left(process):
            continue
        end = log.view.left_end(tp)
        before = [record.seq for _, record in sent if record.offset < end]
        seqs, first = set(before), before[0] if before else 0
        for _, record in sent:
            if record.offset >= end and not record.marker:
                yield record, end, record.seq in seqs or record.seq < first


class Unseen(NamedTuple):
    """Seqs that their sender reports as unacknowledged, and that precede or follow all of its records in a log."""

    tp: TopicPartition
    process: int
    first: int
    last: int


def unseen(view: CutView, seen: Mapping[tuple[TopicPartition, int], tuple[int, int]]) -> list[Unseen]:
    """List the seqs that V1 has to seek among unacknowledged sends. (Those between two records are gaps.)

    In a changelog each of them counts: a table may hold what was not written. In an input they count from the first
    unread record on: readers are past anything that failed before. Undone sends are not lost.

    Args:
        seen: per partition and process the seq of its first record below its white end, and the highest seq.
    """
    found = []
    for tp in sorted({*view.inputs, *view.changelogs} - view.recreated):
        whole = tp in view.changelogs
        for process, end in sorted(view.senders.get(tp, {}).items()):
            for item in view.unacknowledged(process, tp, lost=True):
                if (tp, process) not in seen:
                    first = item.first if whole else max(item.first, end.last_seq + 1)
                    found.append(Unseen(tp, process, first, item.last))
                    continue
                lowest, highest = seen[tp, process]
                found.append(Unseen(tp, process, max(item.first, highest + 1), item.last))
                if whole or item.last >= lowest - 1:
                    found.append(Unseen(tp, process, item.first, min(item.last, lowest - 1)))
    return [part for part in found if part.first <= part.last]


def lost_sends(view: CutView, held: Mapping[Unseen, int]) -> list[Finding]:
    """Return the findings for parts of `unseen` that the log does not hold.

    Args:
        held: the number of seqs of each that the log holds below the white end.
    """
    return [
        Finding("send-failed", *part.tp, end, part.process, part.last, a=part.first, b=part.last)
        for part, count in held.items()
        for end in [view.white_end(part.process, part.tp)]
        if count < part.last - part.first + 1
    ]
