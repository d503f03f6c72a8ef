"""R11 for real: the broker of the ledger loses what it had acknowledged last, and workers have read it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import Connection, topic_name
from snapkafka.protocol import LEDGER_CUT_SHORT, TailLost
from snapkafka.testing import wait_until
from tests.kafka.losing import lose_tail
from tests.observing import observing

from .harness import Pair, quick_and_slow
from .judging import Judge, Row
from .test_outage import RATE, Cluster, Feed, cluster, written

__all__ = ["cluster"]

pytestmark = pytest.mark.timeout(500)

WORKERS = 2
#: The broker starts, and workers notice within seconds.
NOTICED_S = 120.0


@pytest.fixture
def pair(cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    with quick_and_slow(
        cluster.main.bootstrap,
        cluster.namespace,
        tmp_path,
        workers=WORKERS,
    ) as both:
        yield both


def test_r11_a_ledger_that_has_lost_its_tail_is_refused_and_the_apps_run_on(
    cluster: Cluster, pair: Pair
) -> None:
    """Two workers have read a snapshot that the ledger has lost since. What they do is what they do without snapkafka,
    record by record; the snapshot before is still good, and there is none after it."""
    where = Connection(bootstrap=cluster.main.bootstrap)
    with contextlib.ExitStack() as until_the_end:
        with Feed(pair):
            wait_until(
                "both runs to be at work",
                lambda: all(written(pair, side) > 3 * RATE for side in pair.sides),
                timeout_s=60,
            )
            kept = pair.snapshot().epoch
            since = pair.observer.state.end
            lost = pair.snapshot().epoch
            assert lost > since

            cluster.other.kill()
            lose_tail(cluster.other, topic_name(cluster.namespace), since)
            cluster.other.start()
            pair.epochs[:] = [kept]
            observer = until_the_end.enter_context(observing(cluster.main.bootstrap, cluster.namespace))
            pair.observer = observer
            wait_until(
                "both workers to run without snapshots",
                lambda: sum(view.goes_on for view in observer.state.processes.values()) == WORKERS,
                timeout_s=NOTICED_S,
                system=pair.ours.system,
            )
            with pytest.raises(TriggerRefusedError) as refused:
                pair.snapshot()
            assert refused.value.facts["reason"] == LEDGER_CUT_SHORT
            pair.epochs[:] = [kept]
        said = [record for record in observer.records.values() if isinstance(record, TailLost)]
        assert {record.since for record in said} == {since}
        listed = {row.epoch: row for row in asyncio.run(ops.list_snapshots(where, cluster.namespace))}
        assert (lost in listed, listed[kept].contaminated) == (False, None)
        finish(pair)


def finish(pair: Pair) -> None:
    pair.wait_for({"quick-out": len(pair.sent["quick"])})
    pair.end()
    for worker in pair.ours.system.workers:
        log = worker.log.read_text(errors="replace")
        assert "has lost acknowledged records" in log
    judge = Judge(pair)
    judge.same(Row("lost", ("quick",), ("quick-out",), tables=("quick",)))
    judge.consistent()
