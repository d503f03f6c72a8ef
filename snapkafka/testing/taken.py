"""Snapshots that tests take: assembled and verified on first use, and read as tables."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from snapkafka import ops
from snapkafka.checks.kinds import OF_STATE
from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.store import read_manifest

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

    from snapkafka.manifest import CheckEntry, WitnessEntry

T = TypeVar("T")
IDLE = (
    "  no agent has received anything and nothing is in flight, so nothing could be inconsistent: does an agent fail"
    " at each record? (allow_idle=True passes)"
)


@dataclass
class Taken:
    """A captured snapshot of a system under test; it is assembled and verified on first use."""

    connection: Connection
    namespace: str
    storage: Path
    id: str
    epoch: int

    @cached_property
    def assembled(self) -> ops.JobResult:
        """The result of assembly: verdict, checks, tables."""
        spec = ops.JobSpec(namespace=self.namespace, snapshots=(self.id,), storage=str(self.storage))
        (found,) = await_work(ops.assemble(self.connection, spec))
        return found

    def assert_consistent(
        self, *, allow_split_keys: Collection[str] = (), allow_idle: bool = False
    ) -> ops.JobResult:
        """Fail unless the snapshot is good, shows some work, and has every key of a table in one partition; the message
        has the verdict and its witnesses.

        Args:
            allow_split_keys: changelogs whose keys may lie in several partitions: each partition counts for itself.
            allow_idle: pass where no agent has received anything, and nothing is in flight.

        Raises:
            AssertionError: INCONSISTENT or UNVERIFIABLE; there was nothing that could be inconsistent; or a table has
                several rows for one key.
        """
        found = self.assembled
        split = [
            _line(note)
            for check in found.checks
            for note in check.notes
            if note.kind in OF_STATE and note.topic not in allow_split_keys
        ]
        accusing = [] if found.good else [line for check in found.checks for line in _accusations(check)]
        idle = [] if allow_idle or not found.idle else [IDLE]
        if split or idle or not found.good:
            raise AssertionError(
                "\n".join([f"snapshot {self.id} is {found.verdict}", *accusing, *split, *idle])
            )
        return found

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a SELECT on the snapshot's tables (`state`, `messages`, ...), by column."""
        manifest = self.assembled.manifest
        found = await_work(ops.query(None, self.namespace, sql, manifest=manifest))
        return [dict(row) for row in found.rows]

    def tables(self, name: str) -> pa.Table:
        """Return a table of the snapshot (`state`, `messages`, ...), by Arrow; `.to_pandas()` makes it a data frame.

        Raises:
            BadInputError: the snapshot has no such table.
        """
        import pyarrow.parquet as pq  # type: ignore[import-untyped]

        store, manifest = read_manifest(self.assembled.manifest)
        for table in manifest.tables:
            if table.name == name:
                return pq.read_table([store.place(file.path) for file in table.files], partitioning=None)
        known = ", ".join(table.name for table in manifest.tables)
        raise BadInputError(f"snapshot {self.id} has no table {name}", hint=f"it has {known}")


def await_work(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also while a test's own event loop runs."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


def _accusations(check: CheckEntry) -> Iterator[str]:
    if check.found:
        yield f"{check.name}: {check.found}"
    yield from map(_line, check.witnesses)


def _line(witness: WitnessEntry) -> str:
    where = f"{witness.topic}[{witness.partition}] offset {witness.offset}: " if witness.offset >= 0 else ""
    return f"  {where}{witness.what}"
