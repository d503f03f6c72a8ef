"""The progress and the total of an assembly or a verification.

The job may run in a process of its own: a line of its standard error that begins with `PROGRESS` is one of progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from snapkafka.manifest import CheckEntry, Manifest
from snapkafka.units import format_bytes
from snapkafka.verbs import Result

PROGRESS: Final = "progress: "


class Work(Result, frozen=True, kw_only=True):
    """The work that a snapshot took. `offsets_read`: a compacted log has fewer records. `bytes_written`: of files."""

    id: str
    offsets_read: int
    tables_written: int
    rows_written: int
    bytes_written: int
    checks: tuple[str, ...]
    seconds: float


def work_of(
    name: str, offsets: int, seconds: float, checks: Iterable[CheckEntry], written: Manifest | None = None
) -> Work:
    """Return the total of a snapshot.

    Args:
        written: the manifest, if tables were written.
    """
    tables = () if written is None else written.tables
    return Work(
        id=name,
        offsets_read=offsets,
        tables_written=len(tables),
        rows_written=sum(table.rows for table in tables),
        bytes_written=sum(file.bytes for table in tables for file in table.files),
        checks=tuple(check.name for check in checks if check.run),
        seconds=round(seconds, 3),
    )


def in_words(work: Work) -> str:
    """Format on one line."""
    parts = [f"read {work.offsets_read:,} offsets"]
    if work.tables_written:
        rows, size = work.rows_written, format_bytes(work.bytes_written)
        parts.append(f"wrote {rows:,} rows in {work.tables_written} tables, {size}")
    parts.append(f"checked {', '.join(work.checks)}")
    return f"{work.id}: {'; '.join(parts)}; {work.seconds:.1f} s"
