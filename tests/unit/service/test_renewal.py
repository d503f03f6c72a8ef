"""Renewed certificates, keys and tokens: read again while the service and its clients run, unless they are broken."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from snapkafka.kafka import Connection, Security
from snapkafka.service import Settings, make_app, serve
from snapkafka.service.access import FileTokens, Role
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
async def test_a_renewed_certificate_is_presented_and_a_broken_one_is_not_taken(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="snapkafka")
    certify(tmp_path, "first")
    async with serving(tmp_path, kind) as port, asyncio.timeout(120):
        first = await asyncio.to_thread(presented, port)
        assert first == (tmp_path / "cert.pem").read_text()
        certify(tmp_path, "second")
        second = await asyncio.to_thread(presented, port)
        assert second == (tmp_path / "cert.pem").read_text() != first
        assert "the certificate of the service was renewed" in caplog.text
        (tmp_path / "key.pem").write_text("-----BEGIN PRIVATE KEY-----\nhalf of it")
        for _ in range(3):
            assert await asyncio.to_thread(presented, port) == second
        refusals = [it for it in caplog.messages if "has changed and is not taken" in it]
        assert len(refusals) == 1
        certify(tmp_path, "third")
        assert await asyncio.to_thread(presented, port) == (tmp_path / "cert.pem").read_text() != second


async def test_a_client_of_kafka_presents_its_renewed_certificate(tmp_path: Path) -> None:
    """Over the same context: a client that lasts connects again now and then, and knows nothing of files."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    for folder in (theirs, ours):
        folder.mkdir()
        certify(folder, folder.name)
    names: list[str] = []
    met = asyncio.Event()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.append(ssl.DER_cert_to_PEM_cert(writer.get_extra_info("ssl_object").getpeercert(True)))
        met.set()
        writer.close()

    login = Security(
        protocol="SSL",
        ca_file=str(theirs / "cert.pem"),
        certificate_file=str(ours / "cert.pem"),
        key_file=str(ours / "key.pem"),
    )
    context = Connection.secured("127.0.0.1:1", login).security["ssl_context"]
    for turn in range(2):
        if turn:
            certify(ours, "renewed")
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(theirs / "cert.pem", theirs / "key.pem")
        server.load_verify_locations(ours / "cert.pem")
        server.verify_mode = ssl.CERT_REQUIRED
        met.clear()
        async with (
            await asyncio.start_server(connected, "127.0.0.1", 0, ssl=server) as listening,
            asyncio.timeout(60),
        ):
            port = listening.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            await met.wait()
            writer.close()
    assert len(set(names)) == 2
    assert names[1] == (ours / "cert.pem").read_text()


def test_tokens_of_a_file_are_those_of_now(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "tokens"
    old, new = "o" * 20, "n" * 20
    path.write_text(f"read:{old}\n")
    tokens = FileTokens(str(path))
    assert tokens
    assert (tokens.role(old), tokens.role(new)) == (Role.READ, None)
    path.write_text(f"admin:{new}\nread:{'x' * 30}\n")
    assert (tokens.role(old), tokens.role(new)) == (None, Role.ADMIN)
    for broken in ("", "boss:of-all\n", "admin"):
        path.write_text(broken)
        assert (tokens.role(old), tokens.role(new)) == (None, Role.ADMIN)
    path.unlink()
    assert tokens.role(new) is Role.ADMIN
    assert "has changed and is not taken" in caplog.text
    assert new not in caplog.text
