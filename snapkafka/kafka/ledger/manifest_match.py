"""The comparison of a manifest with the ledger's verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest
from snapkafka.protocol import records
from snapkafka.store import Store, manifest_name

from .reading import LedgerReading


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """The content of a stored manifest. `sha256`: of its file; empty if that has another name than its snapshot."""

    namespace: str
    id: str
    epoch: int
    verdict: str
    content: str
    place: str
    sha256: str

    @classmethod
    def of(cls, store: Store, manifest: Manifest) -> StoredManifest:
        """Read the file of a manifest again, for its digest."""
        there = store.has(manifest.id)
        return cls(
            namespace=manifest.namespace,
            id=manifest.id,
            epoch=manifest.epoch,
            verdict=manifest.verdict,
            content=manifest.content,
            place=store.manifest_place(manifest.id),
            sha256=store.sha256(manifest_name(manifest.id)) if there else "",
        )


def not_compared(manifest: StoredManifest, reading: LedgerReading | str) -> Iterator[str]:
    """Compare the manifest of a snapshot with the ledger's verdict of it.

    Args:
        reading: the ledger; or why it cannot be read.

    Returns:
        why they were not compared, or where they differ although the manifest is the one that was verified.

    Raises:
        StorageError: the manifest is not the one that was verified.
    """
    head = f"manifest of {manifest.id} was not compared with the ledger's verdict"
    if isinstance(reading, str):
        yield f"{head}: {reading}"
        return
    view = reading.state.snapshots.get(manifest.epoch)
    if view is None or view.trigger.id != manifest.id or view.verdict is None:
        yield f"{head}: the ledger holds none of it (a verification that is recorded appends one)"
        return
    verdict = view.verdict
    if not manifest.sha256:
        yield f"{head}: it lies under another name than {manifest_name(manifest.id)}"
        return
    if not verdict.manifest_sha256:
        yield f"{head}: that names no digest of it (a verification that is recorded appends one that does)"
        return
    if manifest.sha256 == verdict.manifest_sha256:
        if verdict.verdict != manifest.verdict:
            yield f"{manifest.id} was verified again, and the ledger's verdict is {verdict.verdict}"
        return
    if verdict.manifest != manifest.place and not _other_rows(verdict, manifest):
        yield f"{head}: that is of {verdict.manifest}"
        return
    raise StorageError(
        f"manifest {manifest.place} is not the one that was verified",
        hint="`snapkafka verify --tables --record` compares it with the log and records it as it is",
    )


def _other_rows(verdict: records.Verdict, manifest: StoredManifest) -> bool:
    return verdict.digest != manifest.content or verdict.verdict != manifest.verdict
