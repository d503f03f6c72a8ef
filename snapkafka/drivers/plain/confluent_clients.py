"""confluent-kafka's clients with the hooks that a participant needs: the same classes, which also know their settings.

Outside of a participant they do what confluent-kafka's own do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

import confluent_kafka

from snapkafka.errors import BadInputError

from .participant import READ_AROUND, READ_BY
from .transactions import Transactions

#: As librdkafka has it: the settings may come as a mapping, or as keywords.
Settings = Mapping[str, Any]
UNASSIGNED: Final = -1


class Sends(Protocol):
    """What a participant does with a record that is sent."""

    def produce(self, topic: str, record: dict[str, Any], headers: Any, notify: Any) -> None: ...


class Consumer(confluent_kafka.Consumer):
    """`confluent_kafka.Consumer`.

    Attributes:
        config: its settings.
        taken: a participant reads it.
    """

    def __init__(self, config: Settings, **more: Any) -> None:
        super().__init__(dict(config), **more)
        self.config = {**config, **more}
        self.taken = False

    def plainly(self, timeout_s: float) -> Any:
        """Read a record, as confluent-kafka does."""
        return super().poll(timeout_s)

    def poll(self, *arguments: Any, **more: Any) -> Any:
        """Read a record; outside of a participant only.

        Raises:
            BadInputError: a participant reads them.
        """
        self._require_free()
        return super().poll(*arguments, **more)

    def consume(self, *arguments: Any, **more: Any) -> Any:
        """Read some records; outside of a participant only.

        Raises:
            BadInputError: a participant reads them.
        """
        self._require_free()
        return super().consume(*arguments, **more)

    def _require_free(self) -> None:
        if self.taken:
            raise BadInputError(READ_AROUND, hint=READ_BY)


class Producer(confluent_kafka.Producer):
    """`confluent_kafka.Producer`; what it sends in a participant gets a stamp.

    Attributes:
        config: its settings.
    """

    def __init__(self, config: Settings, **more: Any) -> None:
        super().__init__(dict(config), **more)
        self.config = {**config, **more}
        self.sends: Sends | None = None
        self.transactions: Transactions | None = None

    def plainly(self, topic: str, **record: Any) -> None:
        """Send without a stamp, as confluent-kafka does."""
        super().produce(topic, **record)

    def produce(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int = UNASSIGNED,
        on_delivery: Any = None,
        timestamp: int = 0,
        headers: Any = None,
        *,
        callback: Any = None,
    ) -> None:
        """Send a record; see `confluent_kafka.Producer.produce`."""
        notify = on_delivery or callback
        record = {"value": value, "key": key, "partition": partition, "timestamp": timestamp}
        if self.sends is None:
            super().produce(topic, **record, on_delivery=notify, headers=headers)
        else:
            self.sends.produce(topic, record, headers, notify)

    def produce_batch(self, *arguments: Any, **more: Any) -> Any:
        """Send a batch; outside of a participant only.

        Raises:
            BadInputError: in a participant, as its records get no stamps.
        """
        if self.sends is not None:
            raise BadInputError(
                "produce_batch is not supported in a participant", hint="call produce for each record"
            )
        return super().produce_batch(*arguments, **more)

    def begin_transaction(self) -> None:
        """Begin a transaction."""
        super().begin_transaction()
        if self.transactions is not None:
            self.transactions.began()

    def commit_transaction(self, *arguments: Any) -> None:
        """Commit the transaction: what was sent in it counts from now on.

        Raises:
            BadInputError: inputs were revoked in it.
        """
        if self.transactions is not None:
            self.transactions.require_kept()
        try:
            super().commit_transaction(*arguments)
        except BaseException as error:
            if self.transactions is not None:
                self.transactions.failed(error)
            raise
        if self.transactions is not None:
            self.transactions.committed()

    def abort_transaction(self, *arguments: Any) -> None:
        """Abort the transaction; in a participant, `rewind()` it afterwards."""
        confirmed = False
        try:
            super().abort_transaction(*arguments)
            confirmed = True
        finally:
            if self.transactions is not None:
                self.transactions.aborted(confirmed=confirmed)
