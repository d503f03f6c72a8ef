"""The captured snapshot as small DataFrames, to be joined with the records (always broadcast).

They hold as many rows as the snapshot has processes times partitions, whatever the traffic, and are created through
Arrow: Spark then needs no job to compute them.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.rows import changelog_rows, input_rows, started
from snapkafka.checks import CutView
from snapkafka.checks.coverage import first_position
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import topic_check, topics_by_check

from .frame_schemas import (
    CAUSES,
    CHANGELOGS,
    INPUTS,
    LAST,
    PLACES,
    PROCESSES,
    RECORDED,
    SENDERS,
    STARTED,
    STRAY,
    TORN,
    WORKERS,
)

#: The facts about so many processes are expressions of a query.
EXPRESSIONS_MAX: Final = 64


def local_frame(spark: SparkSession, schema: str, rows: list[dict[str, Any]]) -> DataFrame:
    """Create a DataFrame of local rows, one dict each."""
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), schema=schema)


def cause_of() -> Column:
    """Return the number of a stamp's cause in `Lookups.started`."""
    check_and_partition = fn.shiftleft("cause_check", 16).bitwiseOR(fn.col("cause_partition"))
    return fn.shiftleft("process", 32).bitwiseOR(check_and_partition)


def value_of(key: Column, pairs: Iterable[tuple[int, Any]], kind: str) -> Column:
    """Return the value that belongs to a number; null: none does."""
    found = [fn.lit(part) for number, value in pairs for part in (fn.lit(number).cast("long"), value)]
    if not found:
        return fn.lit(None).cast(kind)
    return fn.element_at(fn.create_map(*found), key.cast("long")).cast(kind)


def _signed(number: int) -> int:
    """Return 64 bits as Java has them."""
    return number - (1 << 64) if number >> 63 else number


class Lookups:
    """The DataFrames, each created once, when it is first used. `stretch`: see `sequences.with_highest`."""

    def __init__(self, spark: SparkSession, view: CutView, *, stretch: int = 0) -> None:
        self.spark = spark
        self.view = view
        self.stretch = stretch

    @cached_property
    def inputs(self) -> DataFrame:
        return self._readable(INPUTS, self.input_rows)

    @cached_property
    def input_rows(self) -> list[dict[str, Any]]:
        """The rows of `inputs`."""
        return input_rows(self.view)

    @cached_property
    def partitions(self) -> list[TopicPartition]:
        """The partitions of the snapshot, in order."""
        return sorted({*self.view.inputs, *self.view.changelogs})

    def only_state(self, tp: TopicPartition) -> bool:
        """Return whether it is a changelog and no input."""
        return tp in self.view.changelogs and not self.view.inputs.get(tp)

    @cached_property
    def causes(self) -> DataFrame:
        return local_frame(self.spark, CAUSES, self._cause_rows)

    @cached_property
    def started(self) -> DataFrame:
        names = ("cause_position", "cause_done", "reader", "steady")
        by_app = defaultdict(list)
        for row in self._cause_rows:
            by_app[row["sender_app"]].append(row)
        rows = [
            {
                "cause": _signed(process << 32 | row["cause_check"] << 16 | row["cause_partition"]),
                **{name: row[name] for name in names},
            }
            for process, cut in self.view.processes.items()
            if process not in self.view.before_restore
            for row in by_app[cut.app]
            if (process, row["cause_topic"]) not in self.view.old_topics
        ]
        return local_frame(self.spark, STARTED, rows)

    @cached_property
    def _cause_rows(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        inputs = sorted(self.view.captured.inputs, key=lambda source: source.app)
        for app, sources in itertools.groupby(inputs, key=lambda source: source.app):
            of_app = list(sources)
            known = {topic: check for check, topic in topics_by_check(s.topic for s in of_app).items()}
            rows += [
                {
                    "sender_app": app,
                    "cause_topic": source.topic,
                    "cause_check": known[source.topic],
                    "cause_partition": source.partition,
                    "reader": source.receiver,
                    "steady": source.steady,
                    "earlier": list(source.earlier),
                    "until": max((agent.replay_until for agent in source.agents), default=0),
                    **{f"cause_{name}": value for name, value in started(source).items()},
                }
                for source in of_app
                if source.topic in known
                and TopicPartition(source.topic, source.partition) not in self.view.recreated
            ]
        return rows

    @cached_property
    def torn(self) -> DataFrame:
        rows = {
            (cut.process, topic_check(event.topic), event.partition, event.offset)
            for cut in self.view.captured.processes
            for event in cut.torn
        }
        names = arrow_schema(TORN).names
        return local_frame(self.spark, TORN, [dict(zip(names, row, strict=True)) for row in sorted(rows)])

    @cached_property
    def stray_causes(self) -> DataFrame | None:
        """Topics whose causes are to be ignored for a process; None: there are none."""
        rows = [
            {"process": process, "cause_check": topic_check(topic)}
            for process, topic in sorted(self.view.old_topics)
        ]
        return local_frame(self.spark, STRAY, rows) if rows else None

    def without_strays(self, effects: DataFrame) -> DataFrame:
        """Leave out effects whose cause may be an offset of a topic that was recreated since."""
        strays = self.stray_causes
        if strays is None:
            return effects
        return effects.join(fn.broadcast(strays), ["process", "cause_check"], "left_anti")

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
    def workers(self) -> DataFrame:
        rows = [
            {"process": cut.process, "worker": self.view.worker(cut.process)}
            for cut in self.view.captured.processes
        ]
        return local_frame(self.spark, WORKERS, rows)

    @cached_property
    def senders(self) -> DataFrame:
        return local_frame(self.spark, SENDERS, self.sender_rows)

    @cached_property
    def sender_rows(self) -> list[dict[str, Any]]:
        """The rows of `senders`."""
        captured = self.view.captured
        ends = {(end.process, TopicPartition(end.topic, end.partition)): end for end in captured.senders}
        owners = {(cut.process, TopicPartition(cut.topic, cut.partition)) for cut in captured.changelogs}
        return [
            {
                "process": process,
                "topic": tp.topic,
                "partition": tp.partition,
                "white_end": self.view.white_end(process, tp),
                "last_seq": ends[process, tp].last_seq if (process, tp) in ends else -1,
                "sent_end": self.view.sent_end(process, tp),
                "failed": [
                    {"first": item.first, "last": item.last} for item in self.view.unacknowledged(process, tp)
                ],
                "earlier_seq": ends[process, tp].earlier_seq if (process, tp) in ends else -1,
                "earlier_end": ends[process, tp].earlier_end if (process, tp) in ends else 0,
            }
            for process, tp in sorted(ends.keys() | owners)
        ]

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

    @cached_property
    def recorded(self) -> DataFrame:
        rows = [
            {
                "process": item.sender,
                "topic": item.topic,
                "partition": item.partition,
                "app": source.app,
                "start": item.start,
                "end": item.end,
                "position": source.noted,
                "white_end": self.view.white_end(item.sender, TopicPartition(item.topic, item.partition)),
            }
            for item, source in self.view.recorded()
        ]
        return local_frame(self.spark, RECORDED, rows)

    @cached_property
    def places(self) -> DataFrame:
        view = self.view
        rows = []
        for place, tp in enumerate(self.partitions):
            sources = view.inputs.get(tp, [])
            progress = [started(source) for source in sources]
            rows.append(
                {
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "place": place,
                    "closed_end": view.closed_end(tp),
                    "left_end": view.left_end(tp),
                    "only_state_below": view.only_state_below(tp),
                    "reach": max((item["reach"] for item in progress), default=0),
                    "above": sorted({offset for item in progress for offset in item["above"]}),
                    "received_since": view.received_since(tp),
                    "first_position": first_position(view, tp),
                    "log_end": min((source.log_end for source in sources), default=None),
                    "state_start": view.state_start(tp),
                    "state_end": view.state_end(tp),
                    "seam": view.seam(tp),
                }
            )
        return self._readable(PLACES, rows)

    @cached_property
    def last(self) -> DataFrame:
        rows = [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "offset": end.white_end - 1,
                "process": end.process,
                "seq": end.last_seq,
                "app": source.app,
                "old_topic": (end.process, tp.topic) in self.view.old_topics,
            }
            for tp, end, source in self.view.last_in_flight()
        ]
        return local_frame(self.spark, LAST, rows)

    def _readable(self, schema: str, rows: list[dict[str, Any]]) -> DataFrame:
        """Create a DataFrame of the partitions whose topics were not recreated."""
        gone = self.view.recreated
        return local_frame(
            self.spark, schema, [row for row in rows if (row["topic"], row["partition"]) not in gone]
        )
