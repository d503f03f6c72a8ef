"""A key-value table of a loop, with a changelog of its own: what a snapshot holds of the loop's state.

Keys and values are JSON. Each change is a record of the changelog, in the partition of the event that makes it, sent
by the loop's own producer. Whoever is assigned a partition reads its changelog first.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapkafka.errors import BadInputError
from snapkafka.protocol.colours import Cause, Effect
from snapkafka.protocol.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..sends import Sends
    from .driver import PlainDriver
    from .running_events import Events, Run

MISSING: Final = object()


def encoded(value: object) -> bytes:
    """Return a key or a value as it is in the changelog; equal keys have equal bytes."""
    return json.dumps(value, separators=(",", ":"), sort_keys=True, allow_nan=False).encode()


class Table:
    """A table of the partitions that are assigned to this process.

    Values are copies: a change counts once it is set. An event reads and writes the keys of its own partition, and
    changes belong in an event. Reads outside of events find the keys of all assigned partitions.

    Args:
        name: of the table; its changelog is `<group>-<name>-changelog`.
        default: makes the value of a key that is missing; None: `table[key]` raises `KeyError` there.
    """

    def __init__(self, name: str, default: Callable[[], Any] | None = None) -> None:
        self.name, self.changelog = name, ""
        self._default = default
        self._data: dict[int, dict[bytes, bytes]] = {}
        self._host: PlainDriver | None = None
        self._events: Events
        self._send: Callable[[int, bytes, bytes | None], None]
        self._before: Callable[[], None]

    def bind(
        self,
        host: PlainDriver,
        group: str,
        *,
        events: Events,
        send: Callable[[int, bytes, bytes | None], None],
        before: Callable[[], None],
    ) -> None:
        """Make this the table of a loop.

        Args:
            send: appends a change to a partition of the changelog, under the lock.
            before: called before a change, without the lock.

        Raises:
            BadInputError: it is the table of another one.
        """
        if self._host is not None and not self._host.absent:
            raise BadInputError(
                f"table {self.name} is in use", hint="give each participant a table of its own"
            )
        self._host, self._events, self._send, self._before = host, events, send, before
        self.changelog = f"{group}-{self.name}-changelog"

    # -- for the loop -------------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        raw = encoded(key)
        found = self._read(raw)
        if found is not None:
            return json.loads(found)
        if self._default is None:
            raise KeyError(key)
        return self._default()

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        found = self._read(encoded(key))
        return default if found is None else json.loads(found)

    def __contains__(self, key: Any) -> bool:
        return self._read(encoded(key)) is not None

    def __setitem__(self, key: Any, value: Any) -> None:
        self._write(encoded(key), encoded(value))

    def __delitem__(self, key: Any) -> None:
        raw = encoded(key)
        if self._read(raw) is None:
            raise KeyError(key)
        self._write(raw, None)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Return the keys and values of the assigned partitions, as they are now."""
        host = self._bound()
        with host.lock:
            if host.machine.colours.tearing and (cause := self._events.cause()) is not None:
                host.do(host.machine.table_read(cause, self.name))
            found = [pair for data in self._data.values() for pair in data.items()]
        return ((json.loads(key), json.loads(value)) for key, value in found)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    # -- in the partition of an event ---------------------------------------------------------------------------------

    def _bound(self) -> PlainDriver:
        if self._host is None:
            raise BadInputError(
                f"table {self.name} belongs to no participant",
                hint="snapkafka.clients.participant(state=table)",
            )
        return self._host

    def _read(self, key: bytes) -> bytes | None:
        host, run = self._bound(), self._events.here()
        with host.lock:
            if run is not None:
                data = self._of(run)
                self._touched(run.cause, key, write=False)
                return data.get(key)
            return next((data[key] for data in self._data.values() if key in data), None)

    def _write(self, key: bytes, value: bytes | None) -> None:
        host, run = self._bound(), self._events.here()
        if run is None:
            raise BadInputError(
                f"table {self.name} was written outside of an event",
                hint="write it in `with part.event(message)`: a write goes to the partition of its message",
            )
        self._before()
        with host.lock:
            data = self._of(run)
            self._touched(run.cause, key, write=True)
            self._send(run.cause.tp.partition, key, value)
            if value is None:
                data.pop(key, None)
            else:
                data[key] = value

    def _of(self, run: Run) -> dict[bytes, bytes]:
        """Return the partition of an event.

        Raises:
            BadInputError: it was revoked meanwhile.
        """
        partition = run.cause.tp.partition
        if not run.current or partition not in self._data:
            raise BadInputError(
                f"partition {partition} of table {self.name} is not assigned to this event: inputs were revoked",
                hint="the group was rebalanced meanwhile: that message is processed again",
            )
        return self._data[partition]

    def _touched(self, cause: Cause, key: bytes, *, write: bool) -> None:
        host = self._bound()
        if host.machine.colours.tearing and not host.absent:
            host.do(host.machine.table_touched(cause, self.name, key, write=write))

    # -- with the assignment ------------------------------------------------------------------------------------------

    def replace(self, data: dict[int, dict[bytes, bytes]]) -> None:
        """Hold these partitions and no others: their changelogs were read."""
        host = self._bound()
        with host.lock:
            self._data = data
            if host.machine.colours.tearing and not host.absent:
                host.do(host.machine.table_rewritten(self.name))


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the table that has its colour, and is not sent yet."""

    run: Run | None
    effect: Effect | None
    tp: TopicPartition
    key: bytes
    value: bytes | None


class Changes:
    """The changes by a loop with aiokafka, where sending may wait: the table changes at once, and they are sent when
    their event ends, in their order and colour.

    Args:
        producer: aiokafka's; it stamps.
    """

    def __init__(self, producer: Any, *, sends: Sends, events: Events) -> None:
        self._producer, self._sends, self._events = producer, sends, events
        self._waiting: deque[Change] = deque()
        self._sending = asyncio.Lock()

    def add(self, tp: TopicPartition, key: bytes, value: bytes | None) -> None:
        """Note a change, in the colour of the event that runs here."""
        self._waiting.append(Change(self._events.here(), self._sends.enter(), tp, key, value))

    def forget(self) -> None:
        """Withdraw the changes that wait: their partitions are revoked, and their changelogs another member's."""
        while self._waiting:
            change = self._waiting.popleft()
            if change.run is not None:
                change.run.withdrawn = True
            if change.effect is not None:
                self._sends.withdraw(change.effect)

    async def send(self) -> None:
        """Send all changes that wait. Errors of the client are its own.

        Raises:
            BadInputError: changes of the event that runs here were withdrawn.
        """
        run = self._events.here()
        if run is not None and run.withdrawn:
            raise BadInputError(
                "the inputs were revoked before the changes of this event were sent",
                hint="the group was rebalanced meanwhile: the message is processed again",
            )
        async with self._sending:
            while self._waiting:
                change = self._waiting.popleft()
                topic, partition = change.tp
                with self._sends.entered(change.effect):
                    await self._producer.send(topic, change.value, change.key, partition)
