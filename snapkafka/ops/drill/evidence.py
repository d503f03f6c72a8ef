"""The parts of a report that make it evidence: an id, digests, versions, and the limits of a drill."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from importlib import metadata
from typing import Final

from snapkafka import __version__
from snapkafka.manifest import CheckEntry

from .request import DrillRequest
from .result import Drill, Judged

#: Distributions that a drill rests on, where they are installed.
LIBRARIES: Final = ("faust-streaming", "aiokafka", "confluent-kafka", "pyspark", "duckdb")
#: No drill shows this.
NEVER_SHOWN: Final = (
    "a loss of the cluster, or of the storage: the fork ran on the cluster of production, from the same storage",
    "a restore in place or into another cluster, and its time: the RTO is that of a fork",
    "how long it takes until somebody notices a disaster, and decides",
    "records from outside the apps since the cut: they were not copied into the fork",
    "databases, web services and other systems beside Kafka: no snapshot holds them",
    "that production runs the same code: the commands ran as it is installed where the drill ran",
    "properties of the data that no invariant states",
)


def new_id(now: datetime) -> str:
    """Generate the id of a drill, which is also the name of its fork: the second of its start and 32 random bits.

    Args:
        now: in UTC.
    """
    return f"drill-{now:%Y%m%d-%H%M%S}-{random.getrandbits(32):08x}"


def digest_of(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode()).hexdigest()


def with_rows_read(
    invariants: Sequence[CheckEntry], sql: Mapping[str, str], tables: Mapping[str, int]
) -> tuple[CheckEntry, ...]:
    """Add to each invariant the number of rows in the tables that it reads.

    Args:
        invariants: as they were run; the name of each is `V6` and its own.
        sql: by the name of the invariant.
        tables: the rows of each table of the snapshot.
    """

    def rows(check: CheckEntry) -> int | None:
        text = sql.get(check.name.removeprefix("V6 "))
        if text is None:
            return check.records
        words = set(re.findall(r"\w+", re.sub(r"--.*", "", text)))
        return sum(count for table, count in tables.items() if table in words)

    return tuple(dataclasses.replace(check, records=rows(check)) for check in invariants)


def versions(of_snapshot: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the software in a drill.

    Args:
        of_snapshot: those that its assembly noted.
    """
    found = {"snapkafka": __version__, "python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    found["kafka broker"] = "unknown: a broker does not state its release"
    return found | {f"{name} of the snapshot": version for name, version in of_snapshot.items()}


def not_shown(drill: Drill, request: DrillRequest) -> tuple[str, ...]:
    """List the limits of a drill: those of all drills, and the checks that this one did not run."""
    return (*NEVER_SHOWN, *_of_this_one(drill, request))


def _of_this_one(drill: Drill, request: DrillRequest) -> Iterator[str]:
    yield from (f"phase not run: {it.name}" for it in drill.phases if it.status != "done")
    if not request.invariants:
        yield "invariants: none was given"
    for name, judged in (("the snapshot", drill.source), ("the fork's snapshot", drill.of_fork)):
        if judged is None:
            yield f"{name}: it was not verified"
        else:
            yield from _of_snapshot(name, judged)
    if not request.lock:
        yield "that the commands reached nothing of production before they joined the fork: they were not locked"
    if request.allow:
        ports = ", ".join(map(str, sorted(request.allow)))
        yield f"where the commands connected at the ports that were allowed: {ports}"


def _of_snapshot(name: str, judged: Judged) -> Iterator[str]:
    yield from (f"{name}: check {check.name} was not run" for check in judged.checks if not check.run)
    yield from (f"{name}: {it.name} read no row" for it in judged.invariants if it.run and it.records == 0)
    yield from (f"{name}: {sentence}" for sentence in judged.not_compared)
    yield from (f"{name}: state that it does not hold: {sentence}" for sentence in judged.uncaptured)
