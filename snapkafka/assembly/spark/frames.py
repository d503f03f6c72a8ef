"""The captured snapshot as small DataFrames, to be joined with the records (always broadcast).

They hold as many rows as the snapshot has processes times partitions, whatever the traffic, and are created through
Arrow: Spark then needs no job to compute them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.rows import changelog_rows, input_rows
from snapkafka.checks import CutView

#: `position` is the least of the agents'; `done` has the offsets past it that every agent has started. Codecs are those
#: that say more than what JSON or text would show by themselves: others than ours write to an input, as they like.
INPUTS: Final = (
    "app string, topic string, partition int, position bigint, done array<bigint>, log_end bigint, receiver bigint, "
    "key_codec string, value_codec string"
)
PROCESSES: Final = "process bigint, sender_app string, left boolean"
SENDERS: Final = "process bigint, topic string, partition int, white_end bigint"
CHANGELOGS: Final = (
    "app string, table_name string, topic string, partition int, place int, end bigint, key_codec string, "
    "value_codec string, sets boolean, windowed boolean"
)

#: The facts about so many processes are expressions of a query.
EXPRESSIONS_MAX: Final = 64


def local_frame(spark: SparkSession, schema: str, rows: list[dict[str, Any]]) -> DataFrame:
    """Create a DataFrame of local rows, one dict each."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema=schema)


def value_of(key: Column, pairs: Iterable[tuple[int, Any]], kind: str) -> Column:
    """Return the value that belongs to a number; null: none does."""
    found = [fn.lit(part) for number, value in pairs for part in (fn.lit(number).cast("long"), value)]
    if not found:
        return fn.lit(None).cast(kind)
    return fn.element_at(fn.create_map(*found), key.cast("long")).cast(kind)


class Lookups:
    """The DataFrames, each created once, when it is first used."""

    def __init__(self, spark: SparkSession, view: CutView) -> None:
        self.spark, self.view = spark, view

    @cached_property
    def inputs(self) -> DataFrame:
        return self._readable(INPUTS, self.input_rows)

    @cached_property
    def input_rows(self) -> list[dict[str, Any]]:
        """The rows of `inputs`."""
        return input_rows(self.view)

    def with_senders(self, records: DataFrame) -> DataFrame:
        """Add the facts about the `process` of each record: `left` (null: the snapshot does not know it), and
        `sender_app`. Few processes are a part of the query; many would make its planning slow, and are joined, which
        takes a job."""
        cuts = self.view.captured.processes
        if len(cuts) > EXPRESSIONS_MAX:
            bare = records.drop("left", "sender_app")  # what another snapshot knows
            return bare.join(fn.broadcast(self._senders_known), "process", "left")
        process = fn.col("process")
        left = value_of(process, ((cut.process, cut.left) for cut in cuts), "boolean")
        app = value_of(process, ((cut.process, cut.app) for cut in cuts), "string")
        return records.withColumns({"left": left, "sender_app": app})

    @cached_property
    def _senders_known(self) -> DataFrame:
        rows = [
            {"process": cut.process, "sender_app": cut.app, "left": cut.left}
            for cut in self.view.captured.processes
        ]
        return local_frame(self.spark, PROCESSES, rows)

    @cached_property
    def senders(self) -> DataFrame:
        rows = [
            {"process": process, **tp._asdict(), "white_end": self.view.white_end(process, tp)}
            for tp, ends in sorted(self.view.senders.items())
            for process in sorted(ends)
        ]
        return local_frame(self.spark, SENDERS, rows)

    @cached_property
    def changelogs(self) -> DataFrame:
        return self._readable(CHANGELOGS, changelog_rows(self.view))

    @property
    def any_sets(self) -> bool:
        """Whether there is a table of sets."""
        return any(cut.sets for cut in self.view.captured.changelogs)

    @property
    def any_windows(self) -> bool:
        """Whether there is a table with windows."""
        return any(cut.windowed for cut in self.view.captured.changelogs)

    def _readable(self, schema: str, rows: list[dict[str, Any]]) -> DataFrame:
        """Create a DataFrame of the partitions whose topics were not recreated."""
        gone = self.view.recreated
        return local_frame(
            self.spark, schema, [row for row in rows if (row["topic"], row["partition"]) not in gone]
        )
