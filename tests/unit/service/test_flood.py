"""A flood of connections on which nothing is sent, over HTTP and over TLS: others are answered."""

import asyncio
import contextlib
import json
import ssl
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from snapkafka.runtime import Child
from snapkafka.until import until
from tests.kafka.secured import make_certificates
from tests.worlds.service_world import HEAD, first_line

#: As many files may a process open by default on most systems; it may raise that to the hard limit.
FILES, MORE_FILES = 1_024, 8_192
SILENT = 1_500
HEADER_S = 3.0


@contextlib.asynccontextmanager
async def alone(tmp_path: Path, *, tls: bool, files: int) -> AsyncIterator[tuple[int, Path]]:
    """The service in a process that may open 1,024 files, or `files` if it asks for them: its port, and its log."""
    settings: dict[str, object] = {"port": 0, "header_s": HEADER_S}
    if tls:
        make_certificates(tmp_path)
        settings |= {"certificate": f"{tmp_path}/server.pem", "key": f"{tmp_path}/server_key.pem"}
    log, command = tmp_path / "service.log", [sys.executable, "-m", "tests.worlds.served_alone"]
    command += [json.dumps(settings), str(FILES), str(files)]
    with log.open("wb") as output, Child(command, output=output, grace_s=0):
        await until(lambda: log.read_text().endswith("\n"), 120, "its URL")
        yield int(log.read_text().strip().rstrip("/").rpartition(":")[2]), log


async def asked(port: int, *, tls: bool) -> bytes:
    """Return the first line of an answer; empty if the connection is refused or cut off."""
    context = ssl._create_unverified_context() if tls else None
    with contextlib.suppress(OSError, TimeoutError):
        return await asyncio.wait_for(first_line(port, HEAD % b"GET /healthz" + b"\r\n", ssl=context), 5)
    return b""


@pytest.mark.parametrize("files", [FILES, MORE_FILES])
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
async def test_silent_connections_do_not_stop_the_service(tmp_path: Path, tls: bool, files: int) -> None:
    """Where the limit of open files cannot be raised, others are answered once the silent ones are closed."""
    async with alone(tmp_path, tls=tls, files=files) as (port, log), asyncio.timeout(120):
        held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SILENT)]
        try:
            first = await asked(port, tls=tls)
            assert files == FILES or b" 200 " in first
            async with asyncio.timeout(4 * HEADER_S):
                while b" 200 " not in first:
                    assert first == b"" or b" 503 " in first
                    first = await asked(port, tls=tls)
            for reader, _ in held:
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            assert b" 200 " in await asked(port, tls=tls)
        finally:
            for _, writer in held:
                writer.close()
        lines = log.read_text().splitlines()
        assert len(lines) < (10 if files == MORE_FILES else 200), lines[:20]
