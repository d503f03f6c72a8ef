"""What the tests of crashes do with `apps.counting`: workers that start and die, records, effects, committed positions,
snapshots, and what V5 makes of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from snapkafka.checks import Verdict
from snapkafka.protocol import Captured, InputCut
from snapkafka.testing import Broker, Worker, create_topics
from tests.chaos.judge import read_log, verdict_of
from tests.driver.live import Live, live

from .harness import count_records, produce, read_topics


class Counting(Live):
    """The app, its workers and its log; and another app that reads the same input for itself."""

    def __init__(self, run: Live, env: Mapping[str, str]) -> None:
        super().__init__(run.system, run.observer, run.app, run.partitions)
        self.source = f"{self.system.namespace}-in"
        self.env = {"FEATURES_COMMIT": "600", "FEATURES_INPUT": self.source} | env

    def start_one(self, *, app: str = "", **env: str) -> Worker:
        """One more worker, with more of `FEATURES_...` for it alone."""
        more = {f"FEATURES_{name.upper()}": value for name, value in env.items()}
        ids = {"FEATURES_ID": app or self.app}
        module = "tests.features.apps.counting"
        return self.system.start_worker(app or self.app, self.env | ids | more, module=module)

    def start_beside_another_app(self, **env: str) -> tuple[Worker, int]:
        """Start a worker of this app, and one of another that stays; return that of this one, and its process."""
        worker = self.start_one(**env)
        other = f"{self.app}-other"
        create_topics(self.system.bootstrap, f"{other}-counted-out", partitions=2)
        compact = {"cleanup.policy": "compact"}
        create_topics(self.system.bootstrap, f"{other}-counted-changelog", partitions=2, config=compact)
        self.start_one(app=other, commit="0.5")
        self.await_workers()
        (mine,) = (v.process for v in self.observer.state.living() if v.hello.app == self.app)
        return worker, mine

    def feed(self, count: int) -> dict[int, int]:
        """Send so many records; where each partition ends now."""
        records = [(f"k{n % 7}", b"{}", None) for n in range(count)]
        places = produce(self.system.bootstrap, f"{self.source}-counted", records)
        return {partition: offset + 1 for partition, offset in sorted(places)}

    def await_effects(self, count: int, *, timeout_s: float = 60.0) -> None:
        """Until so many events have had theirs, in the table and in the output."""

        def written() -> bool:
            found = count_records(self.system.bootstrap, self.app, ["counted-out"])["counted-out"]
            return self.count("counted-changelog") >= count and found >= count

        self.until(f"the effects of {count} events to be in the log", written, timeout_s)

    def ran(self) -> dict[int, list[int]]:
        """By partition, which events have an output, in the order of these."""
        found: dict[int, list[int]] = {0: [], 1: []}
        for record in read_topics(self.system.bootstrap, self.topic("counted-out")).get("", ()):
            if source := record.header("src"):  # a marker has none
                _, _, partition, offset = source.split("|")
                found[int(partition)].append(int(offset))
        return found

    @property
    def committed(self) -> int:
        """The positions of both partitions together."""
        found = self.observer.call(self.observer.admin.committed(self.app))
        return sum(offset for offset, _ in found.values())

    def await_left(self, *processes: int, timeout_s: float = 60.0) -> None:
        views = self.observer.state.processes
        self.until("all to have left", lambda: all(views[it].left is not None for it in processes), timeout_s)

    def await_empty_group(self) -> None:
        """A worker that was killed is a member of its group until its session is over: so long nobody knows better."""
        members = self.observer.admin.group_members
        self.until("its group to be empty", lambda: not self.observer.call(members(self.app)), 30)

    def bury(self, *dead: int) -> None:
        """A snapshot in vain: these processes are waited for, and after that they are not waited for again."""
        self.take("with a corpse", ttl_ms=500)
        self.await_left(*dead, timeout_s=20)

    def capture(self, name: str) -> Captured:
        view = self.take(name, ttl_ms=10_000)
        assert view.failure is None, view.failure
        return self.observer.state.captured(view.epoch)

    def cuts(self, captured: Captured) -> dict[int, InputCut]:
        """Of the inputs of this app, by partition."""
        return {cut.partition: cut for cut in captured.inputs if cut.app == self.app}

    def verdict(self, captured: Captured) -> tuple[Verdict, dict[str, int]]:
        """What the log says of a snapshot."""
        log = read_log(self.observer)
        verdict, counts = verdict_of(self.observer.state, log, captured.epoch)
        return verdict, dict(counts)

    def judge_replays(self, captured: Captured, effects: dict[int, int]) -> None:
        """V5 names every effect of an event that will run again, and none but events that ran again since."""
        verdict, counts = self.verdict(captured)
        named = sum(effects[cut.partition] - cut.position for cut in captured.inputs)
        assert (verdict, counts.pop("replayed")) == (Verdict.VERIFIED_WITH_REPLAYS, named)
        assert counts.keys() <= {"ran-twice"}


@contextlib.contextmanager
def counting(
    kafka: Broker, namespace: str, folder: Path, env: Mapping[str, str] = MappingProxyType({})
) -> Iterator[Counting]:
    """The app without workers; those that are started end with the block."""
    create_topics(kafka.bootstrap, f"{namespace}-in-counted", partitions=2)
    with live(kafka, namespace, folder, topics=["counted-out"], tables=["counted"]) as run:
        yield Counting(run, env)
