"""The certificate of the service."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from snapkafka.service import Settings, make_app, serve
from tests.unit.service.test_grpc import door
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.service_world import STORAGE


def certify(folder: Path, name: str) -> None:
    """Write a certificate of that name, and its key."""
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout key.pem -out cert.pem"
    names = ["-subj", f"/CN={name}", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *names], check=True, capture_output=True, cwd=folder)


def presented(port: int) -> str:
    """Return the certificate that a server presents now."""
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=20)


@contextlib.asynccontextmanager
async def serving(folder: Path, kind: str) -> AsyncIterator[int]:
    pair = {"certificate": str(folder / "cert.pem"), "key": str(folder / "key.pem")}
    if kind == "grpc":
        async with door(None, **pair) as here:
            yield int(here.address.rpartition(":")[2])
        return
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    settings = Settings(port=0, roots=(STORAGE,), **pair)  # type: ignore[arg-type]
    shown: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    running = asyncio.ensure_future(serve(make_app(cluster, "ns", settings), settings, shown.set_result))
    try:
        yield int((await shown).rstrip("/").rpartition(":")[2])
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.parametrize("kind", ["rest", "grpc"])
async def test_the_certificate_is_presented(tmp_path: Path, kind: str) -> None:
    certify(tmp_path, "first")
    async with serving(tmp_path, kind) as port, asyncio.timeout(120):
        assert await asyncio.to_thread(presented, port) == (tmp_path / "cert.pem").read_text()
