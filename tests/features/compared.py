"""The apps whose features are compared, with snapkafka and without: the rows of docs/reference/features.md that each
has, what is sent to it, and what is awaited of both runs."""

from __future__ import annotations

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from .harness import Pair
from .judging import Row

CALLS: Final = [
    Row("ask", ("ask",), ("ask-out",), inner=()),
    Row("join", ("join",), ("join-out",)),
    Row("map", ("map",), ("map-out",)),
    Row("reply_to-another-topic", ("reply",), ("reply-out",), order="none"),
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
    Row("table-and-send_soon", ("written",), ("written-out",), tables=("written",)),
    Row("send-and-send_soon", ("both",), ("both-out",), order="none"),
    Row("autodiscover", ("found",), ("found-out",)),
]
EXACTLY_ONCE: Final = [
    Row("exactly-once", ("exact",), ("exact-out", "again-out"), tables=("exact",), inner=("exact-mid",)),
    Row("rocksdb", ("rocks",), ("rocks-out",), tables=("rocks",), inner=("rocks-mid",)),
    Row("send_soon", ("soon",), ("soon-out",), inner=("soon-mid",)),
    Row("both-ways", ("both",), ("both-out",), order="none", inner=("both-mid",)),
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
    Row("closed-windows", (), ("closed-out",), order="none"),
]


def inputs(rows: Sequence[Row]) -> list[str]:
    return sorted({name for row in rows for name in row.inputs})


def outputs(rows: Sequence[Row]) -> list[str]:
    return [name for row in rows for name in row.outputs]


#: Key, value and timestamp (ms; None: now) of the records that an input gets.
Records = Sequence[tuple[str, bytes, int | None]]


def numbered(count: int) -> Records:
    """Records that carry their number and their key."""
    return [(f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}"}).encode(), None) for n in range(count)]


# -- agents that call agents, sinks, and what is sent outside any event -----------------------------------------------

#: Each of these asks another agent, which takes its time.
ASKING: Final = {"ask": 60, "join": 30, "map": 30, "reply": 80}
#: Those that await the answer, and are torn by one from red.
TORN: Final = ("ask", "join", "map")
WEB: Final = 40


def drive_calls(pair: Pair) -> None:
    browsing = threading.Thread(target=_browse, args=(pair,))
    browsing.start()
    sent = {name: numbered(ASKING.get(name, 200)) for name in inputs(CALLS)}
    # Their records wait from the start, so each asks again as soon as it is answered, and a cut tears some.
    pair.send({name: sent[name] for name in TORN}, seconds=0)
    pair.load({name: records for name, records in sent.items() if name not in TORN}, seconds=8.0)
    browsing.join()
    expected = {name: len(sent[row.inputs[0]]) for row in CALLS if row.inputs for name in row.outputs}
    outside = {"timer-out": 40, "cron-out": 20, "task-out": 100, "web-out": WEB}
    pair.wait_for(expected | outside)


def _browse(pair: Pair) -> None:
    """Ask the views of both runs."""
    for n in range(WEB):
        for side in pair.sides:
            with urllib.request.urlopen(f"http://127.0.0.1:{side.port}/told/?n={n}", timeout=20) as answer:
                assert json.load(answer) == {"n": n}


# -- what leaves in transactions ---------------------------------------------------------------------------------------

#: Also of what no row names: the table's own.
IN_TRANSACTIONS: Final = [name for row in EXACTLY_ONCE for name in (*row.outputs, *row.inner)]
TRANSACTED: Final = 200


def drive_transactions(pair: Pair) -> None:
    pair.load(dict.fromkeys(inputs(EXACTLY_ONCE), numbered(TRANSACTED)), seconds=10.0, stretch=False)
    pair.wait_for(dict.fromkeys(IN_TRANSACTIONS, TRANSACTED))


# -- tables that every worker has whole, or stands by for ------------------------------------------------------------


def drive_shared(pair: Pair) -> None:
    def records(name: str) -> Records:
        """Rates and groups are all of one partition: one worker writes them, the other one takes them in."""
        writes = name in ("rates", "groups")
        return [
            ("one" if writes else f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 5}"}).encode(), None)
            for n in range(300 if writes else 80)
        ]

    sent = {name: records(name) for name in inputs(SHARED)}
    pair.load(sent, seconds=8.0)
    pair.wait_for({name: len(sent[row.inputs[0]]) for row in SHARED for name in row.outputs})


# -- what can be done with streams: in Cython, and in pure Python ----------------------------------------------------

STREAMED: Final = 180


def drive_streams(pair: Pair) -> None:
    records = [
        (f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}", "last": n >= STREAMED - 30}).encode(), None)
        for n in range(STREAMED)
    ]
    pair.load(dict.fromkeys(inputs(STREAMS), records), seconds=6.0)
    expected = {name: STREAMED * len(row.inputs) for row in STREAMS for name in row.outputs}
    pair.wait_for(expected | {"filter-out": len(range(0, STREAMED, 3))})


# -- tables of each kind ---------------------------------------------------------------------------------------------

#: The tables of versions, and Faust's own of one of them.
LOOKED_AT: Final = ("versions", "lists", "records", "members", "slots", "slots-key_index")
#: Versions that are written.
WRITTEN: Final = 300
#: Events that look at them, in a dozen ways.
LOOKS: Final = 240


def drive_tables(pair: Pair) -> None:
    base = float(int(time.time())) - 12  # windows are over by the time that they are cleaned

    def timed(keys: int = 5) -> Records:
        times = [base + 6 * n / 150 for n in range(150)]
        return [
            (f"k{n % keys}", json.dumps({"n": n, "at": at}).encode(), int(at * 1000))
            for n, at in enumerate(times)
        ]

    sent = {name: numbered(400) for name in inputs(TABLES)}
    sent |= {name: timed() for name in ("by-stream", "by-field", "by-now")}
    # Of one key: Faust tells of a window only if no other partition of the table has closed one as late before.
    sent |= {"slow": numbered(120), "summed": numbered(120), "closing": timed(keys=1)}
    # One begins as soon as another ends, and nobody looks yet: a cut tears some.
    pair.send({"summed": sent.pop("summed")}, seconds=0)
    pair.load({**sent, "written": numbered(WRITTEN), "looks": numbered(LOOKS)}, seconds=8.0)
    pair.wait_for(
        {row.outputs[0]: len(pair.sent[row.inputs[0]]) for row in TABLES if row.inputs} | {"looks-out": LOOKS}
    )
    pair.send({"clean": [("now", b"1", None)]}, seconds=0)
    windows = {json.loads(value)["at"] // 4 for _, value, _ in sent["closing"]}  # of four seconds
    pair.wait_for({"closed-out": len(windows)})


# -- all of them ------------------------------------------------------------------------------------------------------

#: Faust's own table of `key_index=True`.
KEY_INDEX: Final = "by_stream-key_index"


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """An app that runs twice.

    `drive` sends its records and waits until both runs are through. `inputs`, `outputs` and `changelogs` are those that
    no row names, `options` others of `running`, `snapshots` how many there must be at least, and `in_flight` that
    messages were on their way in some.
    """

    module: str
    rows: Sequence[Row]
    drive: Callable[[Pair], None]
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    changelogs: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    snapshots: int = 4  # one before, two under load, and the last
    in_flight: bool = True
    long: bool = False

    @property
    def topics(self) -> Mapping[str, Any]:
        """The options of `running`."""
        small = self.options.get("small_changelogs", ())
        inner = [name for row in self.rows for name in row.inner if "<input>" not in name]
        tables = [name for row in self.rows for name in (*row.tables, *row.sets) if name not in small]
        return {
            "inputs": [*inputs(self.rows), *self.inputs],
            "outputs": [*outputs(self.rows), *inner, *self.outputs],
            "changelogs": [*tables, *self.changelogs],
            **self.options,
        }


_STREAMS: Final = App(module="streams", rows=STREAMS, drive=drive_streams)
#: By the names of their parameters.
APPS: Final[Mapping[str, App]] = {
    "calls": App(
        module="calls",
        rows=CALLS,
        drive=drive_calls,
        outputs=("square", "sunk"),
        changelogs=("squares",),
        options={"web": True},
    ),
    "exactly-once": App(
        module="transactional",
        rows=EXACTLY_ONCE,
        drive=drive_transactions,
        options={"isolation": "read_committed"},
        snapshots=3,
    ),
    "shared": App(
        module="shared",
        rows=SHARED,
        drive=drive_shared,
        options={"small_changelogs": ["rates"], "workers": 2},
        in_flight=False,
    ),
    # Installed when everything of the app exists already; neither asserts nor docstrings are needed.
    "streams": replace(_STREAMS, env={"FEATURES_INSTALL": "late", "PYTHONOPTIMIZE": "2"}),
    "streams-pure-python": replace(_STREAMS, env={"NO_CYTHON": "1"}, long=True),
    "streams-optimized": replace(_STREAMS, env={"FEATURES_CYTHON_OPTIMIZATIONS": "1"}, long=True),
    "tables": App(
        module="tables",
        rows=TABLES,
        drive=drive_tables,
        inputs=("clean", "written", "looks"),
        outputs=("looks-out",),
        changelogs=(KEY_INDEX, *LOOKED_AT),
        snapshots=3,
        in_flight=False,
    ),
}
