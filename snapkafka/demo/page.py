"""The service in a container of the demo: `python -m snapkafka.demo.page ARGUMENTS` is `snapkafka serve ARGUMENTS`.

Without TLS and tokens the service listens on the loopback of its machine alone, which no other container and no browser
reaches. This passes connections on to it. Whoever reaches its port may do anything: publish it to 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from typing import Final

from snapkafka.runtime.signals import exit_status

#: Where connections come in, and where the service listens.
PORT: Final = 8023
BEHIND: Final = 8024
CHUNK: Final = 65_536


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, behind: int) -> None:
    """Forward a connection until both sides have closed it."""
    try:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", behind)
    except OSError:  # it does not listen yet
        writer.close()
        return
    await asyncio.gather(_copy(reader, far_writer), _copy(far_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    writer.close()


async def run(arguments: list[str], *, port: int = PORT, behind: int = BEHIND) -> int:
    """Serve until SIGTERM or SIGINT, or until the service ends; return its exit status."""
    command = [sys.executable, "-m", "snapkafka.cli", "serve", "--port", str(behind), *arguments]
    service = await asyncio.create_subprocess_exec(*command)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, service.terminate)
    server = await asyncio.start_server(
        lambda reader, writer: _pass_on(reader, writer, behind), "0.0.0.0", port
    )
    try:
        status = await service.wait()
    finally:
        server.close()
    return exit_status(-status) if status < 0 else status


if __name__ == "__main__":
    sys.exit(asyncio.run(run(sys.argv[1:])))
