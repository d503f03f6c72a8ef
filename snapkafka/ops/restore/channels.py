"""Channels: which records of an input are appended once more, and where.

A partition in which no record of the apps lies between the lowest position and the end is external: nothing is written
there, and the position goes back. Otherwise what was in flight (the table `messages`) and the external records of that
range are appended, by their old offsets. No marker, and nothing that was sent after the cut.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from snapkafka.checks import ReadRange
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .appending import Author, Bulk, LogRecord, NewRecord
from .editing import Editing
from .planning import Appended

__all__ = ["Channel", "append_channels", "channels", "holds_own", "is_external"]

#: What the keys of markers begin with.
MARKER_KEY: Final = wire.HEADER.encode() + b":"


class Channel(NamedTuple):
    """Hold what is appended to a partition: its records in their old order."""

    tp: TopicPartition
    records: tuple[LogRecord, ...]


def is_external(record: LogRecord, ledger_id: int, own: Callable[[int], bool] | None = None) -> bool:
    """Is it a record without a stamp of this ledger, or with one that belongs elsewhere?

    Args:
        own: is the sender of a stamp (a process) one of those that are restored? Where only some apps are, what others
            have sent is as good as external. None: all are.
    """
    header = wire.find(record.headers)
    check = wire.tp_check(record.topic, record.partition)
    stamp = None if header is None else wire.read(header, ledger_id, check)
    return stamp is None or (own is not None and not own(stamp.process))


def _is_marker(record: LogRecord) -> bool:
    return (record.key or b"").startswith(MARKER_KEY) and wire.find(record.headers) is not None


def holds_own(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Iterable[TopicPartition],
    ledger_id: int,
    sender: Callable[[int], bool] | None = None,
    editing: Editing | None = None,
) -> frozenset[TopicPartition]:
    """Find the partitions in which a record of the apps lies; each is read up to its first one.

    Args:
        ranges: from the lowest position to the end.
        in_flight: partitions with records in the table `messages`.
        sender: `own` of `is_external`.
        editing: a partition with an external record of an erased key is one of those: its position cannot go back.
    """
    own = set(in_flight)
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp in own or item.start >= item.end:
            continue
        if any(not is_external(record, ledger_id, sender) for record in bulk.read([item])) or (
            editing is not None and editing.erases_any(bulk.read([item]))
        ):
            own.add(tp)
    return frozenset(own)


def channels(
    bulk: Bulk,
    ranges: Sequence[ReadRange],
    in_flight: Mapping[TopicPartition, Sequence[LogRecord]],
    own: frozenset[TopicPartition],
    ledger_id: int,
    sender: Callable[[int], bool] | None = None,
    editing: Editing | None = None,
) -> Iterator[Channel]:
    """Collect what is appended to each partition that holds records of the apps, in the order of partitions.

    Args:
        ranges: from the lowest position to the end, of every input.
        in_flight: the table `messages`; a record that several apps had still to start is there once.
        own: see `holds_own`.
        sender: `own` of `is_external`.
        editing: leaves out records of erased keys.
    """
    for item in ranges:
        tp = TopicPartition(item.topic, item.partition)
        if tp not in own:
            continue
        records = {record.offset: record for record in in_flight.get(tp, ())}
        if item.start < item.end:
            for record in bulk.read([item]):
                if is_external(record, ledger_id, sender) and not (sender and _is_marker(record)):
                    records.setdefault(record.offset, record)
        ordered = (record for _, record in sorted(records.items()))
        yield Channel(tp, tuple(ordered if editing is None else editing.edit(ordered)))


def append_channels(
    bulk: Bulk, author: Author, found: Iterable[Channel]
) -> dict[TopicPartition, tuple[Appended, ...]]:
    """Append channels; returns where each record has come to lie, of every partition that was given."""
    olds: list[tuple[TopicPartition, int]] = []
    moved: dict[TopicPartition, list[Appended]] = defaultdict(list)

    def stamped() -> Iterator[NewRecord]:
        for channel in found:
            moved[channel.tp] = []
            for record in channel.records:
                olds.append((record.tp, record.offset))
                yield author.stamped(
                    NewRecord(
                        topic=record.topic,
                        partition=record.partition,
                        key=record.key,
                        value=record.value,
                        headers=record.headers,
                        timestamp_ms=record.timestamp_ms if record.timestamp_ms >= 0 else None,
                    )
                )

    def acknowledged(number: int, offset: int) -> None:
        tp, old = olds[number]
        moved[tp].append(Appended(old, offset))

    bulk.append(stamped(), acknowledged)
    return {tp: tuple(items) for tp, items in moved.items()}
