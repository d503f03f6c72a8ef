"""The embedded engine and Spark are a second witness for each other: the same rows, findings, verdicts and digests."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly.embedded.engine import EmbeddedEngine
from snapkafka.assembly.embedded.log import Record, stamped
from snapkafka.assembly.embedded.state import state_rows
from snapkafka.assembly.embedded.tables import channel_rows, inputs_of, message_rows
from snapkafka.assembly.embedded.write import arrow, columns_of
from snapkafka.assembly.engines import opened
from snapkafka.assembly.ledger import Desk
from snapkafka.assembly.pipeline import Job, Task
from snapkafka.assembly.rows import position_rows, process_rows
from snapkafka.assembly.schemas import comments
from snapkafka.assembly.settings import Settings
from snapkafka.assembly.spark import job as spark_job
from snapkafka.assembly.spark.frames import Lookups, local_frame
from snapkafka.assembly.spark.job import _unwritten
from snapkafka.assembly.spark.reading import header_columns
from snapkafka.assembly.spark.reading.kafka_source import SOURCE_SCHEMA
from snapkafka.assembly.spark.write import parquet
from snapkafka.assembly.spec import changed
from snapkafka.checks import CutView
from snapkafka.checks.invariants import Invariant
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.store import LocalStore
from snapkafka.store.row_digests import row_digest
from snapkafka.testing import Broker
from snapkafka.wire import headers as wire
from tests.spark.reading import settings_of
from tests.spark.scene import play
from tests.spark.test_tables import ENTRY, LEDGER, captured

pytestmark = [pytest.mark.spark]

#: Values as services write them, and as nobody would.
VALUES: Final = (
    b"1", b"-1.50", b"1e3", b'"text"', b'"a\\u0041\\n\\"q\\""', b' "spaced" ', b'\n"line"', b"[1, 2]",
    b'{"a": {"b": [null]}}',
    b"text", b"", b" ", b"\xff\xfe", b"null", b"true", b"NaN", b"01", b'{"a":1,}', b'{"a":1}{', b'"\xc3\xa9"',
    b'"\\ud83d\\ude00"',
    b'{"a": NaN, "b": [Infinity,-Infinity]}', b"-Infinity", b'{"NaN": "Infinity, \\"NaN\\""}', b'{NaN: 1}', b"-NaN",
    b"[NaN,\x01]", b'"NaN', b'{"a":"b\\\\",NaN : 1}', b"+Infinity", b"nan",
    b"1" * 60, b"\xef\xbb\xbf1", b'{"a":1,"a":2}', b"-", b"[", b"]", b'"unclosed', b'"\x01"', b"\x00", None,
)  # fmt: skip
SETS: Final = (
    (b'[1,"s"]', b'"a"'), (b'[1,"s"]', b'"b"'), (b'[2,"s"]', b'"a"'), (b'[15,"t"]', b'[["x","y",[1,2]],["x"]]'),
    (b'[1,"gone"]', b"7"), (b'[2,"gone"]', b"7"), (b'[1,7]', b"123456789012345678901234567890123456789012"),
    (b'[9,"s"]', b"1"), (b"no", b"1"), (b'[1,"s"]', b"\xff"), (b'[1,"u"]', b"null"), (b'[1,"u"]', b"true"),
    (b'[1,"s"]', None), (b'[1,"s"]', b"NaN"), (b'[1,Infinity]', b"-Infinity"), (b'[1,"s"]', b'"NaN"'),
)  # fmt: skip
WINDOWS: Final = (
    (b'["k",[1.0,10.9]]', b"1"), (b'[["a",2],[10,19.9]]', b'"v"'), (b'["k"]', b"1"), (b"7", b"1"),
    (b'["k",[1.0]]', b"2"),
    (b"\xff", b"1"), (b'[null,[1.5,2.5]]', b"3"), (b'["k",[1.0,10.9]]', b"9"),
    (b'["w",[1767225600.1234567,1e10]]', b"1"),
    (b'["w",[-2208988800,-2208988800.0000005]]', b"1"), (b'["w",[-2208988801,0]]', b"1"), (b'["w",[0,1e12]]', b"1"),
    (b'[NaN,[0.0000005,0.0000015]]', b"1"),
)  # fmt: skip


def records() -> list[dict[str, Any]]:
    """White records of process 1 in one input and in three tables: plain, of sets, windowed."""
    content: dict[str, list[tuple[bytes | None, bytes | None]]] = {
        "in": [(value, value) for value in VALUES],
        "plain": [
            *((b"%d" % n, value) for n, value in enumerate(VALUES)),
            *((b"0", b"again"), (b"1", None), (None, b"x")),
        ],
        "sets": list(SETS),
        "windows": list(WINDOWS),
    }  # fmt: skip
    return [
        {
            "topic": topic,
            "partition": 0,
            "offset": offset,
            "timestamp_ms": 1_767_225_600_123 + 1_000 * offset,
            "timestamp_type": offset % 2,
            "key": key,
            "value": value,
            "headers": [
                {"key": "trace", "value": b"7"},
                {"key": "trace", "value": None},
                {"key": "empty", "value": b""},
                {"key": "bytes", "value": b"\xff"},
                {"key": "trace", "value": "é".encode()} if offset % 2 else {"key": "a", "value": b"z"},
                {"key": wire.HEADER, "value": wire.stamp(LEDGER, wire.tp_check(topic, 0), 0, 1, offset)},
            ],
        }
        for topic, pairs in content.items()
        for offset, (key, value) in enumerate(pairs)
    ]


def view_of(key_codec: str, value_codec: str) -> CutView:
    """The snapshot of `test_tables`, with ends past all of these records, and with these codecs."""
    whole = captured()
    return CutView(
        replace(
            whole,
            inputs=tuple(
                replace(it, log_end=99, key_codec=key_codec, value_codec=value_codec) for it in whole.inputs
            ),
            senders=tuple(replace(it, white_end=99, last_seq=98) for it in whole.senders),
            changelogs=tuple(
                replace(
                    it,
                    end=99,
                    key_codec=key_codec if it.table == "plain" else "json",
                    value_codec=value_codec if it.table == "plain" else "json",
                )
                for it in whole.changelogs
            ),
        )
    )


@pytest.mark.parametrize(
    ("key_codec", "value_codec"),
    [("json", "json"), ("", "text"), ("raw", "raw|binary"), ("own", "pickle"), ("binary", "json|binary")],
)
@pytest.mark.usefixtures("small")
def test_rows_and_digests_of_every_table(spark: SparkSession, key_codec: str, value_codec: str) -> None:
    view, rows = view_of(key_codec, value_codec), records()
    if value_codec.endswith("binary"):  # what is not in its usual form is handed over
        rows = [row | {"value": row["value"] if row["topic"] != "plain" else b"YWI="} for row in rows]
    if key_codec == "binary":
        rows = [row | {"key": row["key"] if row["topic"] in ("sets", "windows") else b"YQ=="} for row in rows]
        rows = [row | {"value": b"YQ=="} if row["topic"] == "in" else row for row in rows]
    if value_codec == "raw|binary":
        rows = [row | {"value": b"eHl6"} if row["topic"] == "in" else row for row in rows]
    stamps = header_columns.stamped(local_frame(spark, SOURCE_SCHEMA, rows), ledger_id=LEDGER)
    lookups = Lookups(spark, view)
    by_spark = {
        name: (parquet.digests({name: table})[name], [row.asDict(recursive=True) for row in table.collect()])
        for name, table in _unwritten(stamps, lookups, settings_of(ENTRY, bootstrap="")).items()
    }
    own = [
        stamped(
            Record(
                row["topic"],
                0,
                row["offset"],
                row["timestamp_ms"],
                row["timestamp_type"],
                row["key"],
                row["value"],
                tuple((it["key"], it["value"]) for it in row["headers"]),
            ),
            LEDGER,
        )
        for row in rows
    ]
    messages = list(message_rows(view, own, inputs_of(view)))
    embedded = {
        "state": list(state_rows(view, own)),
        "messages": messages,
        "channels": list(channel_rows(view, messages, inputs_of(view))),
        "processes": process_rows(view, ENTRY),
        "positions": position_rows(view),
    }
    for name, (digest, found) in by_spark.items():
        table = arrow(name, embedded[name])
        assert in_order(table.to_pylist()) == in_order(found), name
        values = zip(*(column.to_pylist() for column in table.columns), strict=True)
        assert row_digest([kind for _, kind in columns_of(name)], iter(values)) == digest, name


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts, in an order of their own; times in UTC."""

    def plain(value: Any) -> Any:
        if isinstance(value, datetime):
            return (value if value.tzinfo else value.astimezone(UTC)).astimezone(UTC).isoformat()
        return bytes(value) if isinstance(value, bytearray) else value

    def pairs(of: Any) -> Any:
        """Maps have no order."""
        return sorted(of.items()) if isinstance(of, dict) else sorted(of)

    return sorted(
        repr(
            sorted(
                (
                    name,
                    pairs(of)
                    if name == "headers_text"
                    else [{k: plain(v) for k, v in it.items()} if isinstance(it, dict) else it for it in of]
                    if isinstance(of, list)
                    else plain(of),
                )
                for name, of in row.items()
            )
        )
        for row in rows
    )


SCENES: Final[dict[str, dict[str, Any]]] = {
    "sound": {},
    "calm": {"calm": True},
    "red": {"red_received": True},
    "cause": {"later_cause": True},
    "lost": {"calm": True, "lost": 1},
    "ours": {"calm": True, "external": False, "declared": False},
    "hangs": {"calm": True, "external": False, "relay": "hangs"},
    "refused": {"calm": True, "external": False, "relay": "refused"},
    "split": {"calm": True, "split": True},
}
INVARIANTS: Final = (
    Invariant(name="holds", sql="SELECT * FROM messages WHERE `offset` < 0"),
    Invariant(name="fails", sql="SELECT topic, `partition`, `offset`, sender, NULL AS nothing FROM messages"),
    Invariant(
        name="counts", sql="SELECT count(*) AS n, sum(messages) AS held FROM channels HAVING count(*) > 0"
    ),
)


@pytest.mark.kafka
@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_manifests_are_the_same_but_for_the_engine(
    spark: SparkSession, kafka: Broker, tmp_path: Path, scene: str, isolation: str
) -> None:
    """On a real broker: tables, `around` and `inputs` too, findings, witnesses, verdicts, digests."""
    stage = play(kafka.bootstrap, f"agree{os.getpid()}-{scene}-{isolation[5:8]}", **SCENES[scene])
    one, other = (LocalStore(tmp_path / name) for name in ("spark", "embedded"))
    for store in (one, other):
        store.root.mkdir()
    with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
        cut = desk.captured(f"{stage.namespace}-snap")
        settings = settings_of(
            desk.ledger(cut),
            bootstrap=stage.bootstrap,
            namespace=stage.namespace,
            isolation=isolation,
            around=50,
            with_inputs=True,
        )
        view, facts = desk.look(cut, isolation), desk.facts(cut, ())
        by_spark = spark_job.assemble(spark, view, settings, one, wanted=INVARIANTS, facts=facts)
        task = Task(
            view=desk.look(cut, isolation),
            store=other,
            base=None,
            wanted=INVARIANTS,
            facts=facts,
            require_same_log=lambda: None,
        )
        embedded, work = EmbeddedEngine(job_of(settings)).assemble(task, settings)
    assert comparable(embedded) == comparable(by_spark)
    assert embedded.content == by_spark.content
    notes = [note.kind for check in embedded.checks for note in check.notes]
    assert ("state-split" in notes) == (scene == "split")
    assert work.tables_written == len(by_spark.tables) == 7
    for table in by_spark.tables:
        files = (str(next((store.root / cut.id / table.name).glob("*.parquet"))) for store in (one, other))
        first, second = (
            [row.asDict(recursive=True) for row in spark.read.parquet(it).collect()] for it in files
        )
        assert first == second, f"{table.name}: the same rows, in the same order"
        schemas = [spark.read.parquet(str(store.root / cut.id / table.name)).schema for store in (one, other)]
        assert schemas[0] == schemas[1]
        assert {it.name: it.metadata["comment"] for it in schemas[0]} == comments(table.name)


def job_of(settings: Settings) -> Job:
    return Job(spec=changed(settings.spec), notify=print, progress=lambda working: None, engine=opened)


def comparable(manifest: Manifest) -> Manifest:
    """A manifest without times, files and the engine's versions."""
    return replace(
        manifest,
        times=replace(manifest.times, assembled_at="", verified_at="", seconds={}),
        tables=tuple(replace(table, files=()) for table in manifest.tables),
        versions={},
    )
