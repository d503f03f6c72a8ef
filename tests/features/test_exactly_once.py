"""`processing_guarantee="exactly_once"`: transactions that stay open, and such as are lost; tables in RocksDB."""

from __future__ import annotations

import asyncio

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.testing import wait_until
from tests.observing import Place

from .compared import APPS
from .harness import Pair, count_records, produce, running

pytestmark = pytest.mark.timeout(300)

FEW = 20
EFFECTS = ("exact-mid", "exact-changelog")


def run_few(pair: Pair, *, committed: int) -> None:
    """Send some more, and wait until all effects are in the log; so many are committed, and transactions are open."""
    produce(pair.bootstrap, f"{pair.input}-exact", [(f"k{n}", b"{}", None) for n in range(FEW)])
    pair.wait_for(dict.fromkeys(EFFECTS, committed + FEW), "read_uncommitted")
    for side in pair.sides:
        counts = count_records(pair.bootstrap, side.id, EFFECTS, "read_committed")
        assert set(counts.values()) == {committed}, "committed already: the test shows nothing"


def fence(pair: Pair) -> None:
    """Take the transactional ids away, as a second worker does: open transactions are aborted."""

    async def take() -> None:
        for side in pair.sides:
            for partition in range(2):
                other = AIOKafkaProducer(
                    bootstrap_servers=pair.bootstrap, transactional_id=f"{side.id}-0-{partition}"
                )
                await other.start()
                await other.stop()

    asyncio.run(take())


def commit(pair: Pair) -> None:
    """Let both runs commit."""
    with (pair.ours.system.folder / "commit").open("a") as sign:
        sign.write(".")


def test_white_sends_count_when_they_are_committed(place: Place) -> None:
    """R7: `Report` after every open transaction is committed. Where they are aborted instead, since somebody else has
    taken the transactional ids, there is no `Report`, but an `Abort` that says so. Faust ends its worker then, with
    snapkafka or without."""
    (place.folder / "commit").touch()
    env = {"FEATURES_COMMIT": "600", "FEATURES_COMMIT_WHEN": str(place.folder / "commit")}
    with running(place, "tests.features.apps.transactional", **APPS["exactly-once"].topics, env=env) as pair:
        run_few(pair, committed=0)
        commit(pair)
        pair.wait_for(dict.fromkeys(EFFECTS, FEW))
        run_few(pair, committed=FEW)

        view = pair.observer.decided(pair.observer.ask("never committed", ttl_ms=2_000))
        assert view.failure is not None, "captured, and what it says was sent may yet be aborted"
        assert view.failure.code == "ttl"

        epoch = pair.observer.ask("committed late", ttl_ms=40_000)
        commit(pair)
        view = pair.observer.decided(epoch)
        assert view.failure is None, view.failure

        pair.wait_for(dict.fromkeys(EFFECTS, 2 * FEW))
        run_few(pair, committed=2 * FEW)
        epoch = pair.observer.ask("fenced", ttl_ms=40_000)
        fence(pair)
        commit(pair)
        view = pair.observer.decided(epoch)
        assert view.failure is not None
        assert view.failure.code == "send-failed"
        assert "ProducerFenced" in view.failure.reason
        workers = [worker for side in pair.sides for worker in side.system.workers]
        wait_until("both workers to end", lambda: all(w.status == 1 for w in workers), timeout_s=60)
        for side in pair.sides:
            found = count_records(pair.bootstrap, side.id, [*EFFECTS, "exact-out"], "read_committed")
            # What an app sends to topics that it does not read goes outside transactions.
            assert found == {"exact-mid": 2 * FEW, "exact-changelog": 2 * FEW, "exact-out": 3 * FEW}
