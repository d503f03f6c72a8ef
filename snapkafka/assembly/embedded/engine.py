"""The embedded engine: the order of its work, the manifest last."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from snapkafka.assembly.base import Base
from snapkafka.assembly.manifest import Clock, Made, manifest_of, unread_ranges
from snapkafka.assembly.pipeline import Job, Task
from snapkafka.assembly.progress import Work, Working, work_of
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import position_rows, process_rows
from snapkafka.assembly.schemas import TIMESTAMP_TYPE_NAMES
from snapkafka.assembly.settings import Settings, Stored
from snapkafka.checks import (
    Checked,
    CheckOutcome,
    CutLog,
    CutView,
    ReadRange,
    reading_ranges,
    require_offsets,
    split_keys,
)
from snapkafka.checks.invariants import Invariant
from snapkafka.checks.run import run
from snapkafka.checks.split_keys import noted
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import AROUND, INPUTS, STATE, Manifest, TableEntry, file_stem
from snapkafka.store import Store
from snapkafka.wire.headers import ledger_id, topics_by_check

from . import invariants
from .around import around_rows
from .handover import HandOverError
from .log import Log, Record
from .state import state_rows
from .tables import channel_rows, inputs_of, message_rows, other_headers
from .write import arrow, write

#: The libraries of the engine, for the manifest.
LIBRARIES: Final = ("confluent-kafka", "duckdb", "pyarrow")
#: The rows of a table.
Rows = Sequence[Mapping[str, Any]]


class EmbeddedEngine:
    """The engine of a job; it keeps the tables of the last snapshot for `ask`."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._tables: dict[str, Any] = {}

    def require_valid(self, asked: tuple[Invariant, ...]) -> None:
        """Hand over SQL that DuckDB does not take."""
        invariants.require_valid(asked)

    def assemble(self, task: Task, settings: Settings) -> tuple[Manifest, Work]:
        """Write the tables of a snapshot, verify it, and write its manifest; see `spark.job.assemble`."""
        began, view, store = time.monotonic(), task.view, task.store
        captured = view.captured
        require_offsets(view, starts=view.starts)
        invariants.require_valid(task.wanted)
        clock = Clock()
        ranges = reading_ranges(view, tail_max=settings.spec.tail_max, starts=view.starts)
        offsets = sum(item.end - item.start for item in ranges)
        self._job.notify(f"{captured.id}: reading {offsets:,} offsets of {len(ranges)} partitions")
        log = Log(
            self._job.connection(), ledger_id(bytes.fromhex(settings.ledger.topic_id)), settings.isolation
        )
        records = clock.timed("read", lambda: log.read(ranges))
        checked = clock.timed("checks", lambda: _check(view, log, records, ranges))
        rows = clock.timed("tables", lambda: _tables(view, log, records, ranges, settings))
        checked = noted(checked, split_keys.find(view, rows[STATE]))
        tables = {name: arrow(name, of) for name, of in rows.items()}
        of_tables = clock.timed("invariants", lambda: invariants.check(task.wanted, tables))
        with store.staging(captured.id) as folder:
            if not isinstance(folder, Path):
                raise HandOverError("a storage of objects")
            entries = clock.timed("files", lambda: _written(tables, folder, file_stem(captured.id)))
            made = Made(
                ranges,
                entries,
                checked._replace(outcomes=checked.outcomes + of_tables),
                {name: version(name) for name in LIBRARIES},
            )
            manifest = manifest_of(
                view, settings, made, base=None, wanted=task.wanted, facts=task.facts, clock=clock
            )
            task.require_same_log()
            manifest = store.publish(manifest, folder)
        self._tables = tables
        seconds = time.monotonic() - began
        self._job.progress(Working(id=captured.id, seconds=round(seconds, 1)))
        return manifest, work_of(captured.id, offsets, seconds, manifest.checks, manifest)

    def verify(
        self, view: CutView, settings: Settings, wanted: tuple[Invariant, ...], stored: Stored | None
    ) -> tuple[Checked, Callable[[Manifest], Work]]:
        """Leave verification to Spark."""
        raise HandOverError("verification")

    def ask(
        self, store: Store, manifest: Manifest, base: Base | None, asked: tuple[Invariant, ...]
    ) -> list[CheckOutcome]:
        """Evaluate predicates on the snapshot that was assembled last."""
        return invariants.check(asked, self._tables)


def _check(view: CutView, log: Log, records: Sequence[Record], ranges: Sequence[ReadRange]) -> Checked:
    """Run V1 to V5."""
    inputs: dict[str, set[str]] = defaultdict(set)
    for source in view.captured.inputs:
        inputs[source.app].add(source.topic)
    marks = {app: topics_by_check(topics) for app, topics in inputs.items()}
    of_process = {process: marks.get(cut.app, {}) for process, cut in view.processes.items()}
    below = log.read(look_back_ranges(view, ranges))
    return run(
        CutLog(
            view,
            [
                record.for_checks(of_process.get(-1 if record.process is None else record.process, {}))
                for record in records
            ],
            read=ranges,
            below=[record.for_checks() for record in below],
        ),
        log.still_there,
    )


def _tables(
    view: CutView, log: Log, records: Sequence[Record], ranges: Sequence[ReadRange], settings: Settings
) -> dict[str, Rows]:
    """Compute the rows of every table."""
    inputs, spec = inputs_of(view), settings.spec
    messages = list(message_rows(view, records, inputs))
    found: dict[str, Rows] = {
        STATE: list(state_rows(view, records)),
        "messages": messages,
        "channels": list(channel_rows(view, messages, inputs)),
        "processes": process_rows(view, settings.ledger),
        "positions": position_rows(view),
    }
    if spec.around:
        window = per_kind(view, spec.around)
        reaches = reach(view, window)
        before = log.read(leads(view, reaches, ranges, window), lenient=True)
        found[AROUND] = list(around_rows(view, [*records, *before], inputs, window, reaches))
    if spec.with_inputs:
        found[INPUTS] = _inputs(log.read(unread_ranges(view)))
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


def _written(tables: Mapping[str, Any], folder: Path, stem: str) -> tuple[TableEntry, ...]:
    return tuple(write(name, table, folder, stem) for name, table in tables.items())
