"""What is removed: assembled snapshots from a storage (`prune`), and old records from the ledger (`checkpoint`).

For each namespace `prune` keeps the newest `keep_last` snapshots. It always keeps the newest good one, those that an
open restore or a fork names, and the one that first violates an invariant that is still violated. It keeps the bases of
all these, parents of parents included. It refuses a storage with a manifest that it cannot read: who knows what that
needs. Ledgers are read, and nothing is written to them.

`checkpoint` writes the part of the ledger that still matters once more, so that older records can be deleted. Every
service that starts, and every command, reads the ledger from its beginning. It grows by some hundred bytes for each
process and partition with every snapshot: one snapshot a minute makes a million records in half a year.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, UnknownSnapshotError
from snapkafka.kafka import Connection, LedgerReading, opened, read_ledger
from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.ledger.settings import RECORD_BYTES_MAX
from snapkafka.manifest import Manifest, file_stem, load
from snapkafka.ports import Cluster
from snapkafka.protocol.forking import LEDGER
from snapkafka.protocol.ledger_state import take_checkpoint
from snapkafka.query.locate import oldest_first
from snapkafka.restore.forks import list_forks
from snapkafka.store import LEFTOVER_AFTER_S, Leftover, Store, manifest_name, open_store
from snapkafka.units import wall_ms
from snapkafka.verbs import Result
from snapkafka.wire.codec import encode

from .watching import invariants_in


class InUse(NamedTuple):
    """The snapshots that ledgers of a cluster name. `why`: id of a snapshot -> what needs it, a phrase. `unknown`:
    namespaces whose ledger is not in this cluster, so that open restores are unknown."""

    why: Mapping[str, str]
    unknown: Collection[str]


async def snapshots_in_use(where: Connection | Cluster, namespaces: Collection[str]) -> InUse:
    """Read the snapshots that the open restores and violated invariants of these namespaces, and all forks of the
    cluster, name."""
    async with administration(where) as admin:
        topics = await admin.describe_topics()
    why = {it.snapshot: f"fork {it.fork} was created from it" for it in await list_forks(where)}
    unknown = {namespace for namespace in namespaces if LEDGER + namespace not in topics}
    for namespace in sorted({*namespaces} - unknown):
        reading = await read_ledger(where, namespace)
        for item in invariants_in(reading):
            if item.broke is not None:
                why[item.broke.id] = f"invariant {item.name} is first violated in it"
        if (view := reading.state.restores.open) is not None:
            why[view.begun.snapshot] = f"plan {view.plan} restores it, and is {view.stage}"
    return InUse(why, unknown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The number of newest snapshots to keep. `namespace`: the policy applies to this one; empty: to all in the
    storage. `among`: it counts and removes these ids alone; None: all."""

    last: int | None
    namespace: str = ""
    among: Collection[str] | None = None


class PlannedSnapshot(Result, frozen=True, kw_only=True):
    """A snapshot, and `why` it is kept; empty: it is removed. Then `bytes`: of its manifest and its files; other files
    among them stay."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    assembled_at: str
    why: str = ""
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning:
    """The snapshots to remove and to keep; as a result of `prune`, those that were removed and kept."""

    storage: str
    removed: tuple[PlannedSnapshot, ...]
    leftovers: tuple[Leftover, ...]
    kept: tuple[PlannedSnapshot, ...]

    @property
    def bytes(self) -> int:
        return sum(item.bytes for item in self.removed) + sum(item.bytes for item in self.leftovers)


async def plan_pruning(storage: str, policy: Policy, *, where: Connection | Cluster | None = None) -> Pruning:
    """Plan what `prune` would remove. Remove nothing.

    Args:
        where: the cluster whose ledgers name snapshots to keep; they are read if anything would be removed. None: no
            ledger is read, for a storage from which nothing is restored or forked.
    """
    if policy.last is None:
        raise BadInputError("prune needs --keep-last", hint="add --keep-last N")
    store = open_store(storage)
    planned = await asyncio.to_thread(_plan, store, policy, InUse({}, ()))
    if where is None or not planned.removed:
        return planned
    in_use = await snapshots_in_use(where, {item.namespace for item in planned.removed})
    return await asyncio.to_thread(_plan, store, policy, in_use)


async def prune(
    storage: str, policy: Policy, planned: Pruning, *, where: Connection | Cluster | None = None
) -> Pruning:
    """Remove what was planned, as far as still allowed: meanwhile an assembly may have built on it, or recreated it,
    or a restore of it may have begun. The newest snapshots are removed first, each of them whole.

    Args:
        where: see `plan_pruning`.
    """
    now = await plan_pruning(storage, policy, where=where)
    removed = tuple(item for item in now.removed if item in planned.removed)
    gone = tuple(item for item in now.leftovers if item in planned.leftovers)
    await asyncio.to_thread(_remove, open_store(storage), removed, gone)
    return replace(now, removed=removed, leftovers=gone)


def _remove(store: Store, doomed: Iterable[PlannedSnapshot], gone: Iterable[Leftover]) -> None:
    for item in doomed:
        with contextlib.suppress(UnknownSnapshotError):  # somebody else has removed it
            store.remove(store.read(item.id))
    for leftover in gone:
        store.clear(leftover)


def _plan(store: Store, policy: Policy, in_use: InUse) -> Pruning:
    found: dict[str, Manifest] = {}
    for name, text in store.texts().items():
        try:
            manifest = load(text)
        except BadInputError as error:
            if not _is_manifest(text):
                continue
            raise BadInputError(
                f"{name} cannot be read, so what it builds on is unknown: {error.message}",
                hint="move it away, or use the release that has written it",
            ) from error
        if manifest_name(manifest.id) == name:  # a copy under another name is none of ours
            found[file_stem(manifest.id)] = manifest
    why = reasons_to_keep(found, policy, in_use)
    planned = [
        PlannedSnapshot(
            id=it.id,
            epoch=it.epoch,
            namespace=it.namespace,
            verdict=it.verdict,
            assembled_at=it.times.assembled_at,
            why=why.get(file_stem(it.id), ""),
            bytes=0 if file_stem(it.id) in why else store.bytes_of(it),
        )
        for it in oldest_first(found.values())
    ]
    return Pruning(
        storage=store.uri,
        removed=tuple(it for it in reversed(planned) if not it.why),  # what builds on another goes before it
        leftovers=tuple(store.leftovers(older_than_s=LEFTOVER_AFTER_S)),
        kept=tuple(it for it in planned if it.why),
    )


def _is_manifest(text: str) -> bool:
    """Return whether a file is a manifest, if perhaps of another release."""
    try:
        return isinstance(msgspec.json.decode(text)["version"], int)
    except (msgspec.DecodeError, UnicodeEncodeError, LookupError, TypeError):
        return False


def reasons_to_keep(found: Mapping[str, Manifest], policy: Policy, in_use: InUse) -> dict[str, str]:
    """Explain for each snapshot to keep why it is kept.

    Args:
        found: the snapshots by the names of their files (`manifest.file_stem`).
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
        if policy.among is not None:
            keep([m for m in newest_first if m.id not in policy.among], "taken by another command")
        counted = [m for m in newest_first if policy.among is None or m.id in policy.among]
        keep(counted[: policy.last or 0], f"one of the newest {policy.last}")
        if namespace in in_use.unknown:
            keep(newest_first, "the ledger of its namespace is not in this cluster")
    queue = [*why]
    while queue:
        if (above := found.get(queue.pop())) is None:
            continue
        for below in _builds_on(above) - why.keys():
            why[below] = f"{above.id} builds on it"
            queue.append(below)
    return why


def _builds_on(manifest: Manifest) -> set[str]:
    """Return the snapshots that one needs besides itself, by the names of their files: its parents, and others whose
    files it names."""
    files = (file for table in manifest.tables for file in table.files)
    return {file_stem(parent.id) for parent in manifest.parents} | {
        file.path.partition("/")[0] for file in files
    }


#: What is younger stays as it is: whoever reads the ledger, and is no more than this behind, misses nothing.
KEEP_MS: Final = 60 * 60 * 1000
#: A checkpoint that would remove more records is due: a worker that starts waits two seconds for the ledger, and reads
#: some thousand records in that time, beside its own work.
DUE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The result: of `records` below offset `upto` those that still matter were `kept`, in `chunks` records; the
    ledger begins at `upto` now. All 0: nothing was old enough, or only the checkpoint with which the ledger begins,
    and nothing was done."""

    namespace: str
    upto: int
    records: int
    kept: int
    chunks: int


def checkpoint_due(reading: LedgerReading, now_ms: int, *, keep_ms: int = KEEP_MS) -> int:
    """Count the records of the ledger that a checkpoint would remove now; 0 if that is not worth it yet."""
    old = sum(
        offset >= reading.state.start and at_ms <= now_ms - keep_ms
        for offset, at_ms in reading.times_ms.items()
    )
    return old if old > DUE else 0


async def checkpoint(
    where: Connection | Cluster, namespace: str, *, now_ms: int = 0, keep_ms: int = KEEP_MS
) -> Checkpointed:
    """Write a checkpoint of all records that are older than `keep_ms` at `now_ms` (0: now), then delete these.

    Open snapshots, the latest 64 captured ones, processes, owners and names stay known; the ledger forgets older
    snapshots, and their manifests stay. Running it twice, or twice at once, is safe.

    Raises:
        RecordTooLargeError: a record with its envelope exceeds the limit; nothing is deleted.
        LedgerUnusableError: deletion is unauthorized. Nothing is lost; the checkpoint is written.
    """
    async with opened(where, namespace) as work:
        reading = work.reading
        entries = [entry async for entry in work.ledger.read(until=reading.state.end)]
        upto_ms = (now_ms or wall_ms()) - keep_ms
        old = list(itertools.takewhile(lambda entry: entry.timestamp_ms <= upto_ms, entries))
        if not old or old[-1].offset < reading.state.start:
            return Checkpointed(namespace=namespace, upto=0, records=0, kept=0, chunks=0)
        chunks = take_checkpoint(
            ((entry.offset, entry.record) for entry in old),
            first_n=random.getrandbits(62),
            times_ms=reading.times_ms,
            fits=lambda chunk: len(encode(chunk)) <= RECORD_BYTES_MAX,
        )
        for chunk in chunks:
            await work.ledger.append(chunk)
        upto = chunks[0].upto
        await work.ledger.trim(upto)
        return Checkpointed(
            namespace=namespace,
            upto=upto,
            records=sum(entry.offset >= reading.state.start for entry in old),
            kept=sum(len(chunk.kept) for chunk in chunks),
            chunks=len(chunks),
        )
