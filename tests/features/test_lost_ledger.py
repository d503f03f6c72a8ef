"""R11 for real: the broker of the ledger loses what it had acknowledged last, and workers have read it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka import Connection, topic_name
from snapkafka.protocol import TailLost
from snapkafka.testing import settled, wait_until
from tests.kafka.losing import lose_tail
from tests.observing import observing

from .harness import Pair, quick_and_slow
from .judging import Judge, Row
from .test_outage import RATE, Cluster, Feed, cluster, written

__all__ = ["cluster"]

pytestmark = pytest.mark.timeout(500)

WORKERS = 2
#: The broker starts, workers notice within seconds, and each waits for its new identity.
JOINED_AGAIN_S = 120.0


@pytest.fixture
def pair(cluster: Cluster, tmp_path: Path) -> Iterator[Pair]:
    with quick_and_slow(
        cluster.main.bootstrap,
        cluster.namespace,
        tmp_path,
        workers=WORKERS,
    ) as both:
        yield both


def snapshot_again(pair: Pair) -> int:
    """Ask until one is captured: the first ones may meet workers that say that they were absent; its epoch."""
    deadline, name = time.monotonic() + JOINED_AGAIN_S, 0
    while True:
        try:
            pair.snapshot()
        except SnapkafkaError:
            if time.monotonic() > deadline:
                raise
            name += 1
            pair.epochs.append(-name)  # the next one has another id
        else:
            epoch = pair.epochs[-1]
            pair.epochs[:] = [kept for kept in pair.epochs if kept > 0]
            return epoch


def test_r11_workers_join_again_where_the_ledger_has_lost_its_tail_and_the_next_snapshot_is_good(
    cluster: Cluster, pair: Pair, tmp_path: Path
) -> None:
    """Two workers have read a snapshot that the ledger has lost since. Nobody restarts them. What they do is what they
    do without snapkafka, record by record; the snapshot before is still good, so is the next; and a number that was
    used is used by nobody."""
    where = Connection(bootstrap=cluster.main.bootstrap)
    with contextlib.ExitStack() as until_the_end:
        with Feed(pair):
            wait_until(
                "both runs to be at work",
                lambda: all(written(pair, side) > 3 * RATE for side in pair.sides),
                timeout_s=60,
            )
            kept = pair.snapshot().epoch
            read = pair.observer.state
            since = read.end
            lost = pair.snapshot().epoch
            assert lost > since
            old = {view.process for view in read.participants()}

            cluster.other.kill()
            lose_tail(cluster.other, topic_name(cluster.namespace), since)
            cluster.other.start()
            pair.epochs[:] = [kept]
            observer = until_the_end.enter_context(observing(cluster.main.bootstrap, cluster.namespace))
            pair.observer = observer
            wait_until(
                "both workers to join again",
                lambda: observer.state.tails.upto > 0 and settled(observer.state, WORKERS),
                timeout_s=JOINED_AGAIN_S,
                system=pair.ours.system,
            )
            after = snapshot_again(pair)
            pair.snapshot()
        said = [record for record in observer.records.values() if isinstance(record, TailLost)]
        assert {(record.since, record.void) for record in said} == {(since, process) for process in old}
        upto = max(record.upto for record in said)
        assert upto >= lost, "the number of the lost snapshot is a used one"
        now = {view.process for view in observer.state.participants()}
        assert len(now) == WORKERS
        assert min(now) >= upto
        assert after > upto
        listed = {row.epoch: row for row in asyncio.run(ops.list_snapshots(where, cluster.namespace))}
        assert lost not in listed
        assert (listed[kept].contaminated, listed[after].contaminated) == (None, None)
        finish(pair)
    (assembled,) = asyncio.run(
        ops.assemble(
            where,
            ops.JobSpec(
                namespace=cluster.namespace, snapshots=(str(after),), storage=str(tmp_path / "snapshots")
            ),
        )
    )
    assert assembled.verdict == "VERIFIED", [check for check in assembled.checks if check.status != "PASSED"]


def finish(pair: Pair) -> None:
    pair.wait_for({"quick-out": len(pair.sent["quick"])})
    pair.finish()
    for worker in pair.ours.system.workers:
        log = worker.log.read_text(errors="replace")
        assert log.count("has lost acknowledged records") == 1, "once, not every second"
        assert log.count("joining again as a new process") == 1
    judge = Judge(pair)
    judge.same(Row("lost", ("quick",), ("quick-out",), tables=("quick",)))
    judge.consistent()
