"""Tables and checks of a small captured system, from a real broker: the rows, one by one."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]
import pytest
from pyspark.sql import functions as fn

from snapkafka.assembly import SCHEMAS
from snapkafka.assembly.schemas import UNIX_EPOCH
from snapkafka.assembly.spark import kafka_source
from snapkafka.checks import ReadRange, Verdict
from snapkafka.manifest import AROUND, INPUTS, InvariantEntry, Manifest
from snapkafka.testing import Broker
from tests.features.harness import read_topics
from tests.spark.engines import Engine, rows
from tests.spark.scene import Stage, play
from tests.worlds.stores import LocalStore

SCHEMA = json.loads((Path(__file__).parents[2] / "schemas" / "manifest.schema.json").read_text())
HOLDS = InvariantEntry(name="few", sql='SELECT * FROM messages WHERE "offset" > 1000')
OPTIONS: dict[str, Any] = {"isolation": "read_uncommitted", "around": 50, "with_inputs": True}
LATE_MS, LATE_HEADERS = 1_700_000_000_123, [("a", b"\x00"), ("a", None)]
#: Of a snapshot that no check doubts.
JOBS_MAX, STEPS = 6, ("reading every record", "table state")


NEITHER: Final = "key: not UTF-8; value: not UTF-8"
#: Columns of tables, and their rows.
ROWS: Final[Mapping[str, tuple[str, list[tuple[Any, ...]]]]] = {
    # The last white value of a key, also behind a red one; deleted keys are gone; what is no text stays bytes.
    "state": (
        "app table_name partition key value value_raw changelog_offset why_undecoded",
        [
            ("alpha", "balances", 0, "late", "2", b"2", 8, None),
            ("alpha", "balances", 0, "old", "100", b"100", 0, None),
            ("alpha", "balances", 0, "poison", None, b"\xff", 5, "value: not UTF-8"),
            ("alpha", "balances", 0, "x", "11", b"11", 2, None),
        ],
    ),
    "messages": (
        "receiver_app topic offset sender_app key key_raw value value_raw why_undecoded",
        [
            ("alpha", "orders", 2, "beta", "x", b'"x"', '{"amount": 7}', b'{"amount": 7}', None),
            ("alpha", "orders", 4, "beta", None, None, "left behind", b"left behind", None),
            ("alpha", "orders", 5, "beta", None, b"\xff\xfe", None, b"\x80\x81", NEITHER),
            ("alpha", "orders", 6, "beta", "y", b'"y"', None, None, None),
            ("beta", "credits", 0, "alpha", "x", b'"x"', "a text", b'"a text"', None),
            ("beta", "credits", 2, "alpha", "z", b'"z"', '{"amount": 3}', b'{"amount": 3}', None),
        ],
    ),
    "channels": (
        "sender receiver_app receiver topic partition start_offset end_offset messages bytes",
        [
            (0, "alpha", 1, "orders", 0, 2, 8, 1, 11),
            (1, "beta", 2, "credits", 0, 0, 3, 2, 27),
            (1, "beta", 2, "credits", 1, 1, 1, 0, 0),
            (2, "alpha", 1, "orders", 0, 2, 7, 3, 23),
        ],
    ),
    "processes": (
        "process app left heard cut_us",
        [(0, "beta", True, None, 0), (1, "alpha", False, "ledger", 40), (2, "beta", False, "ledger", 50)],
    ),
    "positions": (
        "app topic partition position started_above process",
        [
            ("alpha", "orders", 0, 2, [], 1),
            ("alpha", "orders", 1, 0, [], 1),
            ("beta", "credits", 0, 0, [1], 2),
            ("beta", "credits", 1, 1, [], 2),
        ],
    ),
    AROUND: (
        "topic partition offset sender_app receiver_app receiver side received",
        [
            ("credits", 0, 0, "alpha", "beta", 2, "white", False),
            # of a process that left; started out of turn
            ("credits", 0, 1, "beta", "beta", 2, "white", True),
            ("credits", 0, 2, "alpha", "beta", 2, "white", False),
            ("credits", 0, 4, "alpha", "beta", 2, "red", False),  # the marker at 3 is no record
            ("credits", 1, 0, "alpha", "beta", 2, "white", True),
            ("orders", 0, 0, None, "alpha", 1, "external", True),  # below what anything else reads
            ("orders", 0, 1, "beta", "alpha", 1, "white", True),
            *(("orders", 0, at, "beta", "alpha", 1, "white", False) for at in (2, 4, 5, 6)),
            *(("orders", 0, at, None, "alpha", 1, "external", False) for at in (3, 7, 12)),
            *(("orders", 0, at, "beta", "alpha", 1, "red", False) for at in (9, 10, 11)),
        ],
    ),
}
#: What is left of `around` where each channel has one record of a kind; orders 4 is of the process that left.
NEAREST: Final = [*(("credits", at) for at in (0, 0, 1, 4)), *(("orders", at) for at in (0, 1, 2, 3, 4, 9))]


@dataclass
class Assembled:
    engine: Engine
    stage: Stage
    store: LocalStore
    manifest: Manifest
    again: Callable[..., Manifest]

    def rows(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Columns of a table, in some order of its rows; topics without the namespace."""
        found = rows(self.store, self.manifest, table)
        for row in found:
            row |= {name: self.bare(row[name]) for name in ("topic", "cause_topic") if row.get(name)}
        return sorted((tuple(row[column] for column in columns or row) for row in found), key=repr)

    def bare(self, topic: str) -> str:
        return topic.removeprefix(f"{self.stage.namespace}-")


@pytest.fixture(scope="module")
def assembled(engine: Engine, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Assembled:
    """The scene, and behind everything else two red records that beta sent of an event, and a late external one."""
    stage = play(kafka.bootstrap, f"t{id(engine)}{engine.name}")
    orders, (_, beta) = stage.tp("orders"), stage.players
    for _ in range(2):  # orders 10, 11
        beta.send(orders, b'"caused"', b"1" * 500, epoch=stage.epoch, cause=(stage.tp("credits"), 0))
    stage.send(orders, b"late", b"\xff", LATE_HEADERS, at_ms=LATE_MS)  # orders 12
    first = LocalStore(tmp_path_factory.mktemp("snapshots"))

    def again(
        store: LocalStore = first, wanted: tuple[InvariantEntry, ...] = (HOLDS,), **more: Any
    ) -> Manifest:
        return engine.assemble(stage, store, wanted=wanted, **OPTIONS | more)

    return Assembled(engine, stage, first, again(), again)


@pytest.mark.parametrize("table", ROWS)
def test_its_rows_are_these(assembled: Assembled, table: str) -> None:
    columns, expected = ROWS[table]
    assert assembled.rows(table, *columns.split()) == sorted(expected, key=repr)


def test_processes_have_the_times_of_the_ledger(assembled: Assembled) -> None:
    """When the snapshot was asked for, and when each process had reported, as the broker noted it."""
    stage = assembled.stage
    settings = stage.ask(lambda admin: admin.topic_settings(stage.ledger.topic))[1]
    assert settings["message.timestamp.type"] == "LogAppendTime"
    records = read_topics(stage.bootstrap, stage.ledger.topic)[""]
    at = [UNIX_EPOCH + timedelta(milliseconds=record.timestamp_ms) for record in records]
    columns = ("process", "report", "triggered_at", "reported_at")
    asked, rows = at[stage.epoch - 1], sorted(assembled.rows("processes", *columns), key=lambda row: row[0])
    reported = [at[report] for _, report, *_ in rows[1:]]
    assert [row[2:] for row in rows] == [(asked, None), *((asked, it) for it in reported)], "one had left"
    assert all(asked <= reported for *_, reported in rows[1:])


def test_near_the_cut_a_record_has_its_cause_and_the_beginning_of_its_value(assembled: Assembled) -> None:
    columns = ("topic", "offset", "cause_topic", "cause_partition", "cause_offset", "key", "value", "bytes")
    at = {row[:2]: row[2:] for row in assembled.rows(AROUND, *columns)}
    assert at["orders", 10] == ("credits", 0, 0, "caused", "1" * 240, 8 + 500)
    assert at["orders", 5] == (None, None, None, None, None, 4), "what is no text"
    sent = {row[:2]: row[2] for row in assembled.rows(AROUND, "topic", "offset", "sent_ms")}
    assert sent["credits", 2] < sent["orders", 10] <= sent["orders", 11]


def test_no_channel_has_more_than_the_window(assembled: Assembled, tmp_path: Path) -> None:
    manifest = assembled.again(store := LocalStore(tmp_path), around=1)
    found = rows(store, manifest, AROUND)
    assert sorted((assembled.bare(it["topic"]), it["offset"]) for it in found) == NEAREST


def test_external_records_are_stored_from_the_lowest_position_to_the_end_of_the_log(
    assembled: Assembled,
) -> None:
    """0 was read; 1, 2, 4, 5, 6, 9, 10 and 11 are messages of the apps, 8 is a marker."""
    orders = assembled.stage.tp("orders")
    found = rows(assembled.store, assembled.manifest, INPUTS)
    assert [(row["topic"], row["offset"]) for row in found] == [(orders.topic, at) for at in (3, 7, 12)]
    late = found[-1]
    assert (late["key_raw"], late["value_raw"]) == (b"late", b"\xff")
    assert [(it["key"], it["value"]) for it in late["headers"]] == LATE_HEADERS
    assert (late["timestamp_ms"], late["timestamp_type"]) == (LATE_MS, "CreateTime")
    stored = {(it.topic, it.partition): (it.start, it.end) for it in assembled.manifest.inputs}
    back = assembled.stage.tp("credits")
    assert stored == {orders: (2, 13), (orders.topic, 1): (0, 0), back: (0, 5), (back.topic, 1): (1, 2)}


def test_what_depends_on_when_the_log_is_read_is_no_content(assembled: Assembled, tmp_path: Path) -> None:
    """Nor is what else lies about the cut: the other tables are what they are without both."""
    without = assembled.again(LocalStore(tmp_path), around=0, with_inputs=False)
    assert not {AROUND, INPUTS} & {table.name for table in without.tables}
    assert not without.inputs
    assert (without.content, without.read) == (assembled.manifest.content, assembled.manifest.read)


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
        assert ", ".join(f"{column.name} {column.type}" for column in table.schema) == SCHEMAS[table.name]
        for file in table.files:
            content = (assembled.store.root / file.path).read_bytes()
            assert (file.bytes, file.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert sum(1 for _ in assembled.rows(table.name)) == table.rows
    assert assembled.manifest.captured == assembled.stage.captured


@pytest.mark.nightly
def test_a_small_snapshot_takes_few_jobs_and_tells_of_each(spark: Any, kafka: Broker, tmp_path: Path) -> None:
    """Spark plans, compiles and schedules each, whatever its size. Its page has the same names."""
    stage, reported = play(kafka.bootstrap, f"m{id(spark)}"), list[str]()
    tracker, store = spark.sparkContext.statusTracker(), spark._jsc.sc().statusStore()
    before = {*tracker.getJobIdsForGroup(None)}
    Engine("spark", spark, reported.append).assemble(stage, LocalStore(tmp_path), wanted=(HOLDS,), around=50)
    jobs = {*tracker.getJobIdsForGroup(None)} - before
    assert 0 < len(jobs) <= JOBS_MAX
    assert {store.job(number).description().getOrElse(None) for number in jobs} == set(STEPS)
    steps = [f"{stage.name()}: {name}" for name in STEPS]
    assert [line for line in reported if "offsets" not in line] == steps


@pytest.mark.nightly
def test_a_partition_with_many_records_is_read_by_several_tasks(
    spark: Any, kafka: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That tasks divide partitions changes nothing: `test_in_spark`."""
    monkeypatch.setattr(kafka_source, "RECORDS_PER_TASK", 2)
    hot = ReadRange(*play(kafka.bootstrap, f"parallel{id(spark)}").tp("orders"), 0, 10)
    records = kafka_source.read_ranges(spark, [hot], {"bootstrap.servers": kafka.bootstrap})
    by_task = records.groupBy(fn.spark_partition_id()).count().collect()
    assert (len(by_task), sum(row["count"] for row in by_task)) == (5, 10)
