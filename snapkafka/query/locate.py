"""The place of the manifest of an assembled snapshot: in a storage, without a broker, or as the ledger has it; and a
summary of it, without the tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.kafka.cluster.external_groups import assumptions, left_open
from snapkafka.kafka.ledger.reading import LATEST, epoch_in, find_snapshot, read_ledger
from snapkafka.kafka.ledger.reading import good as verified
from snapkafka.kafka.login.connection import Connection
from snapkafka.manifest import CheckEntry, LedgerEntry, Manifest, RestorableEntry, Times
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import SnapshotView
from snapkafka.store import Store, manifest_name, open_store, read_manifest


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What an order needs of a manifest. To make all of a large one takes a tenth of a second, and there may be
    thousands."""

    id: str
    epoch: int
    namespace: str
    verdict: str
    ledger: LedgerEntry
    times: Times


_HEAD: Final = msgspec.json.Decoder(Head)
T = TypeVar("T", Head, Manifest)


def heads(store: Store) -> list[Head]:
    """Read the heads of all manifests of a storage; a copy under another name is ignored."""
    found = []
    for name, text in store.texts().items():
        with contextlib.suppress(msgspec.DecodeError, UnicodeEncodeError):
            if manifest_name((head := _HEAD.decode(text)).id) == name:
                found.append(head)
    return oldest_first(found)


def oldest_first(found: Iterable[T]) -> list[T]:
    """Sort by epochs; as those of a recreated ledger begin again, ledgers are sorted by their latest assembly."""
    last: dict[str, str] = {}
    for item in (found := list(found)):
        ledger = item.ledger.topic_id
        last[ledger] = max(item.times.assembled_at, last.get(ledger, ""))
    return sorted(found, key=lambda item: (last[item.ledger.topic_id], item.ledger.topic_id, item.epoch))


def find_manifest(store: Store, name: str, *, namespace: str = "", good: bool = False) -> Manifest:
    """Find a snapshot of a storage as the `latest`, by its epoch, or by its id; no broker is asked.

    Args:
        namespace: of the epoch, if the storage has snapshots of several.
        good: `latest` is the last good one.

    Raises:
        UnknownSnapshotError: there is no such snapshot.
        BadInputError: the namespace, or, by an id, the ledger is ambiguous.
    """
    epoch = epoch_in(name)
    if name != LATEST and epoch is None:
        return store.read(name)
    found = [head for head in heads(store) if namespace in ("", head.namespace)]
    if len(namespaces := sorted({head.namespace for head in found})) > 1:
        raise BadInputError(
            f"{store} has snapshots of {', '.join(namespaces)}",
            hint="choose one by --namespace",
            namespaces=namespaces,
        )
    if name == LATEST:
        found = [head for head in found if not good or head.verdict in GOOD][-1:]
    else:
        found = [head for head in found if head.epoch == epoch]
    if len(found) > 1:
        ids = [head.id for head in found]
        raise BadInputError(
            f"{store} has several snapshots of epoch {name}, as the ledger was recreated: {', '.join(ids)}",
            hint="name one by its id",
            ids=ids,
        )
    if not found:
        what = "good snapshot" if good and name == LATEST else f"snapshot {name!r}"
        of = f" of {namespace}" if namespace else ""
        raise UnknownSnapshotError(
            f"no {what}{of} is assembled in {store}", hint="`snapkafka assemble` builds its tables"
        )
    return store.read(found[0].id)


async def manifest_places(
    where: Connection | Cluster | None,
    namespace: str,
    names: Sequence[str],
    *,
    storage: str = "",
    good: bool = False,
) -> list[str]:
    """Return the places of the manifests of assembled snapshots: in `storage`, or else those in the ledger.

    Args:
        where: not needed with `storage`.
        names: ids, epochs or `latest`.
        good: `latest` is the last good one; otherwise the last assembled one.

    Raises:
        UnknownSnapshotError: there is no such snapshot, or it has no manifest.
        StorageError: their place is unknown.
    """
    if storage:
        store = open_store(storage)
        found = (find_manifest(store, name, namespace=namespace, good=good) for name in names)
        return [store.manifest_place(manifest.id) for manifest in found]
    if where is None:
        raise StorageError(
            "no storage is given", hint="add --storage DIR, or --bootstrap: the ledger names their place"
        )
    state = (await read_ledger(where, namespace)).state
    usable = verified if good else lambda view: view.verdict is not None
    return [_manifest_of(find_snapshot(state, name, usable=usable)) for name in names]


def _manifest_of(view: SnapshotView) -> str:
    if view.verdict is not None and view.verdict.manifest:
        return view.verdict.manifest
    store = open_store(view.trigger.storage)
    store.read(view.trigger.id)
    return store.manifest_place(view.trigger.id)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """An assembled snapshot. `bytes`: of the files of its own tables; `rows` by table; `in_flight`: messages;
    `restorable`: at the time when the tables were written; `left_open`: why it is open; `assumptions` of its
    verdict; `contaminated`: why it cannot be proved."""

    bytes: int
    rows: Mapping[str, int]
    in_flight: int
    checks: tuple[CheckEntry, ...]
    restorable: RestorableEntry | None
    parents: tuple[str, ...]
    left_open: tuple[str, ...]
    assumptions: tuple[str, ...]
    contaminated: str


def stored(place: str) -> StoredFiles:
    """Read the manifest at a path or URI. Blocks.

    Raises:
        StorageError: it cannot be read.
        BadInputError: it is not a manifest.
    """
    _, found = read_manifest(place)
    rows = {table.name: table.rows for table in found.tables}
    return StoredFiles(
        bytes=sum(file.bytes for table in found.tables for file in table.files),
        rows=rows,
        in_flight=rows.get("messages", 0),
        checks=found.checks,
        restorable=found.restorable,
        parents=tuple(parent.id for parent in found.parents),
        left_open=tuple(left_open(found.open, found.external, found.outsiders, strict=found.strict)),
        assumptions=tuple(assumptions(found.external, strict=found.strict)),
        contaminated=found.captured.contaminated,
    )
