"""Assembly and verification of one snapshot, in order: reading, tables, checks, and last the manifest.

`assemble` needs a captured snapshot, a log that still holds it and a place to write; `verify` needs only the manifest
and the log, so that anybody can run it again. Nothing here uses the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import invariants, split_keys
from snapkafka.assembly.base import Base, require_offsets, view_on
from snapkafka.assembly.invariant_files import Invariant
from snapkafka.assembly.ledger import NO_FACTS, ClusterFacts
from snapkafka.assembly.manifest import Clock, Made, manifest_of, unread_ranges
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import Channel, Held, channel_rows, position_rows, process_rows
from snapkafka.assembly.settings import Settings
from snapkafka.assembly.spec import changed
from snapkafka.assembly.split_keys import noted
from snapkafka.assembly.table_files import arrow
from snapkafka.assembly.table_files import write as write_rows
from snapkafka.checks import Checked, CutLog, CutView, ReadRange, reading_ranges, run
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import (
    AROUND,
    INPUTS,
    STATE,
    STATE_DELTA,
    Manifest,
    TableEntry,
)
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store, open_store, state_parents
from snapkafka.wire.headers import ledger_id

from .frames import Lookups
from .log import SparkLog
from .reading.header_columns import stamped, stamps
from .reading.kafka_source import read_ranges
from .reading.meter import Meter
from .reading.session import kept, sized, storage_level
from .tables import incremental, tables
from .tables.around import around
from .tables.inputs import inputs
from .values import resolved
from .write import write

#: Planning a query keeps one core busy and running a small one hardly any: some are planned side by side.
THREADS: Final = 3

_T = TypeVar("_T")


def assemble(
    spark: SparkSession,
    view: CutView,
    settings: Settings,
    store: Store,
    *,
    base: Base | None = None,
    wanted: Iterable[Invariant] = (),
    facts: ClusterFacts = NO_FACTS,
    require_same_log: Callable[[], None] = lambda: None,
    meter: Meter | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Manifest:
    """Write the tables of a snapshot, verify it, and write its manifest.

    Args:
        spark: the session.
        view: the snapshot, with the bounds of its log.
        settings: how the log is read.
        store: the storage for it.
        base: of an incremental snapshot (`base.find_base`); None: its state is computed as a whole.
        wanted: invariants to check (V6).
        facts: for the manifest.
        require_same_log: called when the log was read; it refuses one that is not that of the bounds any more.
        meter: measures the work.
        notify: called with what is being done.

    Returns:
        the manifest as it was written; its verdict may be a bad one.

    Raises:
        OffsetsGoneError: records that the tables need were deleted; nothing is written.
        StorageError: the storage cannot be written.
    """
    captured, wanted = view.captured, tuple(wanted)
    view = view_on(base, captured, view.bounds, triggered_ms=settings.ledger.triggered_ms)
    require_offsets(view, starts=view.starts)
    clock = Clock()
    ranges = reading_ranges(view, tail_max=settings.spec.tail_max, starts=view.starts)
    notify(f"{captured.id}: reading {_amount(ranges)}")
    lookups = Lookups(spark, view)
    with (
        sized(spark, _offsets(ranges)),
        store.staging(captured.id) as folder,
        _read(spark, ranges, settings, meter, view.topics_read) as records,
    ):
        with ThreadPoolExecutor(THREADS) as pool:
            pending = pool.submit(
                clock.timed, "checks", lambda: _check(spark, records, lookups, ranges, settings)
            )
            entries = _write(pool, records, lookups, base, settings, store, folder, ranges)
            checked = pending.result()
        there = invariants.tables_at(store, entries, () if base is None else base.parts)
        checked = noted(checked, clock.timed("keys", lambda: split_keys.find(view, there)))
        of_tables = clock.timed("invariants", lambda: invariants.check(wanted, there))
        made = Made(
            "spark",
            ranges,
            entries,
            checked._replace(outcomes=checked.outcomes + of_tables),
            {"spark": spark.version},
        )
        manifest = manifest_of(view, settings, made, base=base, wanted=wanted, facts=facts, clock=clock)
        require_same_log()
        state_parents(store, manifest)  # they may have been pruned meanwhile, or assembled again
        return store.publish(manifest, folder)


def verify(
    spark: SparkSession,
    view: CutView,
    settings: Settings,
    *,
    folder: Path | None = None,
    meter: Meter | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Checked:
    """Run the checks from the log alone; deleted records are findings here, not errors.

    Args:
        view: the snapshot as its manifest has it, with the present bounds of the log.
        folder: for the tables, computed again from the log, as Parquet; None: nobody needs them.
        meter: measures the work.
    """
    ranges = reading_ranges(view, tail_max=settings.spec.tail_max)
    notify(f"{view.captured.id}: verifying {_amount(ranges)}")
    lookups = Lookups(spark, view)
    reading = _read(spark, ranges, settings, meter, view.topics_read, light=folder is None)
    with sized(spark, _offsets(ranges)), reading as records:
        checked = _check(spark, records, lookups, ranges, settings)
        if folder is not None:
            bare = replace(settings, spec=changed(settings.spec, around=0, with_inputs=False))
            scratch = open_store(str(folder.parent))
            with ThreadPoolExecutor(THREADS) as pool:
                _write(pool, records, lookups, None, bare, scratch, folder.name, ranges)
    return checked


def _check(
    spark: SparkSession, records: DataFrame, lookups: Lookups, ranges: list[ReadRange], settings: Settings
) -> Checked:
    """Run the checks of the log, on its records and, if needed, on a second read."""

    def read(wanted: Collection[ReadRange]) -> DataFrame:
        return _stamped(_source(spark, list(wanted), settings), settings)

    log = SparkLog(records, lookups, read)
    below = log.below(look_back_ranges(lookups.view, ranges))
    return run(CutLog(lookups.view, log, read=ranges, below=below))


def _held(messages: invariants.Tables) -> dict[Channel, Held]:
    """Return the content of the channels that hold something."""
    of, size = ", ".join(Channel._fields), "coalesce(octet_length({}), 0)".format
    sql = f"SELECT {of}, count(*), sum({size('key_raw')} + {size('value_raw')})::BIGINT FROM messages GROUP BY {of}"
    with invariants.opened(messages) as database:
        rows = database.execute(sql).fetchall()
    width = len(Channel._fields)
    return {Channel(*row[:width]): Held(*row[width:]) for row in rows}


@contextmanager
def _read(
    spark: SparkSession,
    ranges: list[ReadRange],
    settings: Settings,
    meter: Meter | None,
    inputs: Collection[str],
    *,
    light: bool = False,
) -> Iterator[DataFrame]:
    """Read the stamped records of the ranges from Kafka once, and keep them for the length of the block.

    Args:
        inputs: topics that some app reads.
        light: keep only what the checks need.
    """
    records = _stamped(_source(spark, ranges, settings), settings)
    # Nobody looks at the other headers of a changelog.
    records = records.withColumn("headers", fn.when(fn.col("topic").isin(inputs), fn.col("headers")))
    # Hardly anybody asks for the hash of a key: where keys are kept, `stamps` makes it.
    needed = stamps(records) if light else records.drop("key_hash")
    with (
        kept(needed, storage_level(_offsets(ranges))) as found,
        nullcontext() if meter is None else meter.reading(_offsets(ranges)),
    ):
        yield found


def _stamped(source: DataFrame, settings: Settings) -> DataFrame:
    return stamped(source, ledger_id=ledger_id(bytes.fromhex(settings.ledger.topic_id)))


def _source(spark: SparkSession, ranges: list[ReadRange], settings: Settings) -> DataFrame:
    return read_ranges(
        spark,
        ranges,
        bootstrap=settings.spec.bootstrap,
        isolation=settings.isolation,
        options=settings.options,
        far=settings.far,
    )


def _write(
    pool: Executor,
    records: DataFrame,
    lookups: Lookups,
    base: Base | None,
    settings: Settings,
    store: Store,
    folder: str,
    ranges: list[ReadRange],
) -> tuple[TableEntry, ...]:
    """Write every table."""

    def written(name: str, table: DataFrame, of_interest: Container[TopicPartition] = ()) -> TableEntry:
        rows_max = sum(item.end - item.start for item in ranges if item[:2] in of_interest)
        return write(table, name, store, folder, rows_max=rows_max)

    def write_state() -> TableEntry:
        if base is None:
            return written(STATE, tables.state(records, lookups, decoding), view.changelogs)
        parent = Lookups(lookups.spark, CutView(base.parent.captured))
        return written(STATE_DELTA, incremental.delta(records, lookups, parent, decoding), view.changelogs)

    view, decoding = lookups.view, resolved(records, settings.decoding)

    def write_around() -> TableEntry:
        wide = per_kind(view, settings.spec.around)
        reaches = reach(view, wide)
        with kept(_lead(lookups.spark, leads(view, reaches, ranges, wide), settings)) as before:
            both = records.unionByName(before)
            return written(AROUND, around(both, lookups, wide, reaches, resolved(both, settings.decoding)))

    def write_inputs() -> TableEntry:
        unread = [item for item in unread_ranges(view) if item.start < item.end]
        return written(INPUTS, inputs(_stamped(_source(lookups.spark, unread, settings), settings)))

    state = pool.submit(write_state)
    near = pool.submit(write_around) if settings.spec.around else None
    external = pool.submit(write_inputs) if settings.spec.with_inputs else None
    messages = written("messages", tables.messages(records, lookups, decoding), view.inputs)
    known = {
        "channels": channel_rows(view, _held(invariants.tables_at(store, [messages]))),
        "processes": process_rows(view, settings.ledger),
        "positions": position_rows(view),
    }
    small = [write_rows(name, arrow(name, rows), store, folder) for name, rows in known.items()]
    more = [pending.result() for pending in (near, external) if pending is not None]
    return state.result(), messages, *small, *more


def _lead(spark: SparkSession, ranges: list[ReadRange], settings: Settings) -> DataFrame:
    """Read records before the cut that only a picture needs: those that were deleted meanwhile are not missed."""
    lenient = replace(settings, options={**settings.options, "failOnDataLoss": "false"})
    return _stamped(_source(spark, ranges, lenient), settings).drop("key_hash")


def _offsets(ranges: list[ReadRange]) -> int:
    return sum(item.end - item.start for item in ranges)


def _amount(ranges: list[ReadRange]) -> str:
    return f"{_offsets(ranges):,} offsets of {len(ranges)} partitions"
