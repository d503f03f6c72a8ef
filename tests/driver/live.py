"""Workers of an app on a real broker, and an observer of their ledger, which asks for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer

from snapkafka.protocol import SnapshotView, TopicPartition
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics, wait_until
from tests.observing import Observer, observing

SMALL_APP = "tests.driver.small_app"


class Live:
    """The workers of one app, all of whose topics have equal partitions."""

    def __init__(self, system: RunningSystem, observer: Observer, app: str, partitions: int) -> None:
        self.system, self.observer, self.app, self.partitions = system, observer, app, partitions

    def topic(self, name: str) -> str:
        return f"{self.app}-{name}"

    def start(self, module: str = SMALL_APP, **env: str) -> Worker:
        """Start one more worker."""
        return self.system.start_worker(self.app, {"SMALL_APP_ID": self.app} | env, module=module)

    def await_workers(self) -> None:
        self.observer.wait_for_workers(self.system)

    def until(self, what: str, holds: Callable[[], bool], timeout_s: float = 60) -> None:
        wait_until(what, holds, timeout_s=timeout_s, system=self.system)

    def count(self, *names: str) -> int:
        """Count the offsets of topics of the app."""
        tps = [
            TopicPartition(self.topic(name), number) for name in names for number in range(self.partitions)
        ]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def produce(self, count: int, name: str = "in") -> None:
        self.observer.call(produce(self.system.bootstrap, self.topic(name), count))

    def take(self, name: str, **options: Any) -> SnapshotView:
        return self.observer.take(name, **options)


async def produce(bootstrap: str, topic: str, count: int) -> None:
    """Send so many records, with a header of ours that is none."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for k in range(count):
            await producer.send(
                topic, key=b"k%d" % (k % 7), value=b"v%d" % k, headers=[("_sk", b"a stranger's")]
            )


@contextmanager
def live(
    kafka: Broker,
    namespace: str,
    folder: Path,
    *,
    topics: Sequence[str] = ("in", "out"),
    tables: Sequence[str] = ("counts",),
    app: str = "",
    partitions: int = 2,
) -> Iterator[Live]:
    """Create the topics of an app; its workers end with the block."""
    app = app or f"small-{namespace}"
    create_topics(kafka.bootstrap, *(f"{app}-{name}" for name in topics), partitions=partitions)
    if changelogs := [f"{app}-{name}-changelog" for name in tables]:
        compact = {"cleanup.policy": "compact"}
        create_topics(kafka.bootstrap, *changelogs, partitions=partitions, config=compact)
    system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=folder)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            yield Live(system, observer, app, partitions)
    except BaseException:
        print(*(f"--- {worker.name}\n{worker.last_lines(60)}" for worker in system.workers), sep="\n")
        raise
    finally:
        system.stop()
