"""Processes that do not speak Kafka, in Python and in Go, in one snapshot with Faust workers: money conserved."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from snapkafka.testing import Broker, RunningSystem, create_topics, wait_until
from tests.e2e.till import Till
from tests.observing import Observer, observing

CASH = 1_000_000
SNAPSHOTS = 5
SOURCE = Path(__file__).parent / "go_till"
ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


class Served(NamedTuple):
    """An instance of the service, and its gRPC address."""

    address: str
    instance: subprocess.Popen[bytes]


@contextlib.contextmanager
def service(
    kafka: Broker,
    namespace: str,
    folder: Path,
    topic: str,
    system: RunningSystem,
    change: str = "",
    *more: str,
) -> Iterator[Served]:
    """One more instance. `more`: options."""
    folder.mkdir(exist_ok=True)
    log = folder / "service.log"
    command = [sys.executable, "-m", "snapkafka", "serve", "--bootstrap", kafka.bootstrap]
    command += ["--namespace", namespace, "--port", "0", "--grpc-port", "0", "--remote-topic", topic]
    command += ["--remote-input", change] if change else []
    command += more
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
            yield Served(found[1], running)
        finally:
            running.terminate()
            assert running.wait(20) is not None
            print(log.read_text()[-3000:])


@contextlib.contextmanager
def coins(
    kafka: Broker, namespace: str, folder: Path
) -> Iterator[tuple[RunningSystem, Observer, str, Served]]:
    """Two workers that keep coins, and the service; also the app."""
    app = f"coins-{namespace}"
    create_topics(kafka.bootstrap, f"{app}-in", f"{app}-change", partitions=2)
    create_topics(
        kafka.bootstrap, f"{app}-purses-changelog", partitions=2, config={"cleanup.policy": "compact"}
    )
    system = RunningSystem(bootstrap=kafka.bootstrap, namespace=namespace, folder=folder)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            for _ in range(2):
                system.start_worker(app, {"COINS_APP_ID": app}, module="tests.e2e.change_app")
            observer.wait_for_workers(system)
            with service(kafka, namespace, folder, f"{app}-in", system, f"{app}-change") as served:
                yield system, observer, app, served
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
    """What a snapshot holds: cash of the remote processes, coins in flight, purses."""
    state, messages = (str(folder / name / "*" / table / "*.parquet") for table in ("state", "messages"))
    with duckdb.connect() as database:
        found = {
            app: int(cash)
            for app, cash in database.execute(
                "SELECT app, CAST(json_extract_string(value, '$.cash') AS BIGINT) FROM read_parquet(?)"
                " WHERE table_name = 'remote'",
                [state],
            ).fetchall()
        }
        purses = (
            "SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM read_parquet(?) WHERE table_name = 'purses'"
        )
        coins_ = "SELECT coalesce(sum(CAST(value AS BIGINT)), 0) FROM read_parquet(?)"
        (found["purses"],) = database.execute(purses, [state]).fetchall()[0]
        (found["in flight"],) = database.execute(coins_, [messages]).fetchall()[0]
    return found


def test_money_goes_both_ways_and_is_conserved_with_messages_in_flight_both_ways(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    names = [f"s{number}" for number in range(SNAPSHOTS)]
    with coins(kafka, namespace, tmp_path) as (system, observer, app, (address, _)):
        till = Till(address, "till", f"{app}-in", CASH, [f"{app}-change"])
        try:
            for name in names:
                before = till.received
                wait_until(
                    "50 more pieces of change",
                    lambda n=before: till.received > n + 50,  # type: ignore[misc]
                    timeout_s=60,
                    system=system,
                )
                view = observer.take(name, timeout_s=60, ttl_ms=30_000)
                assert view.failure is None, view.failure
                assert till.process in view.required
                inputs = observer.state.captured(view.epoch).inputs
                assert [cut.partition for cut in inputs if cut.app == "till"] == [0, 1]
            assert till.cut == names
            assert not till.ended
        finally:
            till.stop()
        assemble(kafka, namespace, tmp_path, names)
    to_workers, to_till = 0, 0
    for name in names:
        assert json.loads((tmp_path / f"{name}.json").read_text())["verdict"] == "VERIFIED"
        found = money(tmp_path, name)
        assert sum(found.values()) == CASH, (name, found)
        to_workers += in_flight(tmp_path, name, f"{app}-in", app)
        to_till += in_flight(tmp_path, name, f"{app}-change", "till")
    assert to_workers > 0 and to_till > 0, (to_workers, to_till)
    look(tmp_path, names, app, ["--bootstrap", kafka.bootstrap, "--namespace", namespace])


def test_where_its_instance_is_killed_a_process_goes_on_at_another_and_the_money_is_conserved(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """It joins there from its own state and positions. The dead one is named by the snapshot that waits for it, and the
    next one does without it."""
    patient = {"timeout_s": 60, "ttl_ms": 30_000}

    def earns(till: Till) -> None:
        wait_until("50 pieces of change", lambda: till.received > 50, timeout_s=60, system=system)

    with (
        coins(kafka, namespace, tmp_path) as (system, observer, app, first),
        service(kafka, namespace, tmp_path / "second", f"{app}-in", system, f"{app}-change") as second,
    ):
        till = Till(first.address, "till", f"{app}-in", CASH, [f"{app}-change"])
        try:
            earns(till)
            assert observer.take("before", **patient).failure is None
            with till.at_rest():
                first.instance.kill()
                first.instance.wait(20)
            wait_until("the process to notice", lambda: bool(till.ended), timeout_s=30, system=system)
        finally:
            till.stop()
        again = Till(second.address, "till", f"{app}-in", till.cash, [f"{app}-change"], till.positions)
        try:
            earns(again)
            vain = observer.take("vain", ttl_ms=5_000)
            assert vain.failure is not None and f"process {till.process} " in vain.failure.culprit
            lost, processes = till.process, observer.state.processes
            wait_until("it to be declared dead", lambda: processes[lost].dead, timeout_s=30, system=system)
            view = observer.take("after", **patient)
            assert view.failure is None, view.failure
            assert again.process in view.required and till.process not in view.required
            assert (till.cut, again.cut[-1]) == (["before"], "after")
        finally:
            again.stop()
        assemble(kafka, namespace, tmp_path, ["before", "after"])
    for name in ("before", "after"):
        assert json.loads((tmp_path / f"{name}.json").read_text())["verdict"] == "VERIFIED"
        assert sum(money(tmp_path, name).values()) == CASH, name


def look(folder: Path, names: list[str], app: str, where: list[str]) -> None:
    """A cut is drawn with the till, and a coin of it, near to some cut, is traced to the change that it was sent for,
    and further."""
    ask = (
        'SELECT a.topic, a."partition", a."offset" FROM read_parquet($1) a JOIN read_parquet($1) c'
        ' ON (c.topic, c."partition", c."offset") = (a.cause_topic, a.cause_partition, a.cause_offset)'
        " WHERE a.sender_app = 'till' AND c.sender_app = $2 AND c.receiver_app = 'till' AND c.received LIMIT 1"
    )
    with duckdb.connect() as database:
        near = {name: str(folder / name / "*" / "around" / "*.parquet") for name in names}
        rows = {name: database.execute(ask, [files, app]).fetchall() for name, files in near.items()}
    name, (topic, partition, offset) = next((name, found[0]) for name, found in rows.items() if found)
    picture = folder / "cut.svg"
    for command in (
        ["draw", name, "--storage", str(folder), "--output", str(picture)],
        ["trace", topic, str(partition), str(offset), *where],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "snapkafka", *command], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "till" in done.stdout and f"{app}-change" in done.stdout, done.stdout
    assert "till" in picture.read_text()


def in_flight(folder: Path, name: str, topic: str, receiver: str) -> int:
    """How many messages were in flight there."""
    with duckdb.connect() as database:
        ask = "SELECT count(*) FROM read_parquet(?) WHERE topic = ? AND receiver_app = ?"
        where = [str(folder / name / "*" / "messages" / "*.parquet"), topic, receiver]
        ((count,),) = database.execute(ask, where).fetchall()
    return int(count)


def test_a_process_in_go_and_faust_workers_are_in_one_snapshot_and_the_money_is_conserved(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    program = build_go(tmp_path / "go")
    names = [f"s{number}" for number in range(3)]
    with coins(kafka, namespace, tmp_path) as (system, observer, app, (address, _)):
        log = tmp_path / "go-till.log"
        options = f"-address {address} -node go-till -topic {app}-in -input {app}-change -cash {CASH}"
        command = [program, *options.split()]
        with log.open("w") as output, subprocess.Popen(command, stdout=output, stderr=output) as running:
            try:
                wait_until(
                    "the Go process to receive change",
                    lambda: "received" in log.read_text(),
                    timeout_s=60,
                    system=system,
                )
                for name in names:
                    view = observer.take(name)
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
    plugin = f"--plugin=protoc-gen-go={folder / 'bin' / 'protoc-gen-go'}"
    include = [f"-I{ROOT / 'schemas'}", f"-I{files('grpc_tools') / '_proto'}"]
    output = [f"--go_out={folder / 'snapshotpb'}", "--go_opt=paths=source_relative", "snapshot.proto"]
    status = protoc.main(["protoc", plugin, *include, *output])
    assert status == 0
    go("build", "-o", "bin/till", ".")
    return str(folder / "bin" / "till")
