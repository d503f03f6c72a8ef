"""What becomes of pains of plain Faust with snapkafka, by the thread they were told in
(docs/explanation/known-pains.md), on real workers."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from snapkafka.demo import Observer, wait_until
from snapkafka.errors import TriggerRefusedError
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker, create_topics
from tests.driver.live import live, take

from . import harness


@pytest.mark.timeout(200)
def test_604_a_snapshot_waits_for_an_event_that_was_never_acknowledged(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """Faust commits past it in both runs. With snapkafka it counts as running, so no snapshot takes it for done: they
    fail, and name the process. Whoever starts after that does not see it again."""
    with harness.running(
        kafka.bootstrap,
        namespace,
        tmp_path,
        "tests.features.apps.pains",
        inputs=["by-hand", "in-batches"],
        outputs=["by-hand-out", "in-batches-out"],
    ) as pair:
        values = ["raise", *["acknowledge"] * 5]
        pair.send({"by-hand": [("k", f'"{value}"'.encode(), None) for value in values]}, seconds=0.1)
        partition, _ = pair.sent["by-hand"][0]
        tp = TopicPartition(f"{pair.input}-by-hand", partition)
        for side in pair.sides:
            wait_until(
                f"{side.id} to commit past all of them",
                partial(has_committed, pair.observer, side.id, tp, len(values)),
                timeout_s=30,
                system=side.system,
            )
        failure = take(pair.observer, "held", ttl_ms=1000).failure
        assert failure is not None
        assert failure.code == "ttl"
        assert "to finish events that began before the cut" in failure.culprit

        for side in pair.sides:
            side.system.kill(side.system.workers[0])
            pair.start(side)
        pair.send({"by-hand": [("k", b'"acknowledge"', None)]}, seconds=0.1)
        pair.wait_for({"by-hand-out": len(values)})
        for side in pair.sides:
            assert "ValueError" not in side.system.workers[0].last_lines(200), "it has come again"


def has_committed(observer: Observer, group: str, tp: TopicPartition, position: int) -> bool:
    return observer.call(observer.admin.committed(group)).get(tp, (0, ""))[0] == position


@pytest.mark.timeout(200)
def test_93_a_worker_without_partitions_neither_holds_a_snapshot_up_nor_spoils_it(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    with live(kafka, namespace, tmp_path) as run:
        for _ in range(3):
            run.start()
        run.await_workers()
        view = run.take("with an idle one", ttl_ms=15_000)
        living = {view.process for view in run.observer.state.living()}
        (idle,) = (view.process for view in run.observer.state.living() if not view.inputs)
        assert view.failure is None
        captured = run.observer.state.captured(view.epoch)
        assert idle in {cut.process for cut in captured.processes}
        assert {source.receiver for source in captured.inputs} == living - {idle}


@pytest.mark.timeout(200)
def test_137_a_snapshot_is_refused_where_partition_counts_differ(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """A worker that has started like any other tells the ledger both counts."""
    with live(kafka, namespace, tmp_path, tables=()) as run:
        create_topics(kafka.bootstrap, run.topic("counts-changelog"), partitions=3)
        run.start()
        run.await_workers()
        with pytest.raises(TriggerRefusedError) as refused:
            run.take("refused", ttl_ms=15_000)
    assert run.topic("counts-changelog") in str(refused.value)
