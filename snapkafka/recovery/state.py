"""State: the records that are appended to changelogs, so that their fold is the state of the cut again.

For a key that a record at or past `settled` names, the raw bytes of the cut are appended, or a tombstone if the cut
has none. Keys that only older records name are unchanged. If tombstones or whole records may have been deleted since,
every key of the cut is appended.

A table of sets logs changes of members, so for each touched set the touched members of the cut are added, and the
other touched ones discarded, a record each; never a tombstone, which Faust would take for a broken record, and never
one update of many members, which Faust cannot read if the table has a `value_type`: it then drops the whole batch.

A plain ordered producer does it; Spark and its sink would be faster for large states.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import ChangelogCut
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .appending import NewRecord

#: The first part of a key in the changelog of a table of sets (`faust.tables.sets`).
ADD: Final = 1
DISCARD: Final = 2


class Row(NamedTuple):
    """A row of the table `state`, as far as it is appended."""

    tp: TopicPartition
    key: bytes | None
    value: bytes | None


class Touched:
    """The keys of plain tables and members of sets that records at or past `settled` name (both as JSON text)."""

    def __init__(self) -> None:
        self.keys: defaultdict[TopicPartition, set[bytes]] = defaultdict(set)
        self.members: defaultdict[TopicPartition, dict[str, set[str]]] = defaultdict(dict)

    @property
    def count(self) -> int:
        return sum(map(len, self.keys.values())) + sum(map(len, self.members.values()))


def touch(records: Iterable[KafkaRecord], cuts: Mapping[TopicPartition, ChangelogCut]) -> Touched:
    """Collect the keys and members that records of changelogs name; markers and records without a key name none."""
    found = Touched()
    for record in records:
        if record.key is None or wire.is_marker(record.key, record.headers):
            continue
        tp = record.tp
        if not cuts[tp].sets:
            found.keys[tp].add(record.key)
        elif (change := _change(record.key, record.value)) is not None:
            of, members = change
            found.members[tp].setdefault(of, set()).update(members)
    return found


def keep_all(rows: Iterable[Row]) -> Iterator[tuple[Row, bool]]:
    """Mark no row as erased."""
    return ((row, False) for row in rows)


def records_of_state(
    rows: Iterable[Row],
    touched: Touched,
    cuts: Mapping[TopicPartition, ChangelogCut],
    whole: Collection[TopicPartition],
    erased: Callable[[Iterable[Row]], Iterable[tuple[Row, bool]]] = keep_all,
) -> Iterator[NewRecord]:
    """Yield the records to append: first the rows of the cut, then tombstones.

    Args:
        rows: of the cut; they consume `touched`.
        whole: the changelogs of which every row is appended.
        erased: marks each row whose key stays deleted, touched or not.
    """
    for row, gone in erased(rows):
        if row.key is None or row.tp not in cuts:
            continue
        if cuts[row.tp].sets:
            yield from _set(row, touched, whole=row.tp in whole, gone=gone)
            continue
        keys = touched.keys[row.tp]
        if gone:
            keys.add(row.key)
            continue
        if row.key in keys or row.tp in whole:
            keys.discard(row.key)
            yield NewRecord(row.tp.topic, row.tp.partition, row.key, row.value)
    for tp, keys in sorted(touched.keys.items()):
        for key in sorted(keys):
            yield NewRecord(tp.topic, tp.partition, key, None)
    for tp, sets in sorted(touched.members.items()):
        for of, members in sorted(sets.items()):
            yield from _changes(tp, of, [], members)


# --- Sets -----------------------------------------------------------------------------------------------------------


def _set(row: Row, touched: Touched, *, whole: bool, gone: bool) -> Iterator[NewRecord]:
    change = _change(row.key or b"", row.value)
    if change is None:  # an operation that nobody can read: nor can Faust
        return
    of, cut = change
    members = touched.members[row.tp].pop(of, None)
    if gone:
        yield from _changes(row.tp, of, [], {*cut, *(members or ())})
        return
    if members is None and not whole:
        return
    members = members or set()
    yield from _changes(row.tp, of, cut if whole else [m for m in cut if m in members], members - set(cut))


def _changes(tp: TopicPartition, of: str, added: Iterable[str], lost: Iterable[str]) -> Iterator[NewRecord]:
    for kind, members in ((ADD, added), (DISCARD, lost)):
        for member in sorted(members):
            yield NewRecord(tp.topic, tp.partition, f"[{kind},{of}]".encode(), member.encode())


def _change(key: bytes, value: bytes | None) -> tuple[str, list[str]] | None:
    """Read a change of a set: the set and the members that it names, each as JSON text; None: no such change."""
    try:
        kind, of = json.loads(key)
        decoded = json.loads(value or b"")
    except (ValueError, TypeError):
        return None
    match kind:
        case 1 | 2:
            return _text(of), [_text(decoded)]
        case 15 if (
            isinstance(decoded, list) and len(decoded) == 2 and all(isinstance(p, list) for p in decoded)
        ):
            return _text(of), [_text(member) for part in decoded for member in part]
        case _:
            return None


def _text(value: Any) -> str:
    """Format JSON so that equal values have equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
