"""Records that a reader jumps over: each snapshot says which ones it never read, and why."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics
from snapkafka.testing.taken import await_work
from snapkafka.until import blocking_until
from tests.observing import observing

pytestmark = pytest.mark.timeout(200)


def never_read(system: RunningSystem, app: str) -> set[tuple[int, int, str]]:
    """What a new snapshot says of it, which is the same everywhere."""
    taken = system.snapshot(ttl_ms=20_000)
    found = taken.assert_consistent()
    assert found.verdict == "VERIFIED"
    items = await_work(ops.show(system.connection, system.namespace, taken.id)).never_read
    assert {(item.app, item.topic, item.partition) for item in items} <= {(app, app, 0)}
    notes = [note for check in found.checks for note in check.notes if note.kind.startswith("never-read")]
    assert [note.offset for note in notes] == [item.start for item in items]
    count = sum(item.end - item.start for item in items)
    assert sum(check.noted for check in found.checks) == count
    assert taken.query("SELECT never_read FROM positions") == [{"never_read": count}]
    advice = await_work(ops.doctor(system.connection, system.namespace)).found
    assert ("never-read" in [item.code for item in advice]) == bool(items)
    return {(item.start, item.end, item.reason) for item in items}


@pytest.mark.parametrize("library", ["faust", "aiokafka", "confluent"])
def test_records_that_were_never_read_are_named(
    kafka: Broker, namespace: str, tmp_path: Path, library: str
) -> None:
    """Of a log that was shortened before its reader came to it, and of a loop that seeks forward."""
    topic, seen = f"{namespace}-numbers", tmp_path / "seen.txt"
    seen.touch()
    create_topics(kafka.bootstrap, topic, partitions=1)
    system = RunningSystem(kafka.bootstrap, namespace, tmp_path)

    def read() -> Worker:
        arguments = ["tests.conformance.reading_app", library, kafka.bootstrap, topic, str(seen)]
        worker = Worker(topic, tmp_path / "log.txt", arguments, {"SNAPKAFKA_NAMESPACE": namespace})
        system.workers.append(worker)
        return worker

    def await_seen(offsets: list[int]) -> None:
        blocking_until(lambda: [*map(int, seen.read_text().split())] == offsets, 60, "all to be read")

    skips = set() if library == "faust" else {(11, 30, "sought")}
    system.send(topic, *(b"%d" % n if n != 10 else b"seek 30" for n in range(40)))
    wanted = [n for n in range(40) if not any(a <= n < b for a, b, _ in skips)]
    with observing(kafka.bootstrap, namespace) as observer:
        try:
            reader = read()
            await_seen(wanted)
            assert never_read(system, topic) == skips
            system.interrupt(reader)
            assert reader.status in (0, -signal.SIGINT)
            system.send(topic, *range(40, 100))
            observer.call(observer.admin.delete_records(TopicPartition(topic, 0), 80))
            blocking_until(lambda: not list(observer.state.living()), 60, "it to leave")
            reader = read()
            await_seen([*wanted, *range(80, 100)])
            assert never_read(system, topic) == {(40, 80, "lost")}
        finally:
            print(reader.last_lines(60))
            system.stop()
