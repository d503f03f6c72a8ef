"""The work on the records of a snapshot, piece by piece: the one text of both engines.

What follows from a record and the captured snapshot alone is done at once: the summary for the checks, the tables
`messages` and `inputs`, what may be shown of `around`. What needs other records of its key comes back as `CHANGES`, of
which only those that may be the last of their key have a value.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from snapkafka.checks import (
    EXTERNAL,
    CutView,
    LogRecord,
    ReadRange,
    Stretch,
    Wanted,
    lead_ranges,
    questions,
    stretch_of,
)
from snapkafka.checks.log import NO_END
from snapkafka.checks.summary import KEPT_MAX, bounds_in, places_due
from snapkafka.manifest import INPUTS
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store
from snapkafka.wire import headers as wire

from .around import Around, Reach, per_kind, reach
from .arrow_schema import arrow_schema
from .job import Settings
from .manifest import unread_ranges
from .records import Piece, Record, pieces
from .rows import Channel, input_row, message_row
from .state import Fold
from .table_files import Written, write_rows
from .values.decoder import Decoder

#: Rows of a table, and bytes of them, that a task holds until it writes them to a file.
FILE_ROWS: Final = 250_000
FILE_BYTES: Final = 64 << 20
#: A change of a table, as `checks.questions` asks for it; what is needed of it for `state` has a `bucket`, in which all
#: of its key are.
CHANGES: Final = (
    "place int, pos bigint, key_hash bigint, white int, bucket bigint, key binary, value binary, process bigint, "
    "epoch bigint"
)


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

    def take(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take in records, by `ROWS`; yield the changes among them, by `CHANGES`."""
        for piece in pieces(batches, wire.ledger_id(bytes.fromhex(self._reading.settings.ledger.topic_id))):
            yield from self._take(piece)

    def _take(self, piece: Piece) -> Iterator[pa.RecordBatch]:
        tp, view = piece.tp, self._view
        if tp in view.recreated:
            return
        read = self._read.get(tp)
        own = piece.between(0, 0) if read is None else piece.between(read.start, read.end)
        if len(own):
            self._summarise(own)
        if read is not None and len(lead := piece.between(0, read.start)):
            self._part.leads.append(stretch_of(view, tp, partial(lead.blocks, view.epoch)))
        if self._around is not None:
            self._around.take(piece if read is None else piece.between(0, read.end))
        if self._reading.tables is not None and tp in view.inputs:
            self._messages(own)
            self._external(piece)
        if len(own) and tp in self._places and not self._reading.is_again:
            yield self._changes(own)

    def part(self) -> Part:
        """Return what was made of all records."""
        for name in list(self._rows):
            self._write(name)
        if self._around is not None:
            self._part.near = self._around.rows(self._decoder)
        return self._part

    def _summarise(self, piece: Piece) -> None:
        view, tp, wanted = self._view, piece.tp, self._reading.wanted
        found = stretch_of(view, tp, partial(piece.blocks, view.epoch), wanted)
        if self._kept[tp] > KEPT_MAX:
            found.crowded, due = True, places_due(self._view, tp)
            found.kept = [it for it in found.kept if it.record.offset in due]
        self._kept[tp] += len(found.kept)
        self._part.stretches.append(found)

    # -- tables ---------------------------------------------------------------------------------------------------

    def _messages(self, piece: Piece) -> None:
        for source in self._view.inputs[piece.tp]:
            first = min((agent.offset for agent in source.agents), default=source.position)
            for record in piece.between(first, NO_END).records():
                if self._view.in_channel(record.log, source):
                    row = message_row(self._view, record, source, self._decoder)
                    channel = Channel(*(row[name] for name in Channel._fields))
                    self._part.held[channel, "messages"] += 1
                    self._part.held[channel, "bytes"] += record.size
                    self._add("messages", row, record)

    def _external(self, piece: Piece) -> None:
        if (unread := self._reading.unread.get(piece.tp)) is None:
            return
        found = piece.between(unread.start, unread.end)
        for record in found.records(found.stamps.process == EXTERNAL):
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
        store, folder = self._reading.tables
        self._part.files.append((name, write_rows(name, self._rows.pop(name), store, folder)))
        del self._bytes[name]

    # -- changes --------------------------------------------------------------------------------------------------

    def _changes(self, piece: Piece) -> pa.RecordBatch:
        tables, white, keys = self._view.changelogs[piece.tp], self._white(piece), piece.rows.column("key")
        of_sets = any(table.sets for table in tables)
        if self._reading.tables is None:
            needed = np.zeros(len(piece), bool)
        elif of_sets or len({table.end for table in tables}) > 1:
            # An operation is a change of a set, whichever its key. Of several tables each has an end of its own.
            needed = white
        else:
            needed = _last_of_each(keys, white)
        hashes = _hashes(keys)
        raw = keys, piece.rows.column("value")
        key, value = (pc.if_else(pa.array(needed), column, None) for column in raw)
        self._part.folded += key.nbytes + value.nbytes
        columns = [
            np.full(len(piece), self._places[piece.tp]),
            piece.offsets,
            pa.array(hashes, mask=keys.is_null().to_numpy(zero_copy_only=False)),
            white.astype(int),
            pa.array(np.where(of_sets, 0, hashes), mask=~needed),
            *(key, value, piece.stamps.process, piece.stamps.epoch),
        ]
        schema = arrow_schema(CHANGES)
        arrays = [pa.array(it, of.type) for it, of in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema).filter(pa.array(~piece.stamps.marker))

    def _white(self, piece: Piece) -> Any:
        """Return of which records the state consists (`CutView.in_state`)."""
        starts = piece.classes(self._view.epoch, sorted(bounds_in(self._view, piece.tp)))
        facts = (column[starts].tolist() for column in (piece.offsets, *piece.stamps[:4]))
        found = [self._view.in_state(LogRecord(*piece.tp, *it)) for it in zip(*facts, strict=True)]
        return np.repeat(found, np.diff(np.append(starts, len(piece))))


def _last_of_each(keys: pa.BinaryArray, among: Any) -> Any:
    """Return which records are the last of their keys among some."""
    at, found = np.flatnonzero(among)[::-1], np.zeros(len(keys), bool)
    numbers = keys.dictionary_encode(null_encoding="encode").indices.to_numpy()
    found[at[np.unique(numbers[at], return_index=True)[1]]] = True
    return found


def _hashes(keys: pa.BinaryArray) -> Any:
    """Return a number for each key, the same for equal ones, of 64 bits with a sign; for none that of an empty one."""
    found = [hashlib.blake2b(key or b"", digest_size=8).digest() for key in keys.to_pylist()]
    return np.frombuffer(b"".join(found), ">i8").astype(np.int64)
