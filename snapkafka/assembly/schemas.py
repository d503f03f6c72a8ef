"""The tables of a snapshot, whichever engine writes them: columns, in the words of Spark, what they mean, and the order
of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from snapkafka.manifest import AROUND, INPUTS, STATE, STATE_DELTA

UNIX_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: The table of the agents' positions.
POSITIONS: Final = "positions"

#: The columns of each table, in order. Offsets, positions and ids are Kafka's; `*_raw` are the bytes as they were.
SCHEMAS: Final[Mapping[str, str]] = {
    STATE: (
        "app string, table_name string, partition int, key string, value string, key_raw binary, value_raw binary, "
        "changelog_topic string, changelog_offset bigint, why_undecoded string, window_start timestamp, "
        "window_end timestamp"
    ),
    "messages": (
        "sender bigint, sender_app string, receiver_app string, topic string, partition int, offset bigint, "
        "seq bigint, key string, value string, key_raw binary, value_raw binary, "
        "headers array<struct<key:string,value:binary>>, headers_text map<string,string>, timestamp timestamp, "
        "timestamp_ms bigint, timestamp_type string, why_undecoded string"
    ),
    "channels": (
        "sender bigint, sender_app string, receiver_app string, receiver bigint, topic string, partition int, "
        "start_offset bigint, end_offset bigint, messages bigint, bytes bigint"
    ),
    "processes": (
        "process bigint, app string, host string, pid bigint, left boolean, previous bigint, heard string, "
        "report bigint, triggered_at timestamp, reported_at timestamp, "
        "cut_us bigint, "
        "running array<struct<agent:string,topic:string,partition:int,offset:bigint>>, "
        "torn array<struct<agent:string,topic:string,partition:int,offset:bigint,was:bigint,met:bigint,"
        "table_name:string>>"
    ),
    POSITIONS: (
        "app string, agent string, topic string, partition int, position bigint, started_above array<bigint>, "
        "replay_until bigint, process bigint, never_read bigint"
    ),
    AROUND: (
        "sender bigint, sender_app string, receiver_app string, receiver bigint, topic string, partition int, "
        "offset bigint, seq bigint, side string, received boolean, sent_ms bigint, "
        "cause_topic string, cause_partition int, cause_offset bigint, key string, value string, "
        "bytes bigint"
    ),
    INPUTS: (
        "topic string, partition int, offset bigint, key_raw binary, value_raw binary, "
        "headers array<struct<key:string,value:binary>>, timestamp_ms bigint, timestamp_type string"
    ),
}
#: A view over `messages`, with one row per message: see `in_flight_sql`.
IN_FLIGHT: Final = "in_flight"
#: What a column holds, by its name; where it differs from table to table, by table and name.
COMMENTS: Final[Mapping[str, str]] = {
    "snapshot_id": "the snapshot",
    "epoch": "the epoch of the snapshot",
    "verdict": "the verdict on the snapshot",
    "app": "the app",
    "agent": "the agent of the app",
    "table_name": "the app's name of the table",
    "topic": "the topic",
    "partition": "the partition of the topic",
    f"{STATE}.partition": "the partition of the changelog",
    "offset": "the offset of the record",
    "key": "the key as text; null where it cannot be decoded",
    "value": "the value as text: a JSON string is its content, other JSON stays JSON; null where it cannot be decoded",
    f"{AROUND}.key": "the first 240 characters of the key",
    f"{AROUND}.value": "the first 240 characters of the value",
    "key_raw": "the bytes of the key",
    "value_raw": "the bytes of the value",
    f"{STATE}.key_raw": "the bytes of the key in the changelog; of a set, those of one operation that recreates it",
    f"{STATE}.value_raw": "the bytes of the value in the changelog; of a set, those of that operation",
    "changelog_topic": "the changelog of the table",
    "changelog_offset": "the offset of the last change of the key",
    "why_undecoded": "what could not be decoded, and why; null: all was",
    "window_start": "the start of the key's window, in UTC; null: the table is not windowed",
    "window_end": "the last instant of the window, as Faust has it (0.1 s before the next one), in UTC",
    "deleted": "the key was deleted since the parent",
    "sender": "the process that sent it",
    f"{AROUND}.sender": "the process that sent it; null: external",
    "sender_app": "the app of the sender",
    "receivers": "the apps that have still to receive it",
    "receiver": "the process that cut the input",
    "receiver_app": "the app that reads it",
    "messages.receiver_app": "the app that has still to receive it: a message has a row for each",
    "seq": "its number among those of its sender to the partition",
    "headers": "the headers of others, in order",
    "headers_text": "the last header of each name, as text; null where it is not UTF-8",
    "timestamp": "the timestamp, in UTC; null before 1970 and after 9999",
    "timestamp_ms": "the timestamp, in milliseconds since 1970",
    "timestamp_type": "CreateTime: the producer's time; LogAppendTime: the broker's",
    "start_offset": "the position of the receiver",
    "end_offset": "the end of what the sender had sent, and at least the start",
    "messages": "how many messages were in flight",
    "bytes": "the bytes of their keys and values",
    f"{AROUND}.bytes": "the bytes of its key and value",
    "process": "the process: the ledger offset of its first record",
    f"{POSITIONS}.process": "the process that cut the input",
    "never_read": "how many records of the input, all below the position, were never read (at least, where unknown)",
    "host": "the machine of the process",
    "pid": "its process id there",
    "left": "it had left before the trigger",
    "previous": "the epoch that it came from",
    "heard": "how it learned of the snapshot",
    "report": "the ledger offset of its report; -1: it had left",
    "triggered_at": "when the ledger had the trigger; null: unknown",
    "reported_at": "when the ledger had its report; null: unknown",
    "cut_us": "the duration of its cut, in microseconds",
    "running": "the events that ran at its cut",
    "torn": "the events that met later work and count as not processed",
    "position": "the first offset that the agent had not started",
    "started_above": "offsets above the position that it had started",
    "replay_until": "events below this offset may have had effects before; 0: none",
    "side": "white, red or external",
    "received": "every agent of the app had started it",
    "sent_ms": "the timestamp of the record, in milliseconds since 1970",
    "cause_topic": "the topic of the record whose event sent it",
    "cause_partition": "the partition of that record",
    "cause_offset": "the offset of that record",
}
#: What Spark's Kafka source numbers: the producer's time, or the broker's when it appended the record.
TIMESTAMP_TYPE_NAMES: Final = {0: "CreateTime", 1: "LogAppendTime"}
#: The last of the times that readers of a file can hold, in milliseconds: the end of the year 9999.
LAST_MS: Final = 253_402_300_799_999
#: The bounds of a window that is a time, in seconds since 1970: from 1900 on, when all calendars agree, to 9999.
FIRST_WINDOW_S: Final = -2_208_988_800
LAST_WINDOW_S: Final = LAST_MS // 1_000
#: In a table of one file rows lie in this order: what is looked up together lies together.
SORTED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    STATE: ("app", "table_name", "partition", "key_raw"),
    STATE_DELTA: ("app", "table_name", "partition", "key_raw"),
    "messages": ("receiver_app", "topic", "partition", "offset"),
    "channels": ("receiver_app", "topic", "partition", "sender"),
    "processes": ("process",),
    POSITIONS: ("app", "topic", "partition", "agent"),
    AROUND: ("receiver_app", "topic", "partition", "offset"),
    INPUTS: ("topic", "partition", "offset"),
}


def in_flight_sql(messages: str) -> str:
    """Return a query of DuckDB for `in_flight`: one row per message in flight, whoever has still to receive it.

    A key or a value that the first of the receivers cannot decode is as the next of them decodes it.

    Args:
        messages: the table `messages`, in SQL.
    """
    place = ("topic", "partition", "offset")
    kept = [column for column in columns("messages") if column not in (*place, "receiver_app")]
    values = ", ".join(f'arg_min("{column}", receiver_app) AS "{column}"' for column in kept)
    named = ", ".join(f'"{column}"' for column in place)
    return (
        f"SELECT {named}, list(receiver_app ORDER BY receiver_app) AS receivers, {values} "
        f"FROM {messages} GROUP BY {named}"
    )


def schema(table: str) -> str:
    """Return the columns of a table as it is written; an incremental snapshot has deleted keys among its rows of
    state."""
    return f"{SCHEMAS[STATE]}, deleted boolean" if table == STATE_DELTA else SCHEMAS[table]


def columns(table: str) -> dict[str, str]:
    """Return the types of a table's columns by their names, in order."""
    return dict(column.split(" ", 1) for column in schema(table).split(", "))


def comment(table: str, column: str) -> str:
    """Return the meaning of a column; empty for a column of another release."""
    of = STATE if table == STATE_DELTA else table
    return COMMENTS.get(f"{of}.{column}") or COMMENTS.get(column, "")
