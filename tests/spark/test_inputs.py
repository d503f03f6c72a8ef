"""The table `inputs` on a real log: external records that were still to be read, whatever the apps wrote among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from snapkafka.assembly import compare, in_folder, published
from snapkafka.manifest import INPUTS
from snapkafka.testing import Broker
from tests.spark.engines import Engine, looked_at, rows
from tests.spark.scene import play
from tests.worlds.stores import LocalStore

ISOLATION = "read_uncommitted"


def test_external_records_are_stored_from_the_lowest_position_to_the_end_of_the_log(
    engine: Engine, kafka: Broker, tmp_path: Path
) -> None:
    stage = play(kafka.bootstrap, f"unread{id(engine)}{engine.name}")
    orders = stage.tp("orders")
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    headers: list[tuple[str, Any]] = [("a", b"\x00"), ("a", None)]
    producer.produce(
        orders.topic, b"\xff", b"late", orders.partition, headers=headers, timestamp=1_700_000_000_123
    )
    assert producer.flush(30) == 0
    store = LocalStore(tmp_path / "with")
    manifest = engine.assemble(stage, store, isolation=ISOLATION, with_inputs=True)
    without = engine.assemble(stage, LocalStore(tmp_path / "without"), isolation=ISOLATION)
    with looked_at(stage, isolation=ISOLATION) as (_, _, view, _):
        assert view.bounds is not None
        end = view.bounds[orders].end
        found = rows(store, manifest, INPUTS)
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
    (tmp_path / "again").mkdir()
    checked = engine.verify(stage, folder=tmp_path / "again", isolation=ISOLATION)
    tables = published(store, manifest), in_folder(tmp_path / "again")
    assert compare(*tables, checked.outcomes).status == "passed"
