"""The answers of routes: snapshots as the contract has them, with the numbers of their manifests; and what is not a
result of `ops`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from snapkafka.errors import SnapkafkaError
from snapkafka.manifest import RestorableEntry
from snapkafka.ops import Details, SnapshotInfo, details, instant, summary, with_files
from snapkafka.protocol import RestoreView, SnapshotView, Status
from snapkafka.query.locate import StoredFiles, stored

from .access import within
from .ledger_follower import LedgerFollower, Shared
from .problems import RefusedError
from .settings import Settings


class Triggered(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was asked for. It goes on by itself, whatever becomes of this service."""

    snapshot_id: str
    status: Status
    initiated_at: str
    estimated_completion_ms: int
    epoch: int
    attempt: int


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshots, newest first. `next_before`: None on the last page; `total`: from here on, with the filters."""

    namespace: str
    next_before: int | None
    total: int
    snapshots: list[SnapshotInfo]


class Restore(msgspec.Struct, frozen=True, kw_only=True):
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


class Access(msgspec.Struct, frozen=True, kw_only=True):
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


#: So many manifests' numbers are kept in memory, and so many descriptions.
KEPT: Final = 1_000
#: A storage that does not answer in this time is taken for one that does not answer; a manifest that cannot be read is
#: asked for again later.
STORAGE_S: Final = 5.0
AGAIN_S: Final = 30.0


class Rows:
    """The rows of one namespace."""

    def __init__(self, follower: LedgerFollower, settings: Settings) -> None:
        self._follower, self._settings = follower, settings
        self._stored = Shared(self._read, lambda found: AGAIN_S if found is None else inf, most=KEPT)

    def _now(self, by: Any, view: SnapshotView, stored: StoredFiles | None) -> Any:
        """Describe a snapshot as of now. If it is decided, as all before it are, little can change that."""
        follower, kept, key = self._follower, self._follower.described, (by, view.epoch)
        view = follower.find(str(view.epoch))  # the ledger may have been read anew meanwhile
        over = view.epoch < next(iter(follower.reading.state.open), inf)
        latest = view.epoch == follower.latest_good()
        basis = over or object(), view.verdict, view.contaminated, stored, latest
        if key not in kept or kept[key][0] != basis:
            found = replace(by(follower.reading, view, follower.clock()), latest_good=latest)
            if stored is not None and by is details:
                found = with_files(found, stored)
            elif stored is not None:
                numbers = {"bytes": stored.bytes, "in_flight": stored.in_flight}
                found = replace(found, assembled=True, restorable=stored.restorable, **numbers)
            while len(kept) >= KEPT and key not in kept:
                del kept[next(iter(kept))]
            kept[key] = basis, found
        return kept[key][1]

    async def rows(self, views: Sequence[SnapshotView]) -> list[SnapshotInfo]:
        """Describe each in a few numbers, as of now."""
        for key in filter(None, map(_manifest, views)):
            self._stored.ask(key)  # all of them at once
        return [self._now(summary, view, await self.stored(view)) for view in views]

    async def whole(self, view: SnapshotView, restorable: RestorableEntry | None) -> Details:
        """Return everything that is known of a snapshot."""
        found: Details = self._now(details, view, await self.stored(view))
        return replace(found, restorable=restorable or found.restorable)

    async def stored(self, view: SnapshotView) -> StoredFiles | None:
        """Return the numbers of its manifest, None if there is none to read."""
        try:
            return await self._stored.get(key, STORAGE_S) if (key := _manifest(view)) else None
        except RefusedError:
            return None

    async def _read(self, key: tuple[str, str]) -> StoredFiles | None:
        try:
            place = within(key[0], self._settings.roots)
            return await asyncio.to_thread(stored, place) if place else None
        except SnapkafkaError:
            return None


def _manifest(view: SnapshotView) -> tuple[str, str] | None:
    found = view.verdict
    return (found.manifest, found.manifest_sha256 or found.digest) if found else None
