"""SELECTs over the tables of snapshots: here, or in a process of its own (`sandbox_process`), within bounds that hold
whatever their SQL is."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec

from snapkafka.assembly.invariants import MAIN
from snapkafka.errors import BadInputError, InternalError, Reported, TimedOutError
from snapkafka.kafka.ledger.manifest_match import StoredManifest
from snapkafka.store import read_manifest

from .engine import Bounds, Placed, engine, in_thread
from .manifest_check import Trust, compared_files, stored_manifests
from .sql import named_in, over_all, select

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What runs queries in a process of its own. It has so many seconds to open the tables; its line before the SQL runs;
#: and an answer that is no larger.
APART: Final = (sys.executable, "-m", "snapkafka.query.sandbox_process")
APART_START_S: Final = 60.0
#: What to do about a query that needs too much.
NARROW: Final = "narrow the query"
OPENED: Final = b"opened\n"
ANSWER_BYTES_MAX: Final = 32 * 1024 * 1024


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

    @property
    def over_all(self) -> bool:
        return over_all(" ".join(self.sqls))

    def select(self, database: DuckDBPyConnection) -> tuple[Answer, ...]:
        found = [select(database, sql, self.rows_max) for sql in self.sqls]
        return tuple(Answer(columns=columns, rows=rows) for columns, rows in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Columns and rows of one SELECT."""

    columns: tuple[str, ...]
    rows: list[list[Any]]

    def mappings(self) -> list[dict[str, Any]]:
        """Return the rows by the names of their columns."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


class Answers(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Every manifest that was read, the comparison of their files, and an answer to each SELECT."""

    manifests: tuple[StoredManifest, ...]
    files: Trust
    answers: tuple[Answer, ...]


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The error instead of answers."""

    error: Reported


_ANSWER: Final[msgspec.json.Decoder[Answers | Failed]] = msgspec.json.Decoder(Answers | Failed)


async def ask(asked: Asked) -> Answers:
    """Run SELECTs.

    Raises:
        BadInputError, TimedOutError: one is invalid, or exceeds the bounds.
        SnapkafkaError: the tables cannot be opened, or were altered.
    """
    if asked.bounds is not None:
        return await _ask_apart(asked, asked.bounds)
    snapshots = await asyncio.to_thread(asked.open)
    manifests = await asyncio.to_thread(stored_manifests, snapshots.values())
    files = await asyncio.to_thread(compared_files, snapshots.values())
    with engine(snapshots, over_all=asked.over_all) as database:
        answers = await in_thread(database, lambda: asked.select(database))
    return Answers(manifests=manifests, files=files, answers=answers)


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
    answer = await asyncio.to_thread(_ANSWER.decode, line)
    if isinstance(answer, Failed):
        raise answer.error.error()
    return answer
