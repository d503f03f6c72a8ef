"""Inputs of plain loops that are held back (R16): paused and put back, and nothing of the loop's own is undone."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.drivers import PlainDriver
from snapkafka.drivers.plain.holding import HeldInputs
from snapkafka.drivers.plain.running_events import Events
from snapkafka.drivers.plain.settle import SendOutcomes
from snapkafka.drivers.plain.transactions import Transactions
from snapkafka.kafka import Connection
from snapkafka.protocol import Event, InputsRevoked, LogEnd, TopicPartition
from tests.unit.drivers.test_plain import ORDERS, Driver

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
