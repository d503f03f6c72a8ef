"""The answers of routes: snapshots as the contract has them, with the numbers of their manifests; and what is not a
result of `ops`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import lru_cache
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


#: The numbers of so many manifests are kept in memory, and so many snapshots as they were described last.
KEPT: Final = 2_000
#: A storage that does not answer in this time is taken for one that does not answer; a manifest that cannot be read is
#: asked for again later.
STORAGE_S: Final = 5.0
AGAIN_S: Final = 30.0


class Rows:
    """The rows of one namespace."""

    def __init__(self, follower: LedgerFollower, settings: Settings) -> None:
        self._follower, self._settings = follower, settings
        self._stored: Shared[tuple[str, str], StoredFiles | None] = Shared(
            _read, lambda found: AGAIN_S if found is None else float("inf"), most=KEPT
        )

    def _now(self, by: Any, view: SnapshotView) -> Any:
        """Describe a snapshot as of now; one that is over, once for what was read so far."""
        now_ms = self._follower.clock() if view.open else 0
        return _described(by, self._follower, view.epoch, self._follower.version, now_ms)

    def row(self, view: SnapshotView, stored: StoredFiles | None) -> SnapshotInfo:
        """Describe a snapshot in a few numbers, as of now."""
        found: SnapshotInfo = self._now(summary, view)
        if stored is None:
            return found
        numbers = {"bytes": stored.bytes, "in_flight": stored.in_flight, "restorable": stored.restorable}
        return replace(found, assembled=True, **numbers)

    async def rows(self, views: Sequence[SnapshotView]) -> list[SnapshotInfo]:
        """Describe each."""
        judged = {view.epoch: self.stored(view) for view in views if view.verdict}
        stored = dict(zip(judged, await asyncio.gather(*judged.values()), strict=True))
        return [self.row(view, stored.get(view.epoch)) for view in views]

    async def whole(self, view: SnapshotView, restorable: RestorableEntry | None) -> Details:
        """Return everything that is known of a snapshot."""
        stored = await self.stored(view)
        found: Details = self._now(details, view)
        found = found if stored is None else with_files(found, stored)
        return replace(found, restorable=restorable or found.restorable)

    async def stored(self, view: SnapshotView) -> StoredFiles | None:
        """Return the numbers of its manifest, None if there is none to read."""
        verdict = view.verdict
        if verdict is None or (place := within(verdict.manifest, self._settings.roots)) is None:
            return None
        try:
            return await self._stored.get((place, verdict.manifest_sha256 or verdict.digest), STORAGE_S)
        except RefusedError:
            return None


@lru_cache(KEPT)
def _described(by: Any, follower: LedgerFollower, epoch: int, version: int, now_ms: int) -> Any:
    found = by(follower.reading, follower.find(str(epoch)), now_ms)
    return replace(found, latest_good=epoch == follower.latest_good())


async def _read(key: tuple[str, str]) -> StoredFiles | None:
    try:
        return await asyncio.to_thread(stored, key[0])
    except SnapkafkaError:
        return None
