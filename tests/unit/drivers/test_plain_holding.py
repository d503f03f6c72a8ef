"""Inputs of plain loops that are held back (R16): paused and put back, and nothing of the loop's own is undone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as Partition

from snapkafka.clients import participant
from snapkafka.config import Config
from snapkafka.drivers import PlainDriver
from snapkafka.drivers.plain.confluent_loop import ConfluentParticipant
from snapkafka.drivers.plain.holding import HeldInputs
from snapkafka.drivers.plain.running_events import Events
from snapkafka.drivers.plain.settle import SendOutcomes
from snapkafka.drivers.plain.transactions import Transactions
from snapkafka.kafka import Connection
from snapkafka.protocol import Event, InputsRevoked, LogEnd, TopicPartition
from snapkafka.until import until
from tests.unit.drivers.test_plain import ORDERS, Driver, consumer
from tests.unit.drivers.test_plain_rebalances import ORDERS as AIO_ORDERS
from tests.unit.drivers.test_plain_rebalances import loop_of

OTHER = TopicPartition("orders", 1)


class Told(Driver):
    """A driver that notes what it was fed."""

    def __init__(self) -> None:
        self.fed: list[Event] = []
        super().__init__()

    def feed(self, event: Event) -> Any:
        self.fed.append(event)
        return super().feed(event)


def applied(held: HeldInputs) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """List the partitions that the client has to pause, and those to resume."""
    paused: list[TopicPartition] = []
    resumed: list[TopicPartition] = []
    held.apply(pause=paused.extend, resume=resumed.extend)
    return paused, resumed


def test_what_is_let_go_is_resumed_although_another_input_is_held_back_since() -> None:
    held = Driver().held
    held.hold(ORDERS, held.times)
    assert applied(held) == ([ORDERS], [])
    held.let_go()
    held.hold(OTHER, held.times)
    assert applied(held) == ([OTHER], [ORDERS])


def test_all_inputs_are_paused_once_and_resumed_when_they_are_let_go() -> None:
    driver = Told()
    held = driver.held
    assert not held and applied(held) == ([], [])
    held.hold_all()
    assert held.holds(ORDERS) and applied(held) == ([ORDERS], []) and applied(held) == ([], [])
    held.let_go()
    assert not held and applied(held) == ([], [ORDERS]) and applied(held) == ([], [])


def test_a_decision_from_before_everything_was_let_go_holds_nothing() -> None:
    """Nobody would let it go again: the record is asked about once more."""
    held = Driver().held
    times = held.times
    held.let_go()
    held.hold(ORDERS, times)
    assert not held
    held.hold(ORDERS, held.times)
    assert held.holds(ORDERS) and not held.holds(OTHER)


def test_what_the_loop_has_paused_itself_stays_paused() -> None:
    held = Driver().held
    held.paused_by_loop([ORDERS])
    held.hold(ORDERS, held.times)
    held.hold(OTHER, held.times)
    assert applied(held) == ([ORDERS, OTHER], [])
    held.let_go()
    assert applied(held) == ([], [OTHER])


def test_what_the_loop_resumes_meanwhile_goes_on_when_it_is_let_go() -> None:
    held = Driver().held
    held.paused_by_loop([ORDERS, OTHER])
    held.hold(ORDERS, held.times)
    applied(held)
    assert held.resumed_by_loop([ORDERS, OTHER]) == {ORDERS}
    held.let_go()
    assert applied(held) == ([], [ORDERS])


def test_who_stands_down_holds_nothing_back() -> None:
    """R15: the loop goes on."""
    driver = PlainDriver(Config(namespace="shop"), Connection(bootstrap="127.0.0.1:1"))
    driver.held.hold(ORDERS, driver.held.times)
    driver.stand_down("to think", RuntimeError("a bug of ours"))
    assert driver.absent and not driver.held


def held_loop(driver: Driver) -> ConfluentParticipant:
    part: ConfluentParticipant = participant(namespace="shop", consumer=consumer(), inputs=["orders"])
    part.host.held = driver.held
    return part


class Message:
    """A record as confluent-kafka returns it."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def topic(self) -> str:
        return ORDERS.topic

    def partition(self) -> int:
        return ORDERS.partition

    def offset(self) -> int:
        return self._offset

    def headers(self) -> None:
        return None

    key = value = headers


def test_a_record_that_was_fetched_already_is_put_back() -> None:
    driver = Driver()
    part = held_loop(driver)
    back: list[tuple[TopicPartition, int]] = []
    client: Any = SimpleNamespace(
        came=lambda tp, offset: None, put_back=lambda tp, offset: back.append((tp, offset))
    )
    driver.held.hold_all()
    assert not part._take_in(client, Message(3))
    assert back == [(ORDERS, 3)] and not part.events.run()
    driver.held.let_go()
    part.host.absent = "is disabled"
    assert part._take_in(client, Message(3)) and part.events.run()


def test_so_is_one_that_is_held_back_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's action comes in another thread."""
    driver = Driver()
    part = held_loop(driver)
    back: list[int] = []
    client: Any = SimpleNamespace(
        came=lambda tp, offset: None, put_back=lambda tp, offset: back.append(offset)
    )
    ask = part.incoming.ask

    def asked(*arguments: Any) -> Any:
        driver.held.hold_all()
        return ask(*arguments)

    monkeypatch.setattr(part.incoming, "ask", asked)
    assert not part._take_in(client, Message(3))
    assert back == [3] and not part.events.run()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_loop_of_aiokafka_gets_nothing_before_it_is_let_go(
    monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """And time that is spent so is no quiet time: the loop would end with messages left."""
    asked: list[tuple[str, Any]] = []
    async with loop_of(monkeypatch, []) as (part, source):
        monkeypatch.setattr(part, "_pause", lambda *tps: asked.append(("pause", tps)))
        monkeypatch.setattr(part, "_resume", lambda *tps: asked.append(("resume", tps)))

        async def getone() -> Any:
            await until(lambda: not asked or asked[-1][0] == "resume", 5, "the partition to be resumed")
            return await source.getone()

        monkeypatch.setattr(part, "_getone", getone)
        driver = Driver()
        part.host.held = driver.held
        await part.on_assigned([AIO_ORDERS])
        if waits:
            driver.held.hold_all()
        source.append()
        message = asyncio.ensure_future(anext(part.poll(quiet_s=0.2)))
        if waits:
            await until(lambda: len(asked) == 1, 2, "the pause")
            await asyncio.wait({message}, timeout=0.5)
            assert not message.done(), "it was put back"
            driver.held.let_go()
        assert (await asyncio.wait_for(message, 2)).offset == 0
    assert asked == [("pause", (AIO_ORDERS,)), ("resume", (AIO_ORDERS,))][: 2 if waits else 0]


async def test_a_loop_of_aiokafka_pauses_and_resumes_as_before() -> None:
    client = AIOKafkaConsumer(bootstrap_servers="127.0.0.1:1", group_id="billing", enable_auto_commit=False)
    client.assign([Partition(*ORDERS)])
    client._fetcher = SimpleNamespace(request_offset_reset=None)  # as once it has started
    part = participant(namespace="shop", consumer=client, inputs=["orders"])
    part._patch()
    client.pause(Partition(*ORDERS))
    assert client.paused() == {Partition(*ORDERS)}
    part.host.held.hold(ORDERS, part.host.held.times)
    part._hold_back()
    client.resume(Partition(*ORDERS))
    assert client.paused() == {Partition(*ORDERS)}, "it is held back"
    part.host.held.let_go()
    part._hold_back()
    assert client.paused() == set()
    part._patches.undo()


def with_transactions() -> tuple[Driver, Events, Transactions]:
    driver = Driver()
    events = Events(driver)
    outcomes = SendOutcomes(driver)
    return driver, events, Transactions(driver, events=events, outcomes=outcomes, fenced=lambda _: False)


@pytest.mark.parametrize("confirmed", [True, False])
def test_r16_inputs_are_revoked_while_the_events_of_an_aborted_transaction_run(
    monkeypatch: pytest.MonkeyPatch, confirmed: bool
) -> None:
    """The machine may cut at that moment: the cut fails when they end. They may run again."""
    driver, events, transactions = with_transactions()
    ran: list[bool] = []
    feed = driver.feed

    def noted(event: Event) -> Any:
        ran.append(bool(driver.machine.colours.running))
        return feed(event)

    transactions.began()
    events.hand_out(ORDERS, 0)
    events.end(events.claim(ORDERS, 0))
    transactions.failed(RuntimeError("the commit timed out"))
    monkeypatch.setattr(driver, "feed", noted)
    transactions.aborted(confirmed=confirmed)
    assert ran == [True] and not driver.machine.colours.running


def test_r10_what_an_earlier_transaction_has_committed_is_not_undone_by_an_abort(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The loop has committed the first one without its position: its event runs again, and has its effects twice."""
    driver, events, transactions = with_transactions()
    fed: list[Event] = []
    monkeypatch.setattr(driver, "feed", fed.append)
    transactions.began()
    events.hand_out(ORDERS, 4)
    events.end(events.claim(ORDERS, 4))
    transactions.committed()
    transactions.began()
    events.hand_out(ORDERS, 5)
    events.end(events.claim(ORDERS, 5))
    transactions.aborted()
    assert fed == [
        InputsRevoked(undone_from=(LogEnd(topic=ORDERS.topic, partition=ORDERS.partition, end=5),))
    ]
