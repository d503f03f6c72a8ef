"""One app that dies at step after step, and is started again each time, with a snapshot before and after each death."""

from __future__ import annotations

import contextlib
import re
import signal
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from snapkafka.checks import CutView, Verdict
from snapkafka.protocol import SnapshotView
from snapkafka.testing import Broker, wait_until
from tests.driver.live import Feed, Live, live

from .judge import Log, read_log, verdict_of

RATE: Final = 40.0
#: Who lives closes within it also on a slow machine with four lanes.
TTL_MS: Final = 10_000
#: Who dies when its report is written may be busy as well, for all that anybody knows: it is the next snapshot that
#: finds no sign of it and says that it is dead (R12), which one more may meet.
ATTEMPTS: Final = 3
STEP_S: Final = 60.0


class Lane(Live):
    """The app, who feeds it, and what came of it."""

    def __init__(self, run: Live) -> None:
        super().__init__(run.system, run.observer, run.app, run.partitions)
        self.order = self.system.folder / "order"
        self.captured: list[int] = []  # epochs
        self.deaths: dict[str, SnapshotView] = {}  # what became of the snapshot, by step

    def start_one(self) -> None:
        self.start("tests.chaos.dying", DYING_ORDER=str(self.order))

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
        self.start_one()
        self.await_successor(dead)
        self.deaths[step] = self.observer.decided(epoch, STEP_S)
        self.take_good(f"after-{len(self.deaths)}")

    def take_good(self, name: str) -> None:
        """A snapshot, and another if the first waits in vain for somebody dead whom it names."""
        for attempt in range(ATTEMPTS):
            view = self.take(f"{name}-{attempt}", ttl_ms=TTL_MS, timeout_s=STEP_S)
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
        return read_log(self.observer)

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


@contextlib.contextmanager
def lane(kafka: Broker, namespace: str, folder: Path) -> Iterator[Lane]:
    """The app started and fed."""
    with live(
        kafka, namespace, folder, topics=("in-requests", "coming"), tables=("gone", "come"), app=namespace
    ) as run:
        made = Lane(run)
        made.start_one()
        made.await_workers()
        with Feed(run.system.bootstrap, run.topic("in-requests"), RATE) as feed:
            made.until("requests to flow", lambda: len(feed.places) > RATE, 30)
            yield made
