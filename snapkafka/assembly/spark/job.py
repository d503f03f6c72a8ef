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
from typing import Any, Final, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import invariants
from snapkafka.assembly.arrow_tables import arrow, put
from snapkafka.assembly.base import Base, view_on
from snapkafka.assembly.ledger import NO_FACTS, ClusterFacts
from snapkafka.assembly.manifest import Clock, Made, manifest_of, unread_ranges
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import position_rows, process_rows
from snapkafka.assembly.schemas import SCHEMAS
from snapkafka.assembly.settings import Settings
from snapkafka.checks import Checked, CutView, ReadRange, reading_ranges, require_offsets
from snapkafka.checks.invariants import Invariant
from snapkafka.checks.split_keys import noted
from snapkafka.manifest import (
    AROUND,
    INPUTS,
    STATE,
    STATE_DELTA,
    Manifest,
    file_stem,
)
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Folder, Store, state_parents
from snapkafka.wire.headers import ledger_id

from .frames import Lookups, local_frame
from .reading.header_columns import stamped, stamps
from .reading.kafka_source import read_ranges
from .reading.meter import Meter
from .reading.session import kept, sized, storage_level
from .tables import incremental, tables
from .tables.around import around
from .tables.inputs import inputs
from .values import resolved
from .verify import rules
from .verify.log_frames import LogFrames
from .verify.sequences import stretch_of
from .write import file_hashes, parquet
from .write.s3_commit import reached

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
    lookups = Lookups(spark, view, stretch=stretch_of(ranges))
    with (
        sized(spark, _offsets(ranges)),
        reached(spark, store),
        store.staging(captured.id) as folder,
        _read(spark, ranges, settings, meter, view.topics_read) as records,
    ):
        with ThreadPoolExecutor(THREADS) as pool:
            pending = pool.submit(
                clock.timed, "checks", lambda: _check(spark, records, lookups, ranges, settings)
            )
            written = _write(pool, records, lookups, base, settings, store, folder, ranges)
            sums = clock.timed("digests", lambda: parquet.digests(written))
            checked = pending.result()
        stem = file_stem(captured.id)
        entries = clock.timed("files", lambda: parquet.entries(spark, store, folder, stem, written, sums))
        there = invariants.staged(store, folder, stem, entries, () if base is None else base.parts)
        checked = noted(checked, clock.timed("keys", lambda: invariants.split_keys(view, there)))
        of_tables = clock.timed("invariants", lambda: invariants.check(wanted, there))
        made = Made(
            ranges,
            entries,
            checked._replace(outcomes=checked.outcomes + of_tables),
            {"spark": spark.version},
        )
        manifest = manifest_of(view, settings, made, base=base, wanted=wanted, facts=facts, clock=clock)
        require_same_log()
        state_parents(store, manifest)  # they may have been pruned meanwhile, or assembled again
        return store.publish(
            manifest, folder, hashed=lambda there: file_hashes.files_of(spark, store, there.tables)
        )


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
    lookups = Lookups(spark, view, stretch=stretch_of(ranges))
    reading = _read(spark, ranges, settings, meter, view.topics_read, light=folder is None)
    with sized(spark, _offsets(ranges)), reading as records:
        checked = _check(spark, records, lookups, ranges, settings)
        if folder is not None:
            _write_again(folder, records, lookups, settings, ranges)
    return checked


def _write_again(
    folder: Path, records: DataFrame, lookups: Lookups, settings: Settings, ranges: list[ReadRange]
) -> None:
    """Write the tables that follow from the log into a folder."""
    decoding = resolved(records, settings.decoding)
    messages = tables.messages(records, lookups, decoding)
    found = {STATE: tables.state(records, lookups, decoding), "messages": messages}
    for name, rows in _known_rows(messages, lookups, settings).items():
        found[name] = local_frame(lookups.spark, SCHEMAS[name], rows)
    for name, table in found.items():
        parquet.write(table, name, folder, rows_max=_offsets(ranges) if name in (STATE, "messages") else 0)


def _check(
    spark: SparkSession, records: DataFrame, lookups: Lookups, ranges: list[ReadRange], settings: Settings
) -> Checked:
    """Run the checks of the log, on its records and, if needed, on a second read."""

    def still_there(wanted: Collection[ReadRange]) -> set[TopicPartition]:
        rows = _source(spark, list(wanted), settings).select("topic", "partition").collect()
        return {TopicPartition(*row) for row in rows}

    def again(wanted: Collection[ReadRange]) -> DataFrame:
        return stamps(_stamped(_source(spark, list(wanted), settings), settings))

    return rules.run(LogFrames(stamps(records), lookups, ranges, still_there, again))


def _known_rows(messages: DataFrame, lookups: Lookups, settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of the tables that follow from the captured snapshot, and from what is in flight."""
    return {
        "channels": tables.channels(messages, lookups),
        "processes": process_rows(lookups.view, settings.ledger),
        "positions": position_rows(lookups.view),
    }


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
    folder: Folder,
    ranges: list[ReadRange],
) -> dict[str, DataFrame]:
    """Write every table; return them as they were written."""

    def write(name: str, table: DataFrame, of_interest: Container[TopicPartition] = ()) -> DataFrame:
        rows_max = sum(item.end - item.start for item in ranges if item[:2] in of_interest)
        parquet.write(table, name, folder, rows_max=rows_max)
        return parquet.read_back(lookups.spark, name, folder)

    def write_state() -> DataFrame:
        if base is None:
            return write(STATE, tables.state(records, lookups, decoding), view.changelogs)
        parent = Lookups(lookups.spark, CutView(base.parent.captured))
        return write(STATE_DELTA, incremental.delta(records, lookups, parent, decoding), view.changelogs)

    view, decoding = lookups.view, resolved(records, settings.decoding)

    def write_around() -> DataFrame:
        wide = per_kind(view, settings.spec.around)
        reaches = reach(view, wide)
        with kept(_lead(lookups.spark, leads(view, reaches, ranges, wide), settings)) as before:
            both = records.unionByName(before)
            return write(AROUND, around(both, lookups, wide, reaches, resolved(both, settings.decoding)))

    def write_inputs() -> DataFrame:
        unread = [item for item in unread_ranges(view) if item.start < item.end]
        return write(INPUTS, inputs(_stamped(_source(lookups.spark, unread, settings), settings)))

    state = pool.submit(write_state)
    near = pool.submit(write_around) if settings.spec.around else None
    external = pool.submit(write_inputs) if settings.spec.with_inputs else None
    messages = write("messages", tables.messages(records, lookups, decoding), view.inputs)
    known = _known_rows(messages, lookups, settings)
    for name, rows in known.items():
        put(name, arrow(name, rows), store, folder)
    return {
        STATE if base is None else STATE_DELTA: state.result(),
        "messages": messages,
        **{name: parquet.read_back(lookups.spark, name, folder) for name in known},
        **({} if near is None else {AROUND: near.result()}),
        **({} if external is None else {INPUTS: external.result()}),
    }


def _lead(spark: SparkSession, ranges: list[ReadRange], settings: Settings) -> DataFrame:
    """Read records before the cut that only a picture needs: those that were deleted meanwhile are not missed."""
    lenient = replace(settings, options={**settings.options, "failOnDataLoss": "false"})
    return _stamped(_source(spark, ranges, lenient), settings).drop("key_hash")


def _offsets(ranges: list[ReadRange]) -> int:
    return sum(item.end - item.start for item in ranges)


def _amount(ranges: list[ReadRange]) -> str:
    return f"{_offsets(ranges):,} offsets of {len(ranges)} partitions"
