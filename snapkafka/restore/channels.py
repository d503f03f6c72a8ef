"""The records of an input that are appended again, how they are stamped; and those that are gone.

A partition without a record of the apps between the lowest position and the end is external: nothing is written there,
and the position goes back. Otherwise the messages in flight and the external records of that range are appended, in the
order of their old offsets; without markers, and without records sent after the cut.

The author is a new process, so its sequence numbers begin at 0 in each partition, and its records have no cause.
Without stamps the next restore would append these records again; with the old ones V1 would report each as a copy.

A restore sets readers back, or appends again what they had still to start. So each record that was deleted must be in
the tables of the snapshot, or no reader needs it; else the restore is refused by name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from snapkafka.checks import ReadRange
from snapkafka.kafka import KafkaBulk, KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .plan import AbsentInput, Refusal
from .state import Appended, inputs_of, lowest_positions, started_by_all
from .topics import StoredTables


class Author:
    """The process of a restore, which stamps the records that it appends. `process`: its id, the ledger offset of its
    `Hello`; `epoch`: the highest one below that. `digests`: of what it has stamped, by partition."""

    def __init__(self, process: int, epoch: int, ledger_id: int) -> None:
        self.process = process
        self.epoch = epoch
        self.ledger_id = ledger_id
        self.digests = defaultdict[TopicPartition, blake2b](blake2b)
        self._numbers: Counter[TopicPartition] = Counter()

    def stamped(self, record: KafkaRecord) -> KafkaRecord:
        """Stamp a record; a header of ours that it has is replaced."""
        tp = record.tp
        number = self._numbers[tp]
        self._numbers[tp] += 1
        add(self.digests[tp], record)
        stamp = wire.stamp(self.ledger_id, wire.tp_check(*tp), self.epoch, self.process, number)
        return record._replace(headers=(*wire.without_header(record.headers), (wire.HEADER, stamp)))


def add(digest: blake2b, record: KafkaRecord) -> None:
    """Add the content of a record, without our header."""
    digest.update(repr((record.key, record.value, wire.without_header(record.headers))).encode())


def sender_of(record: KafkaRecord, ledger_id: int) -> int | None:
    """Return the process that has stamped a record for this ledger and its place; None: it is external."""
    header = wire.find(record.headers)
    stamp = None if header is None else wire.read(header, ledger_id, wire.tp_check(*record.tp))
    return None if stamp is None else stamp.process


#: Added to the offsets of another log: they come after every one of the old.
NEW_LOG: Final = 1 << 62


class Channel(NamedTuple):
    """The records that are appended to a partition, in their old order."""

    tp: TopicPartition
    records: tuple[KafkaRecord, ...]


class Begins(NamedTuple):
    """What inputs begin with: stored records, and those of ranges of a log, from the lowest position to the end, whose
    stamps are of ledger `ledger_id`. `apart`: it is another log than that of the stored records, and comes after them.
    `begun`: partitions whose log begins above the position of a reader. `lost`: what is missing there."""

    stored: Mapping[TopicPartition, Sequence[KafkaRecord]]
    ranges: Sequence[ReadRange]
    ledger_id: int
    apart: bool = False
    begun: Collection[TopicPartition] = ()
    lost: Sequence[Refusal] = ()

    @property
    def inputs(self) -> list[TopicPartition]:
        return [TopicPartition(it.topic, it.partition) for it in self.ranges]


def holds_own(
    bulk: KafkaBulk,
    begins: Begins,
    erases: Callable[[Iterable[KafkaRecord]], bool],
    count: Callable[[KafkaRecord], None],
) -> set[TopicPartition]:
    """Find the partitions whose position cannot just go back: they hold a record of the apps, stored ones, or one of an
    erased key. `count` is called with the external records before the first own one."""
    own = {*begins.stored, *begins.begun}
    for tp, item in zip(begins.inputs, begins.ranges, strict=True):
        for record in bulk.read([item]) if tp not in own else ():
            if sender_of(record, begins.ledger_id) is not None:
                own.add(tp)
                break
            count(record)
        if tp not in own and erases(bulk.read([item])):
            own.add(tp)
    return own


def channels(
    bulk: KafkaBulk,
    begins: Begins,
    own: Collection[TopicPartition],
    edit: Callable[[Iterator[KafkaRecord]], Iterator[KafkaRecord]] = lambda records: records,
) -> Iterator[Channel]:
    """Collect the records to append to these partitions, each once, in the order of partitions. `edit` leaves out those
    of erased keys, and masks the others."""
    for tp, item in zip(begins.inputs, begins.ranges, strict=True):
        if tp not in own:
            continue
        records = {record.offset: record for record in begins.stored.get(tp, ())}
        for record in bulk.read([item]):
            if sender_of(record, begins.ledger_id) is None:
                offset = record.offset + NEW_LOG * begins.apart
                records.setdefault(offset, record._replace(offset=offset))
        yield Channel(tp, tuple(edit(record for _, record in sorted(records.items()))))


def append_channels(
    append: Callable[[Iterable[KafkaRecord]], Mapping[TopicPartition, Sequence[int]]],
    author: Author,
    found: Iterable[Channel],
) -> dict[TopicPartition, tuple[Appended, ...]]:
    """Append channels; return the new offset of each record, by partition."""
    olds: dict[TopicPartition, list[int]] = {}

    def stamped() -> Iterator[KafkaRecord]:
        for tp, records in found:
            olds[tp] = [record.offset for record in records]
            yield from map(author.stamped, records)

    news = append(stamped())
    return {
        tp: tuple(Appended(*pair) for pair in zip(old, sorted(news.get(tp, ())), strict=True))
        for tp, old in olds.items()
    }


def _missing(manifest: Manifest, tables: StoredTables, tp: TopicPartition, start: int, end: int) -> int:
    """Count the records of a range that no table holds, and that some reader had still to start."""
    held = next((it for it in manifest.inputs if (it.topic, it.partition) == tp), None)
    if held is not None and held.start <= start:
        start = max(start, held.end)
    if start >= end:
        return 0
    known = {it.offset for it in tables.in_flight.get(tp, ())} | started_by_all(manifest.captured, tp)
    return end - start - sum(start <= offset < end for offset in known)


def lost_inputs(
    manifest: Manifest, tables: StoredTables, starts: Mapping[TopicPartition, int], *, apart: bool
) -> Iterator[Refusal]:
    """Refuse inputs whose existing logs begin above the position from which they are read, if records are missing. Of
    another cluster, a log `apart`, everything that has arrived is read."""
    external = {entry.topic for entry in manifest.external}
    of_apps = {(it.topic, it.partition) for it in manifest.captured.senders}
    for tp, lowest in lowest_positions(manifest.captured).items():
        start, position = starts.get(tp, 0), 0 if apart else lowest
        if count := start if apart else _missing(manifest, tables, tp, position, start):
            doubtful = not apart and tp in of_apps and tp.topic not in external
            force = "; or add --force if only the apps write there: they send again" * doubtful
            late = (
                f"choose a later snapshot; then raise retention.ms of {tp.topic}, or use --with-inputs{force}"
            )
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start} and is read from {position} on: {count:,} records are gone",
                hint="delete the topic while it is empty; or use another cluster" if apart else late,
                forceable=doubtful,
            )


def absent_inputs(
    manifest: Manifest, tables: StoredTables, external: Callable[[str], bool]
) -> Iterator[AbsentInput]:
    """Find what another cluster lacks of the records before the cut in topics to which external programs append."""
    lowest = lowest_positions(manifest.captured)
    for tp, cuts in inputs_of(manifest.captured).items():
        end = max(cut.log_end for cut in cuts)
        if external(tp.topic) and (count := _missing(manifest, tables, tp, lowest[tp], end)):
            yield AbsentInput(topic=tp.topic, partition=tp.partition, records=count)
