"""A system of real workers that is restored equals its snapshot; each damage of it is named."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Producer
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.checks import Verdict
from snapkafka.cli import app
from snapkafka.demo import Observer, wait_until
from snapkafka.errors import EXIT_NOT_GOOD, RestoreRefusedError
from snapkafka.kafka import Connection, KafkaBulk
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker

from . import recovering
from .cycles import END_S, Cycle, cycle_at_cut

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


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


@dataclass
class Restored:
    """The two services in a cycle, killed and restored to the snapshot `cut`; no worker runs."""

    cycle: Cycle
    observer: Observer
    connection: Connection
    storage: Path

    def check(self) -> ops.CheckedRestore:
        return asyncio.run(ops.check_restored(self.connection, self.observer.namespace, "cut"))

    def differences(self) -> list[str]:
        found = self.check()
        tables = [f"table {it.table} of app {it.app}: {key}" for it in found.tables for key in it.keys]
        return [*tables, *found.misplaced]

    def command(self) -> int:
        where = ["--bootstrap", self.connection.bootstrap, "--namespace", self.observer.namespace]
        result = CliRunner().invoke(app, ["restore", "--check", "cut", *where])
        print(result.stdout, result.stderr)
        return result.exit_code

    def trigger(self, snapshot_id: str) -> None:
        asyncio.run(
            ops.trigger(
                self.connection, self.observer.namespace, snapshot_id=snapshot_id, storage=str(self.storage),
                ttl_ms=30_000, wait=True,
            )
        )  # fmt: skip

    def verdict(self, snapshot_id: str) -> tuple[str, object]:
        (assembled,) = asyncio.run(
            ops.assemble(
                self.connection, ops.JobSpec(namespace=self.observer.namespace, snapshots=(snapshot_id,))
            )
        )
        return assembled.verdict, assembled.checks

    def unread(self, topic: str, group: str) -> tuple[TopicPartition, int, str, int]:
        """A partition in which something lies unread: its position, the note of that, and its end."""
        committed = self.observer.call(self.observer.admin.committed(group))
        ends = self.observer.call(self.observer.admin.log_ends([tp for tp in committed if tp.topic == topic]))
        at = next(tp for tp, end in sorted(ends.items()) if end > committed[tp][0])
        return at, *committed[at], ends[at]


@pytest.fixture
def restored(kafka: Broker, tmp_path: Path) -> Iterator[Restored]:
    with cycle_at_cut(kafka, tmp_path, 1985) as (cycle, connection, storage):
        it = Restored(cycle, cycle.observer, connection, storage)
        at_cut = cycle.sent()
        wait_until("more outputs", lambda: cycle.sent() > at_cut + 20, timeout_s=END_S, system=cycle.system)
        cycle.kill()
        assert it.verdict("cut")[0] == "VERIFIED"
        recovering.restored(connection, cycle.observer.namespace, "cut", wait_s=90)
        yield it


def test_a_restored_system_equals_its_snapshot_and_each_damage_is_named(restored: Restored) -> None:
    cycle, observer, connection = restored.cycle, restored.observer, restored.connection
    left, right = f"{cycle.prefix}left", f"{cycle.prefix}right"
    checked = restored.check()
    assert checked.equal
    assert restored.command() == 0
    assert {table.table for table in checked.tables} == {"counts", "back", "seen", "windows", "sums"}

    # A record of a changelog
    changelog = f"{left}-counts-changelog"
    row = next(iter(folded(connection, changelog).items()))
    (tp, key), value = row
    append(connection.bootstrap, tp, key, b"4711")
    named = [f"table counts of app {left}: key {key.decode()} of partition {tp.partition} is different"]
    assert restored.differences() == named
    append(connection.bootstrap, tp, b'"nobody"', b"1")
    named.append(f'table counts of app {left}: key "nobody" of partition {tp.partition} is unexpected')
    assert sorted(restored.differences()) == sorted(named)
    append(connection.bootstrap, tp, key, value)
    append(connection.bootstrap, tp, b'"nobody"', None)
    assert restored.differences() == [], "the changelog folds to the snapshot again"

    # A position
    at, offset, note, _ = restored.unread(f"{cycle.prefix}ping", right)
    observer.call(observer.admin.commit_positions(right, {at: offset + 1}, note))
    assert restored.differences() == [f"position of app {right} in {at} is {offset + 1}, expected {offset}"]
    observer.call(observer.admin.commit_positions(right, {at: offset}, note))
    assert restored.differences() == []

    # Both
    append(connection.bootstrap, tp, key, b"4711")
    observer.call(observer.admin.commit_positions(right, {at: offset + 1}, note))
    assert sorted(restored.differences()) == sorted(
        [
            named[0],
            f"position of app {right} in {at} is {offset + 1}, expected {offset}",
        ]
    )
    assert restored.command() == EXIT_NOT_GOOD

    # Workers that run
    cycle.start()
    observer.wait_for_workers(cycle.system)
    with pytest.raises(RestoreRefusedError, match="group-has-members"):
        restored.check()


def test_the_next_snapshot_of_a_system_that_was_restored_wrongly_is_verified_and_proves_nothing(
    restored: Restored,
) -> None:
    """One message is skipped: the system goes on as if it had always been so."""
    cycle, observer = restored.cycle, restored.observer
    right = f"{cycle.prefix}right"
    at, offset, note, _ = restored.unread(f"{cycle.prefix}ping", right)
    observer.call(observer.admin.commit_positions(right, {at: offset + 1}, note))
    assert restored.command() == EXIT_NOT_GOOD
    cycle.start()
    observer.wait_for_workers(cycle.system)
    sent = cycle.sent()
    wait_until("outputs", lambda: cycle.sent() > sent + 20, timeout_s=END_S, system=cycle.system)
    restored.trigger("next")
    cycle.system.stop()
    verdict, checks = restored.verdict("next")
    assert Verdict(verdict).good, (verdict, checks)  # with replays, where a rebalance came in between


def folded(connection: Connection, topic: str) -> dict[tuple[TopicPartition, bytes], bytes]:
    """The last value of each key of a changelog."""
    bulk = KafkaBulk(connection)
    ends = bulk.stable_ends([(topic, 0), (topic, 1)])
    found = {}
    for record in bulk.read([(*tp, 0, end) for tp, end in sorted(ends.items())]):
        if record.key is not None and record.value is not None and isinstance(json.loads(record.value), int):
            found[record.tp, record.key] = record.value
    return found
