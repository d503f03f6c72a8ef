"""A SELECT in a process of its own (`sandbox_process`), within bounds that hold whatever its SQL is."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec

from snapkafka.errors import BadInputError, InternalError, Reported, TimedOutError

#: What runs a query in a process of its own. It has so many seconds to start; its line before the SQL runs; and an
#: answer that is no larger.
APART: Final = (sys.executable, "-m", "snapkafka.query.sandbox_process")
APART_START_S: Final = 60.0
#: What to do about a query that needs too much.
NARROW: Final = "narrow the query"
OPENED: Final = b"opened\n"
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The bounds of a query: seconds, megabytes of memory (and as many of disk), threads.

    `apart`: it runs in a process of its own, which cannot exceed them whatever its SQL is.
    """

    seconds: float
    memory_mb: int
    threads: int = 1
    apart: bool = True


async def select_apart(
    place: str, sql: str, rows_max: int | None, bounds: Bounds
) -> tuple[tuple[str, ...], list[Mapping[str, Any]]]:
    """Run one SELECT as `sql.select` does, in a process of its own; its time starts when it has opened the tables.

    Raises:
        BadInputError, TimedOutError: it is invalid, or exceeds the bounds.
        InternalError: the process did not begin.
    """
    process = await asyncio.create_subprocess_exec(
        *APART,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2 * ANSWER_BYTES_MAX,
    )
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    try:
        asked = {
            "parent": os.getpid(),
            "place": place,
            "sql": sql,
            "rows_max": rows_max,
            "bounds": asdict(bounds),
        }
        process.stdin.write(json.dumps(asked).encode())
        process.stdin.write_eof()
        async with asyncio.timeout(APART_START_S):
            line = await process.stdout.readline()
        opened = line == OPENED
        if opened:
            async with asyncio.timeout(bounds.seconds):
                line = await process.stdout.readline()
    except TimeoutError:
        raise too_long(bounds) from None
    finally:
        if process.returncode is None and not process.stdout.at_eof():
            process.kill()
        await process.wait()
    if not line and not opened:
        raise InternalError(f"the process of a query ended with status {process.returncode} before it began")
    if not line:  # the system ended it
        raise _too_much(bounds)
    answer = json.loads(line)
    if "error" in answer:
        raise msgspec.convert(answer["error"], Reported).error()
    return tuple(answer["columns"]), [
        dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]
    ]


def too_long(bounds: Bounds) -> TimedOutError:
    """Create the error of a query whose time is over."""
    return TimedOutError(
        f"the query ran longer than {bounds.seconds:g} s",
        hint=NARROW,
    )


def _too_much(bounds: Bounds) -> BadInputError:
    return BadInputError(
        f"the query takes more than {bounds.memory_mb} MB of memory",
        hint=NARROW,
    )
