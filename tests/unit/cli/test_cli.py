"""The command: what it goes on to, how it refuses what is asked wrongly, and its help."""

import io
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import AsyncMock, Mock

import pytest

from snapkafka import ops
from snapkafka.cli import running
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.query.engine import engine
from snapkafka.runtime import EXTRAS
from tests.golden.calls import COMMAND, Printed
from tests.golden.calls import call as run
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore
from tools.reference import commands as every


@pytest.fixture(autouse=True)
def cluster(world: None, monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """What the command finds at any address."""
    made = FakeCluster()
    monkeypatch.setattr(running, "Connection", SimpleNamespace(from_environment=lambda *_: made))
    return made


def call(*arguments: str) -> Printed:
    return run(arguments)


@pytest.mark.parametrize(("verdict", "status"), [("VERIFIED", 0), ("UNVERIFIABLE", EXIT_NOT_GOOD)])
def test_trigger_goes_on_to_the_verdict_with_the_storage_of_the_snapshot_before(
    cluster: FakeCluster, verdict: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    assert call("trigger", "--storage", "/snaps").status == 0
    known: Any = {"id": "mine", "epoch": 4, "manifest": "", "checks": ()}
    judged = ops.JobResult(**known, verdict=verdict, good=not status)
    monkeypatch.setattr(ops, "assemble", assemble := AsyncMock(return_value=(judged,)))
    result = call("trigger", "--verify", "--id", "mine", "--json")
    (found,) = json.loads(result.stdout)["snapshots"]
    assert (result.status, found["snapshot_id"], found["verdict"]) == (status, "mine", verdict)
    (spec,) = (it.args[1] for it in assemble.await_args_list)
    assert (spec.namespace, spec.snapshots) == ("ns", ("mine",))
    assert json.loads(call("show", "mine", "--json").stdout)["target_storage_uri"] == "/snaps"


def test_query_without_sql_asks_for_it_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables stay open, until a line needs those of another snapshot, too."""
    for epoch, name in enumerate(("thursday", "friday")):
        write_snapshot(LocalStore(tmp_path), name, epoch)
    monkeypatch.setattr("snapkafka.query.sandbox.engine", opened := Mock(wraps=engine))
    asked = "SELECT 1 AS one\n\nSELECT 'two' AS two;\nSELECT count(*) AS n FROM thursday.state\nSELECT 3 AS x\nSELEC\n9"
    monkeypatch.setattr(sys, "stdin", io.StringIO(asked))
    result = call("query", "--storage", str(tmp_path), "--namespace", "", "--bootstrap", "", "--csv")
    found = result.status, *result.stdout.split()
    assert found == (BadInputError.exit_status, "one", "1", "two", "two", "n", "0", "x", "3")
    assert [list(call.args[0]) for call in opened.call_args_list] == [["main"], ["main", "thursday"]]


#: Each excludes the other.
EXCLUDING: Final = (
    "query SELECT --csv --json",
    "verify --offline --record",
    "verify --offline --tables",
    "restore --abort --dry-run",
    "restore --abort --check",
    "restore friday --abort",
    "restore --abort --suppress keys.csv",
    "restore --into 127.0.0.1:2 --wait 5",
)
WRONG: Final = (
    *("show", "show --at noon", "list --nonsense", "list --namespace=", "list --bootstrap="),
    *("assemble latest --config no-such-file", "broker --port 65536"),
)


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("show nope", 5),
        ("trigger", 6),
        ("verify --offline nope --storage . --bootstrap=", 5),
        *((words, 2) for words in (*WRONG, *EXCLUDING)),
    ],
)
def test_what_is_asked_wrongly_has_its_status(words: str, status: int) -> None:
    result = call(*words.split())
    assert result.status == status, result
    assert "nonsense" in words or result.stderr.count("\n") == 2, "typer's own are longer"
    assert ("cannot be combined" in result.stderr) is (words in EXCLUDING)


ALL = dict(every(COMMAND))
#: Prints the help of commands without the modules of a list, and in its last line all that was imported.
ALONE = """
import sys
absent, *names = sys.argv[1:]
sys.modules |= dict.fromkeys(absent.split())
from snapkafka.cli import app
for name in names:
    app([*name.split(), "--help"], standalone_mode=False)
print(*sys.modules)
"""


@pytest.mark.parametrize(
    ("names", "others"),
    [
        ([*ALL], set()),
        ([""], {"aiokafka", "snapkafka.ops", "snapkafka.cli.build"}),
        (["list"], {"snapkafka.restore", "snapkafka.ops.drilling", "snapkafka.ops.keeping"}),
    ],
)
def test_help_needs_no_extra_and_nothing_of_other_commands(names: list[str], others: set[str]) -> None:
    absent = {name for brought in EXTRAS.values() for name in brought} - {*EXTRAS["cli"]}
    words = [sys.executable, "-c", ALONE, " ".join(absent), *names]
    *lines, modules = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    assert sum("Example: snapkafka" in line for line in lines) == len(names)
    assert not others & {*modules.split()}


@pytest.mark.parametrize("name", [*ALL, "fork", ""])
def test_help_of_a_command_has_one_example_that_fits_a_line_and_is_right(name: str) -> None:
    printed = call(*name.split(), "--help")
    assert printed.status == 0 and "<bool>" not in printed.stdout
    (line,) = [line for line in map(str.strip, printed.stdout.splitlines()) if line.startswith("Example: ")]
    program, *words = shlex.split(line.removeprefix("Example: "))
    assert program == "snapkafka"
    assert " ".join(words).startswith(name)
    command: Any = COMMAND
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    options = {option for item in command.params for option in item.opts}
    assert {word for word in words if word.startswith("-")} <= options
    if name in ALL:
        command.make_context(name, words, resilient_parsing=False)
