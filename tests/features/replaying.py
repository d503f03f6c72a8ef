"""What the tests of crashes do with `apps.recovering`: workers that start and die, records, effects, committed
positions, snapshots, and what V5 makes of them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from snapkafka.checks import Verdict
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.testing import Broker, RunningSystem, Worker, create_topics, wait_until
from tests.chaos.judge import read_log, verdict_of
from tests.driver.live import live
from tests.observing import Observer

from .harness import count_records, produce, read_topics

MODULE = "tests.features.apps.recovering"


@dataclass
class Counting:
    """The app, its workers and its log."""

    bootstrap: str
    app: str
    source: str
    system: RunningSystem
    observer: Observer
    env: dict[str, str]

    def start(self, **env: str) -> Worker:
        """One more worker, with more of `FEATURES_...` for it alone."""
        more = {f"FEATURES_{name.upper()}": value for name, value in env.items()}
        return self.system.start_worker(self.app, self.env | more, module=MODULE)

    def wait_until(self, what: str, condition: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        wait_until(what, condition, timeout_s=timeout_s, system=self.system)

    def produce(self, count: int) -> dict[int, int]:
        """Send so many records; where each partition ends now."""
        records = [(f"k{n % 7}", b"{}", None) for n in range(count)]
        places = produce(self.bootstrap, f"{self.source}-counted", records)
        return {partition: offset + 1 for partition, offset in sorted(places)}

    def wait_for_effects(self, count: int, *, timeout_s: float = 60.0) -> None:
        """Until so many events have had theirs, in the table and in the output."""
        changelog = [TopicPartition(f"{self.app}-counted-changelog", partition) for partition in range(2)]

        def written() -> bool:
            ends = self.observer.call(self.observer.admin.log_ends(changelog))
            found = count_records(self.bootstrap, self.app, ["counted-out"])["counted-out"]
            return sum(ends.values()) >= count and found >= count

        self.wait_until(f"the effects of {count} events to be in the log", written, timeout_s=timeout_s)

    def ran(self) -> dict[int, list[int]]:
        """By partition, which events have an output, in the order of these."""
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in read_topics(self.bootstrap, f"{self.app}-counted-out").get("", ()):
            if source := record.header("src"):  # a marker has none
                _, _, partition, offset = source.split("|")
                found[int(partition)].append(int(offset))
        return found

    @property
    def committed(self) -> int:
        """The positions of both partitions together."""
        found = self.observer.call(self.observer.admin.committed(self.app))
        return sum(offset for offset, _ in found.values())

    def bury(self, dead: set[int]) -> None:
        """A snapshot in vain: these processes are waited for, and after that they are not waited for again."""
        self.observer.take("with a corpse", ttl_ms=500)
        self.wait_until(
            "the dead to be named",
            lambda: all(self.observer.state.processes[process].left is not None for process in dead),
            timeout_s=20,
        )

    def verdict(self, captured: Captured) -> tuple[Verdict, dict[str, int]]:
        """What the log says of a snapshot."""
        verdict, counts = verdict_of(
            self.observer.state, self.observer.call(read_log(self.observer)), captured.epoch
        )
        return verdict, dict(counts)

    def judge_replays(self, captured: Captured, effects: dict[int, int]) -> None:
        """V5 names every effect of an event that will run again, and none but events that ran again since."""
        verdict, counts = self.verdict(captured)
        named = sum(effects[cut.partition] - cut.position for cut in captured.inputs)
        assert (verdict, counts.pop("replayed")) == (Verdict.VERIFIED_WITH_REPLAYS, named)
        assert counts.keys() <= {"ran-twice"}


@contextlib.contextmanager
def counting(kafka: Broker, folder: Path, env: dict[str, str]) -> Iterator[Counting]:
    """The app without workers; those that are started end with the block."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, source = f"{namespace}-app", f"{namespace}-in"
    create_topics(kafka.bootstrap, f"{source}-counted", partitions=2)
    with live(kafka, namespace, folder, topics=["counted-out"], tables=["counted"], app=app) as run:
        ids = {"FEATURES_ID": app, "FEATURES_INPUT": source}
        yield Counting(kafka.bootstrap, app, source, run.system, run.observer, env | ids)


def capture(observer: Observer, name: str) -> Captured:
    view = observer.take(name, ttl_ms=10_000)
    assert view.failure is None, view.failure
    return observer.state.captured(view.epoch)
