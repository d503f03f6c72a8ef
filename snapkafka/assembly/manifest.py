"""The manifest of an assembly: times, content, sources, and the findings of the checks."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from snapkafka.checks import Checked, CutView, ReadRange, decide
from snapkafka.checks.v3_state import StateFacts
from snapkafka.kafka.cluster.external_groups import left_open
from snapkafka.manifest import (
    CheckEntry,
    InvariantEntry,
    LogEntry,
    Manifest,
    OpenEntry,
    ReadEntry,
    TableEntry,
    Times,
    content_digest,
)
from snapkafka.protocol.captured_snapshot import Captured, Outcome
from snapkafka.protocol.records import TopicPartition
from snapkafka.store import Store
from snapkafka.version import __version__

from .base import Base
from .job import Settings
from .ledger import ClusterFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A captured snapshot to assemble: with the bounds of its log, on its base; how that is read, invariants, and facts
    for its manifest.

    `require_same_log` is called when the log was read, before the manifest is written; it refuses a log that is not the
    one of the bounds any more.
    """

    view: CutView
    settings: Settings
    store: Store
    base: Base | None
    wanted: tuple[InvariantEntry, ...]
    facts: ClusterFacts
    require_same_log: Callable[[], None]


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def manifest_of(
    task: Task,
    ranges: Sequence[ReadRange],
    tables: tuple[TableEntry, ...],
    checked: Checked,
    *,
    by: tuple[str, Mapping[str, str]],
    began: str,
) -> Manifest:
    """Return the manifest of an assembly that has ended now; the verdict follows from the outcomes of the checks.

    Args:
        by: the engine that assembled it, and the versions of its libraries.
    """
    settings, base, facts, view = task.settings, task.base, task.facts, task.view
    captured, spec = view.captured, settings.spec
    parents = base.entries() if base is not None else ()
    return Manifest(
        id=captured.id,
        attempt=captured.attempt,
        epoch=captured.epoch,
        namespace=spec.namespace,
        content=content_digest(tables, parents),
        engine=by[0],
        ledger=settings.ledger,
        times=Times(assembled_at=began, verified_at=now()),
        tables=tables,
        captured=replace(captured, alignment=alignment_of(captured, tables)),
        invariants=task.wanted,
        read=_entries(ranges),
        inputs=_entries(unread_ranges(view)) if spec.with_inputs else (),
        parents=parents,
        isolation=spec.isolation,
        restorable=facts.restorable,
        topics=facts.topics,
        logs=logs_of(view, checked.held, None if base is None else base.parent),
        versions={"snapkafka": __version__, "python": platform.python_version(), **by[1]},
        **judged(captured, checked, facts.external_readers, sources=spec.sources, strict=spec.strict),
    )


def alignment_of(captured: Captured, tables: Iterable[TableEntry]) -> Outcome | None:
    """Return the alignment of a snapshot (R16). By its log it may be another one than by its ledger, which does not
    know what processes that had left before had in flight."""
    in_flight = sum(table.rows for table in tables if table.name == "messages")
    if captured.alignment is None or not captured.alignment.aligned or not in_flight:
        return captured.alignment
    return Outcome(
        aligned=False, why=f"{in_flight:,} messages of processes that had left before were in flight"
    )


def unread_ranges(view: CutView) -> list[ReadRange]:
    """Return for each input the offsets from the lowest position of an agent to the end of the log, empty ranges
    too."""
    assert view.bounds is not None, "reading a log needs to know its bounds"
    found = []
    for tp, sources in sorted(view.inputs.items()):
        if tp in view.recreated:
            continue
        now = view.bounds[tp]
        start = min(source.position for source in sources)
        found.append(ReadRange(*tp, max(start, now.start), max(start, now.end)))
    return found


def _entries(ranges: Iterable[ReadRange]) -> tuple[ReadEntry, ...]:
    return tuple(ReadEntry(topic=r.topic, partition=r.partition, start=r.start, end=r.end) for r in ranges)


def logs_of(
    view: CutView, facts: Mapping[TopicPartition, StateFacts], parent: Manifest | None = None
) -> tuple[LogEntry, ...]:
    """Return the starts and ends of a snapshot's logs when they were about to be read; empty if unknown.

    Args:
        facts: of the changelog partitions.
        parent: of an incremental snapshot. The parent's rows were read when it was assembled: the log has to go back
            as far as it did then; to offset 0 if the parent does not list it.
    """
    then = {} if parent is None else {(log.topic, log.partition): log.start for log in parent.logs}
    settled = {tp: min(cut.end for cut in cuts) for tp, cuts in view.changelogs.items()}
    settled |= {tp: min(settled[tp], it.first_later) for tp, it in facts.items()}
    return tuple(
        LogEntry(
            topic=tp.topic,
            partition=tp.partition,
            topic_id=now.topic_id,
            start=min(now.start, then.get(tp, 0)) if view.state_start(tp) else now.start,
            end=now.end,
            settled=settled.get(tp),
        )
        for tp, now in sorted((view.bounds or {}).items())
        if tp not in view.recreated
    )


def judged(
    captured: Captured,
    checked: Checked,
    groups: tuple[OpenEntry, ...],
    *,
    sources: Collection[str] = (),
    strict: bool = False,
) -> dict[str, Any]:
    """Return what a manifest says of the checks: the verdict, the checks, and what leaves the snapshot open.

    Args:
        groups: without snapkafka, which read outputs: they count if some undeclared topic holds external records.
        sources: declared topics, besides those that the apps declare.
    """
    declared = {*captured.sources, *sources}
    external = tuple(replace(entry, declared=entry.topic in declared) for entry in checked.external)
    found = groups if any(not entry.declared for entry in external) else ()
    verdict = decide(
        checked.outcomes,
        replays=captured.replays,
        open_paths=left_open(found, external, checked.outside, strict=strict),
        contaminated=captured.contaminated,
        unread=captured.unread,
    )
    opened = {"open": found, "external": external, "outsiders": checked.outside, "strict": strict}
    return {"verdict": verdict, "checks": check_entries(checked.outcomes), **opened}


def check_entries(outcomes: Iterable[CheckEntry]) -> tuple[CheckEntry, ...]:
    """Return the checks as the manifest lists them, including those that were not run."""
    entries = [*outcomes]
    for kind in ("V5", "V6"):  # there may have been nothing to look at
        if not any(item.name.startswith(kind) for item in entries):
            entries.append(CheckEntry(name=kind, run=False, status="not-run"))
    return tuple(sorted(entries, key=lambda item: item.name))
