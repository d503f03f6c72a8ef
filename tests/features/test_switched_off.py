"""R15: what changes for a worker that takes part already: snapshots are paused, or the ledger takes nothing more. The
app does what it does without us, and nothing has to be restarted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.errors import TriggerRefusedError
from snapkafka.kafka import SETTINGS, Connection, topic_name
from snapkafka.testing import Broker, wait_until
from tests.altering import alter_settings

from .harness import Pair, quick_and_slow
from .judging import Judge, Row
from .test_outage import ask, begin_slow, decided

pytestmark = pytest.mark.timeout(300)

ROW = Row("quick", ("quick",), ("quick-out",), tables=("quick",))
#: Events, and over how many seconds: longer than what happens meanwhile.
COUNT, LOAD_S = 600, 20.0
TTL_MS = 4_000


@contextmanager
def under_load(kafka: Broker, namespace: str, folder: Path) -> Iterator[Pair]:
    """A worker that has joined; afterwards both runs are compared, and the processes are those of before."""
    with quick_and_slow(
        kafka.bootstrap,
        namespace,
        folder,
        env={"FEATURES_HOLD": str(folder / "hold")},
    ) as pair:
        pair.snapshot()
        processes = set(pair.observer.state.processes)
        records = [(f"k{n % 7}", b"{}", None) for n in range(COUNT)]
        with ThreadPoolExecutor(1) as pool:
            load = pool.submit(lambda: pair.send({"quick": records}, seconds=LOAD_S))
            yield pair
            assert not load.done(), "nothing was sent during the last of it"
            load.result()
        pair.wait_for({"quick-out": COUNT})
        pair.finish()
        assert set(pair.observer.state.processes) == processes, "a worker has joined anew"
        judge = Judge(pair)
        judge.same(ROW)
        judge.same_errors()
        judge.consistent()


def test_r15_paused_and_resumed_without_a_restart(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """What is under way fails by that name, nothing is started meanwhile, and the next is captured."""
    here = Connection(bootstrap=kafka.bootstrap)
    with under_load(kafka, namespace, tmp_path) as pair:
        begin_slow(pair)
        under_way = ask(pair, "under way", ttl_ms=20_000)
        asyncio.run(ops.pause(here, namespace))
        failure = decided(pair, under_way).failure
        assert failure is not None
        assert failure.code == "paused"
        with pytest.raises(TriggerRefusedError, match="paused"):
            asyncio.run(ops.trigger(here, namespace))
        asyncio.run(ops.resume(here, namespace))
        pair.snapshot()


@pytest.mark.nightly
def test_r15_a_ledger_that_takes_nothing_more_from_a_worker_that_has_joined(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """As of a disk that is full from now on: the snapshot under way fails, and the next one after it is captured."""
    hold = tmp_path / "hold"
    with under_load(kafka, namespace, tmp_path) as pair:
        hold.touch()
        under_way = ask(pair, "under way", ttl_ms=TTL_MS)
        wait_until("the cut", hold.with_suffix(".held").exists, timeout_s=30, period_s=0.01)
        set_of_ledger(pair, {"max.message.bytes": "1"})
        hold.unlink()
        time.sleep(TTL_MS / 1_000 + 1)  # this is the fault
        assert pair.observer.state.snapshots[under_way].open, "somebody has written to it"
        set_of_ledger(pair, {"max.message.bytes": SETTINGS.get("max.message.bytes")})
        failure = decided(pair, under_way).failure
        assert failure is not None
        assert failure.code == "ttl"
        pair.snapshot()


def set_of_ledger(pair: Pair, changes: Mapping[str, str | None]) -> None:
    alter_settings(pair.bootstrap, topic_name(pair.namespace), changes)
