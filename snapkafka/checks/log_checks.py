"""V1, V2, V4 and V5 on a list of records: the checks in their plainest form.

The simulator runs these on its logs; Spark runs the same checks on Kafka's (`snapkafka.assembly.spark.verify.rules`),
and a test compares the two on random damage. None of the checks raises.

docs/explanation/verification.md describes what each check proves, docs/reference/findings.md what each finding means.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import SeqRange, TopicPartition

from .log import EXTERNAL, LogRecord
from .ran_twice import ran_twice
from .unstamped import unstamped_received
from .view import CutView, in_flight, read_before, received, red_by_itself
from .witness import Finding


def v1(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Check colours (V1): per (process, topic-partition), seqs have no gap, offsets and seqs rise together, and no
    white record follows the white end."""
    log = _by_partition(view, records)
    findings = [found for tp, lines in log.items() for found in _white(view, tp, lines)]
    for tp, lines in log.items():
        findings += _late(view, tp, lines)
        only_state_below = view.only_state_below(tp)
        for gap in _gaps(view, tp, lines):
            kind: str | None
            if gap.reported and gap.explained:
                kind = "gap-failed"
            elif gap.explained:
                # In a changelog older values of a key go by design: whether it is whole is for V3 to say.
                kind = None if _lies_below(only_state_below, gap, lines) else "gap-explained"
            else:
                kind = "gap-left" if view.left(gap.record.process) else "gap"
            if kind is not None:
                record = gap.record
                findings.append(
                    Finding(kind, *record[:3], record.process, record.seq, a=gap.first_seq, b=record.seq - 1)
                )
    return findings + _lost(view, log)


def _white(view: CutView, tp: TopicPartition, lines: list[LogRecord]) -> Iterator[Finding]:
    """Find white records of a living process that it does not know to have sent there in white."""
    for record in lines:
        end = view.white_end(record.process, tp)
        at = (*record[:3], record.process, record.seq)
        if view.is_copy(record):
            yield Finding("copy", *at)
        elif view.living(record.process) and record.offset < end and view.is_unacknowledged(record):
            yield Finding("landed", *at)
        elif view.white_stamped(record) and record.offset >= end:
            yield Finding(
                "white-unsettled" if view.is_unacknowledged(record) else "white-after-end", *at, a=end
            )


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
    """Find the sends (V1) that were refused, or have no outcome and are not in the log.

    Args:
        held: the number of seqs of each of `unseen` that the log holds below the white end.
    """
    return [
        Finding("send-failed", *part.tp, end, part.process, part.last, a=part.first, b=part.last)
        for part, count in held.items()
        for end in [view.white_end(part.process, part.tp)]
        if count < part.last - part.first + 1
    ]


def _lost(view: CutView, log: Mapping[TopicPartition, list[LogRecord]]) -> list[Finding]:
    judged = {(tp, p): of for tp, lines in log.items() for p, of in _judged(view, tp, lines).items()}
    sent = {place: [record.seq for _, record in of] for place, of in judged.items()}
    parts = unseen(view, {place: (seqs[0], max(seqs)) for place, seqs in sent.items()})
    held = {part: len({s for s in sent.get(part[:2], ()) if part.first <= s <= part.last}) for part in parts}
    return lost_sends(view, held)


def left_late(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Find records (V1) of a process that was declared dead past the observed ends: it sent again, or its records were
    copied."""
    findings = []
    for tp, lines in _by_partition(view, records).items():
        end = view.left_end(tp)
        before: dict[int, set[int]] = defaultdict(set)
        first: dict[int, int] = {}
        for record in lines:
            if not view.left(record.process):
                continue
            seqs = before[record.process]
            if record.offset < end:
                seqs.add(record.seq)
                first.setdefault(record.process, record.seq)
            elif not record.marker:
                known = record.seq in seqs or record.seq < first.get(record.process, 0)
                kind, a = ("copy", -1) if known else ("left-late", end)
                findings.append(Finding(kind, *record[:3], record.process, record.seq, a=a))
    return findings


def v2(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Check receipt (V2): no record that a receiver had started is red by its header, its sender's birth, or R8."""
    findings = []
    for tp, lines in _by_partition(view, records).items():
        for source in view.inputs.get(tp, ()):
            for record in lines:
                why = view.why_red(record, source) if received(source, record.offset) else None
                if why is not None:
                    findings.append(
                        Finding(
                            why[0],
                            *record[:3],
                            record.process,
                            record.seq,
                            app=source.app,
                            a=why[1],
                            b=view.epoch,
                        )
                    )
    return findings


def v4(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Check channels (V4): all records in flight are there, up to the last seq that their sender counted, and as
    receivers saw them."""
    log = _by_partition(view, records)
    received_so = unstamped_received(view, (record for lines in log.values() for record in lines))
    return [*_last_missing(view, log), *received_so, *_holes(view, log), *_recorded(view, log)]


def v5(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Check causes (V5): no white effect of an input at or past the cut, no red effect of one below it.

    Torn events and replays are listed, not hidden, and so are events that ran twice before the cut; an effect with a
    red cause is not a replay. Effects of processes that are older than a restore of their app neither accuse nor are
    listed; nor do causes in a topic that was recreated since.
    """
    records = list(records)
    red = {record[:3] for record in records if red_by_itself(view, record)}
    sources = {(s.app, TopicPartition(s.topic, s.partition)): s for s in view.captured.inputs}
    findings = []
    for tp, lines in _by_partition(view, records).items():
        for record in lines:
            cut = view.processes.get(record.process)
            if record.cause is None or cut is None or (cut.app, record.cause[0]) not in sources:
                continue
            source, offset = sources[cut.app, record.cause[0]], record.cause[1]
            if not view.names_cause(record.process, source):
                continue
            if any((t.topic, t.partition, t.offset) == (*record.cause[0], offset) for t in cut.torn):
                continue
            kind = _of_later(view, record, source) or _of_earlier(view, record, source)
            if kind == "replayed" and (*record.cause[0], offset) in red:
                kind = "effect-of-red"
            if kind is not None:
                at = (record.offset, record.process, record.seq)
                findings.append(Finding(kind, *tp, *at, app=cut.app, a=offset, b=source.position))
    return findings + ran_twice(view, (r for r in records if r.tp not in view.recreated))


def _of_later(view: CutView, record: LogRecord, source: InputCut) -> str | None:
    """Return the kind of finding for a white record whose cause some agent had still to start."""
    assert record.cause is not None
    offset = record.cause[1]
    if not view.counts_white(record) or not in_flight(source, offset):
        return None
    # A stamp does not name the agent: where only some of them have started the input, it may be one of those.
    until = max((agent.replay_until for agent in source.agents), default=0)
    replayed = read_before(source, record.process) or (record.process == source.receiver and offset < until)
    if replayed:
        return "replayed"
    return None if received(source, offset) else "effect-of-later"


def _of_earlier(view: CutView, record: LogRecord, source: InputCut) -> str | None:
    """Return the kind of finding for a red record whose cause every agent had started, and that no process but its
    sender has run."""
    assert record.cause is not None
    by_receiver = record.process == source.receiver and source.steady
    before_closing = record.offset < view.sent_end(record.process, record.tp)
    if not (by_receiver and before_closing and view.red_stamped(record)) or in_flight(
        source, record.cause[1]
    ):
        return None
    return "effect-missing"


# --- V1 and V4: seqs ------------------------------------------------------------------------------------------------


class _Gap(NamedTuple):
    """A gap. `record` is the first after missing seqs, which begin with `first_seq`; `after` is the offset before it.

    `reported`: their sender reports some of them as not acknowledged. `explained`: as many offsets are missing as
    there are other seqs.
    """

    record: LogRecord
    first_seq: int
    after: int
    explained: bool
    reported: bool


def _by_partition(view: CutView, records: Iterable[LogRecord]) -> dict[TopicPartition, list[LogRecord]]:
    log: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
    for record in sorted(records):
        if record.tp not in view.recreated:
            log[record.tp].append(record)
    return log


def _judged(
    view: CutView, tp: TopicPartition, lines: list[LogRecord]
) -> dict[int, list[tuple[int, LogRecord]]]:
    """Return per process the records whose seqs must have no gap, each with its number in the partition."""
    sent: dict[int, list[tuple[int, LogRecord]]] = defaultdict(list)
    for nth, record in enumerate(lines):
        ours = record.process != EXTERNAL and record.offset < view.judged_end(record.process, tp)
        if ours and not view.is_copy(record):
            sent[record.process].append((nth, record))
    return sent


def _late(view: CutView, tp: TopicPartition, lines: list[LogRecord]) -> Iterator[Finding]:
    for sent in _judged(view, tp, lines).values():
        highest, seen, lowest = -1, set[int](), sent[0][1].seq
        for _, record in sent:
            if record.seq <= highest and not view.is_unacknowledged(record):
                if record.seq in seen:
                    kind = "duplicate"
                elif record.seq < lowest:
                    kind = "copy"  # of one below what is looked at
                else:
                    kind = "disorder-left" if view.left(record.process) else "disorder"
                yield Finding(kind, *record[:3], record.process, record.seq, a=highest)
            highest = max(highest, record.seq)
            seen.add(record.seq)


def _gaps(view: CutView, tp: TopicPartition, lines: list[LogRecord]) -> Iterator[_Gap]:
    for sent in _judged(view, tp, lines).values():
        seqs = {record.seq for _, record in sent}
        before: tuple[int, LogRecord] | None = None  # the record with the highest seq so far
        for nth, record in sent:
            if before is not None and record.seq > before[1].seq + 1:
                between = range(before[1].seq + 1, record.seq)
                missing = len(between) - sum(seq in between for seq in seqs)
                holes = (record.offset - before[1].offset) - (nth - before[0])
                if missing:
                    reported = sum(
                        _overlap(item, between)
                        - sum(item.first <= seq <= item.last for seq in seqs if seq in between)
                        for item in view.unacknowledged(record.process, tp)
                    )
                    explained = holes >= missing - reported
                    yield _Gap(record, between[0], before[1].offset, explained, reported > 0)
            if before is None or record.seq > before[1].seq:
                before = (nth, record)


def _overlap(item: SeqRange, seqs: range) -> int:
    return max(0, min(item.last, seqs[-1]) - max(item.first, seqs[0]) + 1)


def _lies_below(end: int, gap: _Gap, lines: list[LogRecord]) -> bool:
    """Return whether everything that an explained gap misses lies below `end`: no offset is missing from there to the
    record after it."""
    held = sum(end <= line.offset < gap.record.offset for line in lines)
    return gap.record.offset - end <= held


# --- V4 -------------------------------------------------------------------------------------------------------------


def _last_missing(view: CutView, log: dict[TopicPartition, list[LogRecord]]) -> Iterator[Finding]:
    at = {record[:3]: record for lines in log.values() for record in lines}
    for tp, end, source in view.last_in_flight():
        found = at.get((*tp, end.white_end - 1))
        if found is None or (found.process, found.seq, found.marker) != (end.process, end.last_seq, False):
            kind = "unstamped" if found is not None and found.process == EXTERNAL else "last-missing"
            if (end.process, tp.topic) in view.old_topics:
                kind = "last-recreated"
            yield Finding(kind, *tp, end.white_end - 1, end.process, end.last_seq, app=source.app)


def _holes(view: CutView, log: dict[TopicPartition, list[LogRecord]]) -> Iterator[Finding]:
    for tp, sources in view.inputs.items():
        for gap in _gaps(view, tp, log.get(tp, [])):
            record = gap.record
            for source in sources:
                if not view.living(record.process) or record.offset <= source.position:
                    continue
                where = max(gap.after + 1, source.position) if gap.explained else record.offset
                yield Finding(
                    "hole" if gap.explained else "incomplete",
                    *tp,
                    where,
                    record.process,
                    record.seq,
                    app=source.app,
                    a=gap.first_seq,
                    b=record.seq - 1,
                )


def _recorded(view: CutView, log: dict[TopicPartition, list[LogRecord]]) -> Iterator[Finding]:
    for item, source in view.recorded():
        tp = TopicPartition(item.topic, item.partition)
        white_end = view.white_end(item.sender, tp)
        for record in log.get(tp, ()):
            in_recorded = item.start <= record.offset < item.end
            in_derived = source.noted <= record.offset < white_end
            if view.is_copy(record) or view.is_unacknowledged(record):
                continue
            if record.process == item.sender and view.white_stamped(record) and in_recorded != in_derived:
                yield Finding(
                    "recorded-differs",
                    *record[:3],
                    record.process,
                    record.seq,
                    app=source.app,
                    a=item.start,
                    b=item.end,
                )
