"""Tables and checks of a small captured system, from a real broker: the rows, one by one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer
from confluent_kafka import TopicPartition as KafkaPartition

from snapkafka.assembly import SCHEMAS, Invariant
from snapkafka.assembly.rows import process_rows
from snapkafka.assembly.spark import engine as spark_engine
from snapkafka.assembly.spark import kafka_source
from snapkafka.checks import CutView, Verdict
from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest
from snapkafka.testing import Broker
from tests.spark.engines import Engine, rows
from tests.spark.scene import Stage, play, play_on
from tests.worlds.stores import LocalStore

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "manifest.schema.json").read_text())
HOLDS = Invariant(name="few", sql='SELECT * FROM messages WHERE "offset" > 1000')
ISOLATION = "read_uncommitted"


@dataclass
class Assembled:
    engine: Engine
    stage: Stage
    store: LocalStore
    manifest: Manifest
    again: Callable[..., Manifest]

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        found = rows(self.store, self.manifest, table)
        return [tuple(row[column] for column in columns or row) for row in found]


@pytest.fixture(scope="module")
def assembled(engine: Engine, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Assembled:
    stage = play(kafka.bootstrap, f"t{id(engine)}{engine.name}")
    first = LocalStore(tmp_path_factory.mktemp("snapshots"))

    def again(store: LocalStore = first, wanted: tuple[Invariant, ...] = (HOLDS,)) -> Manifest:
        options: dict[str, Any] = {"isolation": ISOLATION, "around": 50, "with_inputs": True}
        return engine.assemble(stage, store, wanted=wanted, **options)

    return Assembled(engine, stage, first, again(), again)


def test_state_is_the_fold_of_what_is_white(assembled: Assembled) -> None:
    """The last white value of a key, also behind a red one; deleted keys are gone; what is no text stays bytes."""
    rows = assembled.rows("state", "key", "value", "value_raw", "changelog_offset", "why_undecoded")
    assert sorted(rows) == [
        ("late", "2", b"2", 8, None),
        ("old", "100", b"100", 0, None),
        ("poison", None, b"\xff", 5, "value: not UTF-8"),
        ("x", "11", b"11", 2, None),
    ]
    places = {row[:3] for row in assembled.rows("state", "app", "table_name", "partition")}
    assert places == {("alpha", "balances", 0)}


def test_messages_are_what_was_in_flight(assembled: Assembled) -> None:
    topic = assembled.stage.topic
    rows = assembled.rows(
        "messages", "receiver_app", "topic", "offset", "sender_app", "key", "value", "why_undecoded"
    )
    raw = {row[0]: row[1:] for row in assembled.rows("messages", "offset", "key_raw", "value_raw")}
    assert (raw[4], raw[5]) == ((None, b"left behind"), (b"\xff\xfe", b"\x80\x81")), "bytes are always kept"
    assert sorted(rows, key=lambda row: row[:3]) == [
        ("alpha", topic("orders"), 2, "beta", "x", '{"amount": 7}', None),
        ("alpha", topic("orders"), 4, "beta", None, "left behind", None),
        ("alpha", topic("orders"), 5, "beta", None, None, "key: not UTF-8; value: not UTF-8"),
        ("alpha", topic("orders"), 6, "beta", "y", None, None),
        ("beta", topic("credits"), 0, "alpha", "x", "a text", None),
        ("beta", topic("credits"), 2, "alpha", "z", '{"amount": 3}', None),
    ]


def test_no_marker_and_no_header_of_ours_shows(assembled: Assembled) -> None:
    headers = {row[0]: row[1] for row in assembled.rows("messages", "offset", "headers")}
    assert headers[6] == []
    everything = [row for table in SCHEMAS for row in assembled.rows(table)]
    assert len(everything) == 4 + 6 + 4 + 3 + 4 + 14 + 2
    assert "_sk" not in str(everything), "files are compressed: it is the rows that tell"
    in_flight = {
        row[0]: [(header["key"], header["value"]) for header in row[1]]
        for row in assembled.rows("messages", "sender_app", "headers")
        if row[1]
    }
    assert in_flight == {"beta": [("trace", b"1"), ("trace", b"2")]}, "a repeated header stays, in order"


def test_channels_with_and_without_messages(assembled: Assembled) -> None:
    topic, (old, a, b) = assembled.stage.topic, (0, 1, 2)
    ends = ("start_offset", "end_offset", "messages", "bytes")
    rows = assembled.rows("channels", "sender", "receiver_app", "receiver", "topic", "partition", *ends)
    assert sorted(rows) == [
        (old, "alpha", a, topic("orders"), 0, 2, 8, 1, 11),
        (a, "beta", b, topic("credits"), 0, 0, 3, 2, 27),
        (a, "beta", b, topic("credits"), 1, 1, 1, 0, 0),
        (b, "alpha", a, topic("orders"), 0, 2, 7, 3, 23),
    ]


def test_processes_and_positions(assembled: Assembled) -> None:
    topic = assembled.stage.topic
    assert sorted(assembled.rows("processes", "process", "app", "left", "heard", "cut_us")) == [
        (0, "beta", True, None, 0),
        (1, "alpha", False, "ledger", 40),
        (2, "beta", False, "ledger", 50),
    ]
    rows = assembled.rows("positions", "app", "topic", "partition", "position", "started_above", "process")
    assert sorted(rows) == [
        ("alpha", topic("orders"), 0, 2, [], 1),
        ("alpha", topic("orders"), 1, 0, [], 1),
        ("beta", topic("credits"), 0, 0, [1], 2),
        ("beta", topic("credits"), 1, 1, [], 2),
    ]


def test_processes_have_the_times_of_the_ledger(assembled: Assembled) -> None:
    """When the snapshot was asked for, and when each process had reported, as the broker noted it."""
    stage = assembled.stage
    at = times_in(stage.bootstrap, stage.ledger.topic)
    columns = ("process", "report", "triggered_at", "reported_at")
    asked, rows = at[stage.epoch - 1], sorted(assembled.rows("processes", *columns), key=lambda row: row[0])
    assert (
        [row[2:] for row in rows]
        == [
            (asked, None),  # it had left
            *((asked, at[report]) for _, report, *_ in rows[1:]),
        ]
    )
    assert all(asked <= reported for *_, reported in rows[1:])


def times_in(bootstrap: str, topic: str) -> dict[int, datetime]:
    """The times of a topic's records by their offsets, as any consumer sees them."""
    settings = {
        "bootstrap.servers": bootstrap,
        "group.id": "looks",
        "enable.partition.eof": True,
        "log_level": 0,
    }
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([KafkaPartition(topic, 0, 0)])
    found = {}
    try:
        while (message := consumer.poll(20)) is not None and message.error() is None:
            kind, at_ms = message.timestamp()
            assert kind == TIMESTAMP_LOG_APPEND_TIME
            found[message.offset()] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at_ms)
    finally:
        consumer.close()
    return found


def test_times_are_in_the_manifest_so_that_verification_has_the_same(assembled: Assembled) -> None:
    """`verify` makes the tables again without the ledger."""
    (printed,) = {row[:1] for row in assembled.rows("processes", "triggered_at")}
    rows = {row[0]: row[1:] for row in assembled.rows("processes", "process", "reported_at")}
    manifest = assembled.store.read(assembled.manifest.id)
    again = process_rows(CutView(manifest.captured), manifest.ledger)
    times = ("triggered_at", "reported_at")
    assert {row["process"]: tuple(row[name] for name in times) for row in again} == {
        process: (*printed, *others) for process, others in rows.items()
    }


def test_schemas_are_those_stated(assembled: Assembled) -> None:
    for table in assembled.manifest.tables:
        assert ", ".join(f"{column.name} {column.type}" for column in table.schema) == SCHEMAS[table.name]


def test_verified_and_says_by_what(assembled: Assembled) -> None:
    assert assembled.manifest.verdict == Verdict.VERIFIED
    printed = {check.name: check.status for check in assembled.manifest.checks}
    assert printed == dict.fromkeys(("V1", "V2", "V3", "V4", "V5", "V6 few"), "passed")
    seen = {
        check.name: (check.records, check.partitions, check.channels) for check in assembled.manifest.checks
    }
    assert seen.pop("V6 few") == (None, None, None)
    assert all(None not in counts for counts in seen.values()), seen
    assert all(all(seen[name][:2]) for name in ("V1", "V3", "V4")) and seen["V4"][2]


def test_manifest_fits_its_schema_and_its_files(assembled: Assembled) -> None:
    path = assembled.store.manifest_path(assembled.manifest.id)
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    assert assembled.store.read(assembled.manifest.id) == assembled.manifest
    for table in assembled.manifest.tables:
        for file in table.files:
            content = (assembled.store.root / file.path).read_bytes()
            assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert sum(1 for _ in assembled.rows(table.name)) == table.rows
    assert assembled.manifest.captured == assembled.stage.captured


def test_nothing_else_is_left_in_the_storage(assembled: Assembled) -> None:
    files = {file.path for table in assembled.manifest.tables for file in table.files}
    found = {
        str(path.relative_to(assembled.store.root))
        for path in assembled.store.root.rglob("*")
        if path.is_file()
    }
    assert found == files | {f"{assembled.manifest.id}.json"}


def test_assembled_twice_is_the_same(assembled: Assembled, tmp_path: Path) -> None:
    """The same rows and digest, elsewhere, whatever that is called."""
    elsewhere = assembled.again(there := LocalStore(tmp_path / "50% of #1, in a place"))
    assert all((there.root / file.path).is_file() for table in elsewhere.tables for file in table.files)
    assert all(table.files for table in elsewhere.tables)
    assert [path.name for path in tmp_path.iterdir()] == [there.root.name]
    assert elsewhere.content == assembled.manifest.content
    assert [t.digest for t in elsewhere.tables] == [t.digest for t in assembled.manifest.tables]


@pytest.mark.nightly
def test_both_engines_make_the_same_of_a_log(spark: Any, kafka: Broker, tmp_path: Path) -> None:
    """Tables, findings, verdicts and digests; and each builds on what the other one has written."""
    stage = play(kafka.bootstrap, f"agree{id(spark)}", calm=True, split=True)
    engines, stores = [Engine("spark", spark), Engine("embedded")], [LocalStore(tmp_path / n) for n in "ab"]
    options: dict[str, Any] = {"sinks": (), "isolation": ISOLATION, "around": 50, "with_inputs": True}

    def assembled(name: str, *wanted: Invariant) -> Manifest:
        one, other = (
            engine.assemble(stage, store, name, wanted=wanted, **options)
            for engine, store in zip(engines, stores, strict=True)
        )
        assert but_for_the_engine(one) == but_for_the_engine(other)
        assert len(one.tables) == 7
        engines.reverse()
        return one

    notes = [note.kind for check in assembled("snap", HOLDS).checks for note in check.notes]
    assert "state-split" in notes
    changes = [(b'"late"', None), (b'"new"', b"7")]
    play_on(stage, f"{stage.namespace}-next", parent=f"{stage.namespace}-snap", written=changes)
    last = assembled("next", Invariant(name="all", sql="SELECT key, value FROM state"))
    assert len(last.parents) == 1
    (of_all,) = [check for check in last.checks if check.name == "V6 all"]
    assert of_all.found == 7, "x twice, poison, old, late, red, new"


def but_for_the_engine(manifest: Manifest) -> Manifest:
    return replace(
        manifest,
        engine="",
        versions={},
        times=replace(manifest.times, assembled_at="", verified_at=""),
        tables=tuple(replace(table, path="", files=()) for table in manifest.tables),
        parents=tuple(replace(parent, path="") for parent in manifest.parents),
    )


@pytest.mark.nightly
def test_parallelism_changes_no_row(
    spark: Any, kafka: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other partitions of a shuffle, other tasks, other files: the same digests."""
    engine, stage = Engine("spark", spark), play(kafka.bootstrap, f"parallel{id(spark)}")
    one = engine.assemble(stage, LocalStore(tmp_path / "one"))
    monkeypatch.setattr(kafka_source, "RECORDS_PER_TASK", 2)
    monkeypatch.setattr(spark_engine, "CHANGES_PER_FILE", 3)
    other = engine.assemble(stage, LocalStore(tmp_path / "other"))
    assert [len(table.files) for table in one.tables] != [len(table.files) for table in other.tables]
    assert [table.digest for table in one.tables] == [table.digest for table in other.tables]
    assert one.content == other.content


def test_a_storage_that_breaks_leaves_no_manifest(
    assembled: Assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr("snapkafka.assembly.invariants.check", full)
    with pytest.raises(StorageError):
        assembled.again(LocalStore(tmp_path))
    assert list(tmp_path.iterdir()) == []
