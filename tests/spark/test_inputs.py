"""The table `inputs` on a real log: external records that were still to be read, whatever the apps wrote among them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from snapkafka.assembly import Desk, assemble, changed, compare, in_folder, published, verify
from snapkafka.kafka import Connection
from snapkafka.manifest import INPUTS, Manifest
from snapkafka.store import LocalStore
from snapkafka.testing import Broker
from tests.spark.reading import settings_of
from tests.spark.scene import play

pytestmark = pytest.mark.nightly


def test_external_records_are_stored_from_the_lowest_position_to_the_end_of_the_log(
    spark: SparkSession, kafka: Broker, tmp_path: Path
) -> None:
    stage = play(kafka.bootstrap, f"unread{id(spark)}")
    orders = stage.tp("orders")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    headers: list[tuple[str, Any]] = [("a", b"\x00"), ("a", None)]
    producer.produce(
        orders.topic, b"\xff", b"late", orders.partition, headers=headers, timestamp=1_700_000_000_123
    )
    assert producer.flush(30) == 0
    with Desk(Connection(bootstrap=stage.bootstrap), stage.namespace) as desk:
        captured = desk.captured(f"{stage.namespace}-snap")
        view = desk.look(captured, "read_uncommitted")
        settings = settings_of(
            desk.ledger(captured), bootstrap=stage.bootstrap, with_inputs=True, namespace=stage.namespace
        )
        store, other = LocalStore(tmp_path / "with"), LocalStore(tmp_path / "without")
        for it in (store, other):
            it.root.mkdir()
        manifest = assemble(spark, view, settings, store)
        without = assemble(
            spark, view, replace(settings, spec=changed(settings.spec, with_inputs=False)), other
        )
        assert view.bounds is not None
        end = view.bounds[orders].end
        found = rows(store, manifest)
        # 0 was read, 1, 2, 4, 5, 6 and 9 are messages of the apps, 8 is a marker.
        assert [(row["topic"], row["offset"]) for row in found] == [
            (orders.topic, at) for at in (3, 7, end - 1)
        ]
        late = found[-1]
        assert (late["key_raw"], late["value_raw"]) == (b"late", b"\xff")
        assert [(it["key"], it["value"]) for it in late["headers"]] == headers
        assert (late["timestamp_ms"], late["timestamp_type"]) == (1_700_000_000_123, "CreateTime")
        stored = {(it.topic, it.partition): (it.start, it.end) for it in manifest.inputs}
        lowest = {tp: min(source.position for source in sources) for tp, sources in view.inputs.items()}
        assert stored == {tp: (at, max(at, view.bounds[tp].end)) for tp, at in lowest.items()}
        # How far it reaches depends on when the log is read: nothing else does.
        assert not without.inputs
        assert INPUTS not in {table.name for table in without.tables}
        assert without.content == manifest.content
        checked = verify(spark, view, settings, folder=tmp_path / "again")
        tables = published(store, manifest), in_folder(tmp_path / "again")
        assert compare(*tables, checked.outcomes).status == "passed"


def rows(store: LocalStore, manifest: Manifest) -> list[dict[str, Any]]:
    place = store.root / next(entry.path for entry in manifest.tables if entry.name == INPUTS)
    found: list[dict[str, Any]] = pq.read_table(place, partitioning=None).to_pylist()
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))
