"""Clients that do their worst to `snapkafka serve` beside real workers: nothing is lost, and no process dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psutil
import pytest

from snapkafka.testing import Broker
from tests.driver.served import service, trigger
from tests.driver.test_operators import get, two_workers

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(280)]

#: Who attacks and who reads are two clients to the service.
ATTACKER, READER = "127.0.0.2", "127.0.0.1"
STREAMS = 10_000
TRIGGERS, TRIGGERS_AT_ONCE = 5_000, 32
AT_ONCE: Final = 250
#: An honest reader asks so often, and waits so long for an answer.
PERIOD_S, PATIENCE_S = 0.05, 20.0

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Storm:
    """The service at `port` of this machine; what an honest reader has met meanwhile, by phase."""

    port: int
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    met: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def connect(self, source: str = ATTACKER) -> Connection:
        async with self.gate:
            return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))

    async def ask(self, request: bytes, source: str = ATTACKER) -> str:
        """Send a request on a connection of its own; the status of the answer, or `cut off`."""
        reader, writer = await self.connect(source)
        try:
            return await self.status(reader, writer, request)
        finally:
            writer.close()

    async def status(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> str:
        with contextlib.suppress(OSError):
            writer.write(request)
            line = await reader.readline()
            return line.split()[1].decode() if line else "cut off"
        return "cut off"

    @contextlib.asynccontextmanager
    async def phase(self, name: str) -> AsyncIterator[Counter[str]]:
        """Answers to the attacker are counted; an honest client lists snapshots all the while."""
        answers: Counter[str] = Counter()
        reading = asyncio.ensure_future(self._read(name))
        try:
            yield answers
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
        self.met[name]["attacker"] = dict(answers)

    async def _read(self, name: str) -> None:
        statuses: Counter[str] = Counter()
        latencies: list[float] = []
        self.met[name] = {"reader": statuses, "ms": latencies}
        while True:
            began = time.perf_counter()
            async with asyncio.timeout(PATIENCE_S):
                statuses[await self.ask(head("/v1/snapshots?limit=5"), READER)] += 1
            latencies.append(round((time.perf_counter() - began) * 1_000, 1))
            await asyncio.sleep(PERIOD_S)


def head(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


async def idle_streams(storm: Storm) -> None:
    """Ten thousand live streams are asked for and never read; so many as there may be are open at once."""
    held: list[asyncio.StreamWriter] = []

    async def one(answers: Counter[str]) -> None:
        reader, writer = await storm.connect()
        status = await storm.status(reader, writer, head("/v1/events"))
        answers[status] += 1
        held.append(writer) if status == "200" else writer.close()

    async with storm.phase("idle streams") as answers:
        await asyncio.gather(*(one(answers) for _ in range(STREAMS)))
        assert 0 < answers["200"] <= 200
        assert answers["200"] + answers["503"] + answers["cut off"] == STREAMS, answers
        await asyncio.sleep(1)  # they stand open, and are read by nobody
        for writer in held:
            writer.close()


async def triggers(storm: Storm, folder: Path) -> set[str]:
    """Five thousand, some at once; the ids of those that were accepted."""
    accepted: set[str] = set()
    busy = asyncio.Semaphore(TRIGGERS_AT_ONCE)
    more = {"initiated_by_node_id": "storm", "snapshot_type": "full", "target_storage_uri": str(folder)}

    async def one(answers: Counter[str], name: str) -> None:
        body = json.dumps(more | {"snapshot_id": name, "ttl_ms": 60_000})
        kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        head = "POST /v1/snapshots/trigger HTTP/1.1\r\nHost: localhost\r\n"
        async with busy:
            status = await storm.ask(f"{head}{kind}".encode())
        answers[status] += 1
        if status == "202":
            accepted.add(name)

    async with storm.phase("triggers") as answers:
        await asyncio.gather(*(one(answers, f"storm-{number}") for number in range(TRIGGERS)))
    assert answers.keys() <= {"202", "409", "503", "cut off"}, answers
    assert answers.total() == TRIGGERS
    assert len(accepted) > 10
    return accepted


def test_a_storm_of_clients_harms_nobody(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        with (
            two_workers(kafka, namespace, tmp_path) as (run, _),
            service(run.system, tmp_path) as (url, pid),
        ):
            process = psutil.Process(pid)
            before = process.memory_info().rss
            storm = Storm(int(url.rpartition(":")[2]))

            async def attack() -> set[str]:
                await idle_streams(storm)
                return await triggers(storm, tmp_path)

            accepted = asyncio.run(attack())
            grown = process.memory_info().rss - before

            state = run.observer.state

            def at_rest() -> bool:
                return not state.open and get(f"{url}/readyz")["status"] == "ok"

            run.until("every snapshot of the storm to be decided", at_rest, 90)
            views = {view.trigger.id: view for view in state.snapshots.values()}
            assert views.keys() == accepted, "what was accepted is in the ledger, and nothing else"
            failed = [view.failure for view in views.values() if view.failure is not None]
            assert not failed, failed
            last = trigger(url, tmp_path, "after")["epoch"]
            run.until(
                "a snapshot after the storm",
                lambda: last in state.snapshots and state.snapshots[last].captured_at is not None,
            )
            listed = get(f"{url}/v1/snapshots?limit=200")
            assert listed["total"] == len(accepted) + 1
            shown = {
                name: {**met, "ms": f"median {sorted(met['ms'])[len(met['ms']) // 2]}, most {max(met['ms'])}"}
                for name, met in storm.met.items()
            }
            print(json.dumps({"accepted": len(accepted), "grown_mb": grown / 1e6, **shown}, indent=1))
            for name, met in storm.met.items():
                assert met["reader"].keys() == {"200"}, (name, met["reader"])
            assert grown < 200e6
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
