"""SELECTs over the tables of snapshots: here, or in a process of its own, in bounds that hold whatever their SQL is.

The engine limits its tables, but not the values that pass through it: a single SELECT can create one of a gigabyte. So
the operating system limits that process (`main`); it ends with its parent, also if that is killed. It reads an `Asked`
from standard input; it writes `OPENED` once the tables are open, and a line of JSON: `Answers`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.assembly.invariants import MAIN
from snapkafka.errors import BadInputError, InternalError, Reported, SnapkafkaError, TimedOutError
from snapkafka.kafka.ledger.manifest_match import StoredManifest
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.store import read_manifest

from .engine import Bounds, Placed, engine
from .manifest_check import Trust, compared_files, not_in_ledger, stored_manifests
from .sql import Answer, named_in, select

#: What runs queries in a process of its own. It has so many seconds to open the tables; its line before the SQL runs;
#: and an answer that is no larger.
APART: Final = (sys.executable, "-m", "snapkafka.query.sandbox")
APART_START_S: Final = 60.0
#: What to do about a query that needs too much.
NARROW: Final = "narrow the query"
OPENED: Final = b"opened\n"
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024
#: How often a query is interrupted, until it has ended.
INTERRUPT_EVERY_S: Final = 0.1
PARENT_PERIOD_S: Final = 0.25
STATUS: Final = Path("/proc/self/status")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """SELECTs over the tables of snapshots. `parent`: the process with which a process of their own ends.

    `places`: schema -> the place of a manifest; with `main` alone, the SQL may name other snapshots of its storage.
    """

    places: Mapping[str, str]
    sqls: tuple[str, ...]
    bounds: Bounds | None
    rows_max: int | None = None
    parent: int = 0

    def open(self) -> Mapping[str, Placed]:
        """Read the manifests of the snapshots that the queries need."""
        if self.places.keys() != {MAIN}:
            return {schema: Placed(*read_manifest(place)) for schema, place in self.places.items()}
        return named_in(" ".join(self.sqls), *read_manifest(self.places[MAIN]))


class Answers(msgspec.Struct, frozen=True, kw_only=True):
    """Every manifest that was read, the comparisons before, and an answer to each SELECT; or the error."""

    manifests: tuple[StoredManifest, ...] = ()
    trust: Trust = Trust()
    answers: tuple[Answer, ...] = ()
    error: Reported | None = None


class Tables(contextlib.ExitStack):
    """Tables that stay open from one query to the next, until one needs others. `trust`: as they were compared."""

    def __init__(self) -> None:
        super().__init__()
        self._held: Mapping[str, Manifest] = {}
        self.trust: Trust | None = None

    def open(self, asked: Asked) -> None:
        snapshots = asked.open()
        needed = {schema: it.manifest for schema, it in snapshots.items()}
        if needed.items() <= self._held.items():
            return
        self.close()
        self._held, self.trust, every = {}, None, snapshots.values()
        self.known = Answers(manifests=stored_manifests(every), trust=compared_files(every))
        self.database, self._held = self.enter_context(engine(snapshots, asked.bounds)), needed


async def ask(asked: Asked, where: Connection | Cluster | None, tables: Tables | None = None) -> Answers:
    """Run SELECTs. The manifests are compared with the ledger, once for `tables` that stay open.

    Raises:
        BadInputError, TimedOutError: one is invalid, or exceeds the bounds.
        SnapkafkaError: the tables cannot be opened, or were altered.
    """
    with contextlib.ExitStack() as own:
        kept = tables or own.enter_context(Tables())
        found = await (_ask_here(asked, kept) if asked.bounds is None else _ask_apart(asked, asked.bounds))
        if kept.trust is None:
            reasons = await not_in_ledger(where, found.manifests)
            kept.trust = replace(found.trust, not_compared=(*reasons, *found.trust.not_compared))
    return msgspec.structs.replace(found, trust=kept.trust)


async def _ask_here(asked: Asked, tables: Tables) -> Answers:
    task = asyncio.ensure_future(asyncio.to_thread(_answers, asked, tables))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:  # Ctrl-C ends the query
        while not task.done():  # an interruption that comes before the query has started has no effect
            with contextlib.suppress(Exception):  # they are not open yet, or the query has ended meanwhile
                tables.database.interrupt()
            await asyncio.wait([task], timeout=INTERRUPT_EVERY_S)
        if not task.cancelled():
            task.exception()  # the interruption that was asked for; asyncio would log it
        raise


def _answers(asked: Asked, tables: Tables, opened: Callable[[], None] = lambda: None) -> Answers:
    """Run SELECTs; `opened` is called before the first of them."""
    tables.open(asked)
    opened()
    answers = tuple(select(tables.database, sql, asked.rows_max) for sql in asked.sqls)
    return msgspec.structs.replace(tables.known, answers=answers)


async def _ask_apart(asked: Asked, bounds: Bounds) -> Answers:
    """Run SELECTs in a process of its own, which reads the storage as well. Their time starts when it has opened the
    tables.

    Raises:
        InternalError: the process did not begin.
    """
    opened = False
    process = await asyncio.create_subprocess_exec(
        *APART,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=2 * ANSWER_BYTES_MAX,
    )
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    try:
        process.stdin.write(msgspec.json.encode(replace(asked, parent=os.getpid())))
        process.stdin.write_eof()
        async with asyncio.timeout(APART_START_S):
            line = await process.stdout.readline()
        opened = line == OPENED
        if opened:
            async with asyncio.timeout(bounds.seconds):
                line = await process.stdout.readline()
    except TimeoutError:
        seconds = bounds.seconds if opened else APART_START_S
        raise TimedOutError(f"the query ran longer than {seconds:g} s", hint=NARROW) from None
    finally:
        if process.returncode is None and not process.stdout.at_eof():
            process.kill()
        await process.wait()
    if not line and not opened:
        raise InternalError(f"the process of a query ended with status {process.returncode} before it began")
    if not line:  # the system ended it
        raise BadInputError(f"the query takes more than {bounds.memory_mb} MB of memory", hint=NARROW)
    found = await asyncio.to_thread(msgspec.json.decode, line, type=Answers)
    if found.error is not None:
        raise found.error.error()
    return found


# -- that process -------------------------------------------------------------------------------------------------


def main() -> None:
    """Answer the queries, and end with the parent."""
    asked = msgspec.json.decode(sys.stdin.buffer.read(), type=Asked)
    try:
        threading.Thread(target=_end_with, args=(asked.parent,), daemon=True).start()
        with Tables() as tables:
            answer = msgspec.json.encode(_answers(asked, tables, lambda: _begin(asked)))
        if len(answer) > ANSWER_BYTES_MAX:
            raise BadInputError(
                f"the result has more than {ANSWER_BYTES_MAX:,} bytes",
                hint="ask for fewer rows, or shorter values",
            )
    except SnapkafkaError as error:
        answer = msgspec.json.encode(Answers(error=Reported.of(error)))
    except MemoryError:  # without a line: the same as where the system ends this process
        sys.exit(1)
    sys.stdout.buffer.write(answer + b"\n")


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_PERIOD_S)
    os._exit(1)


def _begin(asked: Asked) -> None:
    """Limit this process to so much more memory than it has, and as much again for values that leave the engine; notify
    the parent."""
    assert asked.bounds is not None, "it is a process of its own"
    held = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE) if STATUS.exists() else None
    if held is not None:
        most = (int(held[1]) + 2 * 1024 * asked.bounds.memory_mb) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    sys.stdout.buffer.write(OPENED)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
