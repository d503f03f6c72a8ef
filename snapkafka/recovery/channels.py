"""The records of an input that are appended again, and their places.

A partition without a record of the apps between the lowest position and the end is external: nothing is written there,
and the position goes back. Otherwise the messages in flight (the table `messages`) and the external records of that
range are appended, in the order of their old offsets; without markers, and without records sent after the cut.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from snapkafka.checks import ReadRange
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .appending import Author, Bulk, NewRecord
from .editing import Editing
from .positions import Appended

#: Added to the offsets of another log: they come after every one of the old.
NEW_LOG: Final = 1 << 62


class Channel(NamedTuple):
    """The records that are appended to a partition, in their old order."""

    tp: TopicPartition
    records: tuple[KafkaRecord, ...]


def is_external(record: KafkaRecord, ledger_id: int) -> bool:
    """Return whether a record has no stamp of this ledger, or one that does not belong there."""
    header = wire.find(record.headers)
    check = wire.tp_check(record.topic, record.partition)
    return header is None or wire.read(header, ledger_id, check) is None


def holds_own(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Iterable[TopicPartition],
    ledger_id: int,
    editing: Editing | None = None,
    count: Callable[[KafkaRecord], None] = lambda record: None,
) -> frozenset[TopicPartition]:
    """Find the partitions with a record of the apps; each is read up to its first one.

    Args:
        ranges: from the lowest position to the end.
        in_flight: partitions with records in the table `messages`, and others that need no look.
        count: called with the external records that come first; all records of the other partitions.
        editing: a partition with an external record of an erased key counts as well: its position cannot go back.
    """
    own = set(in_flight)
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp in own or item.start >= item.end:
            continue
        for record in bulk.read([item]):
            if not is_external(record, ledger_id):
                own.add(tp)
                break
            count(record)
        if tp not in own and editing is not None and editing.erases_any(bulk.read([item])):
            own.add(tp)
    return frozenset(own)


def channels(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Mapping[TopicPartition, Sequence[KafkaRecord]],
    own: Collection[TopicPartition],
    ledger_id: int,
    editing: Editing | None = None,
    *,
    apart: bool = False,
) -> Iterator[Channel]:
    """Collect the records to append to each partition that holds records of the apps, in the order of partitions.

    Args:
        ranges: from the lowest position to the end, of every input.
        in_flight: the table `messages`; a record that several apps had still to start is in it once.
        own: see `holds_own`.
        editing: leaves out records of erased keys.
        apart: the ranges are of other logs than the stored records, and come after them.
    """
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp not in own:
            continue
        records = {record.offset: record for record in in_flight.get(tp, ())}
        if item.start < item.end:
            for record in bulk.read([item]):
                if is_external(record, ledger_id):
                    offset = record.offset + NEW_LOG * apart
                    records.setdefault(offset, record._replace(offset=offset))
        ordered = (record for _, record in sorted(records.items()))
        yield Channel(tp, tuple(ordered if editing is None else editing.edit(ordered)))


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
