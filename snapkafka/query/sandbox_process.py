"""Run one SELECT in this process: `python -m snapkafka.query.sandbox_process`, for `query` with bounds.

The engine limits its tables, but not the values that pass through it: a single SELECT can create one of a gigabyte. So
the operating system limits this process; it ends with its parent, also if that is killed. It reads one JSON object
from standard input; it writes `OPENED` once the tables are open, and one line of JSON, columns and rows or an error.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from snapkafka.errors import BadInputError, Reported, SnapkafkaError
from snapkafka.query.engine import engine
from snapkafka.query.sql import named_in, select
from snapkafka.runtime.child import ending_with
from snapkafka.store import read_manifest

from .sandbox import ANSWER_BYTES_MAX, OPENED, Bounds

MB: Final = 1024 * 1024
STATUS: Final = Path("/proc/self/status")


def main() -> None:
    """Answer one query, and end with the parent."""
    asked = json.load(sys.stdin)
    try:
        with ending_with(asked["parent"]):
            answer = json.dumps(
                _answer(asked["place"], asked["sql"], asked["rows_max"], Bounds(**asked["bounds"]))
            )
        if len(answer) > ANSWER_BYTES_MAX:
            raise BadInputError(
                f"the result has more than {ANSWER_BYTES_MAX:,} bytes",
                hint="ask for fewer rows, or shorter values",
            )
    except SnapkafkaError as error:
        answer = json.dumps({"error": msgspec.to_builtins(Reported.of(error))})
    except MemoryError:  # without a line: the same as where the system ends this process
        sys.exit(1)
    sys.stdout.write(answer + "\n")


def _answer(place: str, sql: str, rows_max: int | None, bounds: Bounds) -> dict[str, Any]:
    store, found = read_manifest(place)
    with engine(named_in(sql, store, found), bounds) as database:
        _bound(bounds.memory_mb)
        sys.stdout.buffer.write(OPENED)
        sys.stdout.buffer.flush()
        columns, rows = select(database, sql, rows_max)
    return {"columns": columns, "rows": [list(row.values()) for row in rows]}


def _bound(memory_mb: int) -> None:
    """Limit this process to so much more memory than it has, and as much again for values that leave the engine."""
    held = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE) if STATUS.exists() else None
    if held is not None:
        most = int(held[1]) * 1024 + 2 * memory_mb * MB
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()
