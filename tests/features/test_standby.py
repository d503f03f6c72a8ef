"""R2 where a standby reads: the row of standby tables is in `test_shared`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from snapkafka.testing import Broker, create_topics
from tests.driver.live import live

from .harness import produce

pytestmark = pytest.mark.timeout(300)


def test_r2_a_red_record_of_a_standby_changelog_turns_its_reader_red(kafka: Broker, tmp_path: Path) -> None:
    """R2: turn red before taking in red, whoever reads it. The second worker hears by headers only, and gets no other
    record than those of the changelog that it is a standby of."""
    namespace = f"t{uuid.uuid4().hex[:8]}"
    source = f"{namespace}-in"
    inputs = [f"{source}-{name}" for name in ("kept", "rates", "groups", "orders", "members")]
    create_topics(kafka.bootstrap, *inputs, partitions=2)
    with live(kafka, namespace, tmp_path, topics=["kept-out"], tables=("kept", "groups")) as run:
        env = {"FEATURES_ID": run.app, "FEATURES_INPUT": source}
        first = run.start("tests.features.apps.shared", **env)
        second = run.start("tests.features.apps.shared", **env, FEATURES_HEAR="headers")
        run.await_workers()
        views = {view.hello.pid: view for view in run.observer.state.living()}
        writes, stands_by = views[first.pid], views[second.pid]
        (read,) = (tp for tp in writes.inputs if tp.topic == inputs[0])
        epoch = run.observer.ask("s", ttl_ms=30_000)
        snapshots = run.observer.state.snapshots
        run.until(
            "the first worker to have cut",
            lambda: epoch in snapshots and writes.process in snapshots[epoch].reports,
        )
        assert stands_by.process not in snapshots[epoch].reports, "it has heard of it otherwise"
        produce(
            kafka.bootstrap, read.topic, [(f"k{n}", b"{}", None) for n in range(10)], partition=read.partition
        )
        assert run.observer.decided(epoch).failure is None
        heard = {cut.process: cut.heard for cut in run.observer.state.captured(epoch).processes}
        assert heard == {writes.process: "ledger", stands_by.process: "header"}
