"""State: a changelog is folded, the records that it lacks are appended, and it is folded again.

Whatever the log holds, was compacted or has lost, and whatever an earlier attempt has written: the difference from the
rows of the cut is what is missing. Rows come as they are to be (masked, without erased keys), so an erased key that the
log has is a removal. After the append the same difference is empty; the first record that is left fails the run.

The log is folded as a worker recovers it: the last value of each key, and of a set its members. Memory holds 16 bytes
per key and as many per value, of one partition at a time. A table of sets gets a record for each member, never one
update of many, which Faust cannot read if the table has a `value_type`, and never a tombstone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import Any, Final, NamedTuple

from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import ChangelogCut
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .channels import NewRecord

#: The first part of a key in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2
UPDATE: Final = 15
#: Bytes of a hash: at four billion keys two of them have the same with a chance of 1 in 2^65.
HASH_BYTES: Final = 16

Hash = bytes


class Row(NamedTuple):
    """A row of the table `state`, as far as it is appended."""

    tp: TopicPartition
    key: bytes | None
    value: bytes | None


class Unit(NamedTuple):
    """What a record says of a key, or of a member of a set: then `key` is the set and `member` the member, both as
    JSON. A value of None removes it."""

    key: bytes
    member: str
    value: bytes | None
    identity: Hash

    def __str__(self) -> str:
        key = self.key.decode("utf-8", "backslashreplace")
        return f"member {self.member} of set {key}" if self.member else f"key {key}"

    def record(self, tp: TopicPartition, *, removed: bool = False) -> NewRecord:
        """Build the record that says this, or that it is removed."""
        if not self.member:
            return NewRecord(tp.topic, tp.partition, self.key, None if removed else self.value)
        kind = DISCARD if removed else ADD
        return NewRecord(tp.topic, tp.partition, b"[%d,%s]" % (kind, self.key), self.member.encode("ascii"))


def units(key: bytes | None, value: bytes | None, cut: ChangelogCut) -> Iterator[Unit]:
    """Take a record of a changelog, or a row, apart; nothing comes of what Faust cannot read."""
    if key is None:
        return
    if not cut.sets:
        yield Unit(key, "", value, _hash(key))
        return
    try:
        kind, of = json.loads(key)
        change = json.loads(value or b"")
    except (ValueError, TypeError):
        return
    match kind, change:
        case 1, _:
            added, removed = [change], []
        case 2, _:
            added, removed = [], [change]
        case 15, [list() as added, list() as removed]:
            pass
        case _:
            return
    for part, content in ((added, b""), (removed, None)):
        for member in part:
            identity = _hash(_text([_whole(of), _whole(member)]).encode())
            yield Unit(_text(of).encode(), _text(member), content, identity)


def fold(
    records: Iterable[KafkaRecord],
    cut: ChangelogCut,
    is_void: Callable[[KafkaRecord], bool] = lambda record: False,
) -> dict[Hash, Hash]:
    """Fold a changelog partition; return the values by keys, as hashes.

    Args:
        is_void: returns whether a worker leaves the record out.
    """
    found: dict[Hash, Hash] = {}
    for record in records:
        if wire.is_marker(record.key, record.headers) or is_void(record):
            continue
        for unit in units(record.key, record.value, cut):
            if unit.value is None:
                found.pop(unit.identity, None)
            else:
                found[unit.identity] = _hash(unit.value)
    return found


class Difference(NamedTuple):
    """A key that the log lacks ("missing"), has with another value ("different") or should not have
    ("unexpected"), and the record that changes that."""

    kind: str
    unit: Unit
    record: NewRecord


def difference(
    tp: TopicPartition,
    rows: Iterable[Row],
    reread: Callable[[], Iterable[KafkaRecord]],
    folded: dict[Hash, Hash],
    cut: ChangelogCut,
) -> Iterator[Difference]:
    """Find what a changelog partition needs to fold to the rows: first what it lacks, then removals.

    Args:
        rows: of this partition.
        reread: reads the log again; only called if something is to be removed: hashes do not tell keys.
        folded: see `fold`; it is consumed.
    """
    for row in rows:
        for unit in units(row.key, row.value, cut):
            if unit.value is None:
                continue
            there = folded.pop(unit.identity, None)
            if there != _hash(unit.value):
                kind = "missing" if there is None else "different"
                yield Difference(kind, unit, unit.record(tp))
    if folded:
        for record in reread():
            if wire.is_marker(record.key, record.headers):
                continue
            for unit in units(record.key, record.value, cut):
                if folded.pop(unit.identity, None) is not None:
                    yield Difference("unexpected", unit, unit.record(tp, removed=True))


def differences(
    rows: Iterable[Row],
    read: Callable[[TopicPartition], Iterable[KafkaRecord]],
    cuts: Mapping[TopicPartition, ChangelogCut],
    is_void: Callable[[KafkaRecord], bool] = lambda record: False,
) -> Iterator[Difference]:
    """Find what all changelogs need.

    Args:
        rows: of all of them, in the order of partitions.
        read: reads a changelog from its start to its end.
    """
    groups = ((tp, of) for tp, of in groupby(rows, key=lambda row: row.tp) if tp in cuts)
    upcoming = next(groups, None)
    for tp, cut in sorted(cuts.items()):
        here = upcoming is not None and upcoming[0] == tp
        found = upcoming[1] if upcoming is not None and here else ()
        yield from difference(tp, found, partial(read, tp), fold(read(tp), cut, is_void), cut)
        if here:
            upcoming = next(groups, None)
    assert upcoming is None, f"rows of {upcoming[0]} come out of order"


def _text(value: Any) -> str:
    """Format JSON so that equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _whole(value: Any) -> Any:
    """Return 1 for 1.0, everywhere in a value: they are one member to a set of Python."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]
        case dict():
            return {name: _whole(item) for name, item in value.items()}
    return value


def _hash(data: bytes) -> Hash:
    return blake2b(data, digest_size=HASH_BYTES).digest()
