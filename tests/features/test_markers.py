"""A marker is no event: it must not make Faust commit what still waits before it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from snapkafka.demo import System, observing, wait_until
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.driver.test_install import take

from .harness import count_records, produce

pytestmark = pytest.mark.timeout(200)

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


def test_an_app_recovers_its_table_whose_changelog_another_one_reads(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """A marker went to the end of the changelog, as it is an input; nothing at its offset is for the table, so its app
    waited for ever in its next recovery."""
    table_app, reader, source = f"{namespace}-app", f"{namespace}-reader", f"{namespace}-in"
    changelog = f"{table_app}-counted-changelog"
    create_topics(kafka.bootstrap, f"{source}-going", f"{table_app}-out", f"{reader}-out", partitions=2)
    create_topics(kafka.bootstrap, changelog, partitions=2, config={"cleanup.policy": "compact"})
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    env = {"FEATURES_ID": table_app, "FEATURES_INPUT": source}

    def done(app: str, count: int) -> None:
        wait_until(
            f"{app} to have worked off {count} records",
            lambda: count_records(kafka.bootstrap, app, ["out"])["out"] == count,
            timeout_s=40,
            system=system,
        )

    try:
        with observing(kafka.bootstrap, namespace) as observer:
            worker = system.start_worker(table_app, env, module="tests.features.apps.counting")
            reads = {"FEATURES_ID": reader, "FEATURES_INPUT": table_app}
            system.start_worker(reader, reads, module="tests.features.apps.auditing")
            observer.wait_for_workers(system)
            produce(kafka.bootstrap, f"{source}-going", [(f"k{n}", b"{}", None) for n in range(WAITING)])
            done(table_app, WAITING)
            done(reader, WAITING)
            view = observer.state.snapshots[take(observer, "both")]
            assert view.failure is None
            assert f"{source}-going" in view.trigger.marker_topics, "no markers at all: nothing is shown"
            system.interrupt(worker)
            system.start_worker(table_app, env, module="tests.features.apps.counting")
            produce(kafka.bootstrap, f"{source}-going", [("more", b"{}", None)])
            done(table_app, WAITING + 1)
            tps = [TopicPartition(changelog, partition) for partition in range(2)]
            assert sum(observer.call(observer.admin.log_ends(tps)).values()) == WAITING + 1
    finally:
        system.stop()
