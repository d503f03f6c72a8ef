"""The results of `ops` as the JSON of the contract. Its names and types are fixed; further fields may be added."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from snapkafka.checks.kinds import CHECKS
from snapkafka.manifest import CheckEntry, RestorableEntry, file_stem
from snapkafka.ops import Details, Summary
from snapkafka.protocol.records import CheckResult
from snapkafka.query.stored import StoredFiles

from .ledger_follower import Viewed

#: The estimate is the median of so many snapshots; more than that is another system by now.
ESTIMATED_FROM: Final = 20


def instant(ms: int) -> str:
    """Format milliseconds since 1970 as the contract has times: whole seconds, in UTC."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def estimated_ms(capture_ms: Iterable[int], ttl_ms: int) -> int:
    """Estimate the duration of a snapshot from the last ones, newest first; without any, its time to live."""
    last = [ms for ms, _ in zip(capture_ms, range(ESTIMATED_FROM), strict=False)]
    return round(statistics.median(last)) if last else ttl_ms


def triggered(summary: Summary, estimate_ms: int) -> dict[str, Any]:
    """Return the answer to a trigger: the four fields of the contract, and further names of the snapshot."""
    return {
        "snapshot_id": summary.id,
        "status": summary.status.value,
        "initiated_at": instant(summary.triggered_ms),
        "estimated_completion_ms": estimate_ms,
        "epoch": summary.epoch,
        "attempt": summary.attempt,
    }


def manifest_uri(summary: Summary) -> str:
    """Return the present or future place of the manifest; empty if unknown."""
    if summary.manifest or not summary.storage:
        return summary.manifest
    return f"{summary.storage.rstrip('/')}/{file_stem(summary.id)}.json"


def row(view: Viewed, stored: StoredFiles | None, *, latest_good: int | None, now_ms: int) -> dict[str, Any]:
    """Return a snapshot with the seven fields of the contract, and those of the table on the page."""
    summary = view.summary
    running = view.decided_ms is None
    return {
        "snapshot_id": summary.id,
        "status": summary.status.value,
        "duration_ms": max(0, now_ms - summary.triggered_ms) if view.decided_ms is None else view.decided_ms,
        "total_size_bytes": stored.bytes if stored else 0,
        "nodes_completed": view.closed,
        "nodes_failed": view.failed,
        "checkpoint_manifest_uri": manifest_uri(summary),
        # -- beyond the contract
        "attempt": summary.attempt,
        "epoch": summary.epoch,
        "snapshot_type": summary.type,
        "parent_snapshot_id": view.parent or None,
        "initiated_by_node_id": summary.who,
        "initiated_at": instant(summary.triggered_ms),
        "initiated_at_ms": summary.triggered_ms,
        "target_storage_uri": summary.storage,
        "apps": list(summary.apps),
        "ttl_ms": summary.ttl_ms,
        "nodes_total": view.required,
        "nodes_reported": view.reported,
        "waits_for": list(view.waits) if running else [],
        "failure": {
            "code": summary.failure_code,
            "reason": summary.failure_reason,
            "culprit": summary.culprit,
        }
        if summary.failure_code
        else None,
        "contaminated": summary.contaminated or None,
        "verdict": summary.verdict or None,
        "latest_good": summary.epoch == latest_good,
        "assembled": stored is not None,
        "in_flight_messages": stored.in_flight if stored else None,
        "restorable": _restorable(stored.restorable if stored else None),
        "unread_topics": [str(item) for item in summary.unread],
    }


def detail(
    view: Viewed,
    details: Details,
    stored: StoredFiles | None,
    restorable: RestorableEntry | None,
    *,
    latest_good: int | None,
    now_ms: int,
) -> dict[str, Any]:
    """Return everything that is known of a snapshot: phases, processes, positions, checks, how long it is
    restorable."""
    found = row(view, stored, latest_good=latest_good, now_ms=now_ms)
    if restorable is not None:
        found["restorable"] = _restorable(restorable)
    processes = [dataclasses.asdict(process) for process in details.processes]
    reported = [p["reported_ms"] for p in processes if p["reported_ms"] is not None]
    closed = [p["closed_ms"] for p in processes if p["closed_ms"] is not None]
    return {
        **found,
        "phases": {
            "first_cut_ms": min(reported, default=None),
            "last_cut_ms": max(reported, default=None),
            "last_closed_ms": max(closed, default=None),
            "decided_ms": view.decided_ms,
        },
        "processes": processes,
        "waits": [dataclasses.asdict(wait) for wait in details.waits],
        "positions": [dataclasses.asdict(position) for position in details.positions],
        "checks": _checks(details, stored),
        "tables": dict(stored.rows) if stored else {},
        "ancestors": list(stored.parents) if stored else [],
        "left_open": list(stored.left_open) if stored else [],
        "assumptions": list(stored.assumptions) if stored else [],
        "uncaptured": [dataclasses.asdict(item) for item in details.uncaptured],
    }


def _restorable(entry: RestorableEntry | None) -> Mapping[str, Any] | None:
    if entry is None:
        return None
    return {"how": entry.how, "until": entry.until or None, "topic": entry.topic, "why": entry.why}


def _checks(details: Details, stored: StoredFiles | None) -> list[dict[str, Any]]:
    """Return the checks, with witnesses from the manifest if there is one, else those of the ledger's verdict."""
    checks: Iterable[CheckEntry | CheckResult] = details.checks if stored is None else stored.checks
    return [dataclasses.asdict(check) | _described(check.name) for check in checks]


def _described(name: str) -> dict[str, str]:
    """Return the name of a check for people, and what it proves; empty for one of a later release."""
    kind, _, invariant = name.partition(" ")
    title, says = CHECKS.get(kind, ("", ""))
    return {"title": f"invariant {invariant}" if invariant else title, "says": says}
