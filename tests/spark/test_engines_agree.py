"""The embedded engine and Spark are a second witness for each other: the same rows, findings, verdicts and digests."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import (
    PLAIN,
    SOURCE_SCHEMA,
    Decoding,
    Invariant,
    Lookups,
    digest_of,
    local_frame,
    published,
)
from snapkafka.assembly.embedded.engine import tables_of_log
from snapkafka.assembly.spark.reading import header_columns
from snapkafka.assembly.spark.write import write
from snapkafka.checks import Checked, CutView, Status
from snapkafka.manifest import Manifest
from snapkafka.testing import Broker
from snapkafka.wire import headers as wire
from tests.spark.altering import Rows, alter
from tests.spark.engines import Engine, looked_at, rows, verified_by_both
from tests.spark.reading import settings_of
from tests.spark.scene import Stage, play, play_on
from tests.spark.test_tables import ENTRY, LEDGER, captured, frames, log_of
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.timeout(1200)
#: By the topic, by a number that some values begin with, and not at all.
AVRO: Final = Decoding(
    avro={"plain-value": '"string"', "in-key": '["null", "bytes"]', "49": '{"type": "array", "items": "int"}'}
)
OWN: Final = Decoding(codecs=("tests.spark.own_codecs",))

#: Values as services write them, and as nobody would.
VALUES: Final = (
    b"1", b"-1.50", b'"a\\u0041\\n\\"q\\""', b' "spaced" ', b'{"a": {"b": [null]}}', b"text", b"", b"\xff\xfe", b"null",
    b"01", b'{"a":1}{', b'"\\ud83d\\ude00"', b'"\\ud800"', b'{"a": NaN, "b": [Infinity,-Infinity]}',
    b"[" * 101 + b"]" * 101, b"1" + b"0" * 300, b"1e999", b"\x00\x00\x00\x001\x04\x02\x04\x00",
    b"\x00\x00\x00\x001\xff",
    b"\x0etext..", b"YWI=", b"YQ", b'{"a":1,"a":2}', b"\x00", None,
)  # fmt: skip
SETS: Final = (
    (b'[1,"s"]', b'"a"'), (b'[1,"s"]', b'"b"'), (b'[2,"s"]', b'"a"'), (b'[15,"t"]', b'[["x","y",[1,2]],["x"]]'),
    (b'[1,"gone"]', b"7"), (b'[2,"gone"]', b"7"), (b'[1,7]', b"123456789012345678901234567890123456789012"),
    (b'[9,"s"]', b"1"), (b"no", b"1"), (b'[1,"s"]', b"\xff"), (b'[1,"u"]', b"null"), (b'[1,"u"]', b"true"),
    (b'[1,"s"]', None), (b'[1,"s"]', b"NaN"), (b'[1,Infinity]', b"-Infinity"), (b'[1,"s"]', b"1.0"),
    (b'[true,"s"]', b"1"), (b'[1,{"a": -0.0}]', b"1e300"), (b'[1.0,"s"]', b"1"), (b'[1,"s"]', b"1" * 5000),
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
    ("key_codec", "value_codec", "decoding"),
    [
        ("json", "json", PLAIN),
        pytest.param("", "text", PLAIN, marks=pytest.mark.nightly),
        pytest.param("binary", "json|binary", PLAIN, marks=pytest.mark.nightly),
        pytest.param("reversed", "leaving", OWN, marks=pytest.mark.nightly),
        ("reversed", "pickle", replace(OWN, unpickle=True)),
        ("own", "json", AVRO),
    ],
)
def test_rows_and_digests_of_every_table(
    spark: SparkSession, tmp_path: Path, key_codec: str, value_codec: str, decoding: Decoding
) -> None:
    view, settings = (
        view_of(key_codec, value_codec),
        replace(settings_of(ENTRY, bootstrap=""), decoding=decoding),
    )
    stamps = header_columns.stamped(local_frame(spark, SOURCE_SCHEMA, records()), ledger_id=LEDGER)
    found = frames(stamps, Lookups(spark, view), settings)
    store = LocalStore(tmp_path)
    by_spark = {name: write(table, name, store, "one", rows_max=0) for name, table in found.items()}
    embedded = tables_of_log(view, log_of(records()), settings)
    assert {name: (len(rows), str(digest_of(rows))) for name, rows in embedded.items()} == {
        name: (table.rows, table.digest) for name, table in by_spark.items()
    }
    assert len(embedded["state"]) > len(VALUES)


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
    "split and refused": {"calm": True, "split": True, "external": False, "relay": "refused"},
    "shared": {"calm": True, "shared": True},
}
INVARIANTS: Final = (
    Invariant(name="holds", sql='SELECT * FROM messages WHERE "offset" < 0'),
    Invariant(name="fails", sql='SELECT topic, "partition", "offset", sender, NULL AS nothing FROM messages'),
    Invariant(
        name="counts", sql="SELECT count(*) AS n, sum(messages) AS held FROM channels HAVING count(*) > 0"
    ),
)
#: Hold, or fail, only if the whole state of a chain is seen.
WHOLE: Final = (
    Invariant(name="everything", sql="SELECT key, value FROM state"),
    Invariant(name="gone", sql="SELECT * FROM state WHERE key = 'old'"),
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("scene", "isolation"),
    [(scene, isolation) for scene in SCENES for isolation in ("read_committed", "read_uncommitted")],
)
def test_manifests_are_the_same_but_for_the_engine(
    spark: SparkSession, kafka: Broker, tmp_path: Path, scene: str, isolation: str
) -> None:
    """On a real broker: tables, `around` and `inputs` too, findings, witnesses, verdicts, digests; and again when the
    snapshot is verified with its tables."""
    stage = play(
        kafka.bootstrap, f"agree{os.getpid()}-{scene.replace(' ', '-')}-{isolation[5:8]}", **SCENES[scene]
    )
    pair = Pair(spark, stage, tmp_path, isolation=isolation, around=50, with_inputs=True)
    manifest = pair.assembled("snap", INVARIANTS)
    assert len(manifest.tables) == 7
    notes = [note.kind for check in manifest.checks for note in check.notes]
    assert ("state-split" in notes) == SCENES[scene].get("split", False)
    found = {witness.kind for check in manifest.checks for witness in check.witnesses}
    assert ("state-unordered" in found) == (scene == "shared")
    if scene == "shared":
        state = rows(pair.embedded, manifest, "state")
        assert {row["key"]: row["value"] for row in state if row["partition"] == 1} == {
            "x": "6",
            "y": "7",
            "w": "2",
            "v": "8",
        }, "the last white write of either process, whatever is red between them"
    pair.verified("snap", INVARIANTS)


@pytest.mark.nightly
def test_a_chain_is_the_same_but_for_the_engine(spark: SparkSession, kafka: Broker, tmp_path: Path) -> None:
    """Deltas, with keys that were deleted and keys that were red for the parent, and invariants over the whole; each
    engine builds on what the other one has written."""
    stage = play(kafka.bootstrap, f"chains{os.getpid()}", calm=True)
    pair = Pair(spark, stage, tmp_path)
    pair.assembled("snap")
    written = ([(b'"old"', None), (b'"new"', b"7")], [(b'"new"', b"8"), (b'"late"', None)])
    for parent, name, changes in zip(("snap", "next"), ("next", "last"), written, strict=True):
        play_on(stage, pair.name(name), parent=pair.name(parent), written=changes)
        pair.spark, pair.embedded = pair.embedded, pair.spark
        manifest = pair.assembled(name, () if name == "next" else WHOLE)
        assert [entry.id for entry in manifest.parents][-1] == pair.name(parent)
    checks = {it.name: it for it in manifest.checks}  # the keys: x, poison, late, red, new
    assert (checks["V6 everything"].found, checks["V6 gone"].status) == (5, "passed")
    pair.verified("last", WHOLE)


@pytest.mark.nightly
def test_altered_tables_are_found_by_both_with_the_same_words(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    """Other bytes, other texts of the same bytes, rows that are gone; times, arrays and doubles among them."""
    stage = play(kafka.bootstrap, f"altered{os.getpid()}", calm=True)
    pair = Pair(spark, stage, tmp_path)
    pair.assembled("snap")
    changes: dict[str, Callable[[Rows], Rows]] = {
        "state": lambda rows: [row | {"value": "0\x01\\u001f"} for row in rows],
        "messages": lambda rows: [row | {"timestamp_ms": 1, "headers": []} for row in rows[:-1]],
        "processes": lambda rows: [*rows, rows[0] | {"process": 99, "torn": []}],
        "positions": lambda rows: [row | {"started_above": [1, None]} for row in rows],
    }
    for table, change in changes.items():
        alter(pair.embedded, pair.name("snap"), table, change)
        found = {it.name: it for it in pair.verified("snap").outcomes}["tables"]
        assert found.status is Status.UNVERIFIABLE if table == "state" else Status.FAILED
        assert found.found > 0


class Pair:
    """A stage whose snapshots both engines assemble, each into a storage of its own."""

    def __init__(self, spark: SparkSession, stage: Stage, folder: Path, **options: Any) -> None:
        self.session, self.stage = spark, stage
        self.spark, self.embedded = (LocalStore(folder / name) for name in ("spark", "embedded"))
        self.options = {"isolation": "read_uncommitted", **options}
        self.numbers = itertools.count()

    def name(self, which: str) -> str:
        return f"{self.stage.namespace}-{which}"

    def assembled(self, which: str, wanted: tuple[Invariant, ...] = ()) -> Manifest:
        """Assemble by both; return the manifest of the embedded engine, which is that of Spark."""
        by_spark, embedded = (
            engine.assemble(self.stage, store, which, wanted=wanted, sinks=(), **self.options)
            for store, engine in (
                (self.spark, Engine("spark", self.session)),
                (self.embedded, Engine("embedded")),
            )
        )
        assert comparable(embedded) == comparable(by_spark)
        for table, other in zip(by_spark.tables, embedded.tables, strict=True):
            first, second = (
                self.session.read.parquet(str(store.root / path))
                for store, path in ((self.spark, table.path), (self.embedded, other.path))
            )
            assert first.collect() == second.collect(), f"{table.name}: the same rows, in the same order"
            assert first.schema == second.schema
        return embedded

    def verified(self, which: str, wanted: tuple[Invariant, ...] = ()) -> Checked:
        """Verify by both what the embedded engine stored; any difference is an error."""
        stored = published(self.embedded, self.embedded.read(self.name(which)))
        folder = self.embedded.root / f"verified-{next(self.numbers)}"
        with looked_at(self.stage, which, **self.options) as (_, _, view, settings):
            return verified_by_both(self.session, view, settings, folder, wanted, stored)


def comparable(manifest: Manifest) -> Manifest:
    """A manifest without times, files and the engine's versions."""
    return replace(
        manifest,
        engine="",
        times=replace(manifest.times, assembled_at="", verified_at="", seconds={}),
        tables=tuple(replace(table, path="", files=()) for table in manifest.tables),
        parents=tuple(replace(parent, path="") for parent in manifest.parents),
        versions={},
    )
