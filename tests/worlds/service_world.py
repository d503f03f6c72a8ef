"""The service over a cluster in memory, for its tests."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

from starlette.testclient import TestClient

from snapkafka import ops
from snapkafka.kafka import Connection
from snapkafka.manifest import Manifest
from snapkafka.protocol import CheckResult, Verdict
from snapkafka.service import Settings, make_app, serve
from snapkafka.until import blocking_until
from tests.worlds.fakes import FakeCluster
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

#: The storage of the contract's examples; nothing is written there.
STORAGE = "s3://company-checkpoints/production-stream-01/"
HOST = "localhost:8023"


@contextmanager
def served(
    cluster: FakeCluster | Connection, roots: tuple[str, ...] = (STORAGE,), **more: Any
) -> Iterator[TestClient]:
    """A client of the service, once that has read the ledger."""
    verbs = {name: more.pop(name) for name in ("assemble", "verify", "list_forks") if name in more}
    clock = {"clock": more.pop("clock")} if "clock" in more else {}
    app = make_app(cluster, "ns", Settings(roots=roots, **more), **clock)
    with (
        patch.multiple(ops, **verbs) if verbs else nullcontext(),
        TestClient(
            app, base_url=f"http://{HOST}", client=("127.0.0.1", 5), raise_server_exceptions=False
        ) as client,
    ):
        until(lambda: client.get("/readyz").status_code == 200, "the service to be ready")
        yield client


@asynccontextmanager
async def listening(cluster: FakeCluster, namespace: str = "ns", **settings: Any) -> AsyncIterator[str]:
    """The service on a real socket; its URL."""
    chosen = Settings(port=0, **settings)
    shown: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(make_app(cluster, namespace, chosen), chosen, shown.set_result))
    try:
        await asyncio.wait([shown, serving], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        yield shown.result()
    finally:
        serving.cancel()
        await asyncio.wait([serving])


#: A request for one answer, without the empty line at its end.
HEAD = b"%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


async def first_line(port: int, request: bytes, **more: Any) -> bytes:
    """Of an answer of the service on a real socket."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, **more)
    writer.write(request)
    line = await reader.readline()
    writer.close()
    return line


def until(holds: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    """Wait for a condition."""
    blocking_until(holds, seconds, what, every_s=0.005)


def asked(**more: Any) -> dict[str, Any]:
    """The body of a trigger."""
    who = {"initiated_by_node_id": "worker-node-42"}
    return {**who, "snapshot_type": "full", "target_storage_uri": STORAGE, **more}


def assembled(cluster: FakeCluster, client: TestClient, folder: Path, name: str, **rows: Any) -> Manifest:
    """Trigger a snapshot that is captured at once, write its tables, and put their verdict into the ledger."""
    body = asked(snapshot_id=name, target_storage_uri=str(folder))
    answer = client.post("/v1/snapshots/trigger", json=body)
    assert answer.status_code == 202, answer.text
    epoch, store = answer.json()["epoch"], LocalStore(folder)
    manifest = write_snapshot(store, name, epoch, namespace="ns", **rows)
    checks = (CheckResult(name="V1", status="passed", records=3),)
    found: Any = {"verdict": manifest.verdict, "checks": checks, "manifest": store.manifest_place(name)}
    cluster.the_ledger.put(Verdict(n=7_000 + epoch, epoch=epoch, **found))
    path = f"/v1/snapshots/{epoch}"
    until(lambda: client.get(path).json()["status"] == "COMPLETED", f"the verdict of {name}")
    return manifest
