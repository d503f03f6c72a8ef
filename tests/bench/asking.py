"""Ask a service at a steady rate: `python -m tests.bench.asking URL RATE SECONDS ID...`, a process of its own.

Requests begin when they are due, whether earlier ones were answered or not, and a latency counts from then on: a
service that stands still for a second has kept all of them waiting. Prints one JSON object.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
import time
from collections import Counter

import aiohttp

#: Connections that are kept open; more requests at once wait for one of them.
CONNECTIONS = 32


async def ask(url: str, rate: float, seconds: float, ids: list[str]) -> dict[str, object]:
    """Ask for the list and for a snapshot in turn; latencies in milliseconds, by what was asked for."""
    paths = itertools.cycle(
        path
        for name in ids
        for path in (("list", "/v1/snapshots?limit=50"), ("show", f"/v1/snapshots/{name}"))
    )
    latencies: dict[str, list[float]] = {"list": [], "show": []}
    answers: Counter[str] = Counter()

    async def one(session: aiohttp.ClientSession, kind: str, path: str, due: float) -> None:
        try:
            async with session.get(url + path) as answer:
                snapshots = (await answer.read()).count(b'"snapshot_id"')
                answers[f"{kind} {answer.status} {snapshots}"] += 1
        except (aiohttp.ClientError, TimeoutError) as error:
            answers[type(error).__name__] += 1
        latencies[kind].append((time.perf_counter() - due) * 1_000)

    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=30)) as session:
        start, tasks, late = time.perf_counter(), [], 0.0
        for number in range(int(rate * seconds)):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            late = max(late, time.perf_counter() - due)
            tasks.append(asyncio.create_task(one(session, *next(paths), due)))
        asked_s = time.perf_counter() - start
        await asyncio.gather(*tasks)
    return {
        "latencies": latencies,
        "answers": answers,
        "asked_per_s": len(tasks) / asked_s,
        "late_ms": late * 1_000,
    }


if __name__ == "__main__":
    with contextlib.suppress(PermissionError):  # what measures does not queue behind what is measured
        os.setpriority(os.PRIO_PROCESS, 0, -20)
    url, rate, seconds, *ids = sys.argv[1:]
    print(json.dumps(asyncio.run(ask(url, float(rate), float(seconds), ids))))
