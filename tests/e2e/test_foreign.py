"""Processes that do not speak Kafka, in Python and in Go, in one snapshot with Faust workers: money conserved."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import duckdb
import pytest

from snapkafka.demo.observer import Observer, observing
from snapkafka.demo.system import System, wait_until
from snapkafka.testing import Broker, create_topics
from tests.driver.test_install import take
from tests.e2e.till import Till

CASH = 1_000_000
SNAPSHOTS = 5
SOURCE = Path(__file__).parent / "go_till"
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@contextlib.contextmanager
def service(kafka: Broker, namespace: str, folder: Path, topic: str, system: System) -> Iterator[str]:
    """The service; its gRPC address."""
    log = folder / "service.log"
    command = [sys.executable, "-m", "snapkafka", "serve", "--bootstrap", kafka.bootstrap]
    command += ["--namespace", namespace, "--port", "0", "--grpc-port", "0", "--foreign-topic", topic]
    with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as running:
        try:
            wait_until(
                "the service to listen",
                lambda: " by gRPC on " in log.read_text() and " on http://" in log.read_text(),
                timeout_s=60,
                system=system,
            )
            found = re.search(r"by gRPC on (\S+)", log.read_text())
            assert found is not None
            yield found[1]
        finally:
            running.terminate()
            assert running.wait(20) is not None
            print(log.read_text()[-3000:])


@contextlib.contextmanager
def coins(kafka: Broker, namespace: str, folder: Path) -> Iterator[tuple[System, Observer, str, str]]:
    """Two workers that keep coins, and the service; also the topic and the address."""
    app = f"coins-{namespace}"
    create_topics(kafka.bootstrap, f"{app}-in", partitions=2)
    create_topics(
        kafka.bootstrap, f"{app}-purses-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=folder)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            for _ in range(2):
                system.start_worker(app, {"COINS_APP_ID": app}, module="tests.e2e.coins_app")
            observer.wait_for_workers(system)
            with service(kafka, namespace, folder, f"{app}-in", system) as address:
                yield system, observer, f"{app}-in", address
    finally:
        for worker in system.workers:
            print(worker.last_lines(40))
        system.stop()


def assemble(kafka: Broker, namespace: str, folder: Path, names: list[str]) -> None:
    command = [sys.executable, "-m", "snapkafka", "assemble", *names, "--bootstrap", kafka.bootstrap]
    command += ["--namespace", namespace, "--storage", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def money(folder: Path, name: str) -> dict[str, int]:
    """What a snapshot holds: cash of the foreign processes, coins in flight, purses."""
    state, messages = (str(folder / name / table / "*.parquet") for table in ("state", "messages"))
    with duckdb.connect() as database:
        found = {
            app: int(cash)
            for app, cash in database.execute(
                "SELECT app, CAST(json_extract_string(value, '$.cash') AS BIGINT) FROM read_parquet(?)"
                " WHERE \"table\" = 'foreign'",
                [state],
            ).fetchall()
        }
        purses = (
            "SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM read_parquet(?) WHERE \"table\" = 'purses'"
        )
        coins_ = "SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM read_parquet(?)"
        (found["purses"],) = database.execute(purses, [state]).fetchall()[0]
        (found["in flight"],) = database.execute(coins_, [messages]).fetchall()[0]
    return found


def test_a_python_process_and_faust_workers_are_in_one_snapshot_and_the_money_is_conserved(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(SNAPSHOTS)]
    with coins(kafka, namespace, tmp_path) as (system, observer, topic, address):
        till = Till(address, "till", topic, CASH)
        try:
            for name in names:
                so_far = till.sent
                wait_until("50 more coins", lambda n=so_far: till.sent > n + 50, timeout_s=60, system=system)  # type: ignore[misc]
                view = observer.state.snapshots[take(observer, name)]
                assert view.failure is None, view.failure
                assert till.process in view.required
            assert till.cut == names
        finally:
            till.stop()
        assemble(kafka, namespace, tmp_path, names)
    cash = []
    for name in names:
        found = money(tmp_path, name)
        assert sum(found.values()) == CASH, (name, found)
        cash.append(found["till"])
    assert cash == sorted(cash, reverse=True) and len(set(cash)) == SNAPSHOTS, cash


def test_a_process_in_go_and_faust_workers_are_in_one_snapshot_and_the_money_is_conserved(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    program = build_go(tmp_path / "go")
    names = [f"s{number}" for number in range(3)]
    with coins(kafka, namespace, tmp_path) as (system, observer, topic, address):
        log = tmp_path / "go-till.log"
        command = [program, "-address", address, "-node", "go-till", "-topic", topic, "-cash", str(CASH)]
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as running:
            try:
                wait_until(
                    "the Go process to join", lambda: "joined" in log.read_text(), timeout_s=60, system=system
                )
                for name in names:
                    view = observer.state.snapshots[take(observer, name)]
                    assert view.failure is None, view.failure
                    assert running.poll() is None, log.read_text()
            finally:
                running.kill()
        assert [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("cut")] == [
            [name, "true"] for name in names
        ]
        assemble(kafka, namespace, tmp_path, names)
    for name in names:
        found = money(tmp_path, name)
        assert sum(found.values()) == CASH, (name, found)
        assert found["go-till"] < CASH


def build_go(folder: Path) -> str:
    """Generate the stubs, build the client; the module proxy has what it needs."""
    from grpc_tools import protoc

    assert shutil.which("go"), "this test needs Go"
    shutil.copytree(SOURCE, folder)
    (folder / "snapshotpb").mkdir()
    env = os.environ | {"GOBIN": str(folder / "bin"), "GOFLAGS": "-mod=mod"}

    def go(*words: str) -> None:
        done = subprocess.run(
            ["go", *words], cwd=folder, env=env, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, done.stderr[-3000:]

    go("install", "google.golang.org/protobuf/cmd/protoc-gen-go")
    status = protoc.main(
        [
            "protoc",
            f"--plugin=protoc-gen-go={folder / 'bin' / 'protoc-gen-go'}",
            f"-I{ROOT / 'schemas'}",
            f"-I{files('grpc_tools') / '_proto'}",
            f"--go_out={folder / 'snapshotpb'}",
            "--go_opt=paths=source_relative",
            "snapshot.proto",
        ]
    )
    assert status == 0
    go("build", "-o", "bin/till", ".")
    return str(folder / "bin" / "till")
