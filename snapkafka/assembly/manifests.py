"""What the manifest of an assembly says: when, of what, from what, and what the checks have found."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

import snapkafka
from snapkafka.checks import CheckOutcome, ReadRange, Verdict, Witness, decide
from snapkafka.checks.invariants import Invariant
from snapkafka.manifest import (
    CheckEntry,
    InvariantEntry,
    LedgerEntry,
    Manifest,
    OpenEntry,
    ParentEntry,
    ReadEntry,
    RestorableEntry,
    SettledEntry,
    TableEntry,
    Times,
    WitnessEntry,
    content_digest,
)
from snapkafka.protocol.captured import Captured

__all__ = ["Clock", "check_entries", "entry", "manifest_of", "verdict_of"]

_T = TypeVar("_T")


class Clock:
    """Seconds per phase, for people."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = _now()

    def timed(self, phase: str, work: Callable[[], _T]) -> _T:
        """Do it. Phases overlap: their sum is more than the whole."""
        start = time.monotonic()
        done = work()
        self.seconds[phase] = round(time.monotonic() - start, 3)
        return done


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def manifest_of(
    captured: Captured,
    *,
    namespace: str,
    ledger: LedgerEntry,
    isolation: str,
    spark: str,
    parents: tuple[ParentEntry, ...],
    tables: tuple[TableEntry, ...],
    settled: tuple[SettledEntry, ...],
    outcomes: Sequence[CheckOutcome],
    wanted: Sequence[Invariant],
    ranges: Sequence[ReadRange],
    open_groups: tuple[OpenEntry, ...],
    restorable: RestorableEntry | None,
    clock: Clock,
) -> Manifest:
    """The manifest of an assembly that has ended now.

    Args:
        spark: its version.
        outcomes: of the checks; the verdict follows from them.
        ranges: what was read.
        open_groups: see `Manifest.open`.
    """
    return Manifest(
        id=captured.id,
        attempt=captured.attempt,
        epoch=captured.epoch,
        namespace=namespace,
        verdict=verdict_of(captured, outcomes, open_groups),
        content=content_digest(tables, parents),
        ledger=ledger,
        times=Times(assembled_at=clock.started, verified_at=_now(), seconds=clock.seconds),
        tables=tables,
        checks=check_entries(outcomes),
        captured=captured,
        invariants=tuple(InvariantEntry(name=item.name, sql=item.sql) for item in wanted),
        read=tuple(ReadEntry(topic=r.topic, partition=r.partition, start=r.start, end=r.end) for r in ranges),
        parents=parents,
        settled=settled,
        open=open_groups,
        isolation=isolation,
        restorable=restorable,
        versions={
            "snapkafka": snapkafka.__version__,
            "python": platform.python_version(),
            "spark": spark,
        },
    )


def verdict_of(
    captured: Captured, outcomes: Iterable[CheckOutcome], open_groups: Iterable[OpenEntry]
) -> Verdict:
    """What follows for a snapshot."""
    return decide(
        outcomes,
        replays=captured.replays,
        open_groups=(entry.group for entry in open_groups),
        contaminated=captured.contaminated,
        unread=captured.unread,
    )


def check_entries(outcomes: Iterable[CheckOutcome]) -> tuple[CheckEntry, ...]:
    """The checks as the manifest lists them, those that were not run as well."""
    entries = [*map(entry, outcomes)]
    for kind in ("V5", "V6"):  # there may have been nothing to look at
        if not any(item.name.startswith(kind) for item in entries):
            entries.append(CheckEntry(name=kind, run=False, status="not-run"))
    return tuple(sorted(entries, key=lambda item: item.name))


def entry(outcome: CheckOutcome) -> CheckEntry:
    """What was found, as the manifest has it."""
    records, partitions, channels = outcome.looked_at or (None, None, None)
    return CheckEntry(
        name=outcome.check,
        run=True,
        status=outcome.status,
        found=outcome.found,
        witnesses=tuple(map(_witness, outcome.witnesses)),
        noted=outcome.noted,
        notes=tuple(map(_witness, outcome.notes)),
        records=records,
        partitions=partitions,
        channels=channels,
    )


def _witness(witness: Witness) -> WitnessEntry:
    return WitnessEntry(
        topic=witness.topic,
        partition=witness.partition,
        offset=witness.offset,
        what=witness.what,
        process=witness.process,
        seq=witness.seq,
    )
