"""Where the manifest of an assembled snapshot lies: in a storage, by no broker's help, or where the ledger says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from snapkafka.checks.verdict import GOOD
from snapkafka.errors import BadInputError, StorageError, UnknownSnapshotError
from snapkafka.kafka.connection import Connection
from snapkafka.kafka.reading import LATEST, epoch_of, find_snapshot, read_ledger
from snapkafka.kafka.reading import good as verified
from snapkafka.manifest import Manifest
from snapkafka.ports import Cluster
from snapkafka.protocol.completion import SnapshotView
from snapkafka.store import Store, open_store
from snapkafka.store.base import manifest_name

__all__ = ["find_manifest", "manifest_places"]

#: A manifest begins with its id, epoch, namespace and verdict, of a few hundred characters at most.
HEAD_CHARS: Final = 4_096


def _assembled(view: SnapshotView) -> bool:
    return view.verdict is not None


def find_manifest(store: Store, name: str, *, namespace: str = "", good: bool = False) -> Manifest:
    """A snapshot of a storage by its id, by its epoch, or as the `latest`; no broker is asked.

    Args:
        namespace: whose epochs are meant, where the storage has snapshots of several.
        good: `latest` is the last one that is good.

    Raises:
        UnknownSnapshotError: there is none such.
        BadInputError: it has to be said which namespace is meant.
    """
    if not (name == LATEST or name.isdecimal()) or store.has(name):
        return store.read(name)
    heads = [head for head in _heads(store) if namespace in ("", head.namespace)]
    if len(namespaces := sorted({head.namespace for head in heads})) > 1:
        raise BadInputError(
            f"{store} has snapshots of {', '.join(namespaces)}", hint="say which with --namespace"
        )
    known = {head.epoch: head for head in heads}
    usable = (epoch for epoch, head in known.items() if not good or head.verdict in GOOD)
    epoch = epoch_of(name, [(head.id, head.epoch) for head in heads], usable)
    if epoch is None:
        what = "good snapshot" if good and name == LATEST else f"snapshot {name!r}"
        of = f" of {namespace}" if namespace else ""
        raise UnknownSnapshotError(f"no {what}{of} in {store}", hint="`snapkafka assemble` makes one")
    return store.read(known[epoch].id)


class _Head(NamedTuple):
    id: str
    epoch: int
    namespace: str
    verdict: str


def _heads(store: Store) -> list[_Head]:
    """What the manifests of a storage say first. To read a large one as a whole takes a tenth of a second, and there
    may be thousands."""
    heads = {name: _head(text) for name, text in store.texts().items()}
    return [head for name, head in heads.items() if head is not None and manifest_name(head.id) == name]


def _head(text: str) -> _Head | None:
    """From its beginning, as we write it, or from the whole, in whatever order it is; None: it is no manifest."""
    beginning = text[:HEAD_CHARS].partition('"content":')[0].rstrip(" \n,") + "}"
    for part in (beginning, text):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            told = json.loads(part)
            return _Head(str(told["id"]), int(told["epoch"]), str(told["namespace"]), str(told["verdict"]))
    return None


async def manifest_places(
    where: Connection | Cluster | None,
    namespace: str,
    names: Sequence[str],
    *,
    storage: str = "",
    good: bool = False,
) -> list[str]:
    """Where the manifests of assembled snapshots lie: in `storage`, or else where the ledger says.

    Args:
        where: not needed with `storage`.
        names: ids, epochs or `latest`.
        good: `latest` is the last one that is good; otherwise the last one that was assembled.

    Raises:
        UnknownSnapshotError: there is none such, or it has no manifest.
        StorageError: nothing says where they lie.
    """
    if storage:
        store = open_store(storage)
        found = [find_manifest(store, name, namespace=namespace, good=good) for name in names]
        return [store.manifest_place(manifest.id) for manifest in found]
    if where is None:
        raise StorageError(
            "no storage is given", hint="add --storage DIR, or --bootstrap: the ledger knows where they lie"
        )
    state = (await read_ledger(where, namespace)).state
    views = [find_snapshot(state, name, usable=verified if good else _assembled) for name in names]
    return [_manifest_of(view) for view in views]


def _manifest_of(view: SnapshotView) -> str:
    if view.verdict is not None and view.verdict.manifest:
        return view.verdict.manifest
    store = open_store(view.trigger.storage)
    store.read(view.trigger.id)
    return store.manifest_place(view.trigger.id)
