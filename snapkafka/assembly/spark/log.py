"""The log of a snapshot in Spark, for the checks: tasks summarise their records, the driver draws the conclusions."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.checks import CutView, LogRecord, ReadRange, Stretch, Wanted, mark_of, questions, stretch_of
from snapkafka.checks.log import EXTERNAL
from snapkafka.checks.stretch import NO_CAUSE, Row
from snapkafka.protocol.records import TopicPartition

from .frames import Lookups, local_frame
from .reading.header_columns import stamps
from .reading.meter import step
from .tables.tables import is_white

#: What a task reads of a stamp, and what stands where it has nothing.
COLUMNS: Final = {
    "offset": -1,
    "process": EXTERNAL,
    "epoch": 0,
    "seq": -1,
    "marker": False,
    "cause_check": NO_CAUSE,
    "cause_partition": 0,
    "cause_offset": -1,
}
PLACES: Final = "topic string, partition int, place int, state_end bigint, base bigint"
#: The records of a partition in a task, in order; the number changes where they do not follow on.
_Piece = tuple[int, TopicPartition, Iterable[Row]]


class SparkLog:
    """The source of the checks (`checks.Source`).

    Args:
        records: stamped, of the reading ranges; read several times, so persisted by the caller.
        read: reads the stamped records of more ranges, one per partition.
    """

    def __init__(
        self, records: DataFrame, lookups: Lookups, read: Callable[[Collection[ReadRange]], DataFrame]
    ) -> None:
        self._records, self._lookups, self._read = records, lookups, read

    def stretches(self, wanted: Wanted) -> list[Stretch]:
        """Summarise the reading ranges, each part where it is."""
        more = "once more, and closely" if wanted else "every record"
        with step(self._lookups.spark, f"V1 to V5: {more}"):
            return _summarised(self._records, self._lookups.view, wanted)

    def below(self, ranges: Collection[ReadRange]) -> list[LogRecord]:
        """Return the records of more ranges at places where one is due."""
        if not ranges:
            return []
        with step(self._lookups.spark, "V4: headers that were removed"):
            found = _summarised(self._read(ranges), self._lookups.view, Wanted())
        return [kept.record for one in found for kept in one.kept]

    def still_there(self, wanted: Collection[ReadRange]) -> set[TopicPartition]:
        """Return the partitions of which the log holds these records now, one each."""
        rows = self._read(wanted).select("topic", "partition").collect() if wanted else ()
        return {TopicPartition(*row) for row in rows}

    def ask(self, question: str) -> Sequence[tuple[Any, ...]]:
        """Ask Spark."""
        spark = self._lookups.spark
        changes(self._records, self._lookups).createOrReplaceTempView("changes")
        with step(spark, "V3: key by key"):
            found: Sequence[tuple[Any, ...]] = spark.sql(question).collect()
        return found


def changes(records: DataFrame, lookups: Lookups) -> DataFrame:
    """Return the changes of tables, as `checks.questions` asks for them."""
    view, offset = lookups.view, fn.col("offset")
    rows = [
        {
            **tp._asdict(),
            "place": place,
            "state_end": view.state_end(tp),
            "base": None if base is None else base.end,
        }
        for place, tp in enumerate(questions.places(view))
        for base in [view.bases.get(tp)]
    ]
    void = fn.col("process").isin(*view.before_restore) & (offset >= fn.col("base"))
    white = is_white(view.epoch) & (offset < fn.col("state_end")) & ~fn.coalesce(void, fn.lit(False))
    return (
        stamps(records)
        .where(~fn.col("marker"))
        .join(fn.broadcast(local_frame(lookups.spark, PLACES, rows)), ["topic", "partition"])
        .transform(lookups.with_senders)
        .select("place", offset.alias("pos"), "key_hash", white.cast("int").alias("white"))
    )


def _summarised(records: DataFrame, view: CutView, wanted: Wanted) -> list[Stretch]:
    def summaries(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for (_, tp), pieces in groupby(_pieces(batches), key=lambda piece: piece[:2]):
            rows = chain.from_iterable(rows for _, _, rows in pieces)
            summary = pickle.dumps(stretch_of(view, tp, rows, wanted))
            yield pa.RecordBatch.from_pydict({"summary": pa.array([summary], pa.binary())})

    found = records.select("topic", "partition", *COLUMNS).mapInArrow(summaries, "summary binary").collect()
    return [pickle.loads(row.summary) for row in found]


def _pieces(batches: Iterable[pa.RecordBatch]) -> Iterator[_Piece]:
    """Divide batches where their partition changes, or their offsets do not rise."""
    number, before, end_before = 0, TopicPartition("", -1), -1
    for batch in batches:
        topics = batch.column("topic").dictionary_encode()
        columns = {name: _filled(batch.column(name), nothing) for name, nothing in COLUMNS.items()}
        of, partitions = _filled(topics.indices, 0), _filled(batch.column("partition"), 0)
        offsets, checks = columns["offset"], columns["cause_check"]
        causes = np.where(checks == NO_CAUSE, NO_CAUSE, mark_of(checks, columns["cause_partition"]))
        shown = [columns[name] for name in ("offset", "process", "epoch", "seq", "marker")]
        lists = [column.tolist() for column in (*shown, causes, columns["cause_offset"])]
        breaks = (np.diff(of) != 0) | (np.diff(partitions) != 0) | (np.diff(offsets) <= 0)
        starts = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(offsets)]
        for start, end in pairwise(starts):
            if start < end:
                tp = TopicPartition(topics.dictionary[of[start]].as_py(), int(partitions[start]))
                number += start > 0 or tp != before or offsets[start] <= end_before
                before, end_before = tp, offsets[end - 1]
                yield number, tp, zip(*(column[start:end] for column in lists), strict=True)


def _filled(column: pa.Array, nothing: int) -> Any:
    return column.fill_null(nothing).to_numpy(zero_copy_only=False)
