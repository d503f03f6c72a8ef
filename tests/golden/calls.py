"""What commands print for a person: of the golden snapshots, and of a cluster in memory.

Verbs that need Spark or workers answer here what their own tests let them answer; all else is run.
"""

import asyncio
import dataclasses
import io
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest.mock import AsyncMock

import pytest
from typer.main import get_command

from snapkafka import __version__, ops
from snapkafka.checks import GOOD
from snapkafka.cli import app, running
from snapkafka.manifest import CheckEntry, Manifest, Times, WitnessEntry, dump, load
from snapkafka.ports import Topic
from snapkafka.protocol import Abort, CheckResult, TopicPartition, Verdict
from tests.worlds.fakes import FakeCluster, Worker, fake_group
from tests.worlds.on_disk import Row, in_channel, in_state, read_up_to, write_snapshot
from tests.worlds.planned import FORKED, FORKING, REFUSAL, RESTORING
from tests.worlds.stores import LocalStore

FROZEN: Final = Path(__file__).parent / "frozen"
#: Of a terminal of 80 columns that knows no colours, whoever runs this.
ENVIRONMENT: Final = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
#: Made once: that takes half of the time of a call.
COMMAND: Final = get_command(app)
#: What the next command finds at its address.
CLUSTERS: Final[list[FakeCluster]] = []

#: The time of all of them, in seconds since 1970; that of `FakeLedger` is a little earlier.
NOW_S: Final = 1_060.0
BYTES: Final = "SELECT 'k' AS key, 'ff'::BLOB AS key_raw"
#: Values of which JSON has none.
TYPES: Final = "SELECT '\\x00\\xFF'::BLOB AS b, 'nan'::DOUBLE AS d, [1.0, 'inf'::DOUBLE] AS l"
SNAPSHOTS: Final = ("friday", "saturday", "sunday")
NAMESPACE: Final = "shop"
NOON: Final = datetime.fromtimestamp(1_777_636_800, UTC).replace(tzinfo=None)
CHECKED: Final = {"V1": 1_200, "V2": 1_200, "V3": 40, "V4": 1_160, "V5": 1_200, "V6 money": None}


class Printed(NamedTuple):
    """What a command printed, and its exit status."""

    status: int
    stdout: str
    stderr: str


def call(arguments: Sequence[str]) -> Printed:
    """Run a command here, with standard output and error as pipes."""
    pipes = [io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2)]
    with redirect_stdout(pipes[0]), redirect_stderr(pipes[1]), pytest.raises(SystemExit) as ended:
        COMMAND.main([*arguments], prog_name="snapkafka")
    texts = [pipe.buffer.getvalue().decode() for pipe in pipes]
    return Printed(ended.value.code or 0, *texts)  # type: ignore[arg-type]  # of ours each is a number


def printed() -> dict[str, str]:
    """Return what each call prints, by the name of its file: with a storage, a cluster, a time, a home of its own."""
    with tempfile.TemporaryDirectory() as home, pytest.MonkeyPatch.context() as patch:
        storage = Path(home, "snapshots")
        make_snapshots(storage)
        for name, value in (ENVIRONMENT | {"XDG_CACHE_HOME": f"{home}/cache"}).items():
            patch.setenv(name, value)
        patch.setattr(time, "time", lambda: NOW_S)
        patch.setattr(time, "time_ns", lambda: round(NOW_S * 1e9))
        patch.setattr(running, "Connection", SimpleNamespace(from_environment=lambda *_: CLUSTERS[0]))
        patch.setattr(running.console.console, "width", 80)
        _answers(patch, storage)
        calls = _of_storage(str(storage)) | _of_cluster(str(storage))
        return {f"{name}.txt": _call(arguments, str(storage)) for name, arguments in calls.items()}


def _of_storage(storage: str) -> dict[str, list[str]]:
    """Return the calls that need nothing but files."""
    calls = {
        "query-friday-state": ["query", "SELECT * FROM state ORDER BY ALL", "--snapshot", "friday"],
        "query-no-rows": ["query", "SELECT topic, value FROM messages LIMIT 0"],
        "query-bytes": ["query", BYTES],
        "query-bytes-alone": ["query", "SELECT 'ff'::BLOB AS key_raw"],
        "query-bytes-csv": ["query", BYTES, "--csv"],
        "query-types-json": ["query", TYPES, "--json"],
        "query-hostile": ["query", "SELECT '\x1b[31m[red]' AS value FROM range(41)"],
        "diff": ["diff", "friday", "saturday", "--keys", "9"],
        "prune-dry-run": ["prune", "--keep-last", "1", "--dry-run", "--bootstrap", "127.0.0.1:1"],
    }
    return {name: [*arguments, "--storage", storage] for name, arguments in calls.items()}


def _of_cluster(storage: str) -> dict[str, list[str]]:
    """Return the calls that ask a cluster; each has a cluster as new."""
    where = ["--bootstrap", "127.0.0.1:1", "--namespace", NAMESPACE]
    calls = {
        "trigger": ["trigger", "--id", "next"],
        "trigger-refused": ["trigger", "--id", "odd", "--type", "odd"],
        "list": ["list"],
        "show-bad": ["show", "bad"],
        "show-good": ["show", "good"],
        "show-running": ["show", "running"],
        "show-failed": ["show", "stuck"],
        "assemble": ["assemble", *SNAPSHOTS, "--storage", storage],
        "doctor": ["doctor"],
        "doctor-verbose": ["doctor", "-v"],
        "restore": ["restore", "friday", "--yes"],
        "fork-create": ["fork", "create", "staging", "--yes"],
    }
    return {name: [*arguments, *where] for name, arguments in calls.items()}


def _answers(patch: pytest.MonkeyPatch, storage: Path) -> None:
    """Let the verbs answer that need Spark, workers or much of a cluster."""
    made = tuple(_assembled(storage, name) for name in SNAPSHOTS)
    plan = dataclasses.replace(RESTORING, refusals=(REFUSAL,))
    for name, answer in {"assemble": made, "recover": FORKED}.items():
        patch.setattr(ops, name, AsyncMock(return_value=answer))
    patch.setattr(
        ops, "plan_recovery", AsyncMock(side_effect=lambda _, asked: FORKING if asked.fork else plan)
    )


def _assembled(storage: Path, name: str) -> ops.JobResult:
    """Return the result of an assembly from the manifest that it wrote."""
    found = load((storage / f"{name}.json").read_text("utf-8"))
    of: dict[str, Any] = {
        it: getattr(found, it) for it in ("epoch", "verdict", "checks", "content", "restorable")
    }
    of["tables"] = {table.name: table.rows for table in found.tables}
    good = found.verdict in GOOD
    return ops.JobResult(id=name, good=good, manifest=f"/snaps/{name}.json", positions_committed=True, **of)


def _call(arguments: list[str], storage: str) -> str:
    """Return the exit status, the output and what a person is told beside it."""
    CLUSTERS[:] = [cluster(storage)] if "--bootstrap" in arguments else []
    status, out, err = call(arguments)
    assert "Traceback" not in err, (arguments, err)
    return _plain(f"exit status {status}\n--- stdout\n{out}" + (f"--- stderr\n{err}" if err else ""), storage)


def _plain(text: str, storage: str) -> str:
    """Replace all that is another one on another machine or at another time."""
    text = text.replace(storage, "STORAGE").replace(__version__, "VERSION")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


# -- a storage, and a cluster in memory -----------------------------------------------------------------------


def make_snapshots(folder: Path) -> None:
    """Write `friday`, VERIFIED and full, `saturday`, which builds on it with windows, a set and a deleted key among its
    rows, and `sunday`, INCONSISTENT."""
    store = LocalStore(folder)
    state = [_kept("ann", "10"), _kept("bob", "20", partition=1), _kept("eve", "30")]
    friday = _write(store, "friday", 100, state=state)
    _write(store, "saturday", 200, parent=friday, verdict="VERIFIED_WITH_REPLAYS", state_delta=_changed())
    _write(store, "sunday", 300, verdict="INCONSISTENT", state=state[:2])


def _changed() -> list[Row]:
    """Return what changed since `friday`: a window, a table of sets, an undecoded key, and a deleted one."""
    times = {"window_start": NOON, "window_end": NOON + timedelta(seconds=59.9)}
    blob = {"key": None, "value": None, "key_raw": b"\xff\x00", "value_raw": b"\x01"}
    rows = [
        _kept("ann", "12"),
        _kept("bob", "", partition=1) | {"value": None, "value_raw": None, "deleted": True},
        _kept("page", "3", table="visits") | times,
        _kept("vip", '["ann","eve"]', table="groups"),
        _kept("", "", table="blobs") | blob | {"why_undecoded": "key is not UTF-8"},
    ]
    return [{"deleted": False} | row for row in rows]


def _kept(key: str, value: str, **more: Any) -> dict[str, Any]:
    """Return a row of state with the place of its record in the changelog."""
    return {**in_state(key, value, **more), "changelog_topic": "bank-changelog", "changelog_offset": 9}


def _write(store: LocalStore, name: str, epoch: int, **more: Any) -> Manifest:
    message = {"sender": 3, "sender_app": "till", "receiver_app": "bank", "topic": "to-pay", "partition": 0}
    written = write_snapshot(
        store,
        name,
        epoch,
        cuts=[read_up_to("to-pay", 0, 3), read_up_to("credits", 0, epoch)],
        messages=[message | {"offset": 3, "key": "ann", "value": "1"}],
        channels=[in_channel("to-pay", 1, 7, sender=3), in_channel("credits", 0, 0, sender=2)],
        **more,
    )
    manifest = dataclasses.replace(
        written,
        times=Times(assembled_at=f"2026-05-0{epoch // 100}T12:00:00.000+00:00"),
        checks=tuple(_check(check, records, written.verdict) for check, records in CHECKED.items()),
    )
    Path(store.manifest_place(name)).write_text(dump(manifest), "utf-8")
    return manifest


def _check(name: str, records: int | None, verdict: str) -> CheckEntry:
    witness = WitnessEntry(
        topic="to-pay", partition=0, offset=4, what="red below the position", process=3, seq=4
    )
    partitions = None if records is None else 2
    passed = CheckEntry(
        name=name, run=True, status="passed", replayed=0, records=records, partitions=partitions
    )
    if name == "V1" and verdict == "INCONSISTENT":
        return dataclasses.replace(passed, status="failed", found=1, witnesses=(witness,))
    if name == "V5" and verdict == "VERIFIED_WITH_REPLAYS":
        note = dataclasses.replace(witness, what="runs again after a restore")
        return dataclasses.replace(passed, noted=1, notes=(note,), replayed=1)
    return passed


def cluster(storage: str) -> FakeCluster:
    """Build three apps, five snapshots, and what `doctor` does not like; anew, as commands append to the ledger."""
    made, changelogs = FakeCluster(), ("shop-stock-changelog", "bank-places-changelog")
    ledger, admin = made.the_ledger, made.the_admin
    Worker(ledger, "shop", "raw", sends=("orders",), changelog=changelogs[0])
    uncaptured = ("table places: use_partitioner",)
    Worker(ledger, "bank", "orders", sends=("bills",), changelog=changelogs[1], uncaptured=uncaptured)
    names = "raw", "orders", "bills", *changelogs
    admin.topics = {name: Topic(1) for name in (*names, ledger.topic)}
    admin.ends = {TopicPartition(name, 0): 40 for name in names}
    admin.settings |= {name: {"cleanup.policy": "compact"} for name in changelogs}
    admin.known_groups = [fake_group("report", frozenset({"orders"}))]
    asyncio.run(_snapshots(made, storage))
    return made


async def _snapshots(made: FakeCluster, storage: str) -> None:
    """Take `good`, `bad` and `fresh`, which are captured, `running`, and `stuck`, which fails."""
    ledger = made.the_ledger
    for name, verdict, status, manifest in (
        ("good", "VERIFIED", "passed", "/elsewhere/good.json"),
        ("bad", "INCONSISTENT", "failed", f"{storage}/sunday.json"),
        ("fresh", "", "", ""),
    ):
        taken = await ops.trigger(made, NAMESPACE, snapshot_id=name, who="ann@host", wait=True)
        checks = (
            CheckResult(name="V1", status=status, records=1_200),
            CheckResult(name="V4", status="passed"),
        )
        if verdict:
            found: Any = {"verdict": verdict, "checks": checks, "manifest": manifest}
            ledger.put(Verdict(n=90 + taken.epoch, epoch=taken.epoch, **found))
    tills = Worker(ledger, "tills", "sales", reports=False)
    await ops.trigger(made, NAMESPACE, snapshot_id="running", who="ann@host", ttl_ms=3_600_000)
    stuck = await ops.trigger(made, NAMESPACE, snapshot_id="stuck", who="ann@host")
    first = f"process {tills.process} of app tills to report its cut"
    reason = f"not captured within 5000 ms: waited for {first}"
    ledger.put(Abort(n=99, epoch=stuck.epoch, code="ttl", reason=reason, culprit=first))
