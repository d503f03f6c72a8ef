"""`processing_guarantee="exactly_once"`: transactions that stay open, and such as are lost; tables in RocksDB."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from snapkafka.testing import Broker, wait_until

from .compared import APPS
from .harness import Pair, Side, count_records, produce, read_topics, running
from .judging import Judge

pytestmark = pytest.mark.timeout(300)

FEW = 20
REBALANCED = "rebalanced"
EFFECTS = ("exact-mid", "exact-changelog")


class Signals:
    """Both runs commit when they are told to, and not before; they tell what their streams are handed."""

    def __init__(self, folder: Path) -> None:
        self.sign = folder / "commit"
        self.sign.touch()
        self.trace = folder / "trace"
        self.trace.mkdir()

    def commit(self) -> None:
        with self.sign.open("a") as sign:
            sign.write(".")


def _few(pair: Pair) -> None:
    produce(pair.bootstrap, f"{pair.input}-exact", [(f"k{n}", b"{}", None) for n in range(FEW)])


def _appended(pair: Pair, count: int) -> None:
    """Wait until so many effects are in the log, committed or not."""
    wait_until(
        "the effects to be in the log",
        lambda: all(
            found >= count
            for side in pair.sides
            for found in count_records(pair.bootstrap, side.id, EFFECTS).values()
        ),
        timeout_s=90,
    )


def _open(pair: Pair, *, appended: int, committed: int) -> None:
    """Wait until the effects of events are in the log; their transactions are open."""
    _appended(pair, appended)
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


@pytest.fixture
def signals(tmp_path: Path) -> Signals:
    return Signals(tmp_path)


@pytest.fixture
def pair(kafka: Broker, tmp_path: Path, signals: Signals) -> Iterator[Pair]:
    """Both runs, the effects of a few events committed, and those of a few more in open transactions."""
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path,
        "tests.features.apps.transactional",
        **APPS["exactly-once"].topics,
        env={
            "FEATURES_COMMIT": "600",
            "FEATURES_COMMIT_WHEN": str(signals.sign),
            "FEATURES_TRACE": str(signals.trace),
        },
    ) as pair:
        _few(pair)
        _open(pair, appended=FEW, committed=0)
        signals.commit()
        pair.wait_for(dict.fromkeys(EFFECTS, FEW))
        _few(pair)
        _open(pair, appended=2 * FEW, committed=FEW)
        yield pair


def test_white_sends_count_when_they_are_committed(pair: Pair, signals: Signals) -> None:
    """R7: `Report` after every open transaction is committed. Where they are aborted instead, since somebody else has
    taken the transactional ids, there is no `Report`, but an `Abort` that says so. Faust ends its worker then, with
    snapkafka or without."""
    view = pair.observer.decided(pair.observer.ask("never committed", ttl_ms=2_000))
    assert view.failure is not None, "captured, and what it says was sent may yet be aborted"
    assert view.failure.code == "ttl"

    epoch = pair.observer.ask("committed late", ttl_ms=40_000)
    signals.commit()
    view = pair.observer.decided(epoch)
    assert view.failure is None, view.failure

    pair.wait_for(dict.fromkeys(EFFECTS, 2 * FEW))
    _few(pair)
    _open(pair, appended=3 * FEW, committed=2 * FEW)
    epoch = pair.observer.ask("fenced", ttl_ms=40_000)
    fence(pair)
    signals.commit()
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


@pytest.mark.nightly
def test_a_transaction_that_a_rebalance_leaves_open_has_failed(pair: Pair, signals: Signals) -> None:
    """Faust forgets what it may commit before it gives partitions away (docs/reference/features.md): what is open then
    for those that another worker gets is aborted, and the events run again there. The snapshot under way fails by the
    rebalance; the next one does not wait for what was aborted, and what was sent twice is listed."""
    epoch = pair.observer.ask("taken away", ttl_ms=60_000)
    for side in pair.sides:
        pair.start(side)
    view = pair.observer.decided(epoch)
    assert view.failure is not None
    assert view.failure.code == "input-moved", "the rebalance itself is in the ledger first"
    pair.observer.wait_for_workers(pair.ours.system)
    _few(pair)  # Faust commits where something was read
    view = pair.observer.decided(epoch := pair.observer.ask("after", ttl_ms=60_000), meanwhile=signals.commit)
    assert view.failure is None, view.failure
    wait_until("both workers to run their inputs", lambda: not _idle(signals.trace, pair.ours), timeout_s=20)
    assert not _out_of_order(signals.trace, pair.ours), "inputs went on before they were sought"
    pair.epochs.append(epoch)
    pair.ours.records = read_topics(pair.bootstrap, f"{pair.ours.id}-", pair.isolation)
    assert {finding.kind for finding in Judge(pair).findings(epoch)} <= {"replayed"}


def _idle(trace: Path, side: Side) -> list[str]:
    """Workers that were handed nothing since their latest rebalance."""
    last = {worker.name: worker.read_text().splitlines()[-1:] for worker in trace.glob(f"{side.id}.*")}
    return [name for name, line in last.items() if not line or line[0].startswith(REBALANCED)]


def _out_of_order(trace: Path, side: Side) -> list[str]:
    """What a worker was handed after something later, or the same, with no rebalance between."""
    found = []
    for worker in trace.glob(f"{side.id}.*"):
        latest: dict[str, int] = {}
        for line in worker.read_text().splitlines():
            place, _, offset = line.rpartition(" ")
            if place.startswith(REBALANCED):
                latest.clear()
            elif int(offset) <= latest.get(place, -1):
                found.append(line)
            else:
                latest[place] = int(offset)
        assert latest, f"{worker.name}: nothing was handed out: the test shows nothing"
    return found
