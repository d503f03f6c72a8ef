"""The job: from the ledger to a verdict in it by `python -m snapkafka.assembly`; as a principal with the rights that
docs/reference/ledger.md lists, and with one too few; with Avro by the numbers of a schema registry."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from snapkafka.assembly import Desk, main
from snapkafka.errors import LedgerUnusableError, StorageError
from snapkafka.kafka import Connection
from snapkafka.kafka.cluster.groups import positions_group
from snapkafka.manifest import STATE_DELTA
from snapkafka.protocol import Status
from snapkafka.testing import Broker, free_ports, wait_until
from tests.kafka.doors import PASSWORD, guarded_broker
from tests.kafka.rights import grant, rights
from tests.servers.registry import EmbeddedRegistry
from tests.spark.at_hand import spec_file
from tests.spark.engines import rows
from tests.spark.scene import play, play_on
from tests.unit.assembly.test_values import numbered
from tests.worlds.stores import LocalStore


def test_from_the_ledger_to_a_verdict(
    kafka: Broker, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, manifest, verdict in the ledger, positions as a consumer group."""
    stage = play(kafka.bootstrap, namespace)
    name = stage.name()
    done = subprocess.run(
        [sys.executable, "-m", "snapkafka.assembly", *stage.job(tmp_path, "snap")],
        capture_output=True,
        text=True,
        timeout=280,
        # The JVM writes to its standard output.
        env=os.environ | {"SPARK_SUBMIT_OPTS": "-XX:+PrintCommandLineFlags"},
    )
    assert done.returncode == 0, done.stderr
    few_offsets = "TieredStopAtLevel=1"
    assert few_offsets in done.stderr and few_offsets not in done.stdout, "that has the result alone"
    (reported,) = json.loads(done.stdout)["snapshots"]
    described = reported["snapshot_id"], reported["epoch"], reported["verdict"]
    assert described == (name, stage.epoch, "VERIFIED")
    assert re.search(
        rf"^{name}: read \d+ offsets; wrote \d+ rows in 6 tables, .*; checked V1, V2, V3, V4, V5; .* s$",
        done.stderr,
        re.MULTILINE,
    )
    manifest = json.loads((tmp_path / f"{name}.json").read_text())
    assert (manifest["engine"], manifest["restorable"]["how"]) == ("spark", "from")
    assert {(it["name"], it["partitions"], len(it["topic_id"])) for it in manifest["topics"]} == {
        (stage.topic(topic), 2, 32) for topic in ("orders", "credits", "balances")
    }

    connection = Connection(bootstrap=stage.bootstrap)
    with Desk(connection, stage.namespace) as desk:
        view = desk.reading.state.snapshots[stage.epoch]
    assert view.status is Status.COMPLETED
    assert view.verdict is not None
    assert (view.verdict.verdict, view.verdict.digest) == ("VERIFIED", manifest["content"])
    examined = [check["records"] for check in manifest["checks"] if check["run"]]
    assert [check.records for check in view.verdict.checks] == examined and examined[0] > 0
    assert view.verdict.manifest == str(tmp_path / f"{name}.json")

    # Verified again by a path that means something only here, it is found from everywhere.
    monkeypatch.chdir(tmp_path)
    again = spec_file(tmp_path, manifests=(f"{name}.json",), record=True, engine="embedded")
    assert main(["--bootstrap", stage.bootstrap, *again]) == 0
    with Desk(connection, stage.namespace) as desk:
        latest = desk.reading.state.snapshots[stage.epoch].verdict
    assert latest is not None
    assert (latest.manifest, latest != view.verdict) == (str(tmp_path / f"{name}.json"), True)

    assert stage.ask(lambda admin: admin.committed(positions_group(stage.namespace, "alpha"))) == {
        stage.tp("orders", 0): (2, name),
        stage.tp("orders", 1): (0, name),
    }


# -- rights ----------------------------------------------------------------------------------------------------


ROLE = "ASSEMBLY"
LOGIN = {
    "SNAPKAFKA_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "SNAPKAFKA_KAFKA_SASL_MECHANISM": "PLAIN",
    "SNAPKAFKA_KAFKA_SASL_USERNAME": ROLE,
    "SNAPKAFKA_KAFKA_SASL_PASSWORD": PASSWORD,
}


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_rights_that_are_printed_are_enough_and_one_less_is_named(tmp_path: Path) -> None:
    with guarded_broker([ROLE]) as (broker, address):
        stage = play(broker.bootstrap, f"a{os.getpid()}")
        changelog = stage.topic("balances")

        def job() -> subprocess.CompletedProcess[str]:
            arguments = [*stage.job(tmp_path, "snap"), "--bootstrap", address]
            command = [sys.executable, "-m", "snapkafka.assembly", *arguments]
            env = os.environ | LOGIN
            return subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)

        def error() -> dict[str, str]:
            found = json.loads(job().stdout)["error"]
            assert found["exit_status"] == LedgerUnusableError.exit_status
            return dict(found)

        assert "not allowed" in error()["message"]  # nothing is granted, not even the ledger

        there = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=30).topics
        topics = {name for name in there if not name.startswith("_")}
        needed = [
            right
            for right in rights(stage.namespace, inputs=topics - {changelog}, changelogs=[changelog])
            if right.role == ROLE.lower()
        ]
        missing = [right for right in needed if (right.name, right.operation) == (changelog, "Read")]
        grant(broker.bootstrap, [right for right in needed if right not in missing])
        grant(broker.bootstrap, [right._replace(operation="Describe") for right in missing])
        wait_until("the rights to be there", lambda: changelog in error()["message"], timeout_s=60)
        done = job()
        reported = json.loads(done.stdout)["error"]
        assert reported["message"].startswith("not allowed to read what the snapshot needs: ")
        assert "\tat org." not in done.stderr
        assert len(done.stderr.splitlines()) < 30, done.stderr
        assert [path.name for path in tmp_path.iterdir()] == []

        grant(broker.bootstrap, missing)

        wait_until("the right to be there", lambda: job().returncode == 0, timeout_s=90)
        manifest = json.loads((tmp_path / f"{stage.name()}.json").read_text())
        assert manifest["verdict"] == "VERIFIED"


# -- a real registry (Apicurio), asked by its URL, and one that is gone ----------------------------------------


BALANCE: dict[str, Any] = {"type": "record", "name": "Balance", "fields": [{"name": "id", "type": "string"}]}
N = {"name": "n", "type": ["null", "int"], "default": None}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedRegistry]:
    with pytest.MonkeyPatch.context() as patch, EmbeddedRegistry() as running:
        patch.setenv("no_proxy", "127.0.0.1")
        yield running


@pytest.mark.nightly
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
    later = BALANCE | {"fields": [*BALANCE["fields"], N]}
    one, two = (server.register(subject, schema) for schema in (BALANCE, later))
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
    assert found["unknown"][0] is None and "schema 8888: the registry" in found["unknown"][1]
    (port,) = free_ports(1)
    assert run("without", f"http://127.0.0.1:{port}") == StorageError.exit_status
    said = capfd.readouterr()
    files = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert files
    assert not [text for text in (*files, said.out.encode(), said.err.encode()) if b"hidden-word" in text]
