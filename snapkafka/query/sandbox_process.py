"""Run SELECTs in this process: `python -m snapkafka.query.sandbox_process`, for verbs with bounds.

The engine limits its tables, but not the values that pass through it: a single SELECT can create one of a gigabyte. So
the operating system limits this process; it ends with its parent, also if that is killed. It reads an `Asked`
from standard input; it writes `OPENED` once the tables are open, and a line of JSON: `Answers`, or `Failed`.
"""

from __future__ import annotations

import os
import re
import resource
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.errors import BadInputError, Reported, SnapkafkaError
from snapkafka.query.engine import MAIN, Placed, engine
from snapkafka.query.manifest_check import compared_files, stored_manifests
from snapkafka.query.sql import named_in, over_all, select
from snapkafka.store import read_manifest

from .sandbox import ANSWER_BYTES_MAX, OPENED, Answer, Answers, Asked, Failed

MB: Final = 1024 * 1024
PARENT_PERIOD_S: Final = 0.25
STATUS: Final = Path("/proc/self/status")


_ASKED: Final = msgspec.json.Decoder(Asked)


def main() -> None:
    """Answer the queries, and end with the parent."""
    asked = _ASKED.decode(sys.stdin.buffer.read())
    try:
        threading.Thread(target=_end_with, args=(asked.parent,), daemon=True).start()
        answer = msgspec.json.encode(_answers(asked))
        if len(answer) > ANSWER_BYTES_MAX:
            raise BadInputError(
                f"the result has more than {ANSWER_BYTES_MAX:,} bytes",
                hint="ask for fewer rows, or shorter values",
            )
    except SnapkafkaError as error:
        answer = msgspec.json.encode(Failed(error=Reported.of(error)))
    except MemoryError:  # without a line: the same as where the system ends this process
        sys.exit(1)
    sys.stdout.buffer.write(answer + b"\n")


def _end_with(parent: int) -> None:
    """End this process when its parent has ended."""
    while os.getppid() == parent:
        time.sleep(PARENT_PERIOD_S)
    os._exit(1)


def _answers(asked: Asked) -> Answers:
    snapshots = _opened(asked)
    placed = tuple(snapshots.values())
    manifests, files = stored_manifests(placed), compared_files(placed)
    with engine(snapshots, asked.bounds, over_all=over_all(" ".join(asked.sqls))) as database:
        _bound(asked.bounds.memory_mb)
        sys.stdout.buffer.write(OPENED)
        sys.stdout.buffer.flush()
        answers = []
        for sql in asked.sqls:
            columns, rows = select(database, sql, asked.rows_max)
            answers.append(Answer(columns=columns, rows=[list(row.values()) for row in rows]))
    return Answers(manifests=manifests, files=files, answers=tuple(answers))


def _opened(asked: Asked) -> Mapping[str, Placed]:
    """Read the manifests of the snapshots that the queries need."""
    if asked.places.keys() != {MAIN}:
        return {schema: Placed(*read_manifest(place)) for schema, place in asked.places.items()}
    store, found = read_manifest(asked.places[MAIN])
    return named_in(" ".join(asked.sqls), store, found)


def _bound(memory_mb: int) -> None:
    """Limit this process to so much more memory than it has, and as much again for values that leave the engine."""
    held = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE) if STATUS.exists() else None
    if held is not None:
        most = int(held[1]) * 1024 + 2 * memory_mb * MB
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()
