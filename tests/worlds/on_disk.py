"""Assembled snapshots on disk without Spark: Parquet in the very columns that the job writes, and a manifest."""

from __future__ import annotations

import dataclasses
import hashlib
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb

from snapkafka.assembly import SCHEMAS, schema
from snapkafka.manifest import OPEN_ENDED, STATE, STATE_DELTA, Manifest, file_stem, state_table
from snapkafka.manifest_entries import Column, FileEntry, ParentEntry, TableEntry
from snapkafka.protocol import InputCut
from snapkafka.store import LocalStore, row_digest
from tests.unit.base.test_manifest import example

Row = Mapping[str, Any]

#: Spark's times are in UTC, and do not say so in Parquet.
TYPES = {"string": "VARCHAR", "binary": "BLOB", "timestamp": "TIMESTAMP"}


def duck_type(kind: str) -> str:
    """A type in DuckDB's words."""
    if found := re.fullmatch(r"array<(.*)>", kind):
        return f"{duck_type(found[1])}[]"
    if found := re.fullmatch(r"map<(\w+),(\w+)>", kind):
        return f"MAP({duck_type(found[1])}, {duck_type(found[2])})"
    if found := re.fullmatch(r"struct<(.*)>", kind):
        fields = (field.split(":", 1) for field in found[1].split(","))
        return "STRUCT({})".format(", ".join(f'"{name}" {duck_type(of)}' for name, of in fields))
    return TYPES.get(kind, kind)


def write_table(folder: Path, name: str, rows: Sequence[Row]) -> TableEntry:
    """A table as one file; columns that a row does not name are null."""
    file = folder / name / "part-00000.parquet"
    file.parent.mkdir(parents=True)
    columns = [column.split(" ", 1) for column in schema(name).split(", ")]
    if rows:
        write_rows(file, columns, rows)
    else:
        file.write_bytes(no_rows(name))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    entry = FileEntry(path=str(file), bytes=file.stat().st_size, sha256=digest)
    typed = tuple(Column(name=column, type=kind) for column, kind in columns)
    table = TableEntry(name=name, path=name, rows=len(rows), digest="0", schema=typed, files=(entry,))
    return table if not rows else dataclasses.replace(table, digest=digest_of(table))


def write_rows(file: Path, columns: Sequence[Sequence[str]], rows: Sequence[Row]) -> None:
    with engine().cursor() as database:
        declared = ", ".join(f'"{column}" {duck_type(kind)}' for column, kind in columns)
        database.execute(f"CREATE TEMP TABLE rows ({declared})")
        for row in rows:
            names = ", ".join(f'"{column}"' for column in row)
            marks = ", ".join("?" for _ in row)
            database.execute(f"INSERT INTO rows ({names}) VALUES ({marks})", list(row.values()))
        database.table("rows").write_parquet(str(file))


@cache
def engine() -> duckdb.DuckDBPyConnection:
    """One for all: to start another takes longer than to write a table."""
    return duckdb.connect()


@cache
def no_rows(name: str) -> bytes:
    """The file of such a table without rows."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "none.parquet"
        write_rows(file, [column.split(" ", 1) for column in schema(name).split(", ")], ())
        return file.read_bytes()


def digest_of(table: TableEntry) -> str:
    """Its digest, from a file that is named by its whole path."""
    columns = ", ".join(f'"{column.name}"' for column in table.schema)
    rows = [
        row
        for file in table.files
        for row in engine().sql(f"SELECT {columns} FROM '/{file.path}'").fetchall()
    ]
    return row_digest([column.type for column in table.schema], iter(rows))[1]


def write_snapshot(
    store: LocalStore,
    snapshot_id: str,
    epoch: int,
    *,
    namespace: str = "shop",
    verdict: str = "VERIFIED",
    cuts: Sequence[InputCut] = (),
    parent: Manifest | None = None,
    **rows: Sequence[Row],
) -> Manifest:
    """Write a snapshot; tables of which no rows are given are empty, `around` and `inputs` are left out. On a
    `parent` its state is a `state_delta`."""
    with store.staging(snapshot_id) as folder:
        tables = []
        of_state = STATE if parent is None else STATE_DELTA
        others = (name for name in SCHEMAS if name != STATE and (name not in OPEN_ENDED or name in rows))
        for name in (of_state, *others):
            table = write_table(folder, name, rows.get(name, ()))
            path = f"{file_stem(snapshot_id)}/{name}"
            files = [dataclasses.replace(file, path=f"{path}/{Path(file.path).name}") for file in table.files]
            tables.append(dataclasses.replace(table, path=path, files=tuple(files)))
        manifest = dataclasses.replace(
            example(),
            id=snapshot_id,
            epoch=epoch,
            namespace=namespace,
            verdict=verdict,
            content=f"{snapshot_id} {epoch}",
            tables=tuple(tables),
            parents=() if parent is None else (*parent.parents, _as_parent(parent)),
            captured=dataclasses.replace(example().captured, id=snapshot_id, epoch=epoch, inputs=tuple(cuts)),
        )
        return store.publish(manifest, folder)


def flip(file: Path, place: int = 4) -> None:
    """Flip a bit of a file; once more, and it is as it was."""
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)


def _as_parent(manifest: Manifest) -> ParentEntry:
    table = state_table(manifest)
    return ParentEntry(id=manifest.id, epoch=manifest.epoch, path=table.path, digest=table.digest)


def in_state(key: str, value: str, *, app: str = "bank", table: str = "balances", partition: int = 0) -> Row:
    """A row of `state`."""
    raw = {"key_raw": key.encode(), "value_raw": value.encode()}
    return {"app": app, "table_name": table, "partition": partition, "key": key, "value": value, **raw}


def in_channel(topic: str, messages: int, size: int, *, sender: int = 0, partition: int = 0) -> Row:
    """A row of `channels`."""
    return {
        "sender": sender,
        "sender_app": "bank",
        "receiver_app": "audit",
        "topic": topic,
        "partition": partition,
        "messages": messages,
        "bytes": size,
    }


def read_up_to(topic: str, partition: int, position: int, *, topic_id: str = "ab") -> InputCut:
    """How far app `bank` had read an input."""
    return InputCut(
        app="bank",
        topic=topic,
        topic_id=topic_id,
        partition=partition,
        position=position,
        noted=position,
        low=0,
        log_end=position,
        receiver=1,
    )
