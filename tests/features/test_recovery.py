"""R10: where a recovered changelog holds effects of events that will run again, the snapshot says up to where."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from snapkafka.checks import Verdict
from snapkafka.demo.observer import Observer, observing
from snapkafka.demo.system import System, wait_until
from snapkafka.kafka.triggering import compose_trigger
from snapkafka.protocol.captured import Captured
from snapkafka.protocol.completion import SnapshotView
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.chaos.judge import read_log, verdict_of

from .harness import count_records, produce

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

COUNT = 60
#: Before them, and committed: where nothing is, Faust may throw away what it fetched first (docs/features.md).
BEFORE = 20
#: Behind them, and never begun before the crash.
LATER = 14


@dataclass(frozen=True, slots=True)
class Keeps:
    """Where a worker keeps its table. `disk`: the next one begins with what the killed one left on its disk."""

    name: str
    store: str = "memory://"
    disk: bool = False

    def __str__(self) -> str:
        return self.name


KEEPS = [
    Keeps("memory"),
    Keeps("rocksdb-on-a-fresh-disk", "rocksdb://"),
    Keeps("rocksdb-on-the-same-disk", "rocksdb://", disk=True),
]


@pytest.mark.parametrize("keeps", KEEPS, ids=str)
def test_after_a_crash_the_snapshot_says_up_to_where_events_run_again(
    kafka: Broker, tmp_path: Path, keeps: Keeps
) -> None:
    """The worker is killed when table and outputs are in the log and no position is committed. What the next one
    recovers tells by its causes which events have had effects; the first cuts of the replay name them. What its disk
    holds Faust does not read again: then it may be anything that was in the input when it began."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    app, source = f"{namespace}-app", f"{namespace}-in"
    create_topics(kafka.bootstrap, f"{source}-counted", f"{app}-counted-out", partitions=2)
    create_topics(
        kafka.bootstrap, f"{app}-counted-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": app, "FEATURES_INPUT": source, "FEATURES_STORE": keeps.store}
    if keeps.disk:
        env["SNAPKAFKA_DEMO_DATA"] = str(tmp_path / "data")
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            module = "tests.features.apps.recovering"
            zeroth = system.start_worker(
                app, env | {"FEATURES_SLEEP": "0", "FEATURES_COMMIT": "0.5"}, module=module
            )
            observer.wait_for_workers(system)
            _produce(kafka, source, BEFORE)
            wait_until(
                "positions to be committed",
                lambda: _committed(observer, app) == BEFORE,
                timeout_s=60,
                system=system,
            )
            system.interrupt(zeroth)
            first = system.start_worker(app, env | {"FEATURES_SLEEP": "0"}, module=module)
            observer.wait_for_workers(system)
            assert _captured(observer, "before the crash").replays == 0, "a start with nothing to read"
            effects = _produce(kafka, source, COUNT)
            changelog = [TopicPartition(f"{app}-counted-changelog", partition) for partition in range(2)]
            wait_until(
                "all effects to be in the log",
                lambda: (
                    sum(observer.call(observer.admin.log_ends(changelog)).values()) >= BEFORE + COUNT
                    and count_records(kafka.bootstrap, app, ["counted-out"])["counted-out"] == BEFORE + COUNT
                ),
                timeout_s=60,
                system=system,
            )
            system.kill(first)
            assert _committed(observer, app) == BEFORE, "a position was committed: nothing is run again"
            ends = effects | _produce(kafka, source, LATER)
            dead = set(observer.state.processes)
            system.start_worker(app, env | {"FEATURES_SLEEP": "0.3"}, module=module)
            wait_until(
                "the second worker to get the inputs",
                lambda: any(len(v.inputs) == 2 for v in observer.state.living() if v.process not in dead),
                timeout_s=120,
                system=system,
            )
            _take(observer, "with a corpse", ttl_ms=500)
            wait_until(
                "the dead to be named",
                lambda: all(observer.state.processes[process].left is not None for process in dead),
                timeout_s=20,
                system=system,
            )
            captured = _captured(observer, "replaying")
            assert captured.replays == 2, "of both inputs"
            told = {cut.partition: cut.agents[0].replay_until for cut in captured.inputs}
            assert told == (ends if keeps.disk else effects)
            assert all(cut.position < effects[cut.partition] for cut in captured.inputs)
            _judge(observer, captured, effects)
            wait_until(
                "all events to have run again",
                lambda: (
                    count_records(kafka.bootstrap, app, ["counted-out"])["counted-out"]
                    >= BEFORE + 2 * COUNT + LATER
                ),
                timeout_s=90,
                system=system,
            )
            after = _captured(observer, "after the replay")
            assert {cut.partition: cut.position for cut in after.inputs} == ends
            assert after.replays == 0
    finally:
        system.stop()


def _judge(observer: Observer, captured: Captured, effects: dict[int, int]) -> None:
    """V5 names every effect of an event that runs again. Left out, as where the cleaner has taken them, it names none,
    and the verdict stays what it is."""
    log = observer.call(read_log(observer))
    named = sum(effects[cut.partition] - cut.position for cut in captured.inputs)
    assert verdict_of(observer.state, log, captured.epoch) == (
        Verdict.VERIFIED_WITH_REPLAYS,
        {"replayed": named},
    )
    for changelog in captured.changelogs:
        tp = TopicPartition(changelog.topic, changelog.partition)
        log.records[tp] = [record for record in log.records[tp] if record.process == changelog.process]
    assert verdict_of(observer.state, log, captured.epoch) == (Verdict.VERIFIED_WITH_REPLAYS, {})


def _produce(kafka: Broker, source: str, count: int) -> dict[int, int]:
    """Send so many records; where each partition ends now."""
    records = [(f"k{n % 7}", b"{}", None) for n in range(count)]
    return {n: offset + 1 for n, offset in sorted(produce(kafka.bootstrap, f"{source}-counted", records))}


def _committed(observer: Observer, app: str) -> int:
    return sum(offset for offset, _ in observer.call(observer.admin.committed(app)).values())


def _captured(observer: Observer, name: str) -> Captured:
    view = _take(observer, name)
    assert view.failure is None, view.failure
    return observer.state.captured(view.epoch)


def _take(observer: Observer, name: str, ttl_ms: int = 10_000) -> SnapshotView:
    """Trigger, and wait until it is decided."""
    work = compose_trigger(observer.admin, observer.state, snapshot_id=name, ttl_ms=ttl_ms)
    epoch = observer.call(observer.ledger.append(observer.call(work))) + 1
    snapshots = observer.state.snapshots
    wait_until(
        f"snapshot {name} to be decided",
        lambda: epoch in snapshots and not snapshots[epoch].open,
        timeout_s=30,
        period_s=0.02,
    )
    return snapshots[epoch]
