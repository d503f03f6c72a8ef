"""The embedded engine: the log of a snapshot in memory, checked, and written as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any, Final

from snapkafka.assembly.base import Base
from snapkafka.assembly.manifest import unread_ranges
from snapkafka.assembly.order import Engine
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import channel_rows, inputs_of, position_rows, process_rows
from snapkafka.assembly.schemas import TIMESTAMP_TYPE_NAMES
from snapkafka.assembly.settings import Settings
from snapkafka.assembly.table_files import arrow, write
from snapkafka.assembly.values.decoder import Decoder
from snapkafka.assembly.values.decoding import Decoding, number_in
from snapkafka.checks import Checked, CutView, ReadRange, listed, run
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import AROUND, INPUTS, STATE, STATE_DELTA, TableEntry
from snapkafka.store import Store
from snapkafka.wire.headers import ledger_id

from .around import around_rows
from .log import Log, Record
from .state import delta_rows, state_rows
from .tables import held_in, message_rows, other_headers

#: The libraries of the engine, for the manifest.
LIBRARIES: Final = ("confluent-kafka", "duckdb", "pyarrow")
#: The rows of a table.
Rows = Sequence[Mapping[str, Any]]


class EmbeddedEngine(Engine):
    """The engine without Spark."""

    name = "embedded"

    def versions(self) -> dict[str, str]:
        return {name: version(name) for name in LIBRARIES}

    @contextmanager
    def read(
        self, view: CutView, ranges: Sequence[ReadRange], settings: Settings, *, tables: bool
    ) -> Iterator[EmbeddedReading]:
        ours = ledger_id(bytes.fromhex(settings.ledger.topic_id))
        log = Log(self._job.connection(), ours, settings.isolation)
        yield EmbeddedReading(view, log, log.read(ranges), ranges)


class EmbeddedReading:
    """The records of one snapshot, in memory."""

    def __init__(
        self, view: CutView, log: Log, records: Sequence[Record], ranges: Sequence[ReadRange]
    ) -> None:
        self._view, self._log, self._records, self._ranges = view, log, records, ranges

    def check(self) -> Checked:
        """Run V1 to V5."""
        view, log = self._view, self._log
        below = [record.for_checks(view) for record in log.read(look_back_ranges(view, self._ranges))]
        found = (record.for_checks(view) for record in self._records)
        return run(listed(view, found, log.still_there, read=self._ranges, below=below))

    def write(
        self, store: Store, folder: str, base: Base | None, settings: Settings
    ) -> tuple[TableEntry, ...]:
        """Write every table."""
        found, spec = tables_of_log(self._view, self._records, settings, base), settings.spec
        if spec.around:
            window = per_kind(self._view, spec.around)
            reaches = reach(self._view, window)
            before = self._log.read(leads(self._view, reaches, self._ranges, window), lenient=True)
            near = [*self._records, *before]
            decoder = Decoder(_resolved(near, settings.decoding))
            rows = around_rows(self._view, near, inputs_of(self._view), window, reaches, decoder)
            found[AROUND] = arrow(AROUND, list(rows))
        if spec.with_inputs:
            found[INPUTS] = arrow(INPUTS, _inputs(self._log.read(unread_ranges(self._view))))
        return tuple(write(name, table, store, folder) for name, table in found.items())


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
