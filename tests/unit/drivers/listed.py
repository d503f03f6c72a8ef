"""A process whose ledger is a list."""

from __future__ import annotations

from typing import Any, TypeVar

from snapkafka.drivers.process import Process
from snapkafka.protocol import Hello, InputTopic, TopicPartition
from snapkafka.protocol.events import AssignedInput, InputsAssigned, LedgerRead
from snapkafka.protocol.records import LedgerRecord, Trigger

T = TypeVar("T")


class Listed(Process):
    """Comes before the class of a driver. It joins by `joins`; time does not pass."""

    written: list[LedgerRecord]

    def joins(self, app: str, tp: TopicPartition | None = None, agent: str = "") -> None:
        """Join; with an input from its start on, if one is given."""
        self.written = []
        inputs = () if tp is None else (InputTopic(topic=tp.topic, partitions=1),)
        self.say_hello(Hello(n=1, app=app, inputs=inputs))
        if tp is not None:
            self.assign(tp, agent)

    def assign(self, tp: TopicPartition, agent: str) -> None:
        given = AssignedInput(tp=tp, agents=(agent,), position=0)
        self.feed(InputsAssigned(generation=1, inputs=(given,), changelogs=()))

    def write(self, record: LedgerRecord) -> None:
        self.written.append(record)
        self.feed(LedgerRead(offset=len(self.written) - 1, record=record))

    def found(self, kind: type[T]) -> list[T]:
        """List the records of a kind."""
        return [record for record in self.written if isinstance(record, kind)]

    def start_timer(self, action: Any) -> None:
        """Time does not pass."""

    def snapshot(self, name: str = "now", **more: Any) -> int:
        """Trigger a snapshot; return its epoch."""
        epoch = len(self.written) + 1
        self.write(Trigger(n=epoch + 100, id=name, **more))
        return epoch
