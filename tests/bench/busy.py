"""What snapkafka costs a worker that has all it can do: events per second, with it and without, in turn.

Of three apps (`busy_app`): one that counts and sends, one that only forwards, one whose events wait for something.

A worker is given a backlog and one partition of each topic, so that one core is the bound; it is measured from outside,
by how fast its output grows, in the middle of the run. Each run has topics and a group of its own.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import psutil
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from snapkafka.demo.observer import Observer, observing
from snapkafka.demo.system import System, wait_until
from snapkafka.kafka.triggering import compose_trigger
from snapkafka.protocol.completion import SnapshotView
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import EmbeddedKafka, create_topics
from snapkafka.wire import headers as wire
from tests.bench.figures import Figure, figure

PAIRS: Final = 10
EVENTS: Final = 30_000
KEYS: Final = 1_000
#: Events under way at once, of the app whose events wait: it takes so many to fill a core.
WAITING: Final = 600
#: Keys that they share, in the one that has its events cross each other.
SHARED: Final = 100
#: Of all events, between which the speed is measured: start and end of a run are another matter.
FROM, TO = 0.2, 0.9
LIMIT_S: Final = 180.0


@dataclass(frozen=True, slots=True)
class Kind:
    """Of which app (`busy_app`), how many of its events may be under way at once, and how many keys they have."""

    name: str
    at_once: int = 1
    keys: int = KEYS


@dataclass(frozen=True, slots=True)
class Run:
    """One run: events per second, how much of a core the worker had, snapshots that were captured meanwhile, and how
    many of the events that ran at their cuts they tore."""

    per_second: float
    core: float
    captured: int
    torn_share: float


def bench_throughput() -> list[Figure]:
    """Events per second of a busy worker with snapkafka and without, and with a snapshot every second."""
    found = _pairs(Kind("count"))
    return [
        *found.figures("throughput", bars=(0.98, 0.97)),
        figure("header_bytes_mean", found.header_bytes, "bytes", bar=26),
    ]


def bench_forward() -> list[Figure]:
    """The same of a worker that only forwards."""
    return _pairs(Kind("forward")).figures("forward")


def bench_wait() -> list[Figure]:
    """The same of a worker whose events wait 50 to 200 ms, hundreds at once; how many of them a snapshot tears."""
    apart = _pairs(Kind("wait", at_once=WAITING, keys=EVENTS))
    shared = _pairs(Kind("wait", at_once=WAITING, keys=SHARED))
    return [
        *apart.figures("wait"),
        figure("wait_torn_share", apart.torn, "ratio", bar=0.0),  # events that share nothing cross nobody
        figure("wait_shared_torn_share", shared.torn, "ratio"),
    ]


@dataclass(slots=True)
class Found:
    """What the pairs of one kind of app have shown."""

    idle: list[float] = field(default_factory=list)
    every_second: list[float] = field(default_factory=list)
    cores: list[float] = field(default_factory=list)
    torn: list[float] = field(default_factory=list)
    header_bytes: list[float] = field(default_factory=list)

    def figures(self, name: str, bars: tuple[float | None, float | None] = (None, None)) -> list[Figure]:
        """Events per second by those without snapkafka, and how much of a core the worker had."""
        return [
            figure(f"{name}_ratio_idle", self.idle, "ratio", bar=bars[0], at_most=False),
            figure(f"{name}_ratio_every_second", self.every_second, "ratio", bar=bars[1], at_most=False),
            figure(f"{name}_worker_core", self.cores, "cores", bar=0.95, at_most=False),
        ]


def _pairs(kind: Kind) -> Found:
    all_of_them = Found()
    with EmbeddedKafka() as broker, tempfile.TemporaryDirectory() as folder:
        bench = Bench(broker.bootstrap, Path(folder), kind)
        bench.run(install=True)  # the broker and the caches of the machine get warm
        for pair in range(PAIRS):
            order = [("without", False, False), ("idle", True, False), ("every second", True, True)]
            found = {}
            for how, install, snapshots in order[pair % 3 :] + order[: pair % 3]:
                found[how] = bench.run(install=install, snapshots=snapshots)
            assert found["every second"].captured >= 2, "no snapshots were taken: the figure says nothing"
            all_of_them.idle.append(found["idle"].per_second / found["without"].per_second)
            all_of_them.every_second.append(found["every second"].per_second / found["without"].per_second)
            all_of_them.cores += [run.core for run in found.values()]
            all_of_them.torn.append(found["every second"].torn_share)
            all_of_them.header_bytes.append(bench.header_bytes())
    return all_of_them


class Bench:
    """Runs of one kind of app.

    Args:
        folder: for logs.
    """

    def __init__(self, bootstrap: str, folder: Path, kind: Kind) -> None:
        self.bootstrap, self.folder, self.kind = bootstrap, folder, kind
        self.runs = 0
        self.app = self.stamped = ""  # of the last run, and of the last one with snapkafka

    def run(self, *, install: bool, snapshots: bool = False) -> Run:
        """A new app works off its backlog."""
        self.runs += 1
        self.app = f"busy-{self.runs}"
        self.stamped = self.app if install else self.stamped
        create_topics(self.bootstrap, f"{self.app}-in", f"{self.app}-out", partitions=1)
        create_topics(
            self.bootstrap, f"{self.app}-counts-changelog", partitions=1, config={"cleanup.policy": "compact"}
        )
        system = System(bootstrap=self.bootstrap, namespace=self.app, folder=self.folder)
        with observing(self.bootstrap, self.app) as observer:
            observer.call(_backlog(self.bootstrap, f"{self.app}-in", self.kind.keys))
            try:
                env = {
                    "BUSY_APP_ID": self.app,
                    "BUSY_KIND": self.kind.name,
                    "BUSY_AT_ONCE": str(self.kind.at_once),
                    "SNAPKAFKA": "on" if install else "off",
                }
                system.start_worker(self.app, env, module="tests.bench.busy_app")
                return self._measured(system, observer, snapshots=snapshots)
            finally:
                for worker in list(system.workers):
                    system.kill(worker)

    def _measured(self, system: System, observer: Observer, *, snapshots: bool) -> Run:
        worker = psutil.Process(system.workers[0].pid)
        out = TopicPartition(f"{self.app}-out", 0)
        marks: list[tuple[float, int, float]] = []
        asked = 0
        began = time.monotonic()

        def look() -> int:
            done = observer.call(observer.admin.log_ends([out]))[out]
            used = worker.cpu_times()
            marks.append((time.monotonic(), done, used.user + used.system))
            return done

        while (done := look()) < TO * EVENTS:
            if snapshots and done and marks[-1][0] - began > asked:
                asked = int(marks[-1][0] - began) + 1
                observer.call(_trigger(observer))
            if time.monotonic() - began > LIMIT_S:
                system.check_alive()
                raise AssertionError(f"{done} of {EVENTS} events after {LIMIT_S:g} s")
            time.sleep(0.05)
        start = next(mark for mark in marks if mark[1] >= FROM * EVENTS)
        end = marks[-1]
        seconds = end[0] - start[0]
        if snapshots:
            wait_until(
                "the snapshots to be decided", lambda: not observer.state.open, timeout_s=30, system=system
            )
        captured = [view for view in observer.state.snapshots.values() if view.captured_at is not None]
        return Run(
            (end[1] - start[1]) / seconds, (end[2] - start[2]) / seconds, len(captured), _torn_share(captured)
        )

    def header_bytes(self) -> float:
        """The mean size in the last run that had headers."""
        with observing(self.bootstrap, f"{self.stamped}") as observer:
            return observer.call(_mean_header(self.bootstrap, f"{self.stamped}-out"))


async def _trigger(observer: Observer) -> None:
    await observer.ledger.append(await compose_trigger(observer.admin, observer.state))


def _torn_share(captured: Sequence[SnapshotView]) -> float:
    """Torn events by those that ran at the cuts."""
    parts = [part for view in captured for part in view.parts()]
    return sum(len(part.closed.torn) for part in parts) / max(
        1, sum(len(part.report.running) for part in parts)
    )


async def _backlog(bootstrap: str, topic: str, keys: int) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, linger_ms=20, max_batch_size=1 << 18
    ) as producer:
        for n in range(EVENTS):
            await producer.send(topic, key=b"key-%d" % (n % keys), value=b'{"n": %d}' % n)


async def _mean_header(bootstrap: str, topic: str) -> float:
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    await consumer.start()
    sizes: list[int] = []
    try:
        while len(sizes) < 1_000:
            for batch in (await consumer.getmany(timeout_ms=1_000)).values():
                sizes += [
                    len(raw) for record in batch if (raw := wire.find(list(record.headers))) is not None
                ]
    finally:
        await consumer.stop()
    return sum(sizes) / len(sizes)
