"""The progress and the total of an assembly or a verification, as the job reports them, to people or to its caller.

The job may run in a process of its own: `as_line` writes a line to its standard error, and `from_line` reads it there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

from snapkafka.manifest import CheckEntry, Manifest
from snapkafka.units import format_bytes
from snapkafka.verbs import Result

#: How often progress is printed where it cannot overwrite itself.
LINE_EVERY_S: Final = 60.0
_LINE: Final = '{"working": '


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A running step of Spark's, by its name on Spark's page, with the number of finished tasks."""

    name: str
    done: int
    tasks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Working:
    """The steps of Spark's that run now, so many seconds after the work on a snapshot began."""

    id: str
    seconds: float
    steps: tuple[Step, ...] = ()


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


def in_words(reported: Working | Work) -> str:
    """Format on one line."""
    if isinstance(reported, Working):
        steps = "".join(f"; {step.name}: {step.done} of {step.tasks} tasks" for step in reported.steps)
        return f"{reported.id}: {reported.seconds:.0f} s{steps}"
    parts = [f"read {reported.offsets_read:,} offsets"]
    if reported.tables_written:
        rows, size = reported.rows_written, format_bytes(reported.bytes_written)
        parts.append(f"wrote {rows:,} rows in {reported.tables_written} tables, {size}")
    parts.append(f"checked {', '.join(reported.checks)}")
    return f"{reported.id}: {'; '.join(parts)}; {reported.seconds:.1f} s"


def as_line(working: Working) -> str:
    """Encode as a line for `from_line`."""
    return f"{_LINE}{json.dumps(asdict(working))}}}"


def from_line(line: str) -> Working | None:
    """Decode a line of `as_line`; None: it is another line."""
    if not line.startswith(_LINE):
        return None
    reported = json.loads(line)["working"]
    return Working(**{**reported, "steps": tuple(Step(**step) for step in reported["steps"])})


def now_and_then(
    notify: Callable[[str], None], every_s: float, clock: Callable[[], float] = time.monotonic
) -> Callable[[Working], None]:
    """Return a function that prints the progress in words, not more often than every so many seconds."""
    last = clock()

    def report(working: Working) -> None:
        nonlocal last
        if (now := clock()) - last >= every_s:
            last = now
            notify(in_words(working))

    return report
