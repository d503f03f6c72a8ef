"""Avro by the numbers of a schema registry: a real one (Apicurio), asked by its URL, and one that is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from snapkafka.assembly import main
from snapkafka.errors import StorageError
from snapkafka.store import read_manifest
from snapkafka.testing import Broker, free_ports
from tests.servers.registry import EmbeddedRegistry
from tests.spark.scene import play, play_on

pytestmark = pytest.mark.nightly

ID = {"name": "id", "type": "string"}
N = {"name": "n", "type": ["null", "int"], "default": None}


def record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def numbered(number: int, data: bytes) -> bytes:
    return b"\x00" + number.to_bytes(4, "big") + data


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRegistry]:
    with pytest.MonkeyPatch.context() as patch, EmbeddedRegistry() as running:
        patch.setenv("no_proxy", "127.0.0.1")
        yield running


@pytest.mark.parametrize("engine", ["embedded", "spark"])
def test_a_snapshot_of_evolving_avro_by_the_command(
    engine: str,
    server: EmbeddedRegistry,
    kafka: Broker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each value by the schema that wrote it, also in what builds on a full snapshot; the password is nowhere."""
    stage = play(kafka.bootstrap, f"registry{os.getpid()}{engine}")
    subject = f"{stage.topic('balances')}-value"
    one, two = (server.register(subject, record("Balance", *fields)) for fields in ([ID], [ID, N]))
    child = f"{stage.namespace}-child"
    written: list[tuple[bytes, bytes | None]] = [
        (b'"first"', numbered(one, b"\x02a")),
        (b'"second"', numbered(two, b"\x02b\x02\x04")),
        (b'"unknown"', numbered(8_888, b"")),
    ]
    play_on(stage, child, parent=f"{stage.namespace}-snap", written=written)
    where = ["--bootstrap", stage.bootstrap, "--namespace", stage.namespace, "--engine", engine]

    def run(folder: str, url: str) -> int:
        names = ["--snapshot", f"{stage.namespace}-snap", "--snapshot", child]
        monkeypatch.setenv("SNAPKAFKA_SCHEMA_REGISTRY", url.replace("://", "://me:hidden-word@"))
        return main([*where, *names, "--storage", str(tmp_path / folder)])

    assert run("one", server.url) == 0
    (_, manifest) = read_manifest(str(tmp_path / "one" / f"{child}.json"))
    (place,) = (table.path for table in manifest.tables if table.name == "state_delta")
    read = pq.read_table(tmp_path / "one" / place, partitioning=None).to_pylist()
    rows = {row["key"]: (row["value"], row["why_undecoded"]) for row in read}
    assert rows["first"] == ('{"id":"a"}', None)
    assert rows["second"] == ('{"id":"b","n":2}', None)
    assert rows["unknown"] == (None, "value: schema 8888: the registry does not have it")
    (port,) = free_ports(1)
    assert run("without", f"http://127.0.0.1:{port}") == StorageError.exit_status
    said = capfd.readouterr()
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [text for text in (*files, said.out.encode(), said.err.encode()) if b"hidden-word" in text]
