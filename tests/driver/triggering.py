"""Trigger at a steady rate: `python -m tests.driver.triggering PORT SOURCE RATE SECONDS FOLDER`, a process of its own.

As cheap as a client can be, so that it is the service whose limit is seen: requests are made beforehand and written to
connections that stay open; one that the service closes is opened again, and its request counts as cut off. Prints one
JSON object: answers by status, the ids that were accepted, and how many were asked a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

CONNECTIONS: Final = 32


def request_of(snapshot_id: str, folder: str) -> bytes:
    body = json.dumps(
        {
            "initiated_by_node_id": "storm",
            "snapshot_type": "full",
            "target_storage_uri": folder,
            "snapshot_id": snapshot_id,
            "ttl_ms": 60_000,
        }
    ).encode()
    head = f"POST /v1/snapshots/trigger HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"Content-Type: application/json\r\n\r\n" + body


async def trigger(port: int, source: str, rate: int, seconds: int, folder: str) -> dict[str, object]:
    """Ask when it is due, or as soon as a connection is free after that."""
    requests = [(f"storm-{n}", request_of(f"storm-{n}", folder)) for n in range(rate * seconds)]
    answers: Counter[str] = Counter()
    accepted: list[str] = []
    due = enumerate(requests)
    start = time.perf_counter()

    async def client(due: Iterator[tuple[int, tuple[str, bytes]]]) -> None:
        writer: asyncio.StreamWriter | None = None
        for number, (name, request) in due:
            await asyncio.sleep(max(0.0, start + number / rate - time.perf_counter()))
            if writer is None:
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
            status = "cut off"
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                writer.write(request)
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))
                status = head.split()[1].decode()
            if status == "cut off" or b"connection: close" in head:
                writer.close()
                writer = None
            answers[status] += 1
            if status == "202":
                accepted.append(name)

    await asyncio.gather(*(client(due) for _ in range(CONNECTIONS)))
    per_s = len(requests) / (time.perf_counter() - start)
    return {"answers": answers, "accepted": accepted, "per_s": round(per_s)}


if __name__ == "__main__":
    port, source, rate, seconds, folder = sys.argv[1:]
    print(json.dumps(asyncio.run(trigger(int(port), source, int(rate), int(seconds), folder))))
