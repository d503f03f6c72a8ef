"""Avro by the numbers of a schema registry: a real one (Apicurio), asked by its URL, and one that is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapkafka.assembly import main
from snapkafka.errors import StorageError
from snapkafka.manifest import STATE_DELTA
from snapkafka.testing import Broker, free_ports
from tests.servers.registry import EmbeddedRegistry
from tests.spark.engines import rows
from tests.spark.scene import play, play_on
from tests.worlds.stores import LocalStore

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
    first, second = numbered(one, b"\x02a"), numbered(two, b"\x02b\x02\x04")
    play_on(stage, "child", (b'"1"', first), (b'"2"', second), (b'"unknown"', numbered(8_888, b"")))

    def run(folder: str, url: str) -> int:
        monkeypatch.setenv("SNAPKAFKA_SCHEMA_REGISTRY", url.replace("://", "://me:hidden-word@"))
        return main([*stage.job(tmp_path / folder, "snap", "child"), "--engine", engine])

    assert run("one", server.url) == 0
    store = LocalStore(tmp_path / "one")
    read = rows(store, store.read(stage.name("child")), STATE_DELTA)
    found = {row["key"]: (row["value"], row["why_undecoded"]) for row in read}
    assert (found["1"], found["2"]) == (('{"id":"a"}', None), ('{"id":"b","n":2}', None))
    assert found["unknown"] == (None, "value: schema 8888: the registry does not have it")
    (port,) = free_ports(1)
    assert run("without", f"http://127.0.0.1:{port}") == StorageError.exit_status
    said = capfd.readouterr()
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [text for text in (*files, said.out.encode(), said.err.encode()) if b"hidden-word" in text]
