"""R11: a process that runs no agents, on a real broker: it joins as a sender without inputs, closes, and leaves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faust
import pytest

import snapkafka
from snapkafka.protocol import Trigger
from snapkafka.testing import create_topics
from tests.kafka.waiting import until

if TYPE_CHECKING:
    from snapkafka.testing import Broker


def decided(machine: Any, name: str) -> Callable[[], Awaitable[bool]]:
    async def is_decided() -> bool:
        epoch = machine.ledger.by_id.get((name, 1))
        return epoch is not None and not machine.ledger.snapshots[epoch].open

    return is_decided


@pytest.mark.parametrize("kind", ["client", "producer"])
async def test_411_a_client_joins_as_a_sender_and_closes_at_once(
    kafka: Broker, namespace: str, tmp_path: Path, kind: str
) -> None:
    """`app.start_client()`, as in a web service, and an app that only produces."""
    create_topics(kafka.bootstrap, f"{namespace}-out")
    app: Any = faust.App(
        f"{namespace}-app",
        broker=f"kafka://{kafka.bootstrap}",
        store="memory://",
        web_enabled=False,
        reply_create_topic=True,  # without, Faust has nothing to subscribe to
        datadir=str(tmp_path),
    )
    snapkafka.install(app, namespace=namespace)
    out = app.topic(f"{namespace}-out", value_type=bytes)
    if kind == "client":
        await app.start_client()
    else:
        app.producer_only = True
        await app.start()
    try:
        machine = app.snapkafka.machine

        async def joined() -> bool:
            return machine.process is not None

        await until(joined)
        for n in range(2):
            await (await out.send(key=b"k", value=b"v"))
            app.snapkafka.append(Trigger(n=1_000 + n, id=f"s{n}", ttl_ms=6_000))
            await until(decided(machine, f"s{n}"))
            view = machine.ledger.snapshots[machine.ledger.by_id[f"s{n}", 1]]
            assert view.failure is None, view.failure
            (closed,) = [closed for _, closed in view.closed.values()]
            assert closed.process == machine.process
            assert [(sent.topic, sent.last_seq) for sent in closed.sent] == [(f"{namespace}-out", n)]
        assert machine.ledger.app_of(machine.process) == f"{namespace}-app:client"
    finally:
        await app.stop()
