"""Answers in time: they hold what the ledger had when they were asked for, and no route waits for a slow storage on the
event loop, nor again for one that hangs."""

import asyncio
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from functools import partial, partialmethod
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import pytest
from starlette.testclient import TestClient

from snapkafka.kafka import LedgerRecreatedError
from snapkafka.ports import Entry
from snapkafka.protocol.offsets import LogEnd, Position
from snapkafka.protocol.records import Abort, Assigned, Bye, Report, Trigger, Verdict
from snapkafka.query.locate import stored
from snapkafka.service import ROUTES, LedgerFollower
from snapkafka.store import LocalFiles
from snapkafka.until import until as until_holds
from tests.worlds.fakes import FakeCluster, FakeLedger, Worker
from tests.worlds.service_world import asked, assembled, served, until

#: The follower reads each record so much later than others do, as a consumer on a busy machine does.
LATE_S: Final = 0.2


def test_what_any_instance_has_written_is_in_every_answer_from_then_on(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FakeLedger.read

    async def late(self: FakeLedger, start: int = 0, *, until: int | None = None) -> AsyncIterator[Entry]:
        async for entry in read(self, start, until=until):
            if until is None:
                await asyncio.sleep(LATE_S)
            yield entry

    monkeypatch.setattr(FakeLedger, "read", late)
    with served(cluster) as one, served(cluster) as two:
        for number in range(2):
            name = f"s{number}"
            triggered = one.post("/v1/snapshots/trigger", json=asked(snapshot_id=name))
            assert triggered.status_code == 202
            for client in (two, one):
                listed = client.get("/v1/snapshots")
                assert listed.json()["snapshots"][0]["snapshot_id"] == name
                assert listed.json()["total"] == number + 1
                assert "snapkafka-stale" not in listed.headers
                assert client.get(f"/v1/snapshots/{name}").status_code == 200


async def test_who_asks_for_the_end_shares_a_question_that_is_not_sent_yet(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, let, end = [0], asyncio.Event(), FakeLedger.end

    async def ends(self: FakeLedger) -> int:
        asked[0] += 1
        await let.wait()
        return await end(self)

    follower = LedgerFollower(cluster, "ns")
    async with follower.following():
        await until_holds(lambda: follower.followed, 20, "the first reading")
        monkeypatch.setattr(FakeLedger, "end", ends)
        waiting = [asyncio.ensure_future(follower.fresh())]
        await until_holds(lambda: asked == [1], 20, "the first question")
        waiting += [asyncio.ensure_future(follower.fresh()) for _ in range(9)]
        await asyncio.sleep(0)
        let.set()
        assert await asyncio.gather(*waiting) == [True] * 10
        assert asked == [2]


def test_whatever_changes_a_decided_snapshot_is_in_the_next_answer(cluster: FakeCluster) -> None:
    """A service that has described it says the same as one that has just read the ledger. A process that ran on unseen
    is nothing against `b` once the earlier `a`, captured later, shows where it stopped."""
    ledger, late = cluster.the_ledger, Worker(cluster.the_ledger, "tills", "sales", reports=False)
    for n in (1, 2):
        ledger.put(Bye(process=0, n=n, goes_on=n == 1, since=4))
    worker, ends = Worker(ledger, "shop", "orders"), (LogEnd(topic="orders", partition=0, end=10),)
    a = ledger.put(Trigger(n=3, id="a", ends=ends)) + 1
    b = ledger.put(Trigger(n=4, id="b", apps=("shop",))) + 1
    cut: Any = {"positions": (Position(agent="a", topic="sales", partition=0, offset=1),), "previous": 0}
    records: tuple[Any, ...] = (
        None,
        Report(process=late.process, n=5, epoch=b, heard="ledger", assigned=late.assigned, **cut),
        Verdict(n=6, epoch=a, verdict="VERIFIED"),
        *(Verdict(n=7, epoch=b, verdict=it) for it in ("VERIFIED", "CONTRADICTED", "UNVERIFIABLE")),
        Assigned(process=worker.process, n=9, generation=2, inputs=worker.tps),
        Abort(n=8, epoch=b, code="out-of-order", reason="seen late"),
    )
    paths, shown = [f"/v1/snapshots{of}" for of in ("", "/a", "/b")], []
    with served(cluster, clock=lambda: 2_000_000) as client:
        for record in records:
            ledger.put(record)
            shown.append([client.get(path).json() for path in paths])
            with served(cluster, clock=lambda: 2_000_000) as other:
                assert shown[-1] == [other.get(path).json() for path in paths], record
    assert all(before != after for before, after in pairwise(shown))
    latest = [[it["snapshot_id"] for it in listed["snapshots"] if it["latest_good"]] for listed, *_ in shown]
    assert latest == [[], [], ["a"], ["b"], *[["a"]] * 4]


def test_a_ledger_whose_end_is_unknown_is_named_and_its_answers_are_stale(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(cluster) as client:
        until(lambda: client.get("/readyz").status_code == 200, "the first reading")
        with monkeypatch.context() as changed:
            changed.setattr(FakeLedger, "end", AsyncMock(side_effect=LedgerRecreatedError("_snapkafka.ns")))
            assert client.get("/v1/snapshots").headers["snapkafka-stale"] == "true"
            for path in ("/readyz", "/v1/snapshots/none"):
                answer = client.get(path)
                assert (answer.status_code, "_snapkafka.ns was deleted" in answer.text) == (503, True), path
        assert client.get("/v1/snapshots/none").status_code == 404
        assert client.get("/readyz").status_code == 200


# -- a slow storage ---------------------------------------------------------------------------------------------

#: A storage in another town answers in this time.
STORAGE_S: Final = 0.04
#: No route takes longer, on a machine that other tests use as well; one look-up of 500 names took 20 s.
ANSWER_S: Final = 10.0
#: Routes beside those of the contract.
OTHERS: Final = {
    ("GET", f"/{it}") for it in ("", "page/main.js", "metrics", "healthz", "readyz", "openapi.json")
}
NAMES: Final = ", ".join(f'"s{number}".state' for number in range(500))
#: These read a manifest themselves, and not in a process of their own.
READS: Final = {"list", "show"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeCluster, Path]:
    """Two assembled snapshots."""
    cluster, folder = FakeCluster(), tmp_path_factory.mktemp("stored")
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(folder),)) as client:
        for name in ("one", "two"):
            assembled(cluster, client, folder, name)
    return cluster, folder


@pytest.mark.parametrize(("method", "path"), sorted({*ROUTES, *OTHERS}), ids=str)
def test_no_route_waits_for_the_storage_on_the_loop(
    world: tuple[FakeCluster, Path], method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []

    def slow(found: Callable[..., Any], *args: Any, **more: Any) -> Any:
        threads.append(threading.get_ident())
        time.sleep(STORAGE_S)
        return found(*args, **more)

    for name in ("read", "size", "list", "pieces"):
        monkeypatch.setattr(LocalFiles, name, partialmethod(partial(slow, getattr(LocalFiles, name))))
    name = ROUTES[method, path].name if (method, path) in ROUTES else ""
    sql = f"SELECT count(*) FROM {NAMES}"
    bodies = {"trigger": asked(target_storage_uri=str(world[1])), "query": {"sql": sql}}
    target = re.sub(r"\{\w+\}", "one", path) + ("?against=two" if name == "diff" else "")
    with served(world[0], (str(world[1]),), assemble=AsyncMock(), verify=AsyncMock()) as client:
        assert client.portal is not None
        began = time.monotonic()
        body = bodies.get(name, {}) if method == "POST" else None
        with client.stream(method, target, json=body) as answer:
            found = next(answer.iter_text())
        assert answer.status_code < 500, found
        assert time.monotonic() - began < ANSWER_S
        assert client.portal.call(threading.get_ident) not in threads
    assert threads or name not in READS, "the storage was not asked, so this shows nothing"
    if name == "query":
        assert "500 names before a dot, above 50" in found


def test_storage_that_hangs_delays_one_list_and_none_after_it(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = threading.Event()
    monkeypatch.setattr("snapkafka.service.views.STORAGE_S", 0.3)
    with served(cluster, (str(tmp_path),), clock=lambda: 10_000_000) as writes:
        for number in range(8):
            assembled(cluster, writes, tmp_path, f"s{number}")

    def late(place: str) -> Any:
        assert hangs.wait(60)
        return stored(place)

    def listed(client: TestClient) -> list[bool]:
        return [row["assembled"] for row in client.get("/v1/snapshots").json()["snapshots"]]

    monkeypatch.setattr("snapkafka.service.views.stored", late)
    try:
        with served(cluster, (str(tmp_path),), clock=lambda: 10_000_000) as client:
            took = []
            for _ in range(3):
                began = time.monotonic()
                assert listed(client) == [False] * 8
                took.append(time.monotonic() - began)
            assert 0.3 <= took[0] < 0.3 * 4, "all at once, not one after the other"
            assert max(took[1:]) < 0.3, "what does not answer is not waited for again"
            hangs.set()
            until(lambda: listed(client) == [True] * 8, "what has come at last")
    finally:
        hangs.set()
