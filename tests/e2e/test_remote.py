"""Processes that do not speak Kafka, in Python and in Go, in one snapshot with Faust workers: money conserved."""

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pytest

from snapkafka import ops
from snapkafka.errors import SnapshotFailedError
from snapkafka.protocol import Captured
from snapkafka.runtime import Child
from snapkafka.testing import Broker, RunningSystem, Taken, create_topics, started
from tests.e2e.parts import command
from tests.e2e.till import Till

CASH = 1_000_000
SNAPSHOTS = 5
TTL_MS = 30_000
SOURCE = Path(__file__).parent / "go_till"
ROOT = Path(__file__).parents[2]
#: Cash of the remote processes, coins of the purses, and those in flight to each receiver.
MONEY = """
SELECT app AS place, sum(CAST(value->>'$.cash' AS BIGINT)) AS coins FROM state WHERE table_name = 'remote' GROUP BY app
UNION ALL SELECT 'purses', sum(CAST(value AS BIGINT)) FROM state WHERE table_name = 'purses'
UNION ALL SELECT 'to ' || receiver_app, sum(CAST(value AS BIGINT)) FROM messages GROUP BY receiver_app
"""
#: Coins of the till whose cause, a piece of change, is near to the cut, too.
CAUSED = """
SELECT coin.topic, coin."partition", coin."offset" FROM around AS coin JOIN around AS change
ON (change.topic, change."partition", change."offset") = (coin.cause_topic, coin.cause_partition, coin.cause_offset)
WHERE coin.sender_app = 'till' AND change.receiver_app = 'till' AND change.received
"""

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]


class Served(NamedTuple):
    """An instance of the service, and its gRPC address."""

    address: str
    instance: Child


@contextlib.contextmanager
def service(system: RunningSystem) -> Iterator[Served]:
    """One more instance, through which processes send coins and receive change."""
    log = system.folder / f"service-{len(list(system.folder.glob('service-*')))}.log"
    options = f"--bootstrap {system.bootstrap} --namespace {system.namespace} --port 0 --grpc-port 0"
    options += f" --remote-topic {system.namespace}-in --remote-input {system.namespace}-change"
    command = [sys.executable, "-m", "snapkafka", "serve", *options.split()]
    with log.open("wb") as output, Child(command, output=output) as running:
        try:
            system.wait_until("it to listen", lambda: " on http://" in log.read_text(), timeout_s=60)
            (address,) = re.findall(r"by gRPC on (\S+)", log.read_text())
            yield Served(address, running)
        finally:
            print(log.read_text()[-3000:])


@contextlib.contextmanager
def coins(kafka: Broker, namespace: str) -> Iterator[tuple[RunningSystem, Served]]:
    """Two workers of an app of this name that keep coins, and the service."""
    create_topics(kafka.bootstrap, f"{namespace}-in", f"{namespace}-change", partitions=2)
    compacted = {"cleanup.policy": "compact"}
    create_topics(kafka.bootstrap, f"{namespace}-purses-changelog", partitions=2, config=compacted)

    def start(system: RunningSystem) -> None:
        for _ in range(2):
            system.start_worker(namespace, {"COINS_APP_ID": namespace}, module="tests.e2e.change_app")
        system.await_workers()

    with started(kafka.bootstrap, namespace, start) as system, service(system) as served:
        try:
            yield system, served
        finally:
            for worker in system.workers:
                print(worker.last_lines(40))


def till_at(served: Served, system: RunningSystem, earlier: Till | None = None) -> Till:
    """A till that starts with all the money, or goes on from where an earlier one stood."""
    cash, positions = (earlier.cash, earlier.positions) if earlier else (CASH, {})
    topic = system.namespace
    return Till(served.address, "till", f"{topic}-in", cash, [f"{topic}-change"], positions)


def earn(till: Till, system: RunningSystem) -> None:
    """Wait until it has received more change."""
    wanted = till.received + 50
    system.wait_until("50 more pieces of change", lambda: till.received > wanted, timeout_s=60)


def captured(system: RunningSystem, taken: Taken) -> Captured:
    return asyncio.run(ops.read_ledger(system.connection, system.namespace)).state.captured(taken.epoch)


def money(taken: Taken) -> dict[str, int]:
    """What a verified snapshot holds: all of it."""
    found = {row["place"]: int(row["coins"] or 0) for row in taken.query(MONEY)}
    assert taken.assembled.verdict == "VERIFIED"
    assert sum(found.values()) == CASH, (taken.id, found)
    return found


def test_money_goes_both_ways_and_is_conserved(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """A cut is drawn with the till, and a coin of it is traced to the change that it was sent for."""
    taken = []
    with coins(kafka, namespace) as (system, served):
        till = till_at(served, system)
        try:
            for _ in range(SNAPSHOTS):
                earn(till, system)
                taken.append(system.snapshot(ttl_ms=TTL_MS))
            assert till.cut == [it.id for it in taken]
            assert not till.ended
        finally:
            till.stop()
        for it in taken:
            cut = captured(system, it)
            assert till.process in {process.process for process in cut.processes}
            assert [place.partition for place in cut.inputs if place.app == "till"] == [0, 1]
        found = [money(it) for it in taken]
        for receiver in ("till", namespace):
            assert any(held.get(f"to {receiver}") for held in found), found
        name, coin = next((it.id, rows[0]) for it in taken if (rows := it.query(CAUSED)))
        picture = tmp_path / "cut.svg"
        command(system, "draw", name, "--storage", str(system.storage), "--output", str(picture))
        assert "till" in picture.read_text()
        steps = command(system, "trace", *map(str, coin.values()))["steps"]
        assert steps[0]["app"] == "till" and steps[1]["topic"] == f"{namespace}-change"


def test_a_process_whose_instance_is_killed_goes_on_at_another(kafka: Broker, namespace: str) -> None:
    """It joins there from its own state and positions. The dead one is named by the snapshot that waits for it, and the
    next one does without it."""
    with coins(kafka, namespace) as (system, first), service(system) as second:
        till = till_at(first, system)
        try:
            earn(till, system)
            before = system.snapshot(ttl_ms=TTL_MS)
            with till.at_rest():
                first.instance.kill()
            system.wait_until("the process to notice", lambda: bool(till.ended))
        finally:
            till.stop()
        again = till_at(second, system, till)
        try:
            earn(again, system)
            vain = ops.trigger(system.connection, namespace, ttl_ms=5_000, wait=True, retries=0)
            with pytest.raises(SnapshotFailedError, match=f"process {till.process} "):
                asyncio.run(vain)
            after = system.snapshot(ttl_ms=TTL_MS)
            processes = {it.process for it in captured(system, after).processes if not it.left}
            assert again.process in processes and till.process not in processes
            assert (till.cut, again.cut[-1]) == ([before.id], after.id)
        finally:
            again.stop()
        assert all(money(it) for it in (before, after))


def test_a_process_in_go_is_in_a_snapshot_of_workers(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    program, log = build_go(tmp_path / "go"), tmp_path / "go-till.log"
    with coins(kafka, namespace) as (system, (address, _)):
        options = (
            f"-address {address} -node go-till -topic {namespace}-in -input {namespace}-change -cash {CASH}"
        )
        with log.open("wb") as out, Child([program, *options.split()], output=out, grace_s=0) as running:
            system.wait_until("it to receive change", lambda: "received" in log.read_text(), timeout_s=60)
            taken = [system.snapshot() for _ in range(3)]
            assert running.status is None, log.read_text()
        cuts = [line.split()[1:] for line in log.read_text().splitlines() if line.startswith("cut")]
        assert cuts == [[it.id, "true"] for it in taken]
        assert all(money(it)["go-till"] < CASH for it in taken)


def build_go(folder: Path) -> str:
    """Generate the stubs, build the client; the module proxy has what it needs."""
    from grpc_tools import protoc

    assert shutil.which("go"), "this test needs Go"
    shutil.copytree(SOURCE, folder)
    (folder / "snapshotpb").mkdir()
    env = os.environ | {"GOBIN": str(folder / "bin"), "GOFLAGS": "-mod=mod"}

    def go(*words: str) -> None:
        done = subprocess.run(["go", *words], cwd=folder, env=env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]

    go("install", "google.golang.org/protobuf/cmd/protoc-gen-go")
    plugin = f"--plugin=protoc-gen-go={folder / 'bin' / 'protoc-gen-go'}"
    options = f"-I{ROOT}/schemas -I{files('grpc_tools')}/_proto --go_opt=paths=source_relative"
    options += f" --go_out={folder}/snapshotpb"
    assert protoc.main(["protoc", plugin, *options.split(), "snapshot.proto"]) == 0
    go("build", "-o", "bin/till", ".")
    return str(folder / "bin" / "till")
