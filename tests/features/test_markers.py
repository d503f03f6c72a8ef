"""A marker is no event: it must not make Faust commit what still waits before it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from snapkafka.demo.observer import observing
from snapkafka.demo.system import System, wait_until
from snapkafka.protocol.records import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.driver.test_install import take

from .harness import count_records, produce

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(200)]

WAITING = 6


def test_no_position_is_committed_past_what_waits_before_a_marker(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Messages wait in the queue of a slow agent, a marker lies behind them, and commits go on: a crash would lose
    whatever was committed and not done."""
    app, source = f"{namespace}-app", f"{namespace}-in"
    create_topics(kafka.bootstrap, f"{source}-going", f"{app}-mid", f"{app}-out", partitions=2)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    mid = TopicPartition(f"{app}-mid", 0)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"FEATURES_ID": app, "FEATURES_INPUT": source}
            system.start_worker(app, env, module="tests.features.apps.queueing")
            observer.wait_for_workers(system)
            produce(kafka.bootstrap, f"{source}-going", [(f"k{n}", b"{}", None) for n in range(WAITING)])
            wait_until(
                "all messages to wait for the slow agent",
                lambda: observer.call(observer.admin.log_ends([mid]))[mid] == WAITING,
                timeout_s=30,
                system=system,
            )
            failure = observer.state.snapshots[take(observer, "behind")].failure
            assert failure is None
            assert observer.call(observer.admin.log_ends([mid]))[mid] == WAITING + 1, (
                "no marker lies behind them"
            )
            seen, deadline = 0, time.monotonic() + 60
            while seen < WAITING:
                assert time.monotonic() < deadline, f"only {seen} of {WAITING} messages were done"
                committed = observer.call(observer.admin.committed(app)).get(mid, (0, ""))[0]
                seen = count_records(kafka.bootstrap, app, ["out"])["out"]
                assert committed <= seen + (seen == WAITING), f"{committed} committed, and {seen} done"
            wait_until(
                "the position to pass the messages",
                lambda: observer.call(observer.admin.committed(app)).get(mid, (0, ""))[0] >= WAITING,
                timeout_s=20,
                system=system,
            )
    finally:
        system.stop()
