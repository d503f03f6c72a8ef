"""The log of one snapshot in Spark: read once, checked, and written as tables."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import invariants
from snapkafka.assembly.base import Base
from snapkafka.assembly.manifest import unread_ranges
from snapkafka.assembly.reaches import leads, per_kind, reach
from snapkafka.assembly.rows import Channel, Held, channel_rows, position_rows, process_rows
from snapkafka.assembly.settings import Settings
from snapkafka.assembly.table_files import arrow
from snapkafka.assembly.table_files import write as write_rows
from snapkafka.checks import Checked, CutLog, CutView, ReadRange, run
from snapkafka.checks.v4_channels import look_back_ranges
from snapkafka.manifest import (
    AROUND,
    INPUTS,
    STATE,
    STATE_DELTA,
    TableEntry,
)
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store
from snapkafka.wire.headers import ledger_id

from .frames import Lookups
from .log import SparkLog
from .reading.header_columns import stamped, stamps
from .reading.kafka_source import read_ranges
from .reading.session import kept, sized, storage_level
from .tables import incremental, tables
from .tables.around import around
from .tables.inputs import inputs
from .values import resolved
from .write import write

#: Planning a query keeps one core busy and running a small one hardly any: some are planned side by side.
THREADS: Final = 3


def _held(messages: invariants.Tables) -> dict[Channel, Held]:
    """Return the content of the channels that hold something."""
    of, size = ", ".join(Channel._fields), "coalesce(octet_length({}), 0)".format
    sql = f"SELECT {of}, count(*), sum({size('key_raw')} + {size('value_raw')})::BIGINT FROM messages GROUP BY {of}"
    with invariants.opened(messages) as database:
        rows = database.execute(sql).fetchall()
    width = len(Channel._fields)
    return {Channel(*row[:width]): Held(*row[width:]) for row in rows}


class SparkReading:
    """The records of one snapshot, persisted.

    Args:
        records: stamped, of the ranges.
    """

    def __init__(
        self, records: DataFrame, lookups: Lookups, ranges: Sequence[ReadRange], settings: Settings
    ) -> None:
        self._records, self._lookups, self._ranges, self._settings = records, lookups, ranges, settings

    def check(self) -> Checked:
        """Run V1 to V5, on the records and, if needed, on a second read."""
        view, spark = self._lookups.view, self._lookups.spark
        log = SparkLog(self._records, self._lookups, lambda wanted: _source(spark, wanted, self._settings))
        below = log.below(look_back_ranges(view, self._ranges))
        return run(CutLog(view, log, read=self._ranges, below=below))

    def write(
        self, store: Store, folder: str, base: Base | None, settings: Settings
    ) -> tuple[TableEntry, ...]:
        """Write every table, some side by side."""
        records, lookups, view = self._records, self._lookups, self._lookups.view
        decoding = resolved(records, settings.decoding)

        def written(name: str, table: DataFrame, of_interest: Container[TopicPartition] = ()) -> TableEntry:
            rows_max = sum(item.end - item.start for item in self._ranges if item[:2] in of_interest)
            return write(table, name, store, folder, rows_max=rows_max)

        def write_state() -> TableEntry:
            if base is None:
                return written(STATE, tables.state(records, lookups, decoding), view.changelogs)
            parent = Lookups(lookups.spark, CutView(base.parent.captured))
            return written(
                STATE_DELTA, incremental.delta(records, lookups, parent, decoding), view.changelogs
            )

        def write_around() -> TableEntry:
            wide = per_kind(view, settings.spec.around)
            reaches = reach(view, wide)
            with kept(_lead(lookups.spark, leads(view, reaches, self._ranges, wide), settings)) as before:
                both = records.unionByName(before)
                return written(
                    AROUND, around(both, lookups, wide, reaches, resolved(both, settings.decoding))
                )

        def write_inputs() -> TableEntry:
            unread = [item for item in unread_ranges(view) if item.start < item.end]
            return written(INPUTS, inputs(_source(lookups.spark, unread, settings)))

        with ThreadPoolExecutor(THREADS) as pool:
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


@contextmanager
def reading(
    spark: SparkSession, view: CutView, ranges: Sequence[ReadRange], settings: Settings, *, light: bool
) -> Iterator[SparkReading]:
    """Read the stamped records of the ranges from Kafka once, and keep them for the length of the block.

    Args:
        light: keep only what the checks need.
    """
    offsets = sum(item.end - item.start for item in ranges)
    records = _source(spark, ranges, settings)
    # Nobody looks at the other headers of a changelog.
    records = records.withColumn(
        "headers", fn.when(fn.col("topic").isin(view.topics_read), fn.col("headers"))
    )
    # Hardly anybody asks for the hash of a key: where keys are kept, `stamps` makes it.
    needed = stamps(records) if light else records.drop("key_hash")
    with sized(spark, offsets), kept(needed, storage_level(offsets)) as found:
        yield SparkReading(found, Lookups(spark, view), ranges, settings)


def _source(spark: SparkSession, ranges: Collection[ReadRange], settings: Settings) -> DataFrame:
    """Return the stamped records of ranges, one per partition."""
    found = read_ranges(
        spark,
        list(ranges),
        bootstrap=settings.spec.bootstrap,
        isolation=settings.isolation,
        options=settings.options,
    )
    return stamped(found, ledger_id=ledger_id(bytes.fromhex(settings.ledger.topic_id)))


def _lead(spark: SparkSession, ranges: list[ReadRange], settings: Settings) -> DataFrame:
    """Read records before the cut that only a picture needs: those that were deleted meanwhile are not missed."""
    lenient = replace(settings, options={**settings.options, "failOnDataLoss": "false"})
    return _source(spark, ranges, lenient).drop("key_hash")
