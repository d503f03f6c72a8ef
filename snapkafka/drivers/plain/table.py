"""A key-value table of a loop, with a changelog of its own: what a snapshot holds of the loop's state.

Keys and values are JSON. Each change is a record of the changelog, in the partition of the event that makes it, sent
by the loop's own producer. Whoever is assigned a partition reads its changelog first, to the end. Its records are taken
in like any other (R2), and show up to which offset the inputs have had effects (R10).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.read import records_to_end
from snapkafka.protocol import ChangelogEnd, RecordMet, TopicPartition
from snapkafka.wire import headers as wire

from ..process import Process
from .running_events import Events, Run


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
        self._host: Process | None = None
        self._events: Events
        self._send: Callable[[int, bytes, bytes | None], None]

    def bind(
        self, host: Process, group: str, *, events: Events, send: Callable[[int, bytes, bytes | None], None]
    ) -> None:
        """Make this the table of a loop, and of no other. `send`: appends a change to a partition of the changelog."""
        if self._host is not None and not self._host.absent:
            raise BadInputError(
                f"table {self.name} is in use", hint="give each participant a table of its own"
            )
        self._host, self._events, self._send = host, events, send
        self.changelog = f"{group}-{self.name}-changelog"

    def __getitem__(self, key: Any) -> Any:
        raw = encoded(key)
        found = self._read(raw)
        if found is not None:
            return json.loads(found)
        if self._default is None:
            raise KeyError(key)
        return self._default()

    def get(self, key: Any, default: Any = None) -> Any:
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
                host.do(host.machine.torn(host.machine.colours.touch_whole(cause, self.name)))
            found = [pair for data in self._data.values() for pair in data.items()]
        return ((json.loads(key), json.loads(value)) for key, value in found)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self.items())

    def _bound(self) -> Process:
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
                return self._of(run, key, write=False).get(key)
            return next((data[key] for data in self._data.values() if key in data), None)

    def _write(self, key: bytes, value: bytes | None) -> None:
        host, run = self._bound(), self._events.here()
        if run is None:
            raise BadInputError(
                f"table {self.name} was written outside of an event",
                hint="write it in `with part.event(message)`: a write goes to the partition of its message",
            )
        with host.lock:
            data = self._of(run, key, write=True)
            self._send(run.cause.tp.partition, key, value)
            if value is None:
                data.pop(key, None)
            else:
                data[key] = value

    def _of(self, run: Run, key: bytes, *, write: bool) -> dict[bytes, bytes]:
        """Return the partition of an event, which touches a key there (R6), unless it was revoked meanwhile."""
        host, partition = self._bound(), run.cause.tp.partition
        if not run.current or partition not in self._data:
            raise BadInputError(
                f"partition {partition} of table {self.name} is not assigned to this event: inputs were revoked",
                hint="the group was rebalanced meanwhile: that message is processed again",
            )
        if host.machine.colours.tearing and not host.absent:
            host.do(host.machine.torn(host.machine.colours.touch(run.cause, self.name, key, write=write)))
        return self._data[partition]

    def replace(self, data: dict[int, dict[bytes, bytes]]) -> None:
        """Hold these partitions and no others: their changelogs were read."""
        host = self._bound()
        with host.lock:
            self._data = data
            if host.machine.colours.tearing and not host.absent:
                host.do(host.machine.torn(host.machine.colours.rewritten(self.name)))


@dataclass(slots=True)
class Recovered:
    """The content of changelog partitions, and their ends. `effects`: one past the last event of an input that had
    effects there, by the marks of its topic and partition."""

    data: dict[int, dict[bytes, bytes]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)
    effects: dict[tuple[int, int], int] = field(default_factory=dict)

    def changelogs(self, table: Table) -> tuple[ChangelogEnd, ...]:
        """Return the ends, as the machine is fed them."""
        return tuple(
            ChangelogEnd(table=table.name, topic=table.changelog, partition=partition, end=end)
            for partition, end in sorted(self.ends.items())
        )

    def effects_until(self, tp: TopicPartition) -> int:
        """Return one past the last event of an input that had effects; 0: none had."""
        return self.effects.get((wire.topic_check(tp.topic), tp.partition), 0)


async def recover(host: Any, connection: Connection, table: Table, partitions: Collection[int]) -> Recovered:
    """Read these partitions of a changelog to their ends; records of aborted transactions are none."""
    tps = [TopicPartition(table.changelog, partition) for partition in partitions]
    ends: Mapping[Any, int] = await host.admin.log_ends(tps) if tps else {}  # there may be more members
    found = Recovered({partition: {} for partition in partitions}, {tp.partition: ends[tp] for tp in tps})
    async for tp, record in records_to_end(connection, dict.fromkeys(tps, 0), committed=ends):
        if await _counts(host, tp, record, found):
            if record.value is None:
                found.data[tp.partition].pop(record.key, None)
            else:
                found.data[tp.partition][record.key] = record.value
    return found


async def _counts(host: Process, tp: TopicPartition, record: Any, found: Recovered) -> bool:
    """Return whether a record is a change of the table; note what it is an effect of."""
    if record.value is None and wire.is_marker(record.key, record.headers):
        return False
    header = None if host.absent else wire.find(record.headers)
    stamp = None if header is None else wire.read(header, host.ledger_id, wire.tp_check(*tp))
    if stamp is None:
        return True
    ledger = host.machine.ledger
    if ledger.is_void(stamp.process, tp, record.offset):
        return False
    if stamp.epoch > host.machine.colours.epoch:
        await host.follower.meet(RecordMet(epoch=stamp.epoch))
    base = ledger.restores.bases.get(tp)
    now = base is None or (record.offset >= base.end and stamp.process > base.author)
    if stamp.cause is not None and now:
        topic, partition, offset = stamp.cause
        found.effects[topic, partition] = max(offset + 1, found.effects.get((topic, partition), 0))
    return True
