"""The work on one snapshot in its order, by any engine: its log is read, checked and written as tables, and last comes
the manifest.

`Engine.assemble` needs a captured snapshot, a log that still holds it and a place to write; `verify` needs only what a
manifest has and the log, so that anybody can run it again. Nothing here uses the ledger.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from snapkafka.checks import (
    Checked,
    CutLog,
    CutView,
    LogRecord,
    ReadRange,
    Stretch,
    Wanted,
    reading_ranges,
    run,
)
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import AROUND, INPUTS, STATE, STATE_DELTA, InvariantEntry, Manifest, TableEntry
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store, state_parents

from . import invariants, split_keys
from .around import nearest
from .examine import Part, Reading
from .invariants import Tables
from .job import Job, Settings
from .manifest import Task, manifest_of, now
from .rows import Channel, channel_rows, position_rows, process_rows
from .spec import changed
from .state import Fold
from .table_files import Written, entry_of, write_rows


class HandOverError(Exception):
    """An engine cannot do this; the text names it, for a sentence that ends with it."""


@dataclass(frozen=True)
class Examined:
    """A log that was examined, as the source of the checks (`checks.Source`)."""

    engine: Engine
    reading: Reading
    parts: list[Part]

    def stretches(self, wanted: Wanted) -> list[Stretch]:
        if wanted:
            return self._again(self.reading.ranges, wanted)
        return [one for part in self.parts for one in part.stretches]

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        return self.engine.ask(question)

    def still_there(self, wanted: Collection[ReadRange]) -> set[TopicPartition]:
        return {one.tp for one in self._again(wanted) if one.records} if wanted else set()

    def check(self) -> Checked:
        """Run V1 to V5."""
        view, below = self.reading.view, list[LogRecord]()
        if ranges := look_back_ranges(view, self.reading.ranges):
            below = [kept.record for one in self._again(ranges) for kept in one.kept]
        leads = [one for part in self.parts for one in part.leads]
        return run(CutLog(view, self, read=self.reading.ranges, below=below, leads=leads))

    def _again(self, ranges: Iterable[ReadRange], wanted: Wanted | None = None) -> list[Stretch]:
        again = replace(
            self.reading, ranges=tuple(ranges), wanted=wanted or Wanted(), tables=None, is_again=True
        )
        return [one for part in self.engine.examine(again) for one in part.stretches]


class Engine(ABC):
    """An engine for the length of a job; a subclass reads the log of one snapshot after the other."""

    name: ClassVar[str]

    def __init__(self, job: Job) -> None:
        self._job = job

    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Return the versions of its libraries, for the manifest."""

    @abstractmethod
    def reading(self, name: str) -> AbstractContextManager[None]:
        """Surround the work on the log of a snapshot, and at its end give up what is held of it."""

    @abstractmethod
    def examine(self, reading: Reading) -> list[Part]:
        """Read what it names, and examine it (`Examination`)."""

    @abstractmethod
    def fold(self, write: Callable[[Fold, int], Written]) -> list[Written]:
        """Fold the changes of what was examined first, and write the rows: one file, or several of a large state, each
        with its number."""

    @abstractmethod
    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        """Return the rows of a question about these changes (`checks.questions`)."""

    def assemble(self, task: Task) -> Manifest:
        """Write the tables of a snapshot, verify it, and write its manifest; its verdict may be a bad one.

        Raises:
            OffsetsGoneError: records were deleted while they were read; nothing is written.
            StorageError: the storage cannot be written.
        """
        store, base, settings, view, began = task.store, task.base, task.settings, task.view, now()
        ranges = reading_ranges(view)
        with store.staging(view.captured.id) as folder:
            reading = Reading(
                view=view,
                ranges=tuple(ranges),
                settings=settings,
                tables=(store, folder),
                parent=None if base is None else CutView(base.parent.captured),
            )
            entries, _, checked = self._read(
                "reading", reading, task.wanted, () if base is None else base.parts
            )
            by = self.name, self.versions()
            manifest = manifest_of(task, ranges, entries, checked, by=by, began=began)
            task.require_same_log()
            state_parents(store, manifest)  # they may have been pruned meanwhile, or assembled again
            return store.publish(manifest, folder)

    def verify(
        self,
        view: CutView,
        settings: Settings,
        wanted: Sequence[InvariantEntry] = (),
        store: Store | None = None,
    ) -> tuple[Tables, Checked]:
        """Run the checks from the log alone; deleted records are findings here, not errors.

        Args:
            view: the snapshot as its manifest has it, with the present bounds of the log.
            wanted: invariants to evaluate on the tables.
            store: for the tables, computed again from the log; None: nobody needs them.
        """
        bare = replace(settings, spec=changed(settings.spec, around=0, with_inputs=False))
        tables = None if store is None else (store, "computed")
        reading = Reading(view=view, ranges=tuple(reading_ranges(view)), settings=bare, tables=tables)
        return self._read("verifying", reading, wanted)[1:]

    def _read(
        self, what: str, reading: Reading, wanted: Sequence[InvariantEntry], parents: Sequence[Manifest] = ()
    ) -> tuple[tuple[TableEntry, ...], Tables, Checked]:
        """Read the log and run V1 to V5; write the tables if they are wanted, and run V6 on them."""
        number, partitions = offsets_in(reading.ranges), len(reading.ranges)
        self._job.notify(
            f"{reading.view.captured.id}: {what} {number:,} offsets of {partitions} partitions"
            f" by the {self.name} engine"
        )
        with self.reading(reading.view.captured.id):
            parts = self.examine(reading)
            entries = _write(self, reading, parts) if reading.tables else ()
            checked = Examined(self, reading, parts).check()
        if reading.tables is None:
            assert not wanted, "invariants are evaluated on tables"
            return (), Tables({}, ()), checked
        there = invariants.tables_at(reading.tables[0], entries, parents)
        checked = split_keys.noted(checked, reading.view, there)
        return entries, there, checked._replace(outcomes=checked.outcomes + invariants.check(wanted, there))


def offsets_in(ranges: Iterable[ReadRange]) -> int:
    """Count the offsets of ranges."""
    return sum(item.end - item.start for item in ranges)


def _write(engine: Engine, reading: Reading, parts: Sequence[Part]) -> tuple[TableEntry, ...]:
    """Write the tables that are not there yet; return all."""
    assert reading.tables is not None, "tables are written"
    (store, folder), view, settings = reading.tables, reading.view, reading.settings
    state = STATE if reading.parent is None else STATE_DELTA
    held = Counter[tuple[Channel, str]]()
    for part in parts:
        held.update(part.held)
    files: dict[str, list[Written]] = {"messages": [], **({INPUTS: []} if settings.spec.with_inputs else {})}
    for name, file in (pair for part in parts for pair in part.files):
        files[name].append(file)
    rows: dict[str, Iterable[Mapping[str, Any]]] = {
        "channels": channel_rows(view, held),
        "processes": process_rows(view, settings.ledger),
        "positions": position_rows(view),
    }
    if settings.spec.around:
        near = (item for part in parts for item in part.near)
        rows[AROUND] = list(nearest(near, reading.window))
    files[state] = engine.fold(lambda fold, part: write_rows(state, fold.rows(), store, folder, part=part))
    rows |= {name: () for name, found in files.items() if not found}
    files |= {name: [write_rows(name, of, store, folder)] for name, of in rows.items()}
    return tuple(entry_of(name, folder, found) for name, found in files.items())
