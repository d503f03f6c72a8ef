"""The offsets that have to be read, and the findings from the bounds of the log alone.

Of an input only the ranges that matter are read: from the lower of its position and the bound of R1 (below which no
red record can lie) to the highest end that the snapshot names. Of a changelog, everything below its end is read, or
the records since the parent and the last one of the parent's state (the join). Then a *tail* follows, for white
records that entered the log after all ends were closed. The tail ends at the present end of the log, or after
`tail_max` records, whichever comes first; the manifest records its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition

from .kinds import KINDS
from .stretch import Stretch
from .view import CutView
from .witness import WITNESSES_MAX, Finding

#: How many offsets past the ends of a snapshot are read, per partition. Assembly follows the capture within
#: seconds or minutes, so this is the whole log there; for a verification years later it is what bounds the reading.
TAIL_MAX: Final = 100_000


#: The kinds that follow from the bounds of the log alone.
OF_BOUNDS: Final = frozenset(
    kind
    for kind in KINDS
    if kind.split("-")[0] in ("recreated", "renewed", "gone", "unread", "never", "crowded")
)


class ReadRange(NamedTuple):
    """Offsets `[start, end)` of a partition."""

    topic: str
    partition: int
    start: int
    end: int


def reading_ranges(
    view: CutView, *, tail_max: int = TAIL_MAX, starts: Mapping[TopicPartition, int] | None = None
) -> list[ReadRange]:
    """Return the offsets to read, per partition, in order; ranges that are empty or deleted are left out.

    Args:
        starts: the first offset to read of a changelog, if not that of its log.
    """
    assert view.bounds is not None, "reading a log needs to know its bounds"
    starts_at = starts or {}
    ranges = []
    for tp in sorted({*view.inputs, *view.changelogs}):
        if tp in view.recreated:
            continue
        now = view.bounds[tp]
        begins = starts_at.get(tp, now.start)
        if (seam := view.seam(tp)) is not None:
            begins = min(begins, seam)
        needed = [begins for _ in view.changelogs.get(tp, ())]
        needed += [min(source.position, source.low) for source in view.inputs.get(tp, ())]
        start, end = max(min(needed), now.start), min(view.closed_end(tp) + tail_max, now.end)
        if start < end:
            ranges.append(ReadRange(*tp, start, end))
    return ranges


class Missing(NamedTuple):
    """A finding for each offset of `[start, end)` of a partition."""

    kind: str
    tp: TopicPartition
    start: int
    end: int
    process: int = -1
    app: str = ""
    a: int = -1
    b: int = -1


def bounds_findings(view: CutView) -> tuple[list[Finding], Counter[str]]:
    """Find what is wrong with the bounds of the log themselves, and with those of what was read: missing records,
    recreated topics, records that nobody read.

    Returns:
        the first findings of each kind, and how many there are of each.
    """
    findings: list[Finding] = []
    counts: Counter[str] = Counter()
    for it in (*recreated(view), *renewed(view), *unread(view), *gone(view), *gone_left(view)):
        if it.start < it.end:
            counts[it.kind] += it.end - it.start
            findings += [
                Finding(it.kind, *it.tp, offset, it.process, app=it.app, a=it.a, b=it.b)
                for offset in range(it.start, min(it.end, it.start + WITNESSES_MAX))
            ]
    for finding, records in never_read(view):
        counts[finding.kind] += records
        findings.append(finding)
    return findings, counts


def recreated(view: CutView) -> Iterator[Missing]:
    """Find topics that are not those of the snapshot: deleted and recreated, or cut short."""
    for tp in sorted(view.recreated):
        if tp.topic not in view.renewed:
            yield from (Missing(f"recreated-{check}", tp, 0, 1) for check in _concerned(view, tp))


def renewed(view: CutView) -> Iterator[Missing]:
    """Find topics that were recreated while processes of the snapshot ran."""
    for tp in sorted(view.recreated):
        if (then := view.renewed.get(tp.topic)) is not None:
            for check in _concerned(view, tp):
                yield Missing(f"renewed-{check}", tp, 0, 1, process=then.process, app=then.app)


def _concerned(view: CutView, tp: TopicPartition) -> Iterator[str]:
    """Yield the checks that a recreated topic leaves without records."""
    yield from (check for check in ("V1", "V2", "V3", "V4") if check != "V3" or tp in view.changelogs)


def unread(view: CutView) -> Iterator[Missing]:
    """Find offsets that were received, may be red, and are no longer in the log: one finding per input."""
    for tp, source, start in _present_inputs(view):
        if source.low < (end := min(source.position, start)):
            yield Missing("unread", tp, source.low, source.low + 1, app=source.app, a=end - 1)


def gone(view: CutView) -> Iterator[Missing]:
    """Find offsets in flight that are no longer in the log."""
    for tp, source, start in _present_inputs(view):
        white_end = _white_end(view, tp)
        end = min(start, white_end)
        yield Missing("gone", tp, source.position, end, app=source.app, a=white_end, b=start)


def gone_left(view: CutView) -> Iterator[Missing]:
    """Find offsets that are no longer in the log, and were in flight if a process that left had sent them."""
    for tp, source, start in _present_inputs(view) if view.any_left else ():
        after = max(source.position, _white_end(view, tp))
        end = min(start, source.log_end) if source.end_known else start
        yield Missing("gone-left", tp, after, end, app=source.app, b=start)


def never_read(view: CutView) -> Iterator[tuple[Finding, int]]:
    """Find records that readers passed without reading them, and how many: one finding per range."""
    for item in view.captured.never_read:
        kind = "never-read" if item.start >= 0 else "never-read-unclear"
        place = (item.topic, item.partition, item.start)
        yield Finding(kind, *place, item.process, app=item.app, text=str(item)), item.records


def _present_inputs(view: CutView) -> Iterator[tuple[TopicPartition, InputCut, int]]:
    """Yield the inputs whose topics were not recreated, with the start of their log."""
    for tp, sources in sorted(view.inputs.items()):
        if tp not in view.recreated:
            yield from ((tp, source, view.log_start(tp)) for source in sources)


def _white_end(view: CutView, tp: TopicPartition) -> int:
    return max((sender.white_end for sender in view.senders.get(tp, {}).values()), default=0)


def crowded(of: Stretch) -> Iterator[Finding]:
    """Find that more records of a partition may break rules than are judged."""
    last = of.kept[-1].record.offset
    yield from (
        Finding(f"crowded-{check}", *of.tp, last, a=len(of.kept)) for check in ("V1", "V2", "V4", "V5")
    )
