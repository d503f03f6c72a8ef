"""What an audit costs a worker: how long it stands still, in CPU time, and how much memory the child takes for itself.

Each table is built in a process of its own, which then audits it a few times, by a fork and by a scan. `python -m
tests.bench.auditing KEYS BYTES` does that and prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

import faust

from snapkafka.drivers.faust.audit import forked
from snapkafka.drivers.faust.audit.image import TableImage
from snapkafka.drivers.faust.audit.scan import Scan
from tests.bench.figures import Figure, figure

UNITS: Final = {
    "fork_pause": "ms",
    "fork_stall": "ms",
    "scan_pause": "ms",
    "scan_stall": "ms",
    "fork_seconds": "s",
    "scan_seconds": "s",
    "child_mb": "MB",
    "worker_mb": "MB",
}
KEYS: Final = 1_000_000
#: Of a table of a gigabyte with so many keys, each value has so many bytes; of a small one a number.
GIGABYTE, NUMBERS = 950, 0
ROUNDS: Final = 3
WITHIN_S: Final = 3_000.0
#: The loop is asked for so short a pause, over and over.
TICK_S: Final = 0.001


def bench_audit() -> list[Figure]:
    """How long a worker stands still for an audit, and what memory it takes."""
    figures: list[Figure] = []
    for name, size in (("numbers", NUMBERS), ("gigabyte", GIGABYTE)):
        command = [sys.executable, "-m", "tests.bench.auditing", str(KEYS), str(size)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        figures += [figure(f"audit_{name}_{what}", values, UNITS[what]) for what, values in found.items()]
    return figures


def main(keys: int, size: int) -> None:
    """Audit a table of so many keys, a few times, and print what it took."""
    app = faust.App("bench", store="memory://", web_enabled=False)
    app.finalize()
    table = app.Table("t", default=list)
    objects = table.data.data
    for n in range(keys):
        objects[f"key-{n:09d}"] = [f"{n:09d}" + "x" * size] if size else n
    image = TableImage(table, (0,), {})
    found: dict[str, list[float]] = {"worker_mb": [_resident_mb()]}
    for _ in range(ROUNDS):
        for how in ("fork", "scan"):
            audit = _pause(how, image) if size else _audit(how, image)
            for what, value in asyncio.run(audit).items():
                found.setdefault(what, []).append(value)
    print(json.dumps(found))


async def _pause(how: str, image: TableImage) -> dict[str, float]:
    """Measure the instant of the cut alone: what follows takes time in proportion to the keys."""
    before = time.thread_time()
    source: Any = forked.fork([image], WITHIN_S) if how == "fork" else Scan([image])
    paused = time.thread_time() - before
    if how == "fork":
        await source.end()
    return {f"{how}_pause": paused * 1e3}


async def _audit(how: str, image: TableImage) -> dict[str, float]:
    before, started = time.thread_time(), time.perf_counter()
    source: Any = forked.fork([image], WITHIN_S) if how == "fork" else Scan([image])
    paused = time.thread_time() - before
    stall = asyncio.ensure_future(_longest_stall())
    async for _ in source.pieces():
        await asyncio.sleep(0)
    ended = time.perf_counter()
    stall.cancel()
    longest = (await asyncio.gather(stall, return_exceptions=True))[0]
    found = {
        f"{how}_pause": paused * 1e3,
        f"{how}_stall": float(str(longest)) * 1e3,
        f"{how}_seconds": ended - started,
    }
    if how == "fork":
        await source.end()
        found["child_mb"] = source.bytes / 1e6
    return found


async def _longest_stall() -> None:
    """Watch the loop until cancelled; the error has the longest CPU time between two turns."""
    longest = 0.0
    try:
        while True:
            before = time.thread_time()
            await asyncio.sleep(TICK_S)
            longest = max(longest, time.thread_time() - before)
    except asyncio.CancelledError:
        raise RuntimeError(longest) from None


def _resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
