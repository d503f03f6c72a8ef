"""The records of an input that are appended again, and their places; their stamps, and how they are compared with the
log afterwards; and the records that are gone.

A partition without a record of the apps between the lowest position and the end is external: nothing is written there,
and the position goes back. Otherwise the messages in flight (the table `messages`) and the external records of that
range are appended, in the order of their old offsets; without markers, and without records sent after the cut.

The author is a new process, so its sequence numbers begin at 0 in each partition, and its records have no cause: they
come from no event. Without a stamp the next restore would take these records for external ones, and append them again;
with the old stamps V1 would report each of them as a copy.

Records are deleted by age, by size, or on request (DeleteRecords). A restore sets readers back, or appends again what
they had still to start. So each missing record must be in the tables of the snapshot, or no reader needs it; else the
restore is refused by name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .plan import AbsentInput, Refusal
from .state import Appended, NewRecord, inputs_of, lowest_positions, started_by_all
from .topics import StoredTables


class Bulk(Protocol):
    """A reader and writer of many records; each call blocks."""

    def read(self, ranges: Sequence[ReadRange]) -> Iterator[KafkaRecord]:
        """Read committed records at offsets [start, end), in the order of each partition."""

    def append(self, records: Iterable[NewRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records in this order per partition, by one idempotent producer and outside any transaction; return
        the offsets of each partition's records, which rise in this order."""

    def stable_ends(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Read the offsets below which no transaction is open."""


class Author:
    """The process of a restore, which stamps the records that it appends.

    Args:
        process: its id, the ledger offset of its `Hello`.
        epoch: the highest one below that.
        ledger_id: see `wire.headers.ledger_id`.
    """

    def __init__(self, process: int, epoch: int, ledger_id: int) -> None:
        self.process = process
        self.epoch = epoch
        self.ledger_id = ledger_id
        self._numbers: Counter[tuple[str, int]] = Counter()

    def stamped(self, record: NewRecord) -> NewRecord:
        """Stamp a record; a header of ours that it has is replaced."""
        topic, partition, key, value, headers, timestamp_ms = record
        number = self._numbers[topic, partition]
        self._numbers[topic, partition] += 1
        own = tuple(wire.without_header(headers)) if headers else ()
        stamp = wire.stamp(self.ledger_id, wire.tp_check(topic, partition), self.epoch, self.process, number)
        return NewRecord(topic, partition, key, value, (*own, (wire.HEADER, stamp)), timestamp_ms)


def sender_of(record: KafkaRecord, ledger_id: int) -> int | None:
    """Return the process that has stamped a record for this ledger and its place; None: it is external."""
    header = wire.find(record.headers)
    stamp = None if header is None else wire.read(header, ledger_id, wire.tp_check(*record.tp))
    return None if stamp is None else stamp.process


def read_back(
    records: Iterable[KafkaRecord],
    author: Author,
    expected: Sequence[KafkaRecord] | None,
    allowed: Callable[[KafkaRecord], bool] = lambda record: False,
    named: Callable[[int], str] = lambda process: f"process {process}",
) -> None:
    """Check what lies above the base of a partition.

    Args:
        records: from the base to the end.
        expected: what was to be appended there, in order; None: that is compared otherwise.
        allowed: returns whether another writer may have appended this record meanwhile.
        named: returns a name for the sender of a stamp.

    Raises:
        RestoreFailedError: they differ, or another writer has written there; the attempt is void.
    """
    wanted = iter(expected or ())
    place = None
    for record in records:
        place, process = record.tp, sender_of(record, author.ledger_id)
        if process != author.process:
            if not allowed(record):
                sender = "an external producer" if process is None else named(process)
                raise RestoreFailedError(
                    f"{sender} has written to {place} at offset {record.offset} during the restore",
                    hint="stop it, and run the same command again: nothing of this attempt counts",
                )
        elif expected is not None:
            message = next(wanted, None)
            if message is None or not _same(message, record):
                raise _wrong(f"the record at offset {record.offset} of {place}", "is not what was appended")
    if (message := next(wanted, None)) is not None:
        raise _wrong(f"the message of offset {message.offset} of {message.tp}", "was not appended")


def _same(message: KafkaRecord, record: KafkaRecord) -> bool:
    """Return whether both have the same key, value and headers."""
    one, other = ((it.key, it.value, *wire.without_header(it.headers)) for it in (message, record))
    return one == other


def _wrong(what: str, how: str) -> RestoreFailedError:
    return RestoreFailedError(
        f"{what} {how}",
        hint="nothing is committed; run the same command again, and report it if it happens again",
    )


#: Added to the offsets of another log: they come after every one of the old.
NEW_LOG: Final = 1 << 62


class Channel(NamedTuple):
    """The records that are appended to a partition, in their old order."""

    tp: TopicPartition
    records: tuple[KafkaRecord, ...]


def holds_own(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Iterable[TopicPartition],
    ledger_id: int,
    erases: Callable[[Iterable[KafkaRecord]], bool],
    count: Callable[[KafkaRecord], None] = lambda record: None,
) -> frozenset[TopicPartition]:
    """Find the partitions with a record of the apps; each is read up to its first one.

    Args:
        ranges: from the lowest position to the end.
        in_flight: partitions with records in the table `messages`, and others that need no look.
        count: called with the external records that come first; all records of the other partitions.
        erases: returns whether one of the records is of an erased key: then its position cannot go back either.
    """
    own = set(in_flight)
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp in own or item.start >= item.end:
            continue
        for record in bulk.read([item]):
            if sender_of(record, ledger_id) is not None:
                own.add(tp)
                break
            count(record)
        if tp not in own and erases(bulk.read([item])):
            own.add(tp)
    return frozenset(own)


def channels(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Mapping[TopicPartition, Sequence[KafkaRecord]],
    own: Collection[TopicPartition],
    ledger_id: int,
    edit: Callable[[Iterator[KafkaRecord]], Iterator[KafkaRecord]] = lambda records: records,
    *,
    apart: bool = False,
) -> Iterator[Channel]:
    """Collect the records to append to each partition that holds records of the apps, in the order of partitions.

    Args:
        ranges: from the lowest position to the end, of every input.
        in_flight: the table `messages`; a record that several apps had still to start is in it once.
        own: see `holds_own`.
        edit: leaves out records of erased keys, and masks the others.
        apart: the ranges are of other logs than the stored records, and come after them.
    """
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp not in own:
            continue
        records = {record.offset: record for record in in_flight.get(tp, ())}
        if item.start < item.end:
            for record in bulk.read([item]):
                if sender_of(record, ledger_id) is None:
                    offset = record.offset + NEW_LOG * apart
                    records.setdefault(offset, record._replace(offset=offset))
        ordered = (record for _, record in sorted(records.items()))
        yield Channel(tp, tuple(edit(ordered)))


def append_channels(
    append: Callable[[Iterable[NewRecord]], Mapping[TopicPartition, Sequence[int]]],
    author: Author,
    found: Iterable[Channel],
) -> dict[TopicPartition, tuple[Appended, ...]]:
    """Append channels; return the new offset of each record, by partition."""
    olds: dict[TopicPartition, list[int]] = {}

    def stamped() -> Iterator[NewRecord]:
        for topic_partition, records in found:
            old = olds.setdefault(topic_partition, [])
            for topic, partition, offset, key, value, headers, timestamp_ms in records:
                old.append(offset)
                at_ms = timestamp_ms if timestamp_ms >= 0 else None
                yield author.stamped(NewRecord(topic, partition, key, value, headers, at_ms))

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
    manifest: Manifest, tables: StoredTables, starts: Mapping[TopicPartition, int]
) -> Iterator[Refusal]:
    """Refuse inputs whose logs begin above the position to which they are set, if records are missing.

    Args:
        starts: of the existing logs.
    """
    external = {entry.topic for entry in manifest.external}
    of_apps = {(it.topic, it.partition) for it in manifest.captured.senders}
    for tp, position in lowest_positions(manifest.captured).items():
        start = starts.get(tp, 0)
        if count := _missing(manifest, tables, tp, position, start):
            doubtful = tp in of_apps and tp.topic not in external
            force = "; or add --force if only the apps write there: they send again" * doubtful
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start} and is read again from {position} on: {count:,} records are gone",
                hint=f"choose a later snapshot; then raise retention.ms of {tp.topic}, or use --with-inputs{force}",
                forceable=doubtful,
            )


def lost_arrivals(starts: Mapping[TopicPartition, int]) -> Iterator[Refusal]:
    """Refuse inputs of another cluster that have lost records which arrived there."""
    for tp, start in sorted(starts.items()):
        if start:
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start} here: records that have arrived are gone",
                hint="delete the topic while it is empty: the restore creates it; or use another cluster",
            )


def absent_inputs(
    manifest: Manifest, tables: StoredTables, external: Callable[[str], bool]
) -> Iterator[AbsentInput]:
    """Find what another cluster lacks of the records that came from outside before the cut.

    Args:
        external: returns whether programs without snapkafka append to a topic.
    """
    lowest = lowest_positions(manifest.captured)
    for tp, cuts in inputs_of(manifest.captured).items():
        end = max(cut.log_end for cut in cuts)
        if external(tp.topic) and (count := _missing(manifest, tables, tp, lowest[tp], end)):
            yield AbsentInput(topic=tp.topic, partition=tp.partition, records=count)
