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

from collections.abc import Iterator
from typing import Any, NamedTuple

from snapkafka.checks import CutView, LogRecord, questions
from snapkafka.protocol.captured_snapshot import ChangelogCut
from snapkafka.protocol.records import TopicPartition

from .rows import changelogs_by_place
from .values.decoder import Decoder, Decoding, Texts
from .values.json_text import UPDATE


class Change(NamedTuple):
    """A change of a table, as `checks.questions` asks for it; what is needed of it for `state` has a `bucket`, in
    which all of its key are."""

    place: int
    pos: int
    key_hash: int | None
    white: int
    bucket: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    process: int = -1
    epoch: int = 0


class Fold:
    """The fold of changes, in whatever order they come.

    Args:
        parent: the snapshot on which an incremental one builds; None: the state is whole.
    """

    def __init__(self, view: CutView, decoding: Decoding, parent: CutView | None = None) -> None:
        self._view, self._parent, self._decoder = view, parent, Decoder(decoding)
        numbers = {tp: place for place, tp in enumerate(questions.places(view))}
        self._tables: dict[int, list[_Table]] = {}
        counted = {} if parent is None else changelogs_by_place(parent.captured)
        for place, of in changelogs_by_place(view.captured).items():
            number = numbers.get(TopicPartition(of.topic, of.partition))
            if number is not None:
                kind, before = _Sets if of.sets else _Table, counted.get(place)
                made = kind(of, self._decoder, 0 if before is None else before.end, parent)
                self._tables.setdefault(number, []).append(made)
        #: How many changes were taken in, and about how many bytes of keys and values are held.
        self.changes = self.bytes = 0

    def take(self, change: Change) -> None:
        """Take in a change that is part of the state."""
        self.changes += 1
        for table in self._tables[change.place]:
            if change.pos < table.of.end:
                self.bytes += table.take(change)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows, in order."""
        tables = [table for of_place in self._tables.values() for table in of_place]
        for table in sorted(tables, key=lambda it: (it.of.app, it.of.table, it.of.partition)):
            for row in table.rows():
                yield row if self._parent is None else row | {"deleted": row["value_raw"] is None}


class _Table:
    """One changelog partition of a table, and the last change of each of its keys.

    Args:
        counted: the end of the changelog for the parent.
    """

    def __init__(self, of: ChangelogCut, decoder: Decoder, counted: int, parent: CutView | None) -> None:
        self.of, self._decoder, self._counted, self._parent = of, decoder, counted, parent
        self._codecs = of.key_codec, of.value_codec
        self._last: dict[Any, Change] = {}

    def take(self, change: Change) -> int:
        """Take in a change; return by how many bytes more are held."""
        return self._keep(change.key, change)

    def rows(self) -> Iterator[dict[str, Any]]:
        for change in self._in_order():
            if change.value is not None if self._parent is None else not self._is_counted(change):
                yield self._row(change)

    def _keep(self, key: Any, change: Change) -> int:
        before = self._last.get(key)
        if before is not None and before.pos > change.pos:
            return 0
        self._last[key] = change
        return _size(change) - (0 if before is None else _size(before))

    def _in_order(self) -> list[Change]:
        return sorted(
            self._last.values(), key=lambda it: (it.key is not None, it.key or b"", it.value or b"")
        )

    def _row(self, change: Change, *, unread: bool = False) -> dict[str, Any]:
        topic, windowed = self.of.topic, self.of.windowed
        texts = self._decoder.texts(
            topic, change.key, change.value, self._codecs, windowed=windowed, unread=unread
        )
        return self._made(change.key, change.value, change.pos, texts)

    def _made(self, key: bytes | None, value: bytes | None, offset: int, texts: Texts) -> dict[str, Any]:
        return {
            "app": self.of.app,
            "table_name": self.of.table,
            "partition": self.of.partition,
            "key_raw": key,
            "value_raw": value,
            "changelog_topic": self.of.topic,
            "changelog_offset": offset,
            **texts._asdict(),
        }

    def _is_counted(self, change: Change) -> bool:
        """Return whether the parent has counted a change."""
        if self._parent is None or change.pos >= self._counted:
            return False
        log = LogRecord(self.of.topic, self.of.partition, change.pos, change.process, change.epoch)
        return self._parent.is_white(log)


class _Sets(_Table):
    """One changelog partition of a table of sets: each operation changes members of one.

    Unreadable operations stay as they are: the last one of those with the same bytes.
    """

    def __init__(self, of: ChangelogCut, decoder: Decoder, counted: int, parent: CutView | None) -> None:
        super().__init__(of, decoder, counted, parent)
        self._members: dict[str, dict[str, tuple[int, bool]]] = {}
        self._offsets: dict[str, int] = {}

    def take(self, change: Change) -> int:
        if change.value is None:
            return 0
        operation = self._decoder.operation(self.of.topic, change.key, change.value, self._codecs)
        if operation is None:
            return self._keep((change.key, change.value), change)
        members, at = self._members.setdefault(operation.of, {}), change.pos
        for names, there in ((operation.added, True), (operation.lost, False)):
            for name in names:
                if members.get(name, (-1, False))[0] <= at:  # what one operation adds and removes is removed
                    members[name] = at, there
        self._offsets[operation.of] = max(at, self._offsets.get(operation.of, -1))
        return _size(change)

    def rows(self) -> Iterator[dict[str, Any]]:
        yield from sorted(
            [*map(self._set, self._members), *(self._row(it, unread=True) for it in self._in_order())],
            key=lambda row: (row["key_raw"] is not None, row["key_raw"] or b""),
        )

    def _set(self, of: str) -> dict[str, Any]:
        """Return a set; its bytes are one operation that recreates it."""
        held = sorted((name for name, (_, there) in self._members[of].items() if there), key=str.encode)
        content = f"[{','.join(held)}]"
        no_topic, codecs = "", ("json", "json")  # no schema is for these bytes
        texts = self._decoder.texts(
            no_topic, of.encode(), content.encode(), codecs, windowed=self.of.windowed
        )
        return self._made(f"[{UPDATE},{of}]".encode(), f"[{content},[]]".encode(), self._offsets[of], texts)


def _size(change: Change) -> int:
    return len(change.key or b"") + len(change.value or b"")
