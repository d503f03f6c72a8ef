"""`watch`: what each round says of the predicate, what is retried, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.assembly import JobResult
from snapkafka.cli import app
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    OffsetsGoneError,
    SnapshotFailedError,
    StorageError,
    TimedOutError,
    TriggerRefusedError,
)
from snapkafka.kafka import Connection
from snapkafka.manifest_entries import CheckEntry, WitnessEntry
from snapkafka.ops import Answer, Round, Summary, assembling
from snapkafka.ops import stable_predicates as watching
from snapkafka.ops.stable_predicates import rounds
from snapkafka.protocol import Status
from snapkafka.store import LocalStore
from tests.kafka.waiting import until
from tests.worlds.fakes import FakeCluster, FakeTopic, Worker
from tests.worlds.on_disk import write_snapshot

HERE = Connection(bootstrap="127.0.0.1:1")
WITNESS = WitnessEntry(topic="hops", partition=0, offset=9, what='{"topic":"hops"}')
HOLDS = CheckEntry(name="V6 termination", run=True, status="passed")
NOT_YET = CheckEntry(name="V6 termination", run=True, status="failed", found=1, witnesses=(WITNESS,))
UNCLEAR = CheckEntry(name="V6 termination", run=True, status="unverifiable", found=1, witnesses=(WITNESS,))


def assembled(*answers: CheckEntry, verdict: str = "VERIFIED") -> JobResult:
    return JobResult(
        id="-",
        epoch=7,
        verdict=verdict,
        good=verdict == "VERIFIED",
        manifest="m.json",
        checks=(),
        answers=answers,
    )


class Script:
    """What becomes of one snapshot after the other: it fails as it is taken or assembled, or says this."""

    def __init__(self, *taken: Exception | JobResult, judged: Exception | None = None) -> None:
        self.left = list(taken)
        self.names: list[str] = []
        self.report: list[Round] = []
        self.judged = judged

    async def take(self, name: str) -> Summary:
        self.names.append(name)
        if isinstance(self.left[0], Exception):
            raise self.left.pop(0)  # type: ignore[misc]
        at = 1_000 * len(self.names)
        return Summary(
            id=name, attempt=1, epoch=7, status=Status.CAPTURED, type="full", who="", storage="", apps=(),
            triggered_ms=at, capture_ms=30, ttl_ms=5_000,
        )  # fmt: skip

    async def judge(self, name: str) -> JobResult:
        assert name == self.names[-1]
        found = self.left.pop(0)
        assert isinstance(found, JobResult)
        if self.judged is not None:
            error, self.judged = self.judged, None
            raise error
        return found

    async def run(self) -> Round:
        return await rounds(self.take, self.judge, every_s=0, report=self.report.append)

    @property
    def answers(self) -> list[str]:
        return [str(item.answer) for item in self.report]


# -- the rounds ----------------------------------------------------------------------------------------------


async def test_it_goes_on_until_the_predicate_holds() -> None:
    """True in a snapshot: true since its capture. False in one: it was false when that was triggered."""
    script = Script(assembled(NOT_YET), assembled(NOT_YET), assembled(HOLDS))
    found = await script.run()
    assert script.answers == ["not yet", "not yet", "holds"]
    assert [item.not_yet_ms for item in script.report] == [1_000, 2_000, 2_000]
    assert [item.holds_ms for item in script.report] == [None, None, 3_030]
    assert (found.number, found.id, found.manifest) == (3, script.names[2], "m.json")
    assert script.report[0].found == 1
    assert script.report[0].witnesses == (WITNESS,)
    assert len(set(script.names)) == 3, "each is a snapshot of its own"


async def test_one_that_holds_at_once_says_nothing_of_before() -> None:
    script = Script(assembled(HOLDS))
    found = await script.run()
    assert (found.not_yet_ms, found.holds_ms) == (None, 1_030)


@pytest.mark.parametrize("verdict", ["INCONSISTENT", "UNVERIFIABLE"])
async def test_a_snapshot_that_is_not_good_proves_nothing(verdict: str) -> None:
    """Whatever its tables say: the states before and after are not joined to it."""
    script = Script(assembled(HOLDS, verdict=verdict), assembled(HOLDS))
    found = await script.run()
    assert script.answers == ["unproven", "holds"]
    assert script.report[0].why == f"the snapshot is {verdict}"
    assert found.number == 2


async def test_a_query_that_fails_half_way_proves_nothing_and_one_of_several_that_does_not_hold_is_enough() -> (
    None
):
    script = Script(assembled(HOLDS, UNCLEAR), assembled(UNCLEAR, NOT_YET), assembled(HOLDS, HOLDS))
    await script.run()
    assert script.answers == ["unproven", "not yet", "holds"]
    assert script.report[0].why == WITNESS.what


@pytest.mark.parametrize("error", [SnapshotFailedError("s failed: nobody came"), OffsetsGoneError("gone")])
async def test_a_snapshot_that_fails_is_named_and_the_next_is_taken(error: Exception) -> None:
    script = Script(error, assembled(HOLDS))
    await script.run()
    assert script.answers == ["failed", "holds"]
    assert (script.report[0].id, script.report[0].why) == (script.names[0], str(error))


async def test_one_that_cannot_be_assembled_is_named_and_the_next_is_taken() -> None:
    script = Script(assembled(HOLDS), assembled(HOLDS), judged=TimedOutError("a transaction is open"))
    await script.run()
    assert script.answers == ["failed", "holds"]


@pytest.mark.parametrize(
    "error", [TriggerRefusedError("no process is running"), BrokerUnavailableError("away")]
)
async def test_a_system_that_restarts_is_waited_for_but_not_one_that_was_never_there(
    error: Exception,
) -> None:
    script = Script(assembled(NOT_YET), error, assembled(HOLDS))
    await script.run()
    assert script.answers == ["not yet", "failed", "holds"]
    assert script.report[1].not_yet_ms == 1_000, "what was known stays known"
    with pytest.raises(type(error)):
        await Script(error, assembled(HOLDS)).run()


async def test_what_no_other_snapshot_would_mend_ends_it() -> None:
    script = Script(assembled(NOT_YET), assembled(HOLDS), judged=StorageError("the disk is full"))
    with pytest.raises(StorageError):
        await script.run()


# -- the verb ------------------------------------------------------------------------------------------------


class Job:
    """A program in the place of the Spark job: of its calls one after the other it answers as it was told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.program = folder, folder / "job.py"
        self.calls = folder / "calls.txt"

    def answers(self, *statuses: str, then: str = "") -> None:
        self.program.write_text(
            "import json, os, pathlib, sys, time\n"
            f"calls = pathlib.Path({str(self.calls)!r})\n"
            "before = calls.read_text().splitlines() if calls.exists() else []\n"
            "spec = json.loads(pathlib.Path(sys.argv[2].split('=')[1]).read_text())\n"
            "calls.write_text('\\n'.join([*before, json.dumps([os.getpid(), spec])]))\n"
            f"{then}\n"
            f"status = {statuses!r}[len(before)]\n"
            "answer = {'name': 'V6 t', 'run': True, 'status': status, 'found': int(status == 'failed'),"
            " 'witnesses': [], 'noted': 0, 'notes': []}\n"
            "told = {'id': 'x', 'epoch': 9, 'verdict': 'VERIFIED', 'good': True, 'checks': [], 'manifest': 'x.json',"
            " 'answers': [answer]}\n"
            "pathlib.Path(sys.argv[3].split('=')[1]).write_text(json.dumps({'snapshots': [told]}))\n"
        )

    @property
    def has_begun(self) -> bool:
        return self.calls.exists() and bool(self.calls.read_text())

    def called(self) -> list[list[Any]]:
        """Of each call the process and its options."""
        return [json.loads(line) for line in self.calls.read_text().splitlines()]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """The job, and a cluster in memory with one worker."""
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")

    async def trigger(where: Connection, namespace: str, **options: Any) -> Summary:
        return await ops.trigger(cluster, namespace, **options)

    monkeypatch.setattr(watching, "trigger", trigger)
    made = Job(tmp_path)
    monkeypatch.setattr(assembling, "JOB", (sys.executable, str(made.program)))
    monkeypatch.setenv("SNAPKAFKA_BOOTSTRAP", "127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "ns")
    return made


async def test_the_predicate_is_asked_and_is_no_check(job: Job, tmp_path: Path) -> None:
    job.answers("failed", "passed")
    found = await ops.watch(
        HERE,
        "ns",
        ops.WatchRequest(
            until="termination",
            storage=str(tmp_path / "snaps"),
            parameters=["topics=hops"],
            every_ms=1,
            timeout_ms=60_000,
        ),
    )
    assert (found.number, found.answer) == (2, Answer.HOLDS)
    first, second = job.called()
    one, other = (msgspec.convert(call[1], ops.JobSpec) for call in (first, second))
    assert (one.asked, one.parameters, one.invariants) == (("termination",), ("topics=hops",), ())
    assert one.snapshots != other.snapshots == (found.id,)


@pytest.mark.parametrize(
    ("predicate", "options", "said"),
    [
        ("nothing.sql", {}, "there are no invariants at nothing.sql"),
        ("one_token", {}, "needs a value for"),
        ("termination", {"parameters": ["total=1"]}, "no invariant has a parameter total"),
        ("termination", {"storage": ""}, "watch needs --storage"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_a_snapshot_is_taken(
    predicate: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInputError, match=said):
        await ops.watch(
            HERE, "ns", ops.WatchRequest(until=predicate, **({"storage": "/snaps"} | options))
        )  # nobody answers at HERE


async def test_a_storage_that_cannot_be_written_is_said_before_a_snapshot_is_taken(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):  # nobody answers at HERE
        await ops.watch(HERE, "ns", ops.WatchRequest(until="termination", storage=str(tmp_path / "file")))


async def test_when_the_time_is_over_that_is_said_and_the_job_ends(job: Job, tmp_path: Path) -> None:
    job.answers(*["failed"] * 2, then="if before: time.sleep(60)")
    with pytest.raises(TimedOutError):
        await ops.watch(
            HERE,
            "ns",
            ops.WatchRequest(until="termination", storage=str(tmp_path), every_ms=1, timeout_ms=3_000),
        )
    assert not is_running(job.called()[-1][0])


async def test_whoever_is_interrupted_leaves_no_job_behind(job: Job, tmp_path: Path) -> None:
    job.answers("failed", then="time.sleep(60)")
    work = asyncio.ensure_future(
        ops.watch(HERE, "ns", ops.WatchRequest(until="termination", storage=str(tmp_path)))
    )
    await until(lambda: job.has_begun)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert not is_running(job.called()[0][0])


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_of_its_own_snapshots_the_last_stay_and_nobody_elses_goes(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number, name in enumerate(("theirs", "own-1", "own-2", "own-3")):
        write_snapshot(store, name, number, namespace="ns")
    policy = ops.Policy(last=1, namespace="ns")
    cluster = FakeCluster()
    cluster.the_admin.topics = {"_snapkafka.ns": FakeTopic(1)}
    asyncio.run(watching._clear(cluster, str(tmp_path), policy, ["own-1", "own-2", "own-3", "failed"]))
    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["own-3", "theirs"]


# -- the command ---------------------------------------------------------------------------------------------


def test_time_that_is_over_has_a_status_of_its_own(job: Job) -> None:
    job.answers("failed", then="time.sleep(60)")
    command = ["watch", "--until", "termination", "--storage", "/snaps", "--timeout", "1s", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == TimedOutError.exit_status
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["error"]["code"] == "timed-out"
    assert CliRunner().invoke(app, [*command, "--every", "often"]).exit_code == BadInputError.exit_status
