"""The integrity of a stored snapshot: its manifest compared with its files, and with itself.

Only the files are read: no broker, no ledger, no Spark. So this finds damage done after the assembly (a flipped bit, a
lost or foreign file, an edited number, a value under a renewed SHA-256). Only the log can prove that the snapshot was
consistent when it was taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import Final

from snapkafka.checks import WITNESSES_MAX, CheckOutcome, Status, decide
from snapkafka.errors import SnapkafkaError
from snapkafka.manifest import (
    CheckEntry,
    FileEntry,
    Manifest,
    TableEntry,
    content_digest,
    open_paths,
    state_table,
)

from .base import Store
from .row_digests import hash_library, table_digest
from .state_chain import state_parents

KINDS_OF_CHECKS: Final = ("V1", "V2", "V3", "V4", "V5", "V6")


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A deviation from what was written. `file`: the file, relative to the storage."""

    file: str
    what: str


# -- the files -----------------------------------------------------------------------------------------------


def file_damage(store: Store, manifest: Manifest) -> Iterator[Damage]:
    """Find what is wrong with the files of a snapshot: missing, changed and foreign ones, also in the state that it
    builds on.

    Args:
        store: to which the paths of the manifest are relative.
    """
    named: set[str] = set()
    for table in manifest.tables:
        broken = [found for file in table.files for found in _damage_of(store, file)]
        yield from broken
        named |= {str(PurePosixPath(file.path)) for file in table.files}
        if not broken:
            yield from _other_rows(store, table)
    yield from _damage_of_parents(store, manifest)
    for path in store.files_of(manifest):
        if path not in named:
            yield Damage(file=path, what="the manifest does not name it")


def _damage_of_parents(store: Store, manifest: Manifest) -> Iterator[Damage]:
    try:
        parents = state_parents(store, manifest)
    except SnapkafkaError as error:
        yield Damage(file=manifest.parents[-1].path, what=error.message)
        return
    for table in map(state_table, parents):
        broken = [found for file in table.files for found in _damage_of(store, file)]
        yield from broken
        if not broken:
            yield from _other_rows(store, table)


def _other_rows(store: Store, table: TableEntry) -> Iterator[Damage]:
    """Find tables whose rows differ from the manifest."""
    wrong = [*_miscounted(store, table)]
    yield from wrong or _other_digest(store, table)


def _damage_of(store: Store, file: FileEntry) -> Iterator[Damage]:
    pure = PurePosixPath(file.path)
    if pure.is_absolute() or ".." in pure.parts:
        yield Damage(file=file.path, what="lies outside of the storage")
    elif (size := store.size(file.path)) is None:
        yield Damage(file=file.path, what="is missing")
    elif size != file.bytes:
        yield Damage(file=file.path, what=f"has {size:,} bytes, and had {file.bytes:,}")
    else:
        found = store.sha256(file.path)
        if found != file.sha256:
            yield Damage(file=file.path, what=f"has changed: SHA-256 {found}, was {file.sha256}")


def footer_reader() -> str:
    """Return the name of the library that reads the rows and columns of a Parquet file: "pyarrow", "duckdb"; empty:
    none is installed."""
    return next((name for name in ("pyarrow", "duckdb") if find_spec(name) is not None), "")


def _miscounted(store: Store, table: TableEntry) -> Iterator[Damage]:
    """Find files whose footers do not have the rows and the columns of the manifest."""
    reader = footer_reader()
    if not reader:
        return
    footer = _by_pyarrow if reader == "pyarrow" else _by_duckdb
    wanted, rows = [column.name for column in table.schema], 0
    for file in table.files:
        try:
            in_file, columns = footer(store, file.path)
        except Exception as error:  # each library has errors of its own, and more than one
            yield Damage(file=file.path, what=f"is not a Parquet file: {' '.join(str(error).split())[:200]}")
            return
        rows += in_file
        if columns != wanted:
            yield Damage(
                file=file.path, what=f"has the columns {', '.join(columns)}, not {', '.join(wanted)}"
            )
    if rows != table.rows:
        yield Damage(file=table.path, what=f"has {rows:,} rows, the manifest has {table.rows:,}")


def _other_digest(store: Store, table: TableEntry) -> Iterator[Damage]:
    """Find a table whose values do not give the digest of the manifest."""
    reader = footer_reader()
    if not (reader and hash_library()):
        return
    try:
        _, digest = table_digest(store, table, reader)
    except Exception as error:
        yield Damage(file=table.path, what=f"cannot be read: {' '.join(str(error).split())[:200]}")
        return
    if digest != table.digest:
        yield Damage(
            file=table.path,
            what=f"has other values: the digest of its rows is {digest}, and was {table.digest}",
        )


def _by_pyarrow(store: Store, path: str) -> tuple[int, list[str]]:
    import pyarrow.parquet as pq  # type: ignore[import-untyped]

    with store.open(path) as opened, pq.ParquetFile(opened) as file:
        return file.metadata.num_rows, list(file.schema_arrow.names)


def _by_duckdb(store: Store, path: str) -> tuple[int, list[str]]:
    import duckdb

    with duckdb.connect() as engine:
        if store.filesystem is not None:
            engine.register_filesystem(store.filesystem)
        place = [store.place(path)]
        (rows,) = engine.execute("SELECT num_rows FROM parquet_file_metadata(?)", place).fetchone()
        columns = engine.execute("DESCRIBE SELECT * FROM read_parquet(?)", place).fetchall()
    return rows, [column[0] for column in columns]


# -- the manifest with itself --------------------------------------------------------------------------------


def contradictions(manifest: Manifest) -> Iterator[str]:
    """Find contradictions within a manifest: it was edited, or another release has a bug."""
    cut = manifest.captured
    for name in ("id", "attempt", "epoch"):
        if getattr(manifest, name) != getattr(cut, name):
            yield f"{name} is {getattr(manifest, name)}, and {getattr(cut, name)} in captured"
    digest = content_digest(manifest.tables, manifest.parents)
    if manifest.content != digest:
        yield f"content is {manifest.content}, and the rows and digests of its tables give {digest}"
    for what, names in (("table", manifest.tables), ("check", manifest.checks)):
        twice = [name for name, count in Counter(item.name for item in names).items() if count > 1]
        yield from (f"{what} {name} is there twice" for name in twice)
    yield from _unlisted(manifest)
    wrong = [text for check in manifest.checks for text in _contradiction(check)]
    yield from wrong
    if not wrong:
        yield from _wrong_verdict(manifest)


def _unlisted(manifest: Manifest) -> Iterator[str]:
    """Find missing entries: a check that was not run is listed as such, and an invariant has a check of its own."""
    listed = {check.name for check in manifest.checks}
    kinds = {name.partition(" ")[0] for name in listed}
    yield from (f"check {kind} is not listed" for kind in KINDS_OF_CHECKS if kind not in kinds)
    invariants = {f"V6 {item.name}" for item in manifest.invariants}
    run = {name for name in listed if name.startswith("V6 ")}
    yield from (f"check {name} is not listed, but its invariant is" for name in sorted(invariants - run))
    yield from (f"check {name} is listed, but its invariant is not" for name in sorted(run - invariants))


def _contradiction(check: CheckEntry) -> Iterator[str]:
    if check.status not in (("not-run",) if not check.run else tuple(Status)):
        yield f"check {check.name} was {'run' if check.run else 'not run'}, but its status is {check.status}"
    elif check.status in ("not-run", Status.PASSED) and (check.found or check.witnesses):
        yield f"check {check.name} has status {check.status}, but {max(check.found, len(check.witnesses))} findings"
    elif check.status == Status.FAILED and not check.found:
        yield f"check {check.name} has status failed, but no findings"
    for count, witnesses in ((check.found, check.witnesses), (check.noted, check.notes)):
        if not min(count, 1) <= len(witnesses) <= min(count, WITNESSES_MAX):
            yield f"check {check.name} counts {count} findings, but lists {len(witnesses)}"


def _replayed(check: CheckEntry) -> int:
    """Return the number of replays that a check has found; V5 of an earlier release noted nothing else."""
    if check.replayed is not None:
        return check.replayed
    return check.noted if check.name == "V5" else 0


def _wrong_verdict(manifest: Manifest) -> Iterator[str]:
    """Find a verdict that does not follow from the checks, and from what leaves the snapshot open."""
    outcomes = [
        CheckOutcome(
            check=check.name, status=Status(check.status), noted=check.noted, replayed=_replayed(check)
        )
        for check in manifest.checks
        if check.run
    ]
    cut = manifest.captured
    paths = open_paths(manifest.open, manifest.external, manifest.strict, manifest.outsiders)
    verdict = decide(
        outcomes, replays=cut.replays, open_paths=paths, contaminated=cut.contaminated, unread=cut.unread
    )
    if manifest.verdict != verdict:
        yield f"verdict is {manifest.verdict}, but its checks give {verdict}"
