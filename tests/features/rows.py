"""The rows of docs/reference/features.md, by the app of tests/features/apps that has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .judging import Row

CALLS: Final = [
    Row("ask", ("ask",), ("ask-out",), inner=()),
    Row("join", ("join",), ("join-out",)),
    Row("map", ("map",), ("map-out",)),
    Row("reply_to-another-topic", ("reply",), ()),
    Row("cast", ("cast",), ("cast-out",), inner=("told",)),
    Row("sink-topic", ("sink",), ("sink-out",), order="none"),
    Row("sink-agent", ("sink",), ("sunk-out",), order="none"),
    Row("sink-function", ("sink",), ("called-out",)),
    Row("send_soon", ("soon",), ("soon-out",)),
    Row("timer", (), ("timer-out",), tables=("ticks",)),
    Row("crontab", (), ("cron-out",)),
    Row("task", (), ("task-out",)),
    Row("web-view", (), ("web-out",)),
    Row("task-that-outlives-its-event", ("spawned",), ("spawned-out",), order="none"),
    Row("channel-in-memory", ("channel",), ("channel-out",)),
    Row("codec-and-raw-keys", ("codec",), ("codec-out", "codec-mid")),
    Row("schema", ("schema",), ("schema-out", "schema-mid")),
    Row("schema-of-avro", ("avro",), ("avro-out",), inner=("avro-mid",)),
    Row("polymorphic-models", ("drawn",), ("drawn-out",), tables=("drawings",), inner=("drawn-mid",)),
    Row("null-values", ("null",), ("null-out", "null-mid")),
]
COPIES: Final = [
    Row("by-one", ("by-one",), ("by-one-out",), order="key", tables=("by-one",)),
    Row("by-all", ("by-all",), ("by-all-out",), order="key", tables=("by-all",)),
]
EXACTLY_ONCE: Final = [
    Row("exactly-once", ("exact",), ("exact-out", "again-out"), tables=("exact",), inner=("exact-mid",)),
]
WAYS: Final = [
    Row("table", ("counted",), ("counted-out",), tables=("counted",), inner=("counted-mid",)),
    Row("rocksdb", ("rocks",), ("rocks-out",), tables=("rocks",), inner=("rocks-mid",)),
    Row("send_soon", ("soon",), ("soon-out",), inner=("soon-mid",)),
    Row("both-ways", ("both",), ("both-out",), order="none", inner=("both-mid",)),
]
LEAVING: Final = [
    Row("table-and-send_soon", ("written",), ("written-out",), tables=("written",)),
    Row("send-and-send_soon", ("both",), ("both-out",), order="none"),
    Row("autodiscover", ("found",), ("found-out",)),
]
SHARED: Final = [
    Row("global-table", ("rates",), ("rates-out",), order="key", tables=("rates",)),
    Row("set-global-table", ("groups",), ("groups-out",), order="key", sets=("groups",)),
    Row("reads-a-global-table", ("orders",), ("orders-out",), order="none"),
    Row("reads-a-set-global-table", ("members",), ("members-out",), order="none"),
    Row("standby-tables", ("kept",), ("kept-out",), tables=("kept",)),
]
STREAMS: Final = [
    Row(
        "group_by", ("group",), ("group-out",), order="key", inner=("group-<input>-group-by-key-repartition",)
    ),
    Row("through", ("through",), ("through-out",), inner=("through-mid",)),
    Row("echo", ("echo",), ("echo-out",)),
    Row("echo-to-another-topic", ("echo",), ("echo-copy",), order="none"),
    Row("forward", ("forward",), ("forward-out",), inner=("forward-mid",)),
    Row("filter", ("filter",), ("filter-out",)),
    Row("take_events", ("take",), ("take-out",)),
    Row("take", ("take-values",), ("take-values-out",), order="key", tables=("taken",)),
    Row("take_with_timestamp", ("take-timestamp",), ("take-timestamp-out",)),
    Row("noack_take", ("noack-take",), ("noack-take-out",)),
    Row("noack", ("noack",), ("noack-out",)),
    Row("noack-acked-later", ("noack-late",), ("noack-late-out",)),
    Row("concurrency", ("concurrency",), ("concurrency-out",), order="none"),
    Row("take-concurrency", ("take-many",), ("take-many-out",), order="none"),
    Row("isolated_partitions", ("isolated",), ("isolated-out",)),
    Row("several-agents-on-one-topic", ("shared",), ("shared-one-out", "shared-two-out")),
    Row("one-agent-on-several-topics", ("multi-a", "multi-b"), ("multi-out",), order="none"),
    Row("agent-that-raises", ("raising",), ("raising-out",)),
    Row("stream-outside-agents", ("outside",), ("outside-out",)),
]
TABLES: Final = [
    Row("plain", ("plain",), ("plain-out",), tables=("plain",)),
    Row("deleting", ("deleting",), ("deleting-out",), tables=("deleting",)),
    Row("rocksdb", ("rocks",), ("rocks-out",), tables=("rocks",)),
    Row("sets", ("sets",), ("sets-out",), sets=("sets",)),
    Row("awaiting", ("slow",), ("slow-out",), tables=("slow",)),
    Row("read-as-a-whole", ("summed",), ("summed-out",), order="none", tables=("summed",)),
    Row("tumbling-relative-to-stream", ("by-stream",), ("by-stream-out",), tables=("by_stream",)),
    Row("hopping-relative-to-field", ("by-field",), ("by-field-out",), tables=("by_field",)),
    Row("tumbling-relative-to-now", ("by-now",), ("by-now-out",), tables=("by_now",)),
    Row("expiring-windows", ("closing",), ("close-out",), tables=("closing",)),
]


def inputs(rows: Sequence[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.inputs})


def outputs(rows: Sequence[Row]) -> list[str]:
    return [name for row in rows for name in row.outputs]
