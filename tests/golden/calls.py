"""What commands print for a person: of the golden snapshots, and of a cluster in memory.

Verbs that need Spark or workers answer here what their own tests let them answer; all else is run.
"""

import dataclasses
import io
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

from snapkafka import __version__, manifest, ops
from snapkafka.checks import GOOD
from snapkafka.cli import app, running
from tests.worlds.fakes import FakeCluster
from tests.worlds.planned import FORKED, FORKING, REFUSAL, RESTORING

from .cluster import NAMESPACE, cluster
from .making import make_snapshots

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
    found = manifest.load((storage / f"{name}.json").read_text("utf-8"))
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
