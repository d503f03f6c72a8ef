"""Workers of an app on a real broker, and an observer of their ledger, which asks for snapshots."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from confluent_kafka import Message, Producer

from snapkafka.protocol import SnapshotView, TopicPartition
from snapkafka.testing import RunningSystem, Worker, create_topics, wait_until
from tests.features import harness
from tests.observing import Observer, Place, observing

RELAYING = "tests.features.apps.relaying"


class Live:
    """The workers of one app, all of whose topics have equal partitions."""

    def __init__(self, system: RunningSystem, observer: Observer, app: str, partitions: int) -> None:
        self.system, self.observer, self.app, self.partitions = system, observer, app, partitions

    @classmethod
    @contextmanager
    def running(
        cls,
        place: Place,
        *,
        topics: Sequence[str] = ("in-going", "mid", "out"),
        tables: Sequence[str] = ("gone", "come"),
        app: str = "",
        partitions: int = 2,
    ) -> Iterator[Self]:
        """Create the topics of an app; its workers end with the block."""
        app = app or f"small-{place.namespace}"
        create_topics(place.bootstrap, *(f"{app}-{name}" for name in topics), partitions=partitions)
        if changelogs := [f"{app}-{name}-changelog" for name in tables]:
            compact = {"cleanup.policy": "compact"}
            create_topics(place.bootstrap, *changelogs, partitions=partitions, config=compact)
        system = RunningSystem(*place)
        try:
            with observing(place.bootstrap, place.namespace) as observer:
                yield cls(system, observer, app, partitions)
        except BaseException:
            print(*(f"--- {worker.name}\n{worker.last_lines(60)}" for worker in system.workers), sep="\n")
            raise
        finally:
            system.stop()

    def topic(self, name: str) -> str:
        return f"{self.app}-{name}"

    def start(self, module: str = RELAYING, **env: str) -> Worker:
        """Start one more worker."""
        return self.system.start_worker(self.app, self.names | env, module=module)

    @property
    def names(self) -> dict[str, str]:
        """What its workers are told of the names of app and inputs."""
        return {"FEATURES_ID": self.app, "FEATURES_INPUT": self.topic("in")}

    def await_workers(self) -> None:
        self.observer.wait_for_workers(self.system)

    def await_successor(self, dead: Collection[int]) -> None:
        """Wait until one worker that is not among these processes has all inputs of the app."""

        def has_all() -> bool:
            living = [view for view in self.observer.state.living() if view.process not in dead]
            return any(0 < len(v.inputs) == sum(it.partitions for it in v.hello.inputs) for v in living)

        self.until("the next worker to have all inputs", has_all, 120)

    def await_empty_group(self) -> None:
        """Wait until no worker is a member any more: one that was killed is, until its session is over."""
        members = self.observer.admin.group_members
        self.until("its group to be empty", lambda: not self.observer.call(members(self.app)))

    @property
    def committed(self) -> dict[TopicPartition, int]:
        """The positions that its group has committed."""
        found = self.observer.call(self.observer.admin.committed(self.app))
        return {tp: offset for tp, (offset, _) in found.items()}

    def until(self, what: str, holds: Callable[[], bool], timeout_s: float = 60) -> None:
        wait_until(what, holds, timeout_s=timeout_s, system=self.system)

    def count(self, *names: str) -> int:
        """Count the offsets of topics of the app."""
        tps = [TopicPartition(self.topic(name), n) for name in names for n in range(self.partitions)]
        return sum(self.observer.call(self.observer.admin.log_ends(tps)).values())

    def produce(self, count: int, name: str = "in-going") -> None:
        """Send so many records, with a header of ours that is none."""
        records = [(f"k{n % 7}", b"%d" % n, None) for n in range(count)]
        headers = [("_sk", b"a stranger's")]
        harness.produce(self.system.bootstrap, self.topic(name), records, headers=headers)

    def take(self, name: str, **options: Any) -> SnapshotView:
        return self.observer.take(name, **options)


class Feed:
    """Sends numbers to a topic at an even rate for the length of a block, by a client that asks no other broker."""

    def __init__(self, bootstrap: str, topic: str, rate: float) -> None:
        self.sent, self.places = 0, list[tuple[int, int]]()  # partition and offset
        self._bootstrap, self._topic, self._rate = bootstrap, topic, rate
        self._over, self._thread = threading.Event(), threading.Thread(target=self._feed)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _feed(self) -> None:
        producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            self.places.append((message.partition() or 0, message.offset() or 0))

        while not self._over.wait(1 / self._rate):
            key = b"k%d" % (self.sent % 7)
            producer.produce(self._topic, b"%d" % self.sent, key, on_delivery=delivered)
            self.sent += 1
            producer.poll(0)
        assert producer.flush(30) == 0, "not everything was sent within 30 s"
