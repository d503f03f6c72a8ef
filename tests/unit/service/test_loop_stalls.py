"""The event loop under a slow storage: no route waits for the storage on it, and none holds it for long."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka.service import ROUTES, Settings, make_app, serve
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import asked, assembled, served
from tests.worlds.stores import LocalStore

#: A storage in another town answers in this time.
STORAGE_S: Final = 0.04
#: No route holds the loop longer, on a machine that other tests use as well; one look-up of 500 names took 20 s.
STALL_S: Final = 2.0
NAMES: Final = 500
#: Routes beside those of the contract.
OTHERS: Final = {
    ("GET", path) for path in ("/", "/page/main.js", "/metrics", "/healthz", "/readyz", "/openapi.json")
}
#: What a store is asked for.
METHODS: Final = (
    "has",
    "text",
    "texts",
    "size",
    "stamp",
    "sizes",
    "open",
    "sha256",
    "files_of",
    "check_writable",
)


@dataclass
class Slow:
    """A storage that takes its time, and the calls that were made on the thread of the loop."""

    loop: int = 0
    on_loop: list[str] = field(default_factory=list)

    def call(self, name: str) -> None:
        if threading.get_ident() == self.loop:
            self.on_loop.append(name)
        time.sleep(STORAGE_S)


@contextmanager
def slow_storage() -> Iterator[Slow]:
    slow = Slow(loop=threading.get_ident())
    with pytest.MonkeyPatch.context() as patched:
        for name in METHODS:
            if (method := getattr(LocalStore, name, None)) is None:
                continue

            def later(
                self: LocalStore, *args: Any, _method: Any = method, _name: str = name, **more: Any
            ) -> Any:
                slow.call(_name)
                return _method(self, *args, **more)

            patched.setattr(LocalStore, name, later)
        yield slow


@asynccontextmanager
async def longest_stall() -> AsyncIterator[list[float]]:
    """Provide a list whose one item is the longest time for which the loop did nothing else, in seconds."""
    longest = [0.0]

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            longest[0] = max(longest[0], time.perf_counter() - began - 0.01)

    task = asyncio.create_task(tick())
    try:
        yield longest
    finally:
        task.cancel()


async def first_line(port: int, method: str, path: str, body: dict[str, Any] | None) -> str:
    """Return the first line of an answer and, unless it is a stream, wait until all of it has come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    if body is not None:
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
    writer.write(f"{head}\r\n".encode() + content)
    line = (await reader.readline()).decode().strip()
    if not path.endswith("/events"):
        await reader.read()
    writer.close()
    return line


def bodies(folder: Path) -> dict[str, dict[str, Any]]:
    """Return a body for each route that has one; the query names 500 snapshots, if it may."""
    many = ", ".join(f'"s{number}".state' for number in range(NAMES))
    return {
        "trigger": asked(target_storage_uri=str(folder)),
        "query": {"sql": f"SELECT count(*) FROM {many}"},
        "abort": {},
        "assemble": {},
        "verify": {},
    }


async def nothing(*_: Any, **__: Any) -> tuple[()]:
    """Do the work of a job."""
    return ()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[FakeCluster, Path]:
    """Two assembled snapshots."""
    cluster, folder = FakeCluster(), tmp_path_factory.mktemp("stored")
    Worker(cluster.the_ledger, "shop", "orders")
    with served(cluster, (str(folder),)) as client:
        for name in ("one", "two"):
            assembled(cluster, client, folder, name)
    return cluster, folder


@pytest.mark.parametrize(("method", "path"), sorted({*ROUTES, *OTHERS}), ids=str)
async def test_no_route_stalls_the_loop(world: tuple[FakeCluster, Path], method: str, path: str) -> None:
    cluster, folder = world
    name = ROUTES[method, path].name if (method, path) in ROUTES else ""
    settings = Settings(port=0, roots=(str(folder),))
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    app = make_app(cluster, "ns", settings, assemble=nothing, verify=nothing)
    with slow_storage() as slow:
        serving = asyncio.ensure_future(serve(app, settings, shown.set_result))
        try:
            port = int((await shown).rstrip("/").rpartition(":")[2])
            async with asyncio.timeout(120):  # an answer about a snapshot waits until the ledger is read
                await first_line(port, "GET", "/v1/snapshots/one", None)
                target = re.sub(r"\{\w+\}", "one", path) + ("?against=two" if name == "diff" else "")
                async with longest_stall() as longest:
                    line = await first_line(port, method, target, bodies(folder).get(name))
        finally:
            serving.cancel()
            await asyncio.wait([serving])
    assert int(line.split()[1]) < 500, line
    assert slow.on_loop == []
    assert longest[0] < STALL_S


async def test_names_in_a_query_are_bounded(world: tuple[FakeCluster, Path]) -> None:
    cluster, folder = world
    with served(cluster, (str(folder),)) as client:
        refused = client.post("/v1/snapshots/one/query", json=bodies(folder)["query"])
        assert (refused.status_code, refused.json()["code"]) == (400, "bad-input")
        assert "500 names before a dot, above 50" in refused.json()["detail"]
        sql = 'SELECT count(*) AS n FROM "two".state t JOIN state s ON s.key = t.key'
        assert client.post("/v1/snapshots/one/query", json={"sql": sql}).status_code == 200
