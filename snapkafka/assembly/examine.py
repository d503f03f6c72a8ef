"""The work on the records of a snapshot, piece by piece: the one text of both engines.

What follows from a record and the captured snapshot alone is done at once: the summary for the checks, the tables
`messages` and `inputs`, what may be shown of `around`. What needs other records of its key comes back as `Change`s, of
which only those that may be the last of their key have a value.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from snapkafka.checks import CutView, ReadRange, Stretch, Wanted, lead_ranges, questions, stretch_of
from snapkafka.checks.summary import KEPT_MAX, places_due
from snapkafka.manifest import INPUTS
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store

from .around import Around, Reach, per_kind, reach
from .job import Settings
from .manifest import unread_ranges
from .records import Record
from .rows import Channel, input_row, message_row
from .state import Change, Fold
from .table_files import Written, write_rows
from .values.decoder import Decoder

#: Rows of a table, and bytes of them, that a task holds until it writes them to a file.
FILE_ROWS: Final = 250_000
FILE_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What is read of a log, and what is made of it.

    `ranges`: of the checks. `tables`: where they are written, a store and its folder; None: they are not.
    `parent`: of an incremental snapshot.
    `is_again`: it is read for the checks once more, and nothing else is wanted of it.
    """

    view: CutView
    ranges: tuple[ReadRange, ...]
    settings: Settings
    tables: tuple[Store, str] | None = None
    parent: CutView | None = None
    wanted: Wanted = field(default_factory=Wanted)
    is_again: bool = False

    @cached_property
    def window(self) -> int:
        """Records of each channel and kind in `around`; 0: there is no such table."""
        spec = self.settings.spec
        return per_kind(self.view, spec.around) if self.tables and spec.around else 0

    @cached_property
    def reaches(self) -> list[Reach]:
        return reach(self.view, self.window) if self.window else []

    @cached_property
    def unread(self) -> dict[TopicPartition, ReadRange]:
        """The ranges of `inputs`; empty: there is no such table."""
        wanted = self.tables is not None and self.settings.spec.with_inputs
        return {TopicPartition(*it[:2]): it for it in unread_ranges(self.view)} if wanted else {}

    def new_fold(self) -> Fold:
        """Return the fold of its changes, of none yet."""
        return Fold(self.view, self.settings.decoding, self.parent)

    def to_read(self) -> list[ReadRange]:
        """Return the offsets that any of this needs, one range per partition."""
        whole: dict[TopicPartition, ReadRange] = {}
        state = self.view.changelogs
        before = (ReadRange(*it.tp, it.low, it.source.position) for it in self.reaches if it.tp not in state)
        below = () if self.is_again else lead_ranges(self.view, self.ranges)
        for item in (*self.ranges, *before, *below, *self.unread.values()):
            tp = TopicPartition(*item[:2])
            known = whole.get(tp, item)
            whole[tp] = ReadRange(*tp, min(known.start, item.start), max(known.end, item.end))
        return [item for _, item in sorted(whole.items()) if item.start < item.end]


@dataclass
class Part:
    """What a task has made of its records. `leads`: stretches below the ranges; `held`: messages in flight and their
    bytes, by channel; `folded`: bytes of the changes of which `state` is made."""

    stretches: list[Stretch] = field(default_factory=list)
    leads: list[Stretch] = field(default_factory=list)
    folded: int = 0
    files: list[tuple[str, Written]] = field(default_factory=list)
    held: Counter[tuple[Channel, str]] = field(default_factory=Counter)
    near: list[dict[str, Any]] = field(default_factory=list)


class Examination:
    """The work of one task."""

    def __init__(self, reading: Reading) -> None:
        self._reading, self._view, self._part = reading, reading.view, Part()
        self._read = {TopicPartition(*item[:2]): item for item in reading.ranges}
        self._places = {tp: place for place, tp in enumerate(questions.places(reading.view))}
        self._decoder = Decoder(reading.settings.decoding)
        self._kept: Counter[TopicPartition] = Counter()
        self._around = Around(reading.view, reading.reaches, reading.window) if reading.reaches else None
        self._rows: dict[str, list[dict[str, Any]]] = {}
        self._bytes: Counter[str] = Counter()

    def take(self, tp: TopicPartition, records: list[Record]) -> Iterable[Change]:
        """Take in records of one partition, whose offsets rise; return the changes among them."""
        if tp in self._view.recreated:
            return ()
        read = self._read.get(tp)
        own = [] if read is None else [it for it in records if read.start <= it.offset < read.end]
        if own:
            self._summarise(tp, own)
        if read is not None and (lead := [it.row for it in records if it.offset < read.start]):
            self._part.leads.append(stretch_of(self._view, tp, lead))
        if self._around is not None:
            upto = records if read is None else [it for it in records if it.offset < read.end]
            self._around.take(tp, upto)
        if self._reading.tables is not None and tp in self._view.inputs:
            self._messages(tp, own)
            self._external(tp, records)
        return () if self._reading.is_again or tp not in self._places else self._changes(tp, own)

    def part(self) -> Part:
        """Return what was made of all records."""
        for name in list(self._rows):
            self._write(name)
        if self._around is not None:
            self._part.near = self._around.rows(self._decoder)
        return self._part

    def _summarise(self, tp: TopicPartition, records: list[Record]) -> None:
        found = stretch_of(self._view, tp, (it.row for it in records), self._reading.wanted)
        if self._kept[tp] > KEPT_MAX:
            found.crowded, due = True, places_due(self._view, tp)
            found.kept = [it for it in found.kept if it.record.offset in due]
        self._kept[tp] += len(found.kept)
        self._part.stretches.append(found)

    # -- tables ---------------------------------------------------------------------------------------------------

    def _messages(self, tp: TopicPartition, records: list[Record]) -> None:
        view = self._view
        for source in view.inputs[tp]:
            for record in records:
                if view.in_channel(record.log, source):
                    row = message_row(view, record, source, self._decoder)
                    channel = Channel(*(row[name] for name in Channel._fields))
                    self._part.held[channel, "messages"] += 1
                    self._part.held[channel, "bytes"] += record.size
                    self._add("messages", row, record)

    def _external(self, tp: TopicPartition, records: list[Record]) -> None:
        if (unread := self._reading.unread.get(tp)) is None:
            return
        for record in records:
            if unread.start <= record.offset < unread.end and record.is_external:
                self._add(INPUTS, input_row(record), record)

    def _add(self, name: str, row: dict[str, Any], record: Record) -> None:
        rows = self._rows.setdefault(name, [])
        rows.append(row)
        headers = sum(len(it["key"]) + len(it["value"] or b"") for it in row["headers"])
        self._bytes[name] += record.size + headers
        if len(rows) >= FILE_ROWS or self._bytes[name] >= FILE_BYTES:
            self._write(name)

    def _write(self, name: str) -> None:
        assert self._reading.tables is not None, "tables are written"
        self._part.files.append((name, write_rows(name, self._rows.pop(name), *self._reading.tables)))
        del self._bytes[name]

    # -- changes --------------------------------------------------------------------------------------------------

    def _changes(self, tp: TopicPartition, records: list[Record]) -> Iterator[Change]:
        view, place = self._view, self._places[tp]
        white = [view.in_state(it.log) for it in records]
        last = self._may_be_last(tp, records, white) if self._reading.tables is not None else {}
        for record, is_white in zip(records, white, strict=True):
            if not record.log.marker:
                of = None if record.key is None else hash_of(record.key)
                found = Change(place, record.offset, of, int(is_white))
                if (bucket := last.get(record.offset)) is not None:
                    needed = record.key, record.value, record.log.process, record.log.epoch
                    found = Change(*found[:4], bucket, *needed)
                    self._part.folded += record.size
                yield found

    def _may_be_last(self, tp: TopicPartition, records: list[Record], white: list[bool]) -> dict[int, int]:
        """Return the bucket of each change that may be the last of its key, by its offset; of sets, of every one."""
        tables = self._view.changelogs[tp]
        if any(table.sets for table in tables):  # an operation is a change of a set, whichever its key
            return dict.fromkeys(
                (it.offset for it, is_white in zip(records, white, strict=True) if is_white), 0
            )
        last: dict[tuple[int, bytes | None], int] = {}
        for end in {table.end for table in tables}:  # of several tables in one changelog, each has its own
            for record, is_white in zip(records, white, strict=True):
                if is_white and record.offset < end:
                    last[end, record.key] = record.offset
        return {offset: hash_of(key or b"") for (_, key), offset in last.items()}


def hash_of(key: bytes) -> int:
    """Return a number for a key, the same for equal ones, of 64 bits with a sign."""
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big", signed=True)
