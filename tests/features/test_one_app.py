"""What workers of one app show without a comparison: a marker behind what waits, and a changelog of a standby."""

from __future__ import annotations

import time

import pytest

from snapkafka.protocol import TopicPartition
from tests.driver.live import Live
from tests.observing import Place

from .harness import count_records, produce

pytestmark = pytest.mark.timeout(300)

APP = "tests.features.apps.relaying"
WAITING = 6


def test_no_position_is_committed_past_what_waits(place: Place) -> None:
    """Messages wait in the queue of a slow agent, a marker lies behind them, and commits go on: a crash would lose
    whatever was committed and not done."""
    with Live.running(place, topics=("in-going", "mid", "out"), tables=()) as run:
        mid = TopicPartition(run.topic("mid"), 0)
        run.start(APP, FEATURES_KIND="queueing")
        run.await_workers()
        produce(place.bootstrap, run.topic("in-going"), [(f"k{n}", b"{}", None) for n in range(WAITING)])
        run.until("all messages to wait for the slow agent", lambda: run.count("mid") == WAITING)
        assert run.take("behind").failure is None
        ends = run.observer.call(run.observer.admin.log_ends([mid]))
        assert ends[mid] == WAITING + 1, "no marker lies behind them"
        seen, deadline = 0, time.monotonic() + 60
        while seen < WAITING:
            assert time.monotonic() < deadline, f"only {seen} of {WAITING} messages were done"
            at = run.committed.get(mid, 0)
            seen = count_records(place.bootstrap, run.app, ["out"])["out"]
            assert at <= seen + (seen == WAITING), f"{at} committed, and {seen} done"
        run.until("the position to pass the messages", lambda: run.committed.get(mid, 0) >= WAITING)


def test_r2_a_red_standby_record_turns_its_reader_red(place: Place) -> None:
    """R2: turn red before taking in red, whoever reads it. The second worker hears by headers only, and gets no other
    record than those of the changelog that it is a standby of."""
    inputs = [f"in-{name}" for name in ("kept", "rates", "groups", "orders", "members")]
    with Live.running(place, topics=[*inputs, "kept-out"], tables=("kept", "groups")) as run:
        first = run.start("tests.features.apps.shared")
        second = run.start("tests.features.apps.shared", FEATURES_HEAR="headers")
        run.await_workers()
        views = {view.hello.pid: view for view in run.observer.state.living()}
        writes, stands_by = views[first.pid], views[second.pid]
        (read,) = (tp for tp in writes.inputs if tp.topic == run.topic("in-kept"))
        epoch = run.observer.ask("s", ttl_ms=30_000)
        snapshots = run.observer.state.snapshots
        run.until(
            "the first worker to have cut",
            lambda: epoch in snapshots and writes.process in snapshots[epoch].reports,
        )
        assert stands_by.process not in snapshots[epoch].reports, "it has heard of it otherwise"
        more = [(f"k{n}", b"{}", None) for n in range(10)]
        produce(place.bootstrap, read.topic, more, partition=read.partition)
        assert run.observer.decided(epoch).failure is None
        heard = {cut.process: cut.heard for cut in run.observer.state.captured(epoch).processes}
        assert heard == {writes.process: "ledger", stands_by.process: "header"}
