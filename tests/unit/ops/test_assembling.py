"""`assemble` and `verify` run the Spark job and pass on what it says: here a job that says what the test wants."""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.assembly import changed
from snapkafka.assembly.spec import JobError
from snapkafka.errors import (
    BadInputError,
    DependencyMissingError,
    InternalError,
    OffsetsGoneError,
    SnapkafkaError,
    StorageError,
    TimedOutError,
    UnknownSnapshotError,
)
from snapkafka.kafka import Connection, find_captured
from snapkafka.manifest import CheckEntry, WitnessEntry
from snapkafka.ops import assembling
from snapkafka.runtime import extras
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

RUNNER = CliRunner()
HERE = Connection(bootstrap="127.0.0.1:1")
ROW = WitnessEntry(topic="t", partition=0, offset=9, what="is red", process=3, seq=4)
CHECKS = (
    CheckEntry(name="V1", run=True, status="passed"),
    CheckEntry(name="V2", run=True, status="failed", found=1, witnesses=(ROW,)),
)
RESULT = ops.JobResult(
    id="mine", epoch=7, verdict="VERIFIED", good=True, manifest="/snaps/mine.json", checks=CHECKS,
    tables={"state": 1200, "messages": 3},
)  # fmt: skip
MINE = ops.JobSpec(namespace="ns", snapshots=("mine",))


class Job:
    """What stands in the place of the job's process. `spec`: what it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.says([RESULT])
        monkeypatch.setattr(assembling, "run_child", self)

    def says(
        self, snapshots: object = (), *, status: int = 0, lines: Sequence[str] = (), **more: Any
    ) -> None:
        """`lines` on standard error; no snapshots: nothing is reported, but for `more`."""
        self.reported = msgspec.json.encode({"snapshots": snapshots} | more) if snapshots or more else b""
        self.status, self.lines = status, lines

    async def __call__(self, command: list[str], note: Any, *, env: Any, pass_fds: list[int]) -> int:
        spec, result = pass_fds
        self.spec = msgspec.json.decode(os.pread(spec, 1 << 20, 0), type=ops.JobSpec)
        files = [f"--spec=/dev/fd/{spec}", f"--result=/dev/fd/{result}"]
        assert command[-5:] == ["--child", *files, f"--engine={self.spec.engine}", "--quiet"]
        for line in self.lines:
            await asyncio.to_thread(note, line)
        os.write(result, self.reported)
        return self.status


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "ns")
    return Job(monkeypatch)


async def test_results_come_back_and_the_log_is_passed_on(job: Job) -> None:
    job.says([RESULT], lines=("starting Spark", "mine: verifying"))
    said = list[str]()
    spec = changed(MINE, storage="/snaps", invariants=("one_token",), parameters=("n=1",))
    assert await ops.assemble(HERE, spec, notify=said.append) == (RESULT,)
    assert said == ["starting Spark", "mine: verifying"]
    assert job.spec == changed(spec, bootstrap="127.0.0.1:1")


@pytest.mark.parametrize("kind", [StorageError, OffsetsGoneError, UnknownSnapshotError, InternalError])
async def test_an_error_of_the_job_is_the_same_error_here(job: Job, kind: type[SnapkafkaError]) -> None:
    error = JobError.of(kind("so it is", hint="do this", rows=3))
    for reported in (error, *[replace(error, code="of a later release")] * (kind is InternalError)):
        job.says(error=reported, status=8)
        with pytest.raises(kind) as raised:
            await ops.assemble(HERE, MINE)
        found = raised.value
        assert (found.message, found.hint, found.facts) == ("so it is", "do this", {"rows": 3})
    job.says(status=1, lines=("Traceback", "OutOfMemoryError: heap"))
    with pytest.raises(InternalError, match="ended with status 1: OutOfMemoryError: heap"):
        await ops.assemble(HERE, MINE)


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [("auto", "pyarrow", "embedded"), ("embedded", "pyarrow", "embedded"), ("spark", "pyspark", "spark")],
)
async def test_without_an_engine_its_extra_is_named(
    job: Job, monkeypatch: pytest.MonkeyPatch, engine: str, module: str, extra: str
) -> None:
    """Where both are missing, `auto` names the smaller one."""
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(DependencyMissingError, match=f"assembly needs {module}, ") as raised:
        await ops.assemble(HERE, changed(MINE, engine=engine))
    assert f"'.[{extra}]'" in raised.value.hint


async def test_verify_needs_a_manifest_that_is_there(job: Job, tmp_path: Path) -> None:
    with pytest.raises(BadInputError):
        await ops.verify(HERE, ops.JobSpec(namespace="ns"))
    with pytest.raises(UnknownSnapshotError):
        await ops.verify(HERE, changed(MINE, storage=str(tmp_path / "empty")))
    with pytest.raises(BadInputError, match="no snapshot is named"):
        await ops.assemble(HERE, ops.JobSpec(namespace="ns", snapshots=()))


async def test_the_latest_is_the_last_one_that_a_verb_can_use(job: Job, tmp_path: Path) -> None:
    """To assemble: captured. To verify: assembled, also where it is not good."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    await ops.trigger(cluster, "ns", snapshot_id="good", wait=True)
    Worker(cluster.the_ledger, "tills", "sales", reports=False)
    await ops.trigger(cluster, "ns", snapshot_id="running")
    state = (await ops.read_ledger(cluster, "ns")).state
    assert find_captured(state, "latest").id == "good"
    with pytest.raises(TimedOutError, match="tills"):
        find_captured(state, "running")
    for number, verdict in enumerate(("VERIFIED", "INCONSISTENT")):
        write_snapshot(LocalStore(tmp_path), verdict, number, verdict=verdict)
    await ops.verify(HERE, ops.JobSpec(snapshots=("latest",), storage=str(tmp_path)))
    assert job.spec.manifests == (str(tmp_path / "INCONSISTENT.json"),)
    await ops.verify(HERE, ops.JobSpec(snapshots=("0",), storage=str(tmp_path)))
    assert job.spec.manifests == (str(tmp_path / "VERIFIED.json"),)


# -- the command ---------------------------------------------------------------------------------------------


def test_what_describes_the_system_is_read_from_a_file_that_is_named(
    job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The URL of a schema registry may hold a password, and everybody may look at command lines. What a command is
    given goes before the file, and no file is read that nobody names."""
    from snapkafka.cli import app

    url = "https://me:secret@registry:8081"
    file = tmp_path / "snapkafka.toml"
    file.write_text(
        f'namespace = "bank"\nengine = "embedded"\nstorage = "/of-the-file"\n'
        f'schema_registry = "{url}"\nsinks = ["bi"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SNAPKAFKA_NAMESPACE", raising=False)
    write_snapshot(LocalStore(tmp_path), "mine", 0, namespace="bank")
    for command in ("assemble", "verify"):
        result = RUNNER.invoke(app, [command, "mine", f"--config={file}", f"--storage={tmp_path}"])
        assert result.exit_code == 0, result.output
        assert (job.spec.namespace, job.spec.engine, job.spec.storage) == ("bank", "embedded", str(tmp_path))
        assert (job.spec.schema_registry, job.spec.sinks) == (url, ("bi",))
        assert "secret" not in repr(job.spec)
    RUNNER.invoke(app, ["assemble", "mine"])
    assert job.spec.sinks == ()
    monkeypatch.setenv("SNAPKAFKA_CONFIG", str(file))
    RUNNER.invoke(app, ["assemble", "mine"])
    assert job.spec.storage == "/of-the-file"
