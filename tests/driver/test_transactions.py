"""R7 under `exactly_once`: sends count when their transaction is committed, on an aiokafka producer that is a fake."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError, ProducerFenced

from snapkafka.drivers.faust.outbound.transactions import Transactions
from snapkafka.drivers.outcomes import Unacknowledged

TID = "app-0-1"


class FakeProducer:
    """As aiokafka's: `error` is what its next step ends with."""

    error: BaseException | None = None
    steps: list[str]

    def __init__(self) -> None:
        self.steps = []

    async def _step(self, name: str) -> None:
        self.steps.append(name)
        if self.error is not None:
            raise self.error

    async def send_offsets_to_transaction(self, offsets: Any, group: str) -> None:
        await self._step(f"positions {offsets} of {group}")

    async def commit_transaction(self) -> None:
        await self._step("commit")

    async def abort_transaction(self) -> None:
        await self._step("abort")

    async def stop(self) -> None:
        await self._step("stop")


class FakeFaust:
    """As Faust's producer: makes one of aiokafka's per transactional id."""

    def _new_producer(self, transactional_id: str | None = None) -> FakeProducer:
        return FakeProducer()


class Sends:
    """Two sends in one transaction: acknowledged by the broker, and what became of each."""

    def __init__(self, *, of: str = TID) -> None:
        self.faust = FakeFaust()
        self.transactions = Transactions(self.faust)
        self.producer = self.faust._new_producer(transactional_id=of)
        self.settled: list[tuple[int, object]] = []
        self.futures = [self.send(n) for n in range(2)]

    def send(self, n: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.transactions.sent(TID, future, partial(self._settle, n))
        return future

    def _settle(self, n: int, outcome: asyncio.Future[Any] | Unacknowledged) -> None:
        self.settled.append((n, outcome if isinstance(outcome, Unacknowledged) else outcome.result()))

    def acked(self) -> None:
        for n, future in enumerate(self.futures):
            future.set_result(f"at {n}")

    async def reported(self) -> list[tuple[int, object]]:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return self.settled


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda p: p.abort_transaction(), "its transaction was aborted"),
        (lambda p: p.stop(), "its producer stopped and left the transaction open"),
    ],
)
async def test_r7_of_a_transaction_that_is_not_committed_every_send_has_failed(
    end: Callable[[Any], Awaitable[None]], why: str
) -> None:
    sends = Sends()
    sends.acked()
    await end(sends.producer)
    refused = Unacknowledged(why, refused=True, undone=True)
    assert await sends.reported() == [(0, refused), (1, refused)]


@pytest.mark.parametrize(
    "step", [lambda p: p.commit_transaction(), lambda p: p.send_offsets_to_transaction({}, "app")]
)
async def test_r7_of_a_commit_that_fails_too_and_faust_is_notified(
    step: Callable[[Any], Awaitable[None]],
) -> None:
    for error, refused in ((ProducerFenced("fenced"), True), (KafkaTimeoutError("late"), False)):
        sends = Sends()
        sends.acked()
        sends.producer.error = error
        with pytest.raises(type(error)):
            await step(sends.producer)
        failure = Unacknowledged(
            f"its transaction was not committed: {error!r}", refused=refused, undone=refused
        )
        assert await sends.reported() == [(0, failure), (1, failure)], "of a time-out nobody knows what came"


async def test_r7_a_send_that_fails_takes_its_transaction_with_it() -> None:
    """A producer that is fenced may never try to commit."""
    sends = Sends()
    sends.futures[0].set_exception(ProducerFenced())
    failure = Unacknowledged(
        f"its transaction was not committed: {ProducerFenced()!r}", refused=True, undone=True
    )
    assert await sends.reported() == [(0, failure), (1, failure)]
