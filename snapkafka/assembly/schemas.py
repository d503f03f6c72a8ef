"""The tables of a snapshot, whichever engine writes them: columns, in the words of Spark, and the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from snapkafka.manifest import AROUND, INPUTS, STATE, STATE_DELTA

#: The table `state`. A window is the key's, in seconds since 1970 as Faust has it: its last instant belongs to it.
STATE_SCHEMA: Final = (
    "app string, table string, partition int, key string, value string, key_raw binary, value_raw binary, "
    "changelog_topic string, changelog_offset bigint, why_undecoded string, window_start double, "
    "window_end double"
)
#: The columns of each table, in order. Offsets, positions and ids are Kafka's; `*_raw` are the bytes as they were.
SCHEMAS: Final[Mapping[str, str]] = {
    STATE: STATE_SCHEMA,
    "messages": (
        "sender bigint, sender_app string, receiver_app string, topic string, partition int, offset bigint, "
        "seq bigint, key string, value string, key_raw binary, value_raw binary, "
        "headers array<struct<key:string,value:binary>>, timestamp timestamp, timestamp_ms bigint, "
        "timestamp_type string, why_undecoded string"
    ),
    "channels": (
        "sender bigint, sender_app string, receiver_app string, receiver bigint, topic string, partition int, "
        "start_offset bigint, end_offset bigint, messages bigint, bytes bigint"
    ),
    "processes": (
        "process bigint, app string, host string, pid bigint, left boolean, previous bigint, heard string, "
        "report bigint, closed bigint, triggered_at timestamp, reported_at timestamp, closed_at timestamp, "
        "cut_us bigint, "
        "running array<struct<agent:string,topic:string,partition:int,offset:bigint>>, "
        "torn array<struct<agent:string,topic:string,partition:int,offset:bigint,was:bigint,met:bigint,table:string>>"
    ),
    "positions": (
        "app string, agent string, topic string, partition int, position bigint, started_above array<bigint>, "
        "replay_until bigint, process bigint"
    ),
    AROUND: (
        "sender bigint, sender_app string, receiver_app string, receiver bigint, topic string, partition int, "
        "offset bigint, seq bigint, side string, received boolean, sent_ms bigint, received_ms bigint, "
        "effects bigint, cause_topic string, cause_partition int, cause_offset bigint, key string, value string, "
        "bytes bigint, more boolean"
    ),
    INPUTS: (
        "topic string, partition int, offset bigint, key_raw binary, value_raw binary, "
        "headers array<struct<key:string,value:binary>>, timestamp_ms bigint, timestamp_type string"
    ),
}
#: What Spark's Kafka source numbers: the producer's time, or the broker's when it appended the record.
TIMESTAMP_TYPE_NAMES: Final = {0: "CreateTime", 1: "LogAppendTime"}
#: The last of the times that readers of a file can hold, in milliseconds: the end of the year 9999.
LAST_MS: Final = 253_402_300_799_999
#: In a table of one file rows lie in this order: what is looked up together lies together.
SORTED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    STATE: ("app", "table", "partition", "key_raw"),
    STATE_DELTA: ("app", "table", "partition", "key_raw"),
    "messages": ("receiver_app", "topic", "partition", "offset"),
    "channels": ("receiver_app", "topic", "partition", "sender"),
    "processes": ("process",),
    "positions": ("app", "topic", "partition", "agent"),
    AROUND: ("receiver_app", "topic", "partition", "offset"),
    INPUTS: ("topic", "partition", "offset"),
}


def schema(table: str) -> str:
    """Return the columns of a table as it is written; an incremental snapshot has deleted keys among its rows of
    state."""
    return f"{SCHEMAS[STATE]}, deleted boolean" if table == STATE_DELTA else SCHEMAS[table]


def columns(table: str) -> list[str]:
    """Return the names of a table's columns, in order."""
    return [column.split(" ")[0] for column in schema(table).split(", ")]
