"""The manifest of an assembly: times, content, sources, and the findings of the checks."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar

from snapkafka.checks import (
    CheckOutcome,
    CutView,
    ExternalTopic,
    OutsideSender,
    ReadRange,
    Verdict,
    Witness,
    decide,
)
from snapkafka.checks.invariants import Invariant
from snapkafka.manifest import (
    CheckEntry,
    ExternalEntry,
    InvariantEntry,
    LedgerEntry,
    LogEntry,
    Manifest,
    OpenEntry,
    OutsiderEntry,
    ParentEntry,
    ReadEntry,
    RestorableEntry,
    SettledEntry,
    TableEntry,
    Times,
    TopicEntry,
    WitnessEntry,
    content_digest,
    open_paths,
)
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.version import __version__

_T = TypeVar("_T")


class Clock:
    """The seconds per phase, for people."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.started = _now()

    def timed(self, phase: str, work: Callable[[], _T]) -> _T:
        """Do the work and measure it. Phases overlap: their sum is more than the whole."""
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
    openness: Openness,
    restorable: RestorableEntry | None,
    topics: tuple[TopicEntry, ...],
    logs: tuple[LogEntry, ...],
    inputs: Sequence[ReadRange],
    clock: Clock,
) -> Manifest:
    """Return the manifest of an assembly that has ended now.

    Args:
        spark: its version.
        outcomes: of the checks; the verdict follows from them.
        ranges: the offsets that were read.
        logs: see `logs_of`.
        inputs: the offsets whose external records are stored.
        openness: the groups, topics and outsiders that leave it open, or would.
    """
    return Manifest(
        id=captured.id,
        attempt=captured.attempt,
        epoch=captured.epoch,
        namespace=namespace,
        verdict=verdict_of(captured, outcomes, openness),
        content=content_digest(tables, parents),
        ledger=ledger,
        times=Times(assembled_at=clock.started, verified_at=_now(), seconds=clock.seconds),
        tables=tables,
        checks=check_entries(outcomes),
        captured=captured,
        invariants=tuple(InvariantEntry(name=item.name, sql=item.sql) for item in wanted),
        read=_entries(ranges),
        inputs=_entries(inputs),
        parents=parents,
        settled=settled,
        open=openness.groups,
        external=openness.external,
        outsiders=openness.outsiders,
        strict=openness.strict,
        isolation=isolation,
        restorable=restorable,
        topics=topics,
        logs=logs,
        versions={
            "snapkafka": __version__,
            "python": platform.python_version(),
            "spark": spark,
        },
    )


class Openness(NamedTuple):
    """The groups without snapkafka that read outputs, topics with external records, outsiders; see `Manifest`."""

    groups: tuple[OpenEntry, ...] = ()
    external: tuple[ExternalEntry, ...] = ()
    strict: bool = False
    outsiders: tuple[OutsiderEntry, ...] = ()


def _entries(ranges: Iterable[ReadRange]) -> tuple[ReadEntry, ...]:
    return tuple(ReadEntry(topic=r.topic, partition=r.partition, start=r.start, end=r.end) for r in ranges)


def logs_of(view: CutView, parent: Manifest | None = None) -> tuple[LogEntry, ...]:
    """Return the starts and ends of a snapshot's logs when they were about to be read; empty if unknown.

    Args:
        parent: of an incremental snapshot. The parent's rows were read when it was assembled: the log has to go back
            as far as it did then; to offset 0 if the parent does not list it.
    """
    then = {} if parent is None else {(log.topic, log.partition): log.start for log in parent.logs}
    return tuple(
        LogEntry(
            topic=tp.topic,
            partition=tp.partition,
            topic_id=now.topic_id,
            start=min(now.start, then.get(tp, 0)) if view.state_start(tp) else now.start,
            end=now.end,
        )
        for tp, now in sorted((view.bounds or {}).items())
        if tp not in view.recreated
    )


def openness_of(
    captured: Captured,
    external: Iterable[ExternalTopic],
    groups: tuple[OpenEntry, ...],
    *,
    outside: Iterable[OutsideSender] = (),
    sources: Collection[str] = (),
    strict: bool = False,
) -> Openness:
    """Collect the groups, topics and outsiders that leave a snapshot open: groups count if some undeclared topic holds
    external records.

    Args:
        external, outside: found by the checks.
        sources: declared topics, besides those that the apps declare.
    """
    declared = {*captured.sources, *sources}
    entries = tuple(
        ExternalEntry(topic=topic, mixed=mixed, declared=topic in declared) for topic, mixed in external
    )
    undeclared = any(not entry.declared for entry in entries)
    outsiders = (
        *(OutsiderEntry(process=it.process, app=it.app, topic="") for it in captured.outsiders if it.refused),
        *(OutsiderEntry(**sender._asdict()) for sender in outside),
    )
    return Openness(groups if undeclared else (), entries, strict, outsiders)


def verdict_of(captured: Captured, outcomes: Iterable[CheckOutcome], openness: Openness) -> Verdict:
    """Derive the verdict of a snapshot."""
    return decide(
        outcomes,
        replays=captured.replays,
        open_paths=open_paths(*openness),
        contaminated=captured.contaminated,
        unread=captured.unread,
    )


def check_entries(outcomes: Iterable[CheckOutcome]) -> tuple[CheckEntry, ...]:
    """Return the checks as the manifest lists them, including those that were not run."""
    entries = [*map(entry, outcomes)]
    for kind in ("V5", "V6"):  # there may have been nothing to look at
        if not any(item.name.startswith(kind) for item in entries):
            entries.append(CheckEntry(name=kind, run=False, status="not-run"))
    return tuple(sorted(entries, key=lambda item: item.name))


def entry(outcome: CheckOutcome) -> CheckEntry:
    """Convert an outcome to the manifest's entry."""
    records, partitions, channels = outcome.examined or (None, None, None)
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
        replayed=outcome.replayed,
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
