"""A summary of an assembled snapshot by its manifest: a few numbers, without the tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snapkafka.kafka.cluster.external_groups import assumptions, open_topics, outside_paths, unseen_paths
from snapkafka.manifest import CheckEntry, InvariantEntry, RestorableEntry
from snapkafka.store import read_manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFiles:
    """An assembled snapshot. `bytes`: of the files of its own tables; `rows` by table; `in_flight`: messages;
    `restorable`: at the time when the tables were written; `left_open`: why it is open; `assumptions` of its
    verdict."""

    manifest: str
    id: str
    bytes: int
    rows: Mapping[str, int]
    in_flight: int
    checks: tuple[CheckEntry, ...]
    invariants: tuple[InvariantEntry, ...] = ()
    restorable: RestorableEntry | None
    parents: tuple[str, ...]
    left_open: tuple[str, ...]
    assumptions: tuple[str, ...]


def stored(place: str) -> StoredFiles:
    """Read the manifest at a path or URI. Blocks.

    Raises:
        StorageError: it cannot be read.
        BadInputError: it is not a manifest.
    """
    _, found = read_manifest(place)
    rows = {table.name: table.rows for table in found.tables}
    return StoredFiles(
        manifest=place,
        id=found.id,
        bytes=sum(file.bytes for table in found.tables for file in table.files),
        rows=rows,
        in_flight=rows.get("messages", 0),
        checks=found.checks,
        invariants=found.invariants,
        restorable=found.restorable,
        parents=tuple(parent.id for parent in found.parents),
        left_open=(
            *unseen_paths(found.open),
            *open_topics(found.external, strict=found.strict),
            *outside_paths(found.outsiders),
        ),
        assumptions=tuple(assumptions(found.external, strict=found.strict)),
    )
