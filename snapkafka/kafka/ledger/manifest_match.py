"""The comparison of a manifest with the ledger's verdict."""

from __future__ import annotations

from dataclasses import dataclass

from snapkafka.errors import StorageError
from snapkafka.manifest import Manifest
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
        name = manifest_name(manifest.id)
        same = {of: getattr(manifest, of) for of in ("namespace", "id", "epoch", "verdict", "content")}
        return cls(
            **same, place=store.place(name), sha256=store.sha256(name) if store.has(manifest.id) else ""
        )


def not_compared(manifest: StoredManifest, reading: LedgerReading | str) -> list[str]:
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
        return [f"{head}: {reading}"]
    view = reading.state.snapshots.get(manifest.epoch)
    verdict = view.verdict if view is not None and view.trigger.id == manifest.id else None
    if verdict is None:
        why = "the ledger holds none of it (a verification that is recorded appends one)"
    elif not manifest.sha256:
        why = f"it lies under another name than {manifest_name(manifest.id)}"
    elif not verdict.manifest_sha256:
        why = "that names no digest of it (a verification that is recorded appends one that does)"
    elif manifest.sha256 == verdict.manifest_sha256:
        again = f"{manifest.id} was verified again, and the ledger's verdict is {verdict.verdict}"
        return [again] if verdict.verdict != manifest.verdict else []
    elif verdict.manifest != manifest.place and (verdict.digest, verdict.verdict) == (
        manifest.content,
        manifest.verdict,
    ):
        why = f"that is of {verdict.manifest}"
    else:
        raise StorageError(
            f"manifest {manifest.place} is not the one that was verified",
            hint="`snapkafka verify --tables --record` compares it with the log and records it as it is",
        )
    return [f"{head}: {why}"]
