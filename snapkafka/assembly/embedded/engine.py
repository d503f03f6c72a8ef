"""The embedded engine: the order of its work, the manifest last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from snapkafka.assembly import invariants, split_keys
from snapkafka.assembly.base import Base, require_offsets, view_on
from snapkafka.assembly.manifest import Clock, Made, manifest_of, unread_ranges
from snapkafka.assembly.pipeline import Job, Task
from snapkafka.assembly.progress import Work, Working, work_of
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import channel_rows, inputs_of, position_rows, process_rows
from snapkafka.assembly.schemas import TIMESTAMP_TYPE_NAMES
from snapkafka.assembly.settings import Settings
from snapkafka.assembly.split_keys import noted
from snapkafka.assembly.table_files import arrow, write
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.assembly.values.decoding import Decoding, number_in
from snapkafka.checks import (
    Checked,
    CutView,
    ReadRange,
    listed,
    reading_ranges,
    run,
)
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import (
    AROUND,
    INPUTS,
    STATE,
    STATE_DELTA,
    CheckEntry,
    Manifest,
)
from snapkafka.store import open_store, state_parents
from snapkafka.wire.headers import ledger_id

from .around import around_rows
from .log import Log, Record
from .state import delta_rows, state_rows
from .tables import held_in, message_rows, other_headers

#: The libraries of the engine, for the manifest.
LIBRARIES: Final = ("confluent-kafka", "duckdb", "pyarrow")
#: The rows of a table.
Rows = Sequence[Mapping[str, Any]]


class EmbeddedEngine:
    """The engine of a job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Write the tables of a snapshot, verify it, and write its manifest; see `spark.job.assemble`."""
        began, store, base = time.monotonic(), task.store, task.base
        view = view_on(base, task.view.captured, task.view.bounds, triggered_ms=settings.ledger.triggered_ms)
        captured = view.captured
        require_offsets(view, starts=view.starts)
        clock = Clock()
        ranges = reading_ranges(view, tail_max=settings.spec.tail_max, starts=view.starts)
        self._job.notify(f"{captured.id}: reading {_amount(ranges)}")
        log = self._log(settings)
        records = clock.timed("read", lambda: log.read(ranges))
        checked = clock.timed("checks", lambda: _check(view, log, records, ranges))
        written = clock.timed("tables", lambda: _tables(view, log, records, ranges, settings, base))
        with store.staging(captured.id) as folder:
            entries = clock.timed("files", lambda: tuple(write(*it, store, folder) for it in written.items()))
            tables = invariants.tables_at(store, entries, () if base is None else base.parts)
            checked = noted(checked, clock.timed("keys", lambda: split_keys.find(view, tables)))
            of_tables = clock.timed("invariants", lambda: invariants.check(task.wanted, tables))
            made = Made(
                "embedded",
                ranges,
                entries,
                checked._replace(outcomes=checked.outcomes + of_tables),
                {name: version(name) for name in LIBRARIES},
            )
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
        """Run the checks from the log alone; see `spark.job.verify`."""
        began = time.monotonic()
        ranges = reading_ranges(view, tail_max=settings.spec.tail_max)
        self._job.notify(f"{view.captured.id}: verifying {_amount(ranges)}")
        log = self._log(settings)
        records = log.read(ranges)
        checked = _check(view, log, records, ranges)
        if folder is not None:
            for name, table in tables_of_log(view, records, settings).items():
                write(name, table, open_store(str(folder.parent)), folder.name)
        return checked, lambda manifest: self._work(view.captured.id, ranges, began, manifest.checks)

    def _log(self, settings: Settings) -> Log:
        ours = ledger_id(bytes.fromhex(settings.ledger.topic_id))
        return Log(self._job.connection(), ours, settings.isolation)

    def _work(
        self,
        name: str,
        ranges: Sequence[ReadRange],
        began: float,
        checks: Iterable[CheckEntry],
        written: Manifest | None = None,
    ) -> Work:
        seconds = time.monotonic() - began
        self._job.progress(Working(id=name, seconds=round(seconds, 1)))
        return work_of(name, _offsets(ranges), seconds, checks, written)


def _offsets(ranges: Iterable[ReadRange]) -> int:
    return sum(item.end - item.start for item in ranges)


def _amount(ranges: Sequence[ReadRange]) -> str:
    return f"{_offsets(ranges):,} offsets of {len(ranges)} partitions by the embedded engine"


def _check(view: CutView, log: Log, records: Sequence[Record], ranges: Sequence[ReadRange]) -> Checked:
    """Run V1 to V5."""
    below = log.read(look_back_ranges(view, ranges))
    found = (record.for_checks(view) for record in records)
    of_below = [record.for_checks(view) for record in below]
    return run(listed(view, found, log.still_there, read=ranges, below=of_below))


def _resolved(records: Iterable[Record], decoding: Decoding) -> Decoding:
    """Ask the registry, if there is one, about the numbers in records."""
    raw = (of for record in records for of in (record.key, record.value))
    return decoding.resolved(number for of in raw if (number := number_in(of)) is not None)


def tables_of_log(
    view: CutView, records: Sequence[Record], settings: Settings, base: Base | None = None
) -> dict[str, Any]:
    """Compute the tables that follow from the records of the checks, in Arrow.

    Args:
        base: of an incremental snapshot: then the state is a delta on it.
    """
    inputs, decoder = inputs_of(view), Decoder(_resolved(records, settings.decoding))
    messages = list(message_rows(view, records, inputs, decoder))
    if base is None:
        name, state = STATE, state_rows(view, records, decoder)
    else:
        name, state = STATE_DELTA, delta_rows(view, records, CutView(base.parent.captured), decoder)
    rows: dict[str, Rows] = {
        name: list(state),
        "messages": messages,
        "channels": channel_rows(view, held_in(messages)),
        "processes": process_rows(view, settings.ledger),
        "positions": position_rows(view),
    }
    return {name: arrow(name, of) for name, of in rows.items()}


def _tables(
    view: CutView,
    log: Log,
    records: Sequence[Record],
    ranges: Sequence[ReadRange],
    settings: Settings,
    base: Base | None,
) -> dict[str, Any]:
    """Compute every table, in Arrow."""
    found, spec = tables_of_log(view, records, settings, base), settings.spec
    if spec.around:
        window = per_kind(view, spec.around)
        reaches = reach(view, window)
        before = log.read(leads(view, reaches, ranges, window), lenient=True)
        near = [*records, *before]
        decoder = Decoder(_resolved(near, settings.decoding))
        rows = around_rows(view, near, inputs_of(view), window, reaches, decoder)
        found[AROUND] = arrow(AROUND, list(rows))
    if spec.with_inputs:
        found[INPUTS] = arrow(INPUTS, _inputs(log.read(unread_ranges(view))))
    return found


def _inputs(records: Sequence[Record]) -> Rows:
    """Return the external records among these, byte by byte."""
    return [
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "key_raw": record.key,
            "value_raw": record.value,
            "headers": other_headers(record),
            "timestamp_ms": record.timestamp_ms,
            "timestamp_type": TIMESTAMP_TYPE_NAMES[record.timestamp_type],
        }
        for record in records
        if record.process is None and not record.marker
    ]
