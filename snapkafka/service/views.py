"""The answers of routes whose content is not a result of `ops`."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from snapkafka.ops import SnapshotInfo, instant
from snapkafka.protocol.ledger_state import Status
from snapkafka.protocol.restores import RestoreView


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer."""


class Triggered(Answer, frozen=True):
    """A snapshot that was asked for. It goes on by itself, whatever becomes of this service."""

    snapshot_id: str
    status: Status
    initiated_at: str
    estimated_completion_ms: int
    epoch: int
    attempt: int


class Page(Answer, frozen=True):
    """Snapshots, newest first. `next_before`: None on the last page; `total`: from here on, with the filters."""

    namespace: str
    next_before: int | None
    total: int
    snapshots: list[SnapshotInfo]


class Restore(Answer, frozen=True):
    """A restore: its stage, and when it reached each."""

    plan: str
    snapshot_id: str
    epoch: int
    apps: tuple[str, ...]
    stage: str
    initiated_by_node_id: str
    reason: str | None
    begun_at: str | None
    closed_at: str | None


class Access(Answer, frozen=True):
    """What this client may do, and where tables may lie."""

    namespace: str
    role: str
    storage_roots: tuple[str, ...]


def describe_restore(view: RestoreView, times_ms: Mapping[int, int]) -> Restore:
    """Describe a restore. `times_ms`: of the ledger's records."""
    begun_at, closed_at = (
        instant(times_ms[offset]) if offset is not None and offset in times_ms else None
        for offset in (view.begun_at, view.closed_at)
    )
    return Restore(
        plan=view.plan,
        snapshot_id=view.begun.snapshot,
        epoch=view.begun.epoch,
        apps=view.apps,
        stage=view.stage,
        initiated_by_node_id=view.begun.who,
        reason=view.reason or None,
        begun_at=begun_at,
        closed_at=closed_at,
    )
