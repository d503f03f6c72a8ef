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
from pathlib import Path
from typing import Final

import msgspec

from snapkafka.errors import BadInputError, Reported, SnapkafkaError
from snapkafka.query.engine import engine
from snapkafka.query.manifest_check import compared_files, stored_manifests
from snapkafka.query.sandbox import ANSWER_BYTES_MAX, OPENED, Answers, Asked, Failed

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
    snapshots = asked.open()
    manifests, files = stored_manifests(snapshots.values()), compared_files(snapshots.values())
    assert asked.bounds is not None
    with engine(snapshots, asked.bounds, over_all=asked.over_all) as database:
        _bound(asked.bounds.memory_mb)
        sys.stdout.buffer.write(OPENED)
        sys.stdout.buffer.flush()
        return Answers(manifests=manifests, files=files, answers=asked.select(database))


def _bound(memory_mb: int) -> None:
    """Limit this process to so much more memory than it has, and as much again for values that leave the engine."""
    held = re.search(r"^VmData:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE) if STATUS.exists() else None
    if held is not None:
        most = int(held[1]) * 1024 + 2 * memory_mb * MB
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


if __name__ == "__main__":
    main()
