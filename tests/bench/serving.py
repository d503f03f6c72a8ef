"""How long the service takes to answer at 200 requests a second, while a snapshot a second runs.

The service is a process of its own on a ledger in memory, with uvicorn, guard and all. A client on the same machine
asks for lists and single snapshots, half and half, each at its time whether the one before was answered or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
from typing import Final

from snapkafka.protocol.records import Trigger
from snapkafka.service.app import make_app
from snapkafka.service.server import serve
from snapkafka.service.settings import Settings
from tests.bench.figures import Figure, figure, p99
from tests.fakes import FakeCluster, Worker

RATE, SECONDS = 200, float(os.environ.get("BENCH_SECONDS", "20"))
SNAPSHOTS, PROCESSES, CONNECTIONS = 500, 20, 40
BAR_MS: Final = 100.0


def bench_service() -> list[Figure]:
    """The slowest of a hundred answers of the service at 200 requests a second, in ms."""
    command = [sys.executable, "-m", "tests.bench.serving"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        try:
            assert service.stdout is not None
            port = int(service.stdout.readline().rstrip("/\n").rpartition(":")[2])
            took_ms = asyncio.run(_ask(port))
        finally:
            service.kill()
    return [figure("service-p99", took_ms, "ms", of=p99, bar=BAR_MS)]


async def _ask(port: int) -> list[float]:
    """Milliseconds from when each request was due until its answer had come."""
    loop = asyncio.get_running_loop()
    free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))
    took_ms: list[float] = []

    async def one(path: str, due: float) -> None:
        reader, writer = await free.get()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = next(
            int(line.partition(b":")[2])
            for line in head.lower().split(b"\r\n")
            if line.startswith(b"content-length")
        )
        await reader.readexactly(length)
        took_ms.append((loop.time() - due) * 1_000)
        free.put_nowait((reader, writer))

    paths = itertools.cycle(
        ["/v1/snapshots", "/v1/snapshots/latest", "/v1/snapshots?limit=10", "/v1/snapshots/s7"]
    )
    start, asked = loop.time(), []
    for number in range(int(RATE * SECONDS)):
        due = start + number / RATE
        await asyncio.sleep(max(0.0, due - loop.time()))
        asked.append(asyncio.ensure_future(one(next(paths), due)))
    await asyncio.gather(*asked)
    return took_ms


async def _serve() -> None:
    cluster = FakeCluster()
    for number in range(PROCESSES):
        Worker(cluster.the_ledger, f"app-{number % 4}", f"in-{number}")
    for number in range(SNAPSHOTS):
        cluster.the_ledger.put(Trigger(n=1_000_000 + number, id=f"s{number}"))
    settings = Settings(port=0, reads_per_s=1e6)
    serving = asyncio.ensure_future(
        serve(make_app(cluster, "ns", settings), settings, lambda url: print(url, flush=True))
    )
    for number in itertools.count(SNAPSHOTS):
        cluster.the_ledger.put(Trigger(n=1_000_000 + number, id=f"s{number}"))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(serving), 1.0)


if __name__ == "__main__":
    asyncio.run(_serve())
