"""The command: what it prints, what it says of errors, and its exit statuses."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import running
from snapkafka.cli import verbs as commands
from snapkafka.cli.build import command
from snapkafka.cli.verbs import COMMANDS
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from snapkafka.options import options_of
from snapkafka.query.engine import engine
from snapkafka.runtime import EXTRAS
from snapkafka.verbs import Checkpoint, Show, Trigger
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore
from tools.reference import commands as every

RUNNER = CliRunner()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """What the command finds at any address."""
    for name in ("SNAPKAFKA_BOOTSTRAP", "SNAPKAFKA_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    made = FakeCluster()
    monkeypatch.setattr(running, "Connection", SimpleNamespace(from_environment=lambda *_: made))
    return made


def call(*arguments: str, env: dict[str, str] | None = None, **more: Any) -> Result:
    where = {"SNAPKAFKA_BOOTSTRAP": "127.0.0.1:1", "SNAPKAFKA_NAMESPACE": "ns"}
    return RUNNER.invoke(commands.app, list(arguments), env=where | (env or {}), **more)


@pytest.mark.parametrize(("verdict", "status"), [("VERIFIED", 0), ("UNVERIFIABLE", EXIT_NOT_GOOD)])
def test_trigger_goes_on_to_the_verdict_with_the_storage_of_the_snapshot_before(
    cluster: FakeCluster, verdict: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    assert call("trigger", "--storage", "/snaps").exit_code == 0
    asked: list[ops.JobSpec] = []

    async def assemble(where: Any, spec: ops.JobSpec, **_: Any) -> tuple[ops.JobResult, ...]:
        asked.append(spec)
        known: Any = {"id": spec.snapshots[0], "epoch": 4, "manifest": "", "checks": ()}
        return (ops.JobResult(**known, verdict=verdict, good=not status),)

    monkeypatch.setattr(ops, "assemble", assemble)
    result = call("trigger", "--verify", "--id", "mine", "--json")
    (found,) = json.loads(result.stdout)["snapshots"]
    assert (result.exit_code, found["snapshot_id"], found["verdict"]) == (status, "mine", verdict)
    assert [(spec.namespace, spec.snapshots) for spec in asked] == [("ns", ("mine",))]
    assert json.loads(call("show", "mine", "--json").stdout)["target_storage_uri"] == "/snaps"


def test_query_without_sql_asks_for_it_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables stay open, until a line needs those of another snapshot, too."""
    for epoch, name in enumerate(("thursday", "friday")):
        write_snapshot(LocalStore(tmp_path), name, epoch)
    monkeypatch.setattr("snapkafka.query.sandbox.engine", opened := Mock(wraps=engine))
    where = ["query", "--storage", str(tmp_path), "--namespace", "", "--bootstrap", "", "--csv"]
    asked = "SELECT 1 AS one\n\nSELECT 'two' AS two;\nSELECT count(*) AS n FROM thursday.state\nSELECT 3 AS x\nSELEC\n9"
    result = RUNNER.invoke(commands.app, where, input=asked)
    found = result.exit_code, *result.stdout.split()
    assert found == (BadInputError.exit_status, "one", "1", "two", "two", "n", "0", "x", "3")
    assert [list(call.args[0]) for call in opened.call_args_list] == [["main"], ["main", "thursday"]]


# -- errors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "env", "status"),
    [
        ("show nope", {}, 5),
        ("show", {}, 2),
        ("show --at noon", {}, 2),
        ("trigger", {}, 6),
        ("list --nonsense", {}, 2),
        ("list", {"SNAPKAFKA_NAMESPACE": ""}, 2),
        ("list", {"SNAPKAFKA_BOOTSTRAP": ""}, 2),
        ("assemble latest --config no-such-file", {}, 2),
        ("broker --port 65536", {}, 2),
        ("verify --offline nope --storage .", {"SNAPKAFKA_BOOTSTRAP": ""}, 5),
    ],
)
def test_what_is_asked_wrongly_has_its_status(
    cluster: FakeCluster, arguments: str, env: dict[str, str], status: int
) -> None:
    result = call(*arguments.split(), env=env)
    assert result.exit_code == status, result.output
    assert "nonsense" in arguments or result.stderr.count("\n") == 2, "typer's own are longer"


def test_a_bug_of_ours_is_none_of_the_statuses_that_mean_something(cluster: FakeCluster) -> None:
    cluster.the_ledger.failure = RuntimeError("oops")
    result = call("list")
    assert result.exit_code == 70
    assert "a bug in snapkafka" in result.stderr
    reported = json.loads(call("list", "--json").stdout)["error"]
    assert (reported["code"], reported["message"]) == ("internal", "a bug in snapkafka: RuntimeError: oops")


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "SELECT 1", "--csv", "--json"),
        ("verify", "--offline", "--record"),
        ("verify", "--offline", "--tables"),
        ("restore", "--abort", "--dry-run"),
        ("restore", "--abort", "--check"),
        ("restore", "friday", "--abort"),
        ("restore", "--abort", "--suppress", "keys.csv"),
        ("restore", "--into", "127.0.0.1:2", "--wait", "5"),
    ],
    ids=" ".join,
)
def test_what_excludes_each_other_is_refused(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr


# -- help ---------------------------------------------------------------------------------------------------


COMMAND = get_command(commands.app)
ALL = dict(every(COMMAND))


def help_of(name: str) -> list[str]:
    """The lines of the help of a command, on a terminal of 80 columns."""
    result = RUNNER.invoke(
        commands.app, [*name.split(), "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    )
    assert result.exit_code == 0
    assert "<bool>" not in result.stdout
    return [line.strip() for line in result.stdout.splitlines()]


def test_options_are_read_as_they_are_written(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Trigger] = []
    monkeypatch.setitem(COMMANDS, "trigger", None)

    def trigger(request: Trigger) -> None:
        asked.append(request)

    command("trigger")(trigger)
    found: Any = COMMANDS["trigger"]
    written = "--ttl 1min --align-timeout 500 --apps a,b --apps c"
    assert found.main(written.split(), standalone_mode=False) in (0, None)
    assert asked == [Trigger(ttl_ms=60_000, align_timeout_ms=500, apps=("a", "b", "c"))]
    for wrong in ("--ttl soon", "--apps a,,b", "--apps ,", "--apps ", "--ttl 0"):
        assert found.main(wrong.split(" "), standalone_mode=False) == BadInputError.exit_status
    keep, at = options_of(Checkpoint)["keep_ms"], options_of(Show)["at_ms"]
    assert keep.value("0") == 0
    assert at.value("2026-05-01T14:30:00+02:00") == 1_777_638_600_000
    with pytest.raises(BadInputError):
        keep.value("inf")


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
    arguments = [sys.executable, "-c", ALONE, " ".join(absent), *names]
    *lines, modules = subprocess.run(
        arguments, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert sum("Example: snapkafka" in line for line in lines) == len(names)
    assert not others & {*modules.split()}


@pytest.mark.parametrize("name", [*ALL, "fork", ""])
def test_help_of_a_command_has_one_example_that_fits_a_line_and_is_right(name: str) -> None:
    (line,) = [line for line in help_of(name) if line.startswith("Example: ")]
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
