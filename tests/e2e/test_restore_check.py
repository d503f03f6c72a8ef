"""A system of real workers that is restored equals its snapshot; each damage of it is named."""

from __future__ import annotations

import asyncio
import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli.app import app
from snapkafka.demo.observer import observing
from snapkafka.demo.system import wait_until
from snapkafka.errors import RestoreRefusedError
from snapkafka.kafka.bulk import KafkaBulk
from snapkafka.kafka.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker

from .cycles import AT_CUT, END_S, ITEMS, Cycle

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


Headers = list[tuple[str, bytes | None]]


def append(
    bootstrap: str,
    tp: TopicPartition,
    key: bytes,
    value: bytes | None,
    headers: Headers | None = None,
    at_ms: int = 0,
) -> None:
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    producer.produce(
        tp.topic, value, key, tp.partition, timestamp=at_ms, headers=headers or [],
        on_delivery=lambda error, _: failures.append(error),
    )  # fmt: skip
    assert producer.flush(30) == 0
    assert failures == [None]


def test_a_restored_system_equals_its_snapshot_and_each_damage_is_named(
    kafka: Broker, tmp_path: Path
) -> None:
    connection, namespace = Connection(bootstrap=kafka.bootstrap), f"e{uuid.uuid4().hex[:8]}"
    storage = tmp_path / "storage"
    storage.mkdir()

    def check() -> ops.Checked:
        return asyncio.run(ops.check_restored(connection, namespace, "cut"))

    def command() -> int:
        where = ["--bootstrap", kafka.bootstrap, "--namespace", namespace]
        result = CliRunner().invoke(app, ["restore", "--check", "cut", *where])
        print(result.stdout, result.stderr)
        return result.exit_code

    def differences() -> list[str]:
        return list(check().compared.differences())

    with observing(kafka.bootstrap, namespace) as observer:
        cycle = Cycle(kafka.bootstrap, tmp_path, observer, 1985)
        left, right = f"{cycle.prefix}left", f"{cycle.prefix}right"
        try:
            cycle.start({"CYCLE_SUM_S": "0.03"})  # messages pile up before it
            observer.wait_for_workers(cycle.system)
            cycle.feed(0, ITEMS // 2)
            wait_until(
                "the first outputs", lambda: cycle.sent() > AT_CUT, timeout_s=END_S, system=cycle.system
            )
            asyncio.run(
                ops.trigger(
                    connection, namespace, snapshot_id="cut", storage=str(storage), ttl_ms=30_000, wait=True
                )
            )
            at_cut = cycle.sent()
            wait_until(
                "more outputs", lambda: cycle.sent() > at_cut + 20, timeout_s=END_S, system=cycle.system
            )
            cycle.kill()
            (assembled,) = asyncio.run(ops.assemble(connection, namespace, ["cut"]))
            assert assembled.verdict == "VERIFIED", assembled.checks
            asyncio.run(ops.restore(connection, namespace, "cut", wait_s=90))
        except BaseException:
            for worker in cycle.system.workers:
                print(f"--- {worker.name}\n{worker.last_lines(30)}")
            raise
        finally:
            cycle.system.stop()

        checked = check()
        assert list(checked.compared.differences()) == []
        assert checked.equal
        assert command() == 0
        tables = {table.table: table.rows for table in checked.compared.tables}
        assert set(tables) == {"counts", "back", "seen", "windows", "sums"}
        assert all(tables.values()), "an empty table shows nothing"
        inputs = {it.topic.removeprefix(cycle.prefix): it for it in checked.compared.inputs}
        assert set(inputs) == {"work", "ping", "pong"}
        assert inputs["ping"].messages > 1, "nothing was in flight: the test shows nothing"
        assert inputs["work"].positions == 4, "two agents in each of two partitions"

        # A record of a changelog
        changelog = f"{left}-counts-changelog"
        row = next(iter(folded(connection, changelog).items()))
        (tp, key), value = row
        append(kafka.bootstrap, tp, key, b"4711")
        named = [f"table counts of app {left}: key {key.decode()} of partition {tp.partition} is different"]
        assert differences() == named
        append(kafka.bootstrap, tp, b'"nobody"', b"1")
        named.append(f'table counts of app {left}: key "nobody" of partition {tp.partition} is unexpected')
        assert sorted(differences()) == sorted(named)
        append(kafka.bootstrap, tp, key, value)
        append(kafka.bootstrap, tp, b'"nobody"', None)
        assert differences() == [], "the changelog folds to the snapshot again"

        # A position
        ping = f"{cycle.prefix}ping"
        committed = observer.call(observer.admin.committed(right))
        ends = observer.call(observer.admin.log_ends([tp for tp in committed if tp.topic == ping]))
        at = next(tp for tp, end in sorted(ends.items()) if end > committed[tp][0])  # something lies there
        offset, note = committed[at]
        observer.call(observer.admin.commit_positions(right, {at: offset + 1}, note))
        assert differences() == [
            f"position of agent sum of app {right} in {at} is {offset + 1}, expected {offset}"
        ]
        observer.call(observer.admin.commit_positions(right, {at: offset}, note))
        assert differences() == []

        # A message
        end = ends[at]
        (last,) = KafkaBulk(connection).read([(*at, end - 1, end)])
        assert last.key is not None
        append(kafka.bootstrap, at, last.key, last.value, list(last.headers), last.timestamp_ms)
        twice = f"message at offset {end} in {at}, key {last.key.decode()}, is there twice"
        assert differences() == [twice]

        # All three
        append(kafka.bootstrap, tp, key, b"4711")
        observer.call(observer.admin.commit_positions(right, {at: offset + 1}, note))
        assert sorted(differences()) == sorted(
            [
                named[0],
                f"position of agent sum of app {right} in {at} is {offset + 1}, expected {offset}",
                twice,
            ]
        )
        assert command() == 1

        # Workers that run
        try:
            cycle.start()
            observer.wait_for_workers(cycle.system)
            with pytest.raises(RestoreRefusedError, match="group-has-members"):
                check()
        finally:
            cycle.system.stop()


def folded(connection: Connection, topic: str) -> dict[tuple[TopicPartition, bytes], bytes]:
    """The last value of each key of a changelog."""
    bulk = KafkaBulk(connection)
    ends = bulk.stable_ends([(topic, 0), (topic, 1)])
    found = {}
    for record in bulk.read([(*tp, 0, end) for tp, end in sorted(ends.items())]):
        if record.key is not None and record.value is not None and isinstance(json.loads(record.value), int):
            found[record.tp, record.key] = record.value
    return found
