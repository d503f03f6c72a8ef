"""The parts of a plain loop around a driver that has joined; the queue of its producer is a list."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.config import Config
from snapkafka.drivers import Consumer, PlainDriver, Producer, Table
from snapkafka.drivers.plain.running_events import Events, Run
from snapkafka.drivers.sends import Sends, Transaction
from snapkafka.kafka import Connection
from snapkafka.protocol import TopicPartition
from tests.unit.drivers.listed import Listed

WHERE = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}
ORDERS = TopicPartition("orders", 0)
INVOICES = TopicPartition("invoices", 0)


def consumer(**more: Any) -> Consumer:
    return Consumer(WHERE | {"group.id": "billing", "enable.auto.commit": False} | more)


class Driver(Listed, PlainDriver):
    """A driver that has joined."""

    def __init__(self) -> None:
        super().__init__(Config(namespace="shop"), Connection(bootstrap="127.0.0.1:1"))
        self.joins("billing", ORDERS, "loop")


class Queue(Producer):
    """A producer whose queue is a list."""

    def __init__(self) -> None:
        super().__init__(WHERE)
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def plainly(self, topic: str, **record: Any) -> None:
        self.sent.append((topic, record))

    def acknowledge(self, first: int = 0) -> None:
        for offset, (_, record) in enumerate(self.sent[first:]):
            record["on_delivery"](None, SimpleNamespace(offset=lambda offset=offset: offset))


def message_at(offset: int) -> Any:
    return SimpleNamespace(**ORDERS._asdict(), offset=offset, key=b"ann", value=b"1", headers=())


class Loop:
    """A driver, and the parts of a loop with confluent-kafka."""

    def __init__(self) -> None:
        self.driver, self.queue = Driver(), Queue()
        self.events = Events(self.driver)
        self.sends = self.queue.sends = Sends(self.driver, self.events.cause)
        self.table, self.changes = Table("owed", default=int), list[Any]()
        self.table.bind(
            self.driver, "billing", events=self.events, send=lambda *change: self.changes.append(change)
        )
        self.table.replace({0: {}})

    @cached_property
    def transactions(self) -> Events:
        """Where there are any, events end with them."""
        self.events.sent, self.queue.events = Transaction(self.sends), self.events
        return self.events

    @property
    def colours(self) -> Any:
        return self.driver.machine.colours

    @property
    def invoices(self) -> Any:
        """What was sent to the topic."""
        return self.colours.sent[INVOICES]

    def claim(self, offset: int) -> Run:
        """Begin the event of a record."""
        self.events.hand_out(ORDERS, offset)
        return self.events.claim(message_at(offset))

    def inside(self, run: Run) -> AbstractContextManager[None]:
        return self.events.inside(run)

    def begin(self) -> None:
        with self.transactions.beginning():
            pass

    def commit(self, error: BaseException | None = None) -> None:
        """Commit the transaction, which may fail."""
        with nullcontext() if error is None else pytest.raises(type(error)), self.transactions.committing():
            if error is not None:
                raise error

    def abort(self) -> None:
        with self.transactions.aborting():
            pass

    def send(self, partition: int = 0, **record: Any) -> None:
        self.queue.produce(INVOICES.topic, partition=partition, **record)
