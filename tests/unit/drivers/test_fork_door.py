"""Encrypted connections through a door: the certificate is checked against the name of the broker, as without one."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.conn import AIOKafkaConnection

from snapkafka.drivers import Isolation
from snapkafka.runtime.door import DOOR, Door

FORK = "drill-1"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of `localhost` alone, with its key."""
    file = tmp_path_factory.mktemp("tls") / "both.pem"
    words = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    )
    subprocess.run(
        ["openssl", *words.split(), "-keyout", f"{file}.key", "-out", str(file)],
        check=True,
        capture_output=True,
    )
    return file


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    with tempfile.TemporaryDirectory() as short, Door(Path(short, "door"), FORK) as found:
        monkeypatch.setenv(DOOR, str(found.path))
        isolation = Isolation.of(FORK)
        yield found
        isolation.remove()


@pytest.mark.parametrize(("host", "passes"), [("localhost", True), ("127.0.0.1", False)])
async def test_a_certificate_is_checked(certificate: Path, door: Door, host: str, passes: bool) -> None:
    assert door.joined.is_set(), "an isolated process states that it is"
    received = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read(100))
        writer.close()

    of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    of_server.load_cert_chain(certificate, f"{certificate}.key")
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=of_server)
    connection = AIOKafkaConnection(
        host,
        server.sockets[0].getsockname()[1],
        security_protocol="SSL",
        ssl_context=ssl.create_default_context(cafile=str(certificate)),
    )
    try:
        if passes:
            with pytest.raises(Exception, match="closed"):
                await connection.connect()
            assert b"aiokafka" in await asyncio.wait_for(received, 10), "the first request has come"
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match=r"doesn't match|not valid for"):
                await connection.connect()
            assert not received.done()
    finally:
        connection.close()
        server.close()
        await server.wait_closed()
