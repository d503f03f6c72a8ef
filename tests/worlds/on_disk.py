"""Assembled snapshots on disk without Spark: Parquet in the very columns that the job writes, and a manifest."""

import dataclasses
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly import SCHEMAS, arrow, digest_of, schema
from snapkafka.manifest import (
    OPEN_ENDED,
    STATE,
    STATE_DELTA,
    Column,
    FileEntry,
    Manifest,
    ParentEntry,
    TableEntry,
    file_stem,
    state_table,
)
from snapkafka.protocol import InputCut
from tests.unit.base.test_manifest import example
from tests.worlds.stores import LocalStore

Row = Mapping[str, Any]


def write_table(store: LocalStore, folder: str, name: str, rows: Sequence[Row]) -> TableEntry:
    """A table as one file; columns that a row does not name are null."""
    path, table = f"{folder}/{name}/part-00000.parquet", arrow(name, rows)
    file = store.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file)
    columns = (column.split(" ", 1) for column in schema(name).split(", "))
    content = file.read_bytes()
    entry = FileEntry(path=path, bytes=len(content), rows=len(rows), sha256=sha256(content).hexdigest())
    return TableEntry(
        name=name,
        path=f"{folder}/{name}",
        rows=len(rows),
        digest=str(digest_of(table)),
        schema=tuple(Column(name=column, type=kind) for column, kind in columns),
        files=(entry,),
    )


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
    of_state = STATE if parent is None else STATE_DELTA
    others = (name for name in SCHEMAS if name != STATE and (name not in OPEN_ENDED or name in rows))
    folder = file_stem(snapshot_id)
    manifest = dataclasses.replace(
        example(),
        id=snapshot_id,
        epoch=epoch,
        namespace=namespace,
        verdict=verdict,
        content=f"{snapshot_id} {epoch}",
        tables=tuple(write_table(store, folder, name, rows.get(name, ())) for name in (of_state, *others)),
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
    of = {"sender": sender, "sender_app": "bank", "receiver_app": "audit"}
    return of | {"topic": topic, "partition": partition, "messages": messages, "bytes": size}


def read_up_to(topic: str, partition: int, position: int, *, topic_id: str = "ab") -> InputCut:
    """How far app `bank` had read an input."""
    where: Any = {"app": "bank", "topic": topic, "topic_id": topic_id, "partition": partition, "receiver": 1}
    return InputCut(**where, position=position, noted=position, low=0, log_end=position)
