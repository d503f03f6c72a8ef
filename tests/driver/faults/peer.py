"""A process of another app in the same namespace, without Faust: it shows what the ledger says, and is captured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from aiokafka import AIOKafkaConsumer

from snapkafka.clients import participant
from snapkafka.kafka import compose_trigger
from snapkafka.protocol import SnapshotView
from snapkafka.until import until


class Peer:
    """A loop whose input stays empty; `state` is what it has read of the ledger."""

    def __init__(self, bootstrap: str, namespace: str, topic: str) -> None:
        self.app = topic
        more = {"enable_auto_commit": False, "auto_offset_reset": "earliest"}
        self._consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=topic, **more)
        self._loop: Any = participant(namespace=namespace, consumer=self._consumer, inputs=[topic])
        self.state = self._loop.host.machine.ledger

    async def start(self) -> None:
        """Join."""
        await self._consumer.start()
        await self._loop.__aenter__()
        await self.until("the peer to have its input", lambda: self._loop.host.machine.inputs.ready)

    async def trigger(self, name: str, *apps: str) -> SnapshotView:
        """Ask for a snapshot."""
        host, state = self._loop.host, self.state
        trigger = await compose_trigger(host.admin, state, snapshot_id=name, apps=apps, ttl_ms=60_000)
        every = state.input_topics() - state.changelogs()  # all of their readers know markers
        epoch = await host.ledger.append(replace(trigger, marker_topics=tuple(sorted(every)))) + 1
        await self.until(f"snapshot {name} to be in the ledger", lambda: epoch in state.snapshots)
        found: SnapshotView = state.snapshots[epoch]
        return found

    async def until(self, what: str, holds: Any, within_s: float = 40.0) -> None:
        """Wait for something that the ledger, or the app, comes to show."""
        await until(holds, within_s, what, every_s=0.02)

    async def stop(self) -> None:
        """End."""
        await self._loop.__aexit__()
        await self._consumer.stop()
