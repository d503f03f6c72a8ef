"""What commands print for a person: of the snapshots of a cluster in memory, and of what is stored of them.

Verbs that need Spark or workers answer here what their own tests let them answer; all else is run.
"""

import dataclasses
import io
import shlex
import tempfile
import time
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from unittest.mock import AsyncMock

import pytest
from typer.main import get_command

from snapkafka import __version__, ops
from snapkafka.cli import app, running
from snapkafka.manifest import CheckEntry, RestorableEntry, WitnessEntry
from snapkafka.ports import Topic
from snapkafka.protocol import TopicPartition
from snapkafka.protocol.records import Abort
from tests.worlds.fakes import FakeCluster, Worker, fake_group
from tests.worlds.page_world import small_system, triggered
from tests.worlds.planned import FORKED, FORKING, REFUSAL, RESTORING

FROZEN: Final = Path(__file__).parent / "frozen"
#: Of a terminal of 80 columns that knows no colours, whoever runs this.
ENVIRONMENT: Final = {"COLUMNS": "80", "TERMINAL_WIDTH": "80", "NO_COLOR": "1", "TERM": "dumb"}
#: Made once: that takes half of the time of a call.
COMMAND: Final = get_command(app)

#: The time of all of them, in seconds since 1970.
NOW_S: Final = 1_060.0
BYTES: Final = "query \"SELECT 'k' AS key, 'ff'::BLOB AS key_raw\""
#: Calls of files.
OF_STORAGE: Final = {
    "query-state": "query 'SELECT * FROM state ORDER BY ALL' --snapshot monday",
    "query-no-rows": "query 'SELECT topic, value FROM messages LIMIT 0'",
    "query-bytes": BYTES,
    "query-bytes-alone": "query \"SELECT 'ff'::BLOB AS key_raw\"",
    "query-bytes-csv": f"{BYTES} --csv",
    # Values of which JSON has none.
    "query-types-json": "query \"SELECT '\\x00\\xFF'::BLOB AS b, [1.0, 'nan'::DOUBLE, 'inf'] AS l\" --json",
    "query-hostile": "query \"SELECT '\x1b[31m[red]' AS value FROM range(41)\"",
    "diff": "diff monday tuesday --keys 9",
    "prune-dry-run": "prune --keep-last 1 --dry-run --bootstrap 127.0.0.1:1",
}
#: Calls of a cluster; the last one adds to its ledger.
OF_CLUSTER: Final = {
    "list": "list",
    "show-bad": "show broken",
    "show-good": "show monday",
    "show-running": "show running",
    "show-failed": "show stuck",
    "assemble": "assemble friday --storage /snaps",
    "doctor": "doctor",
    "doctor-verbose": "doctor -v",
    "restore": "restore friday --yes",
    "fork-create": "fork create staging --yes",
    "trigger-refused": "trigger --id odd --type odd",
    "trigger": "trigger --id next",
}
RED: Final = WitnessEntry(topic="to-pay", partition=0, offset=4, what="red below the position")
READ: Final[dict[str, Any]] = {"run": True, "records": 1_200, "partitions": 2}
ASSEMBLED: Final = ops.JobResult(
    id="friday",
    epoch=100,
    verdict="INCONSISTENT",
    good=False,
    manifest="/snaps/friday.json",
    tables={"state": 3, "messages": 1},
    restorable=RestorableEntry(how="always"),
    checks=(
        CheckEntry(name="V1", status="failed", found=1, witnesses=(RED,), **READ),
        CheckEntry(name="V5", status="passed", noted=1, notes=(RED,), replayed=1, **READ),
        CheckEntry(name="V6 money", run=True, status="passed"),
    ),
)


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
        for name, value in (ENVIRONMENT | {"XDG_CACHE_HOME": f"{home}/cache"}).items():
            patch.setenv(name, value)
        patch.setattr(time, "time", lambda: NOW_S)
        patch.setattr(time, "time_ns", lambda: round(NOW_S * 1e9))
        storage = f"{home}/snapshots"
        made = cluster(Path(storage))
        patch.setattr(running, "Connection", SimpleNamespace(from_environment=lambda *_: made))
        patch.setattr(running.console.console, "width", 80)
        plan = dataclasses.replace(RESTORING, refusals=(REFUSAL,))
        planned = AsyncMock(side_effect=lambda _, asked: FORKING if asked.fork else plan)
        answers = {"assemble": (ASSEMBLED,), "recover": FORKED}
        verbs = {name: AsyncMock(return_value=it) for name, it in answers.items()}
        for name, verb in (verbs | {"plan_recovery": planned}).items():
            patch.setattr(ops, name, verb)
        calls = {name: f"{words} --storage {storage}" for name, words in OF_STORAGE.items()}
        where = "--bootstrap 127.0.0.1:1 --namespace shop"
        calls |= {name: f"{words} {where}" for name, words in OF_CLUSTER.items()}
        return {f"{name}.txt": _call(words, storage) for name, words in calls.items()}


def _call(words: str, storage: str) -> str:
    """Return the exit status, the output and what a person is told beside it, without what is another one on another
    machine or at another time."""
    status, out, err = call(shlex.split(words))
    assert "Traceback" not in err, (words, err)
    text = f"exit status {status}\n--- stdout\n{out}" + (f"--- stderr\n{err}" if err else "")
    text = text.replace(storage, "STORAGE").replace(__version__, "VERSION")
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def cluster(folder: Path) -> FakeCluster:
    """Build three apps, six snapshots, of which the last one fails, and what `doctor` does not like."""
    made = small_system(folder)
    ledger, admin, changelogs = made.the_ledger, made.the_admin, ("shop-changelog", "till-changelog")
    for name in ("shop", "till"):
        uncaptured = ("table places: use_partitioner",) if name == "till" else ()
        Worker(ledger, name, f"{name}-in", changelog=f"{name}-changelog", uncaptured=uncaptured)
    stuck = triggered(made, folder, "stuck")
    first = "process 0 of app bank to report its cut"
    reason = f"not captured within 5000 ms: waited for {first}"
    ledger.put(Abort(n=99, epoch=stuck, code="ttl", reason=reason, culprit=first))
    names = "orders", "till-in", *changelogs  # and not shop-in
    admin.topics = {name: Topic(1) for name in (*names, ledger.topic)}
    admin.ends = {TopicPartition(name, 0): 40 for name in names}
    admin.settings |= {name: {"cleanup.policy": "compact"} for name in changelogs}
    admin.known_groups = [fake_group("report", frozenset({"orders"}))]
    return made
