"""What becomes of pains of plain Faust with snapkafka, by the thread they were told in
(docs/explanation/known-pains.md), on real workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.errors import TriggerRefusedError
from snapkafka.testing import Broker, create_topics
from tests.driver.live import live

pytestmark = pytest.mark.timeout(300)


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
