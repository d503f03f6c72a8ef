"""The work on one snapshot in its order, by any engine: its log is read, checked and written as tables, and last comes
the manifest.

`Engine.assemble` needs a captured snapshot, a log that still holds it and a place to write; `verify` needs only what a
manifest has and the log, so that anybody can run it again. Nothing here uses the ledger.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

from snapkafka.checks import Checked, CutView, ReadRange, reading_ranges
from snapkafka.manifest import CheckEntry, Manifest, TableEntry
from snapkafka.store import Store, open_store, state_parents

from . import invariants, split_keys
from .base import Base, require_offsets, view_on
from .manifest import Clock, Made, manifest_of
from .pipeline import Job, Task
from .progress import Work, Working, work_of
from .settings import Settings
from .spec import changed


class Log(Protocol):
    """The log of one snapshot, read once."""

    def check(self) -> Checked:
        """Run V1 to V5."""

    def write(
        self, store: Store, folder: str, base: Base | None, settings: Settings
    ) -> tuple[TableEntry, ...]:
        """Write every table.

        Args:
            base: of an incremental snapshot: then the state is a delta on it.
        """


class Engine(ABC):
    """An engine for the length of a job; a subclass reads the log."""

    name: ClassVar[str]

    def __init__(self, job: Job) -> None:
        self._job = job

    @abstractmethod
    def versions(self) -> Mapping[str, str]:
        """Return the versions of its libraries, for the manifest."""

    @abstractmethod
    def read(
        self, view: CutView, ranges: Sequence[ReadRange], settings: Settings, *, tables: bool
    ) -> AbstractContextManager[Log]:
        """Read the log of a snapshot, for the length of the block.

        Args:
            tables: whether tables will be written, not only checks be run.
        """

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Write the tables of a snapshot, verify it, and write its manifest; its verdict may be a bad one.

        Raises:
            OffsetsGoneError: records that the tables need were deleted; nothing is written.
            StorageError: the storage cannot be written.
        """
        store, base, clock, began = task.store, task.base, Clock(), time.monotonic()
        view = view_on(base, task.view.captured, task.view.bounds, triggered_ms=settings.ledger.triggered_ms)
        captured = view.captured
        require_offsets(view, starts=view.starts)
        ranges = reading_ranges(view, tail_max=settings.spec.tail_max, starts=view.starts)
        self._job.notify(f"{captured.id}: reading {self._amount(ranges)}")
        with (
            self.read(view, ranges, settings, tables=True) as log,
            store.staging(captured.id) as folder,
        ):
            with ThreadPoolExecutor(1) as pool:
                pending = pool.submit(clock.timed, "checks", log.check)
                entries = clock.timed("tables", lambda: log.write(store, folder, base, settings))
                checked = pending.result()
            there = invariants.tables_at(store, entries, () if base is None else base.parts)
            split = clock.timed("keys", lambda: split_keys.find(view, there))
            checked = split_keys.noted(checked, split)
            of_tables = clock.timed("invariants", lambda: invariants.check(task.wanted, there))
            checked = checked._replace(outcomes=checked.outcomes + of_tables)
            made = Made(self.name, ranges, entries, checked, self.versions())
            manifest = manifest_of(
                view, settings, made, base=base, wanted=task.wanted, facts=task.facts, clock=clock
            )
            task.require_same_log()
            state_parents(store, manifest)  # they may have been pruned meanwhile, or assembled again
            manifest = store.publish(manifest, folder)
        return manifest, self._work(captured.id, ranges, began, manifest.checks, manifest)

    def verify(
        self, view: CutView, settings: Settings, folder: Path | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Run the checks from the log alone; deleted records are findings here, not errors.

        Args:
            view: the snapshot as its manifest has it, with the present bounds of the log.
            folder: for the tables, computed again from the log; None: nobody needs them.
        """
        began = time.monotonic()
        ranges = reading_ranges(view, tail_max=settings.spec.tail_max)
        self._job.notify(f"{view.captured.id}: verifying {self._amount(ranges)}")
        with self.read(view, ranges, settings, tables=folder is not None) as log:
            checked = log.check()
            if folder is not None:
                bare = changed(settings.spec, around=0, with_inputs=False)
                log.write(open_store(str(folder.parent)), folder.name, None, replace(settings, spec=bare))
        return checked, lambda manifest: self._work(view.captured.id, ranges, began, manifest.checks)

    def _work(
        self,
        name: str,
        ranges: Iterable[ReadRange],
        began: float,
        checks: Iterable[CheckEntry],
        written: Manifest | None = None,
    ) -> Work:
        seconds = time.monotonic() - began
        self._job.progress(Working(id=name, seconds=round(seconds, 1)))
        return work_of(name, offsets_in(ranges), seconds, checks, written)

    def _amount(self, ranges: Sequence[ReadRange]) -> str:
        return f"{offsets_in(ranges):,} offsets of {len(ranges)} partitions by the {self.name} engine"


def offsets_in(ranges: Iterable[ReadRange]) -> int:
    """Count the offsets of ranges."""
    return sum(item.end - item.start for item in ranges)
