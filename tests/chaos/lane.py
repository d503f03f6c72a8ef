"""One app that dies at step after step, and is started again each time, with a snapshot before and after each death."""

from __future__ import annotations

import asyncio
import contextlib
import re
import signal
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aiokafka import AIOKafkaProducer

from snapkafka.checks import CutView, Verdict
from snapkafka.protocol import SnapshotView
from snapkafka.testing import RunningSystem, Worker, create_topics, wait_until
from tests.observing import Observer, observing

from .judge import Log, read_log, verdict_of

RATE: Final = 40.0
#: Who lives closes within it also on a slow machine with four lanes.
TTL_MS: Final = 10_000
#: Who dies when its report is written may be busy as well, for all that anybody knows: it is the next snapshot that
#: finds no sign of it and says that it is dead (R12), which one more may meet.
ATTEMPTS: Final = 3
STEP_S: Final = 60.0


@dataclass
class Lane:
    """The app, who feeds it, and what came of it."""

    bootstrap: str
    namespace: str
    system: RunningSystem
    observer: Observer
    order: Path
    asked: int = 0  # requests
    captured: list[int] = field(default_factory=list)  # epochs
    deaths: dict[str, SnapshotView] = field(default_factory=dict)  # what became of the snapshot, by step

    def start_worker(self) -> Worker:
        return self.system.start_worker(
            self.namespace,
            {"DYING_ID": self.namespace, "DYING_ORDER": str(self.order)},
            module="tests.chaos.dying",
        )

    def die_at(self, step: str) -> None:
        """Let the worker die there in mid-snapshot, start the next, and take snapshots until one is captured."""
        (worker,) = self.system.workers
        dead = set(self.observer.state.processes)
        self.order.write_text(f"{self.observer.state.end} {step}")
        epoch = self.observer.ask(f"dying-{len(self.deaths)}", ttl_ms=TTL_MS)
        wait_until(f"death at: {step}", lambda: worker.status is not None, timeout_s=STEP_S)
        assert worker.status == -signal.SIGKILL, worker.last_lines()
        assert not self.order.exists(), f"it died, but not at: {step}"
        self.system.kill(worker)
        self.start_worker()
        wait_until(
            "the next worker to be given all inputs",
            lambda: any(
                len(view.inputs) == 4 for view in self.observer.state.living() if view.process not in dead
            ),
            timeout_s=120,
            system=self.system,
        )
        self.deaths[step] = self.observer.decided(epoch, STEP_S)
        self.take(f"after-{len(self.deaths)}")

    def take(self, name: str) -> None:
        """A snapshot, and another if the first waits in vain for somebody dead whom it names."""
        for attempt in range(ATTEMPTS):
            view = self.observer.take(f"{name}-{attempt}", ttl_ms=TTL_MS, timeout_s=STEP_S)
            if view.failure is None:
                self.captured.append(view.epoch)
                return
            named = re.match(r"process (\d+)\b", view.failure.culprit)
            living = max(self.observer.state.processes)
            assert named and int(named[1]) != living, f"not by the name of one that is dead: {view.failure}"
        raise AssertionError(f"{view.failure}\n{self.system.workers[-1].last_lines(40)}")

    def verdicts(self, log: Log) -> dict[int, tuple[Verdict, Counter[str]]]:
        """Of every captured snapshot, those in which the worker died after all was written among them."""
        state = self.observer.state
        died = [view.epoch for view in self.deaths.values() if view.failure is None]
        return {epoch: verdict_of(state, log, epoch) for epoch in (*self.captured, *died)}

    def log(self) -> Log:
        """All that it has written and read."""
        return self.observer.call(read_log(self.observer))

    def in_flight(self, log: Log) -> int:
        """Messages on their way, in all snapshots together."""
        views = [CutView(self.observer.state.captured(epoch)) for epoch in self.captured]
        return sum(
            view.in_channel(record, source)
            for view in views
            for tp, sources in view.inputs.items()
            for record in log.records[tp]
            for source in sources
        )

    def ran_again(self, log: Log) -> int:
        """Events that had effects by more than one process."""
        by_cause: dict[object, set[int]] = defaultdict(set)
        for records in log.records.values():
            for record in records:
                if record.cause is not None:
                    by_cause[record.cause].add(record.process)
        return sum(len(processes) > 1 for processes in by_cause.values())

    async def feed(self, over: threading.Event) -> None:
        """Requests at an even rate."""
        async with AIOKafkaProducer(bootstrap_servers=self.bootstrap) as producer:
            while not over.is_set():
                await producer.send_and_wait(
                    f"{self.namespace}-requests", key=f"k{self.asked % 7}".encode(), value=b"{}"
                )
                self.asked += 1
                await asyncio.sleep(1 / RATE)


@contextlib.contextmanager
def lane(bootstrap: str, namespace: str, folder: Path) -> Iterator[Lane]:
    """The app started and fed."""
    folder.mkdir()
    create_topics(bootstrap, f"{namespace}-requests", f"{namespace}-coming", partitions=2)
    changelogs = [f"{namespace}-{table}-changelog" for table in ("gone", "come")]
    create_topics(bootstrap, *changelogs, partitions=2, config={"cleanup.policy": "compact"})
    system, over = RunningSystem(bootstrap=bootstrap, namespace=namespace, folder=folder), threading.Event()
    try:
        with observing(bootstrap, namespace) as observer:
            made = Lane(bootstrap, namespace, system, observer, folder / "order")
            made.start_worker()
            observer.wait_for_workers(system)
            feeding = threading.Thread(target=lambda: asyncio.run(made.feed(over)))
            feeding.start()
            try:
                wait_until("requests to flow", lambda: made.asked > RATE, timeout_s=30, system=system)
                yield made
            finally:
                over.set()
                feeding.join()
    finally:
        system.stop()
