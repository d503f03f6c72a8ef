"""The tables of a stopped system, compared with a snapshot.

A wrongly restored system is consistent in itself, and its next snapshot is VERIFIED: only a comparison of the log with
the snapshot shows the fault. So the log is folded here by separate rules, not by those of a restore.

A changelog is folded from its start to its end as a worker recovers it: the last value of each key, and of a set its
members. Memory holds a hash of 16 bytes per key and as many per value, of one partition at a time. First sums of
hashes are compared, which do not depend on the order; if they differ, the rows are read again, and keys are named.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import ChangelogCut
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

#: Differences of a table or an input that are named; all are counted.
NAMED_MAX: Final = 20
#: Bytes of a hash: at four billion keys two of them have the same with a chance of 1 in 2^65.
HASH_BYTES: Final = 16
#: Keys of markers begin with it.
MARKER_KEY: Final = wire.HEADER.encode() + b":"

Hash = bytes
#: A row that a table is to have: its changelog partition, and the bytes of key and value there.
StateRow = tuple[TopicPartition, bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDifference:
    """A key that differs. `kind`: "missing" in the log, "unexpected" there, or "different". `member`: of a set, as
    JSON; then `key` is the set."""

    kind: str
    partition: int
    key: str
    member: str = ""

    def __str__(self) -> str:
        of = f"member {self.member} of set" if self.member else "key"
        return f"{of} {self.key} of partition {self.partition} is {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedTable:
    """A table compared with its changelog.

    `rows`: the number of keys that it must have, for a table of sets that of members. `missing`, `unexpected`,
    `different`: the numbers of differences; `keys` names the first of them. `void`: records of processes older than a
    restore, which a worker with snapkafka leaves out, and one without applies.
    """

    app: str
    table: str
    topic: str
    rows: int = 0
    missing: int = 0
    unexpected: int = 0
    different: int = 0
    keys: tuple[KeyDifference, ...] = ()
    void: int = 0

    @property
    def equal(self) -> bool:
        return not (self.missing or self.unexpected or self.different)


# --- Tables ---------------------------------------------------------------------------------------------------------


def compare_state(
    rows: Callable[[], Iterable[StateRow]],
    records: Callable[[TopicPartition], Iterable[KafkaRecord]],
    cuts: Mapping[TopicPartition, ChangelogCut],
    *,
    is_void: Callable[[KafkaRecord], bool] = lambda record: False,
    named: int = NAMED_MAX,
) -> Iterator[ComparedTable]:
    """Compare the fold of each changelog with the rows that it must yield; yield each table.

    Args:
        rows: reads all rows, in any order: once, and once more for each partition that differs. A key that is
            suppressed is not among them.
        records: reads a changelog partition from its start to its end.
        cuts: the changelogs to compare.
        is_void: returns whether a process older than a restore appended the record after its base. A worker does not
            apply it.
        named: the number of keys of a table to name.
    """
    expected: defaultdict[TopicPartition, _Sum] = defaultdict(_Sum)
    for tp, key, value in rows():
        if tp in cuts:
            for _, change in _changes(key, value, cuts[tp]):
                if change.value is not None:
                    expected[tp].add(change.key, change.value)
    tables: defaultdict[tuple[str, str, str], list[TopicPartition]] = defaultdict(list)
    for tp, cut in sorted(cuts.items()):
        tables[cut.app, cut.table, cut.topic].append(tp)
    for (app, table, topic), partitions in sorted(tables.items()):
        found = _Counts()
        for tp in partitions:
            folded, void = _fold(records(tp), cuts[tp], is_void)
            found.void += void
            there = _Sum()
            for of, value in folded.items():
                there.add(of, value)
            if there != expected[tp]:
                _name(found, tp, rows(), records, folded, cuts[tp], named)
        yield ComparedTable(
            app=app,
            table=table,
            topic=topic,
            rows=sum(expected[tp].count for tp in partitions),
            missing=found.kinds["missing"],
            unexpected=found.kinds["unexpected"],
            different=found.kinds["different"],
            keys=tuple(found.keys),
            void=found.void,
        )


class _Change(NamedTuple):
    """A change of a key, or of a member of a set, by hashes; a value of None removes it."""

    key: Hash
    value: Hash | None


class _Sum:
    """A sum of the hashes of keys with their values, the same in any order."""

    __slots__ = ("count", "total")

    def __init__(self) -> None:
        self.count = self.total = 0

    def add(self, key: Hash, value: Hash) -> None:
        self.count += 1
        self.total = (self.total + int.from_bytes(_hash(key + value))) % 2 ** (8 * HASH_BYTES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Sum) and (self.count, self.total) == (other.count, other.total)

    __hash__ = None  # type: ignore[assignment]  # it changes


class _Counts:
    """The differences of a table as they are found."""

    def __init__(self) -> None:
        self.kinds: defaultdict[str, int] = defaultdict(int)
        self.keys: list[KeyDifference] = []
        self.void = 0

    def add(self, kind: str, tp: TopicPartition, name: tuple[str, str], most: int) -> None:
        self.kinds[kind] += 1
        if len(self.keys) < most:
            key, member = name
            self.keys.append(KeyDifference(kind=kind, partition=tp.partition, key=key, member=member))


def _fold(
    records: Iterable[KafkaRecord], cut: ChangelogCut, is_void: Callable[[KafkaRecord], bool]
) -> tuple[dict[Hash, Hash], int]:
    """Fold a changelog partition as a worker recovers it; return keys with values, and the number of void records."""
    found: dict[Hash, Hash] = {}
    void = 0
    for record in records:
        if record.key is None or record.key.startswith(MARKER_KEY):
            continue
        if is_void(record):
            void += 1
            continue
        for _, (key, value) in _changes(record.key, record.value, cut):
            if value is None:
                found.pop(key, None)
            else:
                found[key] = value
    return found, void


def _name(
    found: _Counts,
    tp: TopicPartition,
    rows: Iterable[StateRow],
    records: Callable[[TopicPartition], Iterable[KafkaRecord]],
    folded: dict[Hash, Hash],
    cut: ChangelogCut,
    most: int,
) -> None:
    """Name the differences in a partition; `folded` is consumed."""
    for of, raw, content in rows:
        if of != tp:
            continue
        for name, (key, value) in _changes(raw, content, cut):
            if value is None:
                continue
            if (there := folded.pop(key, None)) is None:
                found.add("missing", tp, name, most)
            elif there != value:
                found.add("different", tp, name, most)
    if not folded:
        return
    for record in records(tp):
        for name, (key, _) in _changes(record.key, record.value, cut):
            if folded.pop(key, None) is not None:
                found.add("unexpected", tp, name, most)


def _changes(
    key: bytes | None, value: bytes | None, cut: ChangelogCut
) -> Iterator[tuple[tuple[str, str], _Change]]:
    """List the changes in a record, each with the names of the key and of the member of a set."""
    if key is None:
        return
    if not cut.sets:
        yield (_text(key), ""), _Change(_hash(key), None if value is None else _hash(value))
        return
    try:
        operation, of = _json(key)
        change = _json(value or b"")
    except (ValueError, TypeError):
        return  # Faust cannot apply it either
    match operation, change:  # see `faust.tables.sets`
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
            name = (_dumped(of), _dumped(member))
            yield name, _Change(_hash(json.dumps(name).encode()), content)


def _json(text: bytes) -> Any:
    """Read JSON; 1.0 is 1, as it is to a set of Python."""
    return json.loads(text, parse_float=_number)


def _number(text: str) -> float:
    found = float(text)
    return int(found) if found.is_integer() else found


def _dumped(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")


def _hash(data: bytes) -> Hash:
    return blake2b(data, digest_size=HASH_BYTES).digest()
