"""The records of a snapshot as the checks on lists read them, and their seqs in the order of the log (V1 and V4).

`snapkafka.assembly.spark.verify.sequences` is the same in Spark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from snapkafka.protocol.captured_snapshot import InputCut
from snapkafka.protocol.records import TopicPartition

from .log import EXTERNAL, LogRecord
from .ranges import ReadRange
from .view import CutView, received


class Late(NamedTuple):
    """A record after a higher seq of its process. `again`: a record with its seq came before. `below`: its seq is
    below those of all records of its process that are read."""

    record: LogRecord
    highest: int
    again: bool
    below: bool


class Gap(NamedTuple):
    """A gap. `record` is the first after missing seqs, which begin with `first_seq`; `after` is the offset before it.

    `reported`: their sender reports some of them as not acknowledged. `explained`: as many offsets are missing as
    there are other seqs.
    """

    record: LogRecord
    first_seq: int
    after: int
    explained: bool
    reported: bool


class Effect(NamedTuple):
    """A record that names its cause: the event at `offset` of an input of its sender's app. `torn`: the snapshot lists
    that event as torn in its sender."""

    record: LogRecord
    source: InputCut
    offset: int
    torn: bool


class CutLog:
    """The input of the checks on lists, and what several of them derive from it.

    Args:
        view: the snapshot, with the bounds of its log.
        records: all records of the reading ranges (`ranges.reading_ranges`), in any order, each once. Those of a
            changelog need a `key_hash` (equal for equal keys; None without a key), for V3 alone. A simulator may pass
            more than the ranges.
        read: the reading ranges; None: every partition was read to its end.
        below: the records of `v4_channels.look_back_ranges`. Only V4 reads them.
    """

    def __init__(
        self,
        view: CutView,
        records: Iterable[LogRecord],
        *,
        read: Collection[ReadRange] | None = None,
        below: Iterable[LogRecord] = (),
    ) -> None:
        self.view = view
        self.below = tuple(below)
        #: Without topics that were recreated, in the order of the log.
        self.by_partition: dict[TopicPartition, list[LogRecord]] = {}
        for record in sorted(records, key=_in_order):
            if (tp := record.tp) not in view.recreated:
                self.by_partition.setdefault(tp, []).append(record)
        self._read_to = None if read is None else {(item.topic, item.partition): item.end for item in read}

    @property
    def records(self) -> list[LogRecord]:
        """All records, in the order of the log."""
        return [record for lines in self.by_partition.values() for record in lines]

    def read_to_the_end(self, tp: TopicPartition) -> bool:
        """Return whether a partition was read to the present end of its log."""
        if self._read_to is None or self.view.bounds is None:
            return True
        return self._read_to.get(tp, 0) >= self.view.bounds[tp].end

    @cached_property
    def sent(self) -> dict[tuple[TopicPartition, int], list[tuple[int, LogRecord]]]:
        """The records of each process of the snapshot, each with its number in its partition."""
        sent: dict[tuple[TopicPartition, int], list[tuple[int, LogRecord]]] = {}
        for tp, lines in self.by_partition.items():
            here: dict[int, list[tuple[int, LogRecord]]] = defaultdict(list)
            for nth, record in enumerate(lines):
                if record.process in self.view.processes:
                    here[record.process].append((nth, record))
            sent.update(((tp, process), own) for process, own in here.items())
        return sent

    @cached_property
    def copies(self) -> dict[tuple[str, int, int], LogRecord]:
        """The records that were sent before, by their places (`CutView.is_copy`)."""
        return {
            record[:3]: record
            for (tp, process), sent in self.sent.items()
            for _, record in sent[bisect_left(sent, self.view.copies_from(process, tp), key=_offset) :]
            if self.view.is_copy(record)
        }

    @cached_property
    def received(self) -> list[tuple[LogRecord, InputCut]]:
        """The records with a header that some agent of an input had started, each with that input."""
        return [
            (record, source)
            for tp, lines in self.by_partition.items()
            for source in self.view.inputs.get(tp, ())
            for record in lines
            if record.process != EXTERNAL and not record.marker and received(source, record.offset)
        ]

    @cached_property
    def judged(self) -> dict[tuple[TopicPartition, int], list[tuple[int, LogRecord]]]:
        """The records whose seqs must have no gap: those of `sent` below the end of their process, without copies."""
        judged = {}
        for (tp, process), sent in self.sent.items():
            own = sent[: bisect_left(sent, self.view.judged_end(process, tp), key=_offset)]
            if self.copies:
                own = [(nth, record) for nth, record in own if record[:3] not in self.copies]
            if own:
                judged[tp, process] = own
        return judged

    @cached_property
    def late(self) -> list[Late]:
        """The records that came after a higher seq. The order of unacknowledged ones is unknown: they are none."""
        found = []
        for sent in self.judged.values():
            highest, seen, lowest = -1, set[int](), sent[0][1].seq
            for _, record in sent:
                if record.seq <= highest and not self.view.is_unacknowledged(record):
                    found.append(Late(record, highest, record.seq in seen, record.seq < lowest))
                highest = max(highest, record.seq)
                seen.add(record.seq)
        return found

    @cached_property
    def gaps(self) -> list[Gap]:
        """The gaps between seqs."""
        return [gap for sent in self.judged.values() for gap in _gaps(self.view, sent)]

    @cached_property
    def effects(self) -> list[Effect]:
        """The records whose cause is an event of an input of their sender's app, without causes that name offsets of
        an earlier log."""
        sources = {(s.app, TopicPartition(s.topic, s.partition)): s for s in self.view.captured.inputs}
        found = []
        for (_, process), sent in self.sent.items():
            cut = self.view.processes[process]
            torn = {(TopicPartition(event.topic, event.partition), event.offset) for event in cut.torn}
            for _, record in sent:
                source = None if record.cause is None else sources.get((cut.app, record.cause[0]))
                if record.cause is None or source is None:
                    continue
                if self.view.names_cause(process, source):
                    found.append(Effect(record, source, record.cause[1], record.cause in torn))
        return found


def _in_order(record: LogRecord) -> tuple[str, int, int]:
    return record[:3]


def _offset(numbered: tuple[int, LogRecord]) -> int:
    return numbered[1].offset


def _gaps(view: CutView, sent: list[tuple[int, LogRecord]]) -> Iterator[Gap]:
    seqs = sorted({record.seq for _, record in sent})
    before: tuple[int, LogRecord] | None = None  # the record with the highest seq so far
    for nth, record in sent:
        if before is not None and record.seq > before[1].seq + 1:
            between = range(before[1].seq + 1, record.seq)
            missing = _missing(between, seqs)
            holes = (record.offset - before[1].offset) - (nth - before[0])
            if missing:
                reported = sum(
                    _missing(range(max(item.first, between[0]), min(item.last, between[-1]) + 1), seqs)
                    for item in view.unacknowledged(record.process, record.tp)
                )
                explained = holes >= missing - reported
                yield Gap(record, between[0], before[1].offset, explained, reported > 0)
        if before is None or record.seq > before[1].seq:
            before = (nth, record)


def _missing(wanted: range, seqs: list[int]) -> int:
    """Count the numbers of a range that are not among sorted seqs."""
    return len(wanted) - (bisect_left(seqs, wanted.stop) - bisect_left(seqs, wanted.start)) if wanted else 0
