"""`prune`: remove assembled snapshots from a storage by a policy. Ledgers are read, and nothing is written to them.

For each namespace it keeps the newest `keep_last` snapshots and those assembled in the last `keep_days`. It always
keeps the newest good one, those that an open restore or a fork names, and the one that first violates an invariant
that is still violated. It keeps the bases of all these, parents of parents included. Parents are sought in everything
that looks like a manifest, also in those of a later release, which this one cannot read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, UnknownSnapshotError
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import Manifest, file_stem, load
from snapkafka.ports import Cluster
from snapkafka.query.manifest_heads import assembled_ms, oldest_first
from snapkafka.store import Leftover, Store, open_store
from snapkafka.store.base import LEFTOVER_AFTER_S, manifest_name
from snapkafka.units import DAY_MS, wall_ms

from .in_use import InUse, snapshots_in_use

NOTHING_IN_USE: Final = InUse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The snapshots to keep; None: not a criterion. `namespace`: the policy applies to this one; empty: to all in the
    storage."""

    last: int | None = None
    days: float | None = None
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunable:
    """A snapshot to remove. `bytes`: of its manifest and its files; `foreign`: other files among them, which stay."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    assembled_at: str
    bytes: int
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSnapshot:
    """A snapshot to keep, and why."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    assembled_at: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The snapshots to remove and to keep; as a result of `prune`, those that were removed and kept."""

    storage: str
    removed: tuple[Prunable, ...]
    leftovers: tuple[Leftover, ...]
    kept: tuple[KeptSnapshot, ...]

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.removed) + sum(item.bytes for item in self.leftovers)


async def plan_pruning(
    storage: str,
    policy: Policy,
    *,
    where: Connection | Cluster | None = None,
    clock: Callable[[], int] = wall_ms,
) -> Pruning:
    """Plan what `prune` would remove. Remove nothing.

    Args:
        where: the cluster whose ledgers name snapshots to keep; they are read if anything would be removed. None: no
            ledger is read, for a storage from which nothing is restored or forked.

    Raises:
        BadInputError: the policy is empty.
        StorageError: the storage cannot be read.
        LedgerUnusableError, BrokerUnavailableError: a ledger cannot be read.
    """
    if policy.last is None and policy.days is None:
        raise BadInputError(
            "prune needs --keep-last or --keep-days", hint="add --keep-last N, --keep-days D, or both"
        )
    store = open_store(storage)
    planned = await asyncio.to_thread(_plan, store, policy, clock(), NOTHING_IN_USE)
    if where is None or not planned.removed:
        return planned
    in_use = await snapshots_in_use(where, {item.namespace for item in planned.removed})
    return await asyncio.to_thread(_plan, store, policy, clock(), in_use)


async def prune(
    storage: str,
    policy: Policy,
    planned: Pruning,
    *,
    where: Connection | Cluster | None = None,
    clock: Callable[[], int] = wall_ms,
) -> Pruning:
    """Remove what was planned, as far as still allowed: meanwhile an assembly may have built on it, or recreated it,
    or a restore of it may have begun.

    Args:
        where: see `plan_pruning`.

    Raises:
        StorageError: something cannot be removed; the newest snapshots were removed first, each of them whole.
        LedgerUnusableError, BrokerUnavailableError: a ledger cannot be read; nothing was removed.
    """
    now = await plan_pruning(storage, policy, where=where, clock=clock)
    removed = tuple(item for item in now.removed if item in planned.removed)
    gone = tuple(item for item in now.leftovers if item in planned.leftovers)
    await asyncio.to_thread(_remove, open_store(storage), removed, gone)
    return Pruning(storage=now.storage, removed=removed, leftovers=gone, kept=now.kept)


def _remove(store: Store, doomed: Iterable[Prunable], gone: Iterable[Leftover]) -> None:
    for item in doomed:
        with contextlib.suppress(UnknownSnapshotError):  # somebody else has removed it
            store.remove(store.read(item.id))
    for leftover in gone:
        store.clear(leftover)


def _plan(store: Store, policy: Policy, now_ms: int, in_use: InUse) -> Pruning:
    found: dict[str, Manifest] = {}
    builds_on: dict[str, frozenset[str]] = {}
    for name, text in store.texts().items():
        try:
            manifest = load(text)
        except BadInputError:
            builds_on[name.removesuffix(".json")] = _builds_on(text)
            continue
        if manifest_name(manifest.id) == name:  # a copy under another name is none of ours
            stem = file_stem(manifest.id)
            found[stem], builds_on[stem] = manifest, _builds_on(text)
    why = reasons_to_keep(found, builds_on, policy, now_ms, in_use)
    in_order = oldest_first(found.values())
    return Pruning(
        storage=store.uri,
        # The newest first: what builds on another goes before it.
        removed=tuple(_prunable(store, m) for m in reversed(in_order) if file_stem(m.id) not in why),
        leftovers=tuple(store.leftovers(older_than_s=LEFTOVER_AFTER_S)),
        kept=tuple(_kept(m, why[file_stem(m.id)]) for m in in_order if file_stem(m.id) in why),
    )


def reasons_to_keep(
    found: Mapping[str, Manifest],
    builds_on: Mapping[str, frozenset[str]],
    policy: Policy,
    now_ms: int,
    in_use: InUse = NOTHING_IN_USE,
) -> dict[str, str]:
    """Explain for each snapshot to keep why it is kept.

    Args:
        found: the snapshots by the names of their files (`manifest.file_stem`).
        builds_on: the snapshots on which each of them depends, by the same names; also for those that could not be
            read, and therefore stay.
        in_use: the snapshots that ledgers name.
    """
    why: dict[str, str] = {}

    def keep(manifests: Iterable[Manifest], reason: str) -> None:
        for manifest in manifests:
            why.setdefault(file_stem(manifest.id), reason)

    in_order = oldest_first(found.values())
    for snapshot, reason in in_use.why.items():
        keep((m for m in in_order if m.id == snapshot), reason)
    for namespace in sorted({manifest.namespace for manifest in in_order}):
        newest_first = [manifest for manifest in reversed(in_order) if manifest.namespace == namespace]
        if policy.namespace not in ("", namespace):
            keep(newest_first, "of another namespace")
        keep([m for m in newest_first if m.verdict in GOOD][:1], "newest good snapshot")
        keep(newest_first[: policy.last or 0], f"one of the newest {policy.last}")
        if policy.days is not None:
            since_ms = now_ms - policy.days * DAY_MS
            young = (m for m in newest_first if assembled_ms(m.times, unknown=now_ms) >= since_ms)
            keep(young, f"assembled in the last {policy.days:g} days")
        if namespace in in_use.unknown:
            keep(newest_first, "the ledger of its namespace is not in this cluster")
    queue = [*why, *(builds_on.keys() - found.keys())]
    while queue:
        above = queue.pop()
        for below in builds_on.get(above, frozenset()) - why.keys():
            why[below] = f"{found[above].id if above in found else above} builds on it"
            queue.append(below)
    return why


def _builds_on(text: str) -> frozenset[str]:
    """Return the snapshots that a manifest needs besides itself, by the names of their files: its parent, and others
    whose files it names. This also works for a manifest that this release cannot read."""
    try:
        data = json.loads(text)
    except ValueError:
        return frozenset()
    captured, tables = _field(data, "captured"), _field(data, "tables")
    # An incremental snapshot that could not build on its parent lists none.
    listed = _field(data, "parents")
    parents = [_field(parent, "id") for parent in _items(listed)]
    parents += [_field(data, "parent")] if isinstance(listed, list) else [_field(captured, "parent")]
    files = [file for table in _items(tables) for file in _items(_field(table, "files"))]
    paths = [_field(file, "path") for file in files]
    return frozenset(
        [file_stem(parent) for parent in parents if isinstance(parent, str) and parent]
        + [path.partition("/")[0] for path in paths if isinstance(path, str)]
    )


def _field(data: object, name: str) -> object:
    return data.get(name) if isinstance(data, dict) else None


def _items(data: object) -> list[object]:
    return data if isinstance(data, list) else []


def _prunable(store: Store, manifest: Manifest) -> Prunable:
    return Prunable(
        id=manifest.id,
        epoch=manifest.epoch,
        namespace=manifest.namespace,
        verdict=manifest.verdict,
        assembled_at=manifest.times.assembled_at,
        bytes=store.bytes_of(manifest),
        foreign=tuple(store.foreign_files(manifest)),
    )


def _kept(manifest: Manifest, why: str) -> KeptSnapshot:
    return KeptSnapshot(
        id=manifest.id,
        epoch=manifest.epoch,
        namespace=manifest.namespace,
        verdict=manifest.verdict,
        assembled_at=manifest.times.assembled_at,
        why=why,
    )
