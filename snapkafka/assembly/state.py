"""The table `state`: changes of tables, folded.

A row's bytes (`key_raw`, `value_raw`) are those of one record that creates it, so folding a state with later changes
yields the state after them.

The state of an incremental snapshot has the keys whose *last* white record is one that the parent did not count. A
record that is white for the parent is white for the child: its colour follows from its header, its sender and the
changelog's end, and each of these that made it white then does so now. So the child's state is the parent's, plus the
records past the parent's end and those below it that were red for the parent. The parent's manifest has the first
possible offset of these (`settled`). It is not enough to fold the new records: a record that was red for the parent
may be followed by one that was white for it, of an event that ended late. Of sets every record counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from snapkafka.checks import CutView, LogRecord, questions
from snapkafka.manifest import STATE, STATE_DELTA
from snapkafka.protocol.captured_snapshot import ChangelogCut
from snapkafka.protocol.records import TopicPartition

from .arrow_schema import arrow_schema
from .rows import changelogs_by_place
from .table_files import GROUP_ROWS, in_order, schema_of
from .values.decoder import Decoder, Decoding, Raws
from .values.json_text import UPDATE

#: What is held of a change.
HELD: Final = arrow_schema("place int, pos bigint, key binary, value binary, process bigint, epoch bigint")
#: Bytes of changes that wait until they are folded together.
WAITING_BYTES: Final = 64 << 20


class Fold:
    """The fold of changes, in whatever order they come.

    Args:
        parent: the snapshot on which an incremental one builds; None: the state is whole.
    """

    def __init__(self, view: CutView, decoding: Decoding, parent: CutView | None = None) -> None:
        numbers = {tp: place for place, tp in enumerate(questions.places(view))}
        decoder, self._name = Decoder(decoding), STATE if parent is None else STATE_DELTA
        self._tables: list[tuple[int, _Table]] = []
        counted = {} if parent is None else changelogs_by_place(parent.captured)
        for place, of in changelogs_by_place(view.captured).items():
            number = numbers.get(TopicPartition(of.topic, of.partition))
            if number is not None:
                kind, before = _Sets if of.sets else _Table, counted.get(place)
                self._tables.append((number, kind(of, decoder, parent, 0 if before is None else before.end)))
        self._waiting: list[pa.RecordBatch] = []
        #: How many changes were taken in, and about how many bytes of keys and values are held.
        self.changes = self.bytes = self._folded = 0

    def take(self, changes: pa.RecordBatch) -> None:
        """Take in those of some changes that are part of the state: they have a `bucket`."""
        needed = changes.filter(changes["bucket"].is_valid()).select(HELD.names)
        self._waiting.append(needed)
        self.changes, self.bytes = self.changes + len(needed), self.bytes + _size(needed)
        if self.bytes - self._folded > WAITING_BYTES:
            self._fold()

    def rows(self) -> pa.Table:
        """Return the rows, in order; they are not held any more."""
        self._fold()
        schema = schema_of(self._name)
        groups = [it for _, table in self._tables for it in table.rows()]
        return in_order(self._name, pa.concat_tables([schema.empty_table(), *groups]))

    def _fold(self) -> None:
        waiting = pa.Table.from_batches(self._waiting, HELD).sort_by("place")
        self._waiting, places = [], waiting["place"].to_numpy()
        for place, table in self._tables:
            first, end = np.searchsorted(places, [place, place + 1])
            if first < end:
                table.take(waiting.slice(first, end - first))
        self.bytes = self._folded = sum(table.bytes for _, table in self._tables)


@dataclass
class _Table:
    """One changelog partition of a table, and the last change of each of its keys.

    `counted`: the end of the changelog for the parent.
    """

    of: ChangelogCut
    decoder: Decoder
    parent: CutView | None
    counted: int
    last: pa.Table = field(default_factory=HELD.empty_table)
    bytes: int = 0

    def take(self, changes: pa.Table) -> None:
        found = pa.concat_tables([self.last, changes])
        codes = found["key"].combine_chunks().dictionary_encode("encode").indices.to_numpy()
        offsets = found["pos"].to_numpy()
        order = np.argsort(offsets, kind="stable")
        order = order[offsets[order] < self.of.end]
        last, kept = np.empty(len(found), int), np.zeros(len(found), bool)
        last[codes[order]] = order  # the last one of a key stays
        kept[last[codes[order]]] = True
        self.last = found.filter(pa.array(kept))
        self.bytes = _size(self.last)

    def rows(self) -> Iterator[pa.Table]:
        if (parent := self.parent) is None:
            needed = self.last["value"].is_valid()
        else:  # what the parent has not counted
            stamps = zip(*_lists(self.last, "pos", "process", "epoch"), strict=True)
            logs = (LogRecord(self.of.topic, self.of.partition, *it) for it in stamps)
            new = [it.offset >= self.counted or not parent.is_white(it) for it in logs]
            needed = pa.array(new, pa.bool_())
        last, self.last = self.last.filter(needed), HELD.empty_table()
        for at in range(0, len(last), GROUP_ROWS):
            yield self._made(*_lists(last.slice(at, GROUP_ROWS), "key", "value", "pos"))

    def _made(self, keys: Raws, values: Raws, offsets: Sequence[int], **how: Any) -> pa.Table:
        """Return rows; `how`: what differs in their decoding."""
        of = self.of
        same = {"app": of.app, "table_name": of.table, "partition": of.partition, "changelog_topic": of.topic}
        columns = {name: pa.repeat(value, len(keys)) for name, value in same.items()}
        usual = {"raws": (keys, values), "topic": of.topic, "codecs": (of.key_codec, of.value_codec)}
        columns |= self.decoder.columns(**{**usual, **how}, windowed=of.windowed)
        columns |= {"key_raw": keys, "value_raw": values, "changelog_offset": offsets}
        columns |= {"deleted": [value is None for value in values]}
        schema = schema_of(STATE if self.parent is None else STATE_DELTA)
        return pa.Table.from_pydict({name: columns[name] for name in schema.names}, schema)


@dataclass
class _Sets(_Table):
    """One changelog partition of a table of sets: each operation changes members of one.

    Unreadable operations stay as they are: the last one of those with the same bytes.
    """

    members: dict[str, dict[str, tuple[int, bool]]] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    unread: dict[tuple[bytes | None, bytes], int] = field(default_factory=dict)

    def take(self, changes: pa.Table) -> None:
        self.bytes += _size(changes)
        codecs = self.of.key_codec, self.of.value_codec
        for key, value, at in zip(*_lists(changes, "key", "value", "pos"), strict=True):
            if value is None or at >= self.of.end:
                continue
            operation = self.decoder.operation(self.of.topic, key, value, codecs)
            if operation is None:
                self.unread[key, value] = max(at, self.unread.get((key, value), -1))
                continue
            members = self.members.setdefault(operation.of, {})
            for names, there in ((operation.added, True), (operation.lost, False)):
                for name in names:  # what one operation adds and removes is removed
                    if members.get(name, (-1, False))[0] <= at:
                        members[name] = at, there
            self.offsets[operation.of] = max(at, self.offsets.get(operation.of, -1))

    def rows(self) -> Iterator[pa.Table]:
        """Yield the sets, the bytes of each one operation that recreates it, and what is unreadable."""
        held = [sorted((it for it in of if of[it][1]), key=str.encode) for of in self.members.values()]
        raws = [of.encode() for of in self.members], [f"[{','.join(members)}]".encode() for members in held]
        keys, values = [b"[%d,%s]" % (UPDATE, of) for of in raws[0]], [b"[%s,[]]" % it for it in raws[1]]
        offsets, json = [self.offsets[of] for of in self.members], ("json", "json")
        yield self._made(keys, values, offsets, raws=raws, topic="", codecs=json)  # by no schema
        unread = sorted(self.unread, key=lambda it: (it[0] is not None, it))
        columns = [key for key, _ in unread], [value for _, value in unread]
        yield self._made(*columns, [self.unread[it] for it in unread], unread=True)


def _lists(table: pa.Table, *columns: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in columns]


def _size(changes: Any) -> int:
    """Return the bytes of keys and values."""
    return sum(pc.sum(pc.binary_length(changes[name])).as_py() or 0 for name in ("key", "value"))
