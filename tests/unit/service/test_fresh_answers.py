"""Answers hold what the ledger had when they were asked for."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from typing import Final

import pytest

from snapkafka.ports import Entry
from snapkafka.service import LedgerFollower
from snapkafka.until import until as until_holds
from tests.worlds.fakes import FakeCluster, FakeLedger
from tests.worlds.service_world import asked, served

#: The follower reads each record so much later than others do.
LATE_S: Final = 0.2
FOLLOWS: contextvars.ContextVar[bool] = contextvars.ContextVar("follows", default=False)


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the follower of the service lag behind its own writes, as a consumer on a busy machine does."""
    follow, read = LedgerFollower._follow, FakeLedger.read

    async def following(self: LedgerFollower) -> None:
        FOLLOWS.set(True)
        await follow(self)

    async def reading(self: FakeLedger, start: int = 0, *, until: int | None = None) -> AsyncIterator[Entry]:
        async for entry in read(self, start, until=until):
            if FOLLOWS.get() and until is None:
                await asyncio.sleep(LATE_S)
            yield entry

    monkeypatch.setattr(LedgerFollower, "_follow", following)
    monkeypatch.setattr(FakeLedger, "read", reading)


@pytest.mark.usefixtures("late")
def test_what_any_instance_has_written_is_in_every_answer_from_then_on(cluster: FakeCluster) -> None:
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
