"""A marker is no event: it must not make Faust commit what still waits before it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.driver.live import live

from .harness import count_records, produce

pytestmark = pytest.mark.timeout(200)

WAITING = 6


def test_no_position_is_committed_past_what_waits_before_a_marker(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Messages wait in the queue of a slow agent, a marker lies behind them, and commits go on: a crash would lose
    whatever was committed and not done."""
    app = f"{namespace}-app"
    create_topics(kafka.bootstrap, f"{namespace}-in-going", partitions=2)
    with live(kafka, namespace, tmp_path, topics=("mid", "out"), tables=(), app=app) as run:
        mid = TopicPartition(run.topic("mid"), 0)

        def committed() -> int:
            found: int = run.observer.call(run.observer.admin.committed(app)).get(mid, (0, ""))[0]
            return found

        run.start("tests.features.apps.queueing", FEATURES_ID=app, FEATURES_INPUT=f"{namespace}-in")
        run.await_workers()
        produce(kafka.bootstrap, f"{namespace}-in-going", [(f"k{n}", b"{}", None) for n in range(WAITING)])
        run.until("all messages to wait for the slow agent", lambda: run.count("mid") == WAITING)
        assert run.take("behind").failure is None
        ends = run.observer.call(run.observer.admin.log_ends([mid]))
        assert ends[mid] == WAITING + 1, "no marker lies behind them"
        seen, deadline = 0, time.monotonic() + 60
        while seen < WAITING:
            assert time.monotonic() < deadline, f"only {seen} of {WAITING} messages were done"
            at = committed()
            seen = count_records(kafka.bootstrap, app, ["out"])["out"]
            assert at <= seen + (seen == WAITING), f"{at} committed, and {seen} done"
        run.until("the position to pass the messages", lambda: committed() >= WAITING)


def test_an_app_recovers_its_table_whose_changelog_another_one_reads(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """A marker went to the end of the changelog, as it is an input; nothing at its offset is for the table, so its app
    waited for ever in its next recovery."""
    table_app, reader, source = f"{namespace}-app", f"{namespace}-reader", f"{namespace}-in"
    create_topics(kafka.bootstrap, f"{source}-going", f"{reader}-out", partitions=2)
    with live(kafka, namespace, tmp_path, topics=["out"], tables=["counted"], app=table_app) as run:

        def done(app: str, count: int) -> None:
            run.until(
                f"{app} to have worked off {count} records",
                lambda: count_records(kafka.bootstrap, app, ["out"])["out"] == count,
            )

        counts = {"FEATURES_ID": table_app, "FEATURES_INPUT": source}
        worker = run.start("tests.features.apps.counting", **counts)
        run.start("tests.features.apps.auditing", FEATURES_ID=reader, FEATURES_INPUT=table_app)
        run.await_workers()
        produce(kafka.bootstrap, f"{source}-going", [(f"k{n}", b"{}", None) for n in range(WAITING)])
        done(table_app, WAITING)
        done(reader, WAITING)
        view = run.take("both")
        assert view.failure is None
        assert f"{source}-going" in view.trigger.marker_topics, "no markers at all: nothing is shown"
        run.system.interrupt(worker)
        run.start("tests.features.apps.counting", **counts)
        produce(kafka.bootstrap, f"{source}-going", [("more", b"{}", None)])
        done(table_app, WAITING + 1)
        assert run.count("counted-changelog") == WAITING + 1
