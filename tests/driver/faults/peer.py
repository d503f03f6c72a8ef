"""A process of another app in the same namespace, without Faust: it shows what the ledger says, and is captured."""

from __future__ import annotations

import asyncio
import random
from contextvars import Context
from dataclasses import replace
from typing import Any, Final

from snapkafka.drivers import MachineDriver
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin, compose_trigger
from snapkafka.protocol import (
    AssignedInput,
    Hello,
    InputsAssigned,
    InputTopic,
    Joined,
    LedgerBegins,
    LedgerRead,
    LedgerRecord,
    LedgerState,
    SendMarkers,
    SnapshotView,
    StartTimer,
    TopicPartition,
    WorkerProtocol,
)

PEER: Final = "peer"


class Peer(MachineDriver):
    """Takes part from `start` on; `state` is what it has read."""

    def __init__(self, connection: Connection, namespace: str, topic: str) -> None:
        super().__init__(WorkerProtocol())
        self.state = LedgerState()
        self._tp = TopicPartition(topic, 0)
        self._ledger, self.admin = KafkaLedger(connection, namespace), KafkaTopicAdmin(connection)
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Join."""
        await self._ledger.open()
        self._spawn(self._read())
        source = InputTopic(topic=self._tp.topic, partitions=1)
        hello = Hello(n=random.getrandbits(63), app=PEER, host="here", inputs=(source,))
        self.feed(Joined(hello=hello))
        await self._ledger.append(hello)
        await self.until("the peer to join", lambda: self.machine.process is not None)
        given = AssignedInput(tp=self._tp, agents=("reader",), position=0, replay_until=0)
        self.feed(InputsAssigned(generation=1, member="", inputs=(given,), changelogs=()))
        await self.until("the peer to have its input", lambda: self.machine.inputs.ready)

    def hold_inputs(self) -> None:
        """Hold nothing back: no snapshot of its is aligned."""

    def let_go(self) -> None:
        """Let nothing go: nothing is held back."""

    async def trigger(self, name: str, *apps: str) -> SnapshotView:
        """Ask for a snapshot."""
        trigger = await compose_trigger(self.admin, self.state, snapshot_id=name, apps=apps, ttl_ms=60_000)
        every = self.state.input_topics() - self.state.changelogs()  # all of their readers know markers
        trigger = replace(trigger, marker_topics=tuple(sorted(every)))
        epoch = await self._ledger.append(trigger) + 1
        await self.until(f"snapshot {name} to be in the ledger", lambda: epoch in self.state.snapshots)
        return self.state.snapshots[epoch]

    async def until(self, what: str, holds: Any, within_s: float = 40.0) -> None:
        """Wait for something that the ledger, or the app, comes to show."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while not holds():
            if loop.time() > deadline:
                raise TimeoutError(f"waited {within_s:.0f} s for {what}")
            await asyncio.sleep(0.02)

    async def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ledger.close()
        await self.admin.close()

    def _spawn(self, work: Any) -> None:
        """A task of its own, in which no fault arises."""
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._tasks.add(task)

    async def _read(self) -> None:
        self.feed(LedgerBegins(start=0))
        async for entry in self._ledger.read(0):
            self.state.apply(entry.offset, entry.record)
            self.feed(LedgerRead(offset=entry.offset, record=entry.record))

    def append(self, record: LedgerRecord) -> None:
        """In the background."""
        self._spawn(self._ledger.append(record))

    def send_markers(self, action: SendMarkers) -> None:
        """It has sent nothing, so nobody waits for a marker of its own."""
        assert not action.tps

    def start_timer(self, action: StartTimer) -> None:
        """That of the worker is enough."""

    def append_hello(self, was: int) -> None:
        """Nobody takes it for dead."""
        raise AssertionError(was)
