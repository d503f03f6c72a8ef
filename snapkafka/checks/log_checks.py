"""V1, V2, V4 and V5 on a list of records: the checks in their plainest form.

The simulator runs these on its logs; Spark runs the same checks on Kafka's (`snapkafka.assembly.checks`), and a test
holds the two against each other on random damage. All of them watch and none of them raises.

What each proves, and what each finding means to a person, is told in docs/verification.md.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from snapkafka.protocol.captured import InputCut
from snapkafka.protocol.records import TopicPartition

from .view import EXTERNAL, CutView, LogRecord, in_flight, read_before, received
from .witness import Finding

__all__ = ["left_late", "v1", "v2", "v4", "v5"]


def v1(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Colour: per (process, topic-partition) seq without gap, offsets and seq rise together, no white after the end."""
    log = _by_partition(view, records)
    findings = [
        Finding(
            "white-after-end", *record[:3], record.process, record.seq, a=view.white_end(record.process, tp)
        )
        for tp, lines in log.items()
        for record in lines
        if view.white_stamped(record) and record.offset >= view.white_end(record.process, tp)
    ]
    for tp, lines in log.items():
        findings += _late(view, tp, lines)
        only_state_below = view.only_state_below(tp)
        for gap in _gaps(view, tp, lines):
            kind: str | None
            if gap.failed:
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
    return findings


def left_late(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """V1 of who was taken for gone: it sent again past the ends that were seen."""
    return [
        Finding("left-late", *record[:3], record.process, record.seq, a=view.left_end(tp))
        for tp, lines in _by_partition(view, records).items()
        for record in lines
        if view.left(record.process) and record.offset >= view.left_end(tp) and not record.marker
    ]


def v2(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Receipt: no record that a receiver had started is red by its header, its sender's birth, or R8."""
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
    """Channels: what was in flight is there, up to the last seq that its sender counted, and as receivers saw it."""
    log = _by_partition(view, records)
    return [*_last_missing(view, log), *_holes(view, log), *_recorded(view, log)]


def v5(view: CutView, records: Iterable[LogRecord]) -> list[Finding]:
    """Cause: no white effect of an input at or past the cut, no red effect of one below it.

    Torn events and replays are listed, not hidden.
    """
    sources = {(s.app, TopicPartition(s.topic, s.partition)): s for s in view.captured.inputs}
    findings = []
    for tp, lines in _by_partition(view, records).items():
        for record in lines:
            cut = view.processes.get(record.process)
            if record.cause is None or cut is None or (cut.app, record.cause[0]) not in sources:
                continue
            source, offset = sources[cut.app, record.cause[0]], record.cause[1]
            if any((t.topic, t.partition, t.offset) == (*record.cause[0], offset) for t in cut.torn):
                continue
            kind = _of_later(view, record, source) or _of_earlier(view, record, source)
            if kind is not None:
                at = (record.offset, record.process, record.seq)
                findings.append(Finding(kind, *tp, *at, app=cut.app, a=offset, b=source.position))
    return findings


def _of_later(view: CutView, record: LogRecord, source: InputCut) -> str | None:
    """What a white record is whose cause some agent had still to start."""
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
    """What a red record is whose cause every agent had started, and no process but its sender has run."""
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
    """`record` is the first after missing seqs, which begin with `first_seq`; `after` is the offset before it.

    `explained`: as many offsets are missing as seqs. `failed`: their sender said that those sends failed.
    """

    record: LogRecord
    first_seq: int
    after: int
    explained: bool
    failed: bool


def _by_partition(view: CutView, records: Iterable[LogRecord]) -> dict[TopicPartition, list[LogRecord]]:
    log: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
    for record in sorted(records):
        if record.tp not in view.recreated:
            log[record.tp].append(record)
    return log


def _judged(
    view: CutView, tp: TopicPartition, lines: list[LogRecord]
) -> dict[int, list[tuple[int, LogRecord]]]:
    """Per process, the records whose seqs have to be whole, each with its number in the partition."""
    sent: dict[int, list[tuple[int, LogRecord]]] = defaultdict(list)
    for nth, record in enumerate(lines):
        if record.process != EXTERNAL and record.offset < view.judged_end(record.process, tp):
            sent[record.process].append((nth, record))
    return sent


def _late(view: CutView, tp: TopicPartition, lines: list[LogRecord]) -> Iterator[Finding]:
    for sent in _judged(view, tp, lines).values():
        highest, seen = -1, set[int]()
        for _, record in sent:
            if record.seq <= highest:
                kind = "duplicate" if record.seq in seen else "disorder"
                yield Finding(kind, *record[:3], record.process, record.seq, a=highest)
            highest = max(highest, record.seq)
            seen.add(record.seq)


def _gaps(view: CutView, tp: TopicPartition, lines: list[LogRecord]) -> Iterator[_Gap]:
    for sent in _judged(view, tp, lines).values():
        seqs = {record.seq for _, record in sent}
        before: tuple[int, LogRecord] | None = None  # the record with the highest seq so far
        for nth, record in sent:
            if before is not None and record.seq > before[1].seq + 1:
                missing = {*range(before[1].seq + 1, record.seq)} - seqs
                holes = (record.offset - before[1].offset) - (nth - before[0])
                if missing:
                    failed = missing <= view.failed(record.process, tp)
                    yield _Gap(record, before[1].seq + 1, before[1].offset, holes >= len(missing), failed)
            if before is None or record.seq > before[1].seq:
                before = (nth, record)


def _lies_below(end: int, gap: _Gap, lines: list[LogRecord]) -> bool:
    """Does all that an explained gap misses lie below `end`? No offset is missing from there to the record behind."""
    held = sum(end <= line.offset < gap.record.offset for line in lines)
    return gap.record.offset - end <= held


# --- V4 -------------------------------------------------------------------------------------------------------------


def _last_missing(view: CutView, log: dict[TopicPartition, list[LogRecord]]) -> Iterator[Finding]:
    at = {record[:3]: record for lines in log.values() for record in lines}
    for tp, end, source in view.last_in_flight():
        found = at.get((*tp, end.white_end - 1))
        if found is None or (found.process, found.seq, found.marker) != (end.process, end.last_seq, False):
            yield Finding("last-missing", *tp, end.white_end - 1, end.process, end.last_seq, app=source.app)


def _holes(view: CutView, log: dict[TopicPartition, list[LogRecord]]) -> Iterator[Finding]:
    for tp, sources in view.inputs.items():
        for gap in _gaps(view, tp, log.get(tp, [])):
            record = gap.record
            for source in sources:
                if not view.living(record.process) or record.offset <= source.position:
                    continue
                where = max(gap.after + 1, source.position) if gap.explained else record.offset
                yield Finding(
                    "hole" if gap.explained or gap.failed else "incomplete",
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
