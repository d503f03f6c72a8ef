"""The command: what it prints, what it says of errors, and its exit statuses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

from snapkafka import __version__
from snapkafka.cli import verbs as commands
from snapkafka.cli.commands import switches
from snapkafka.cli.helps import HELPS, Panel
from snapkafka.errors import (
    BrokerUnavailableError,
)
from snapkafka.units import rounded_ms
from tests.worlds.fakes import FakeCluster, Worker
from tools.reference import commands as every

RUNNER = CliRunner()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeCluster:
    """What the command finds at any address."""
    for name in ("SNAPKAFKA_BOOTSTRAP", "SNAPKAFKA_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    made = FakeCluster()
    for module in (commands, switches):
        monkeypatch.setattr(module, "connect", lambda bootstrap: made)
    return made


def call(*arguments: str, env: dict[str, str] | None = None) -> Result:
    return RUNNER.invoke(commands.app, list(arguments), env={"SNAPKAFKA_NAMESPACE": "ns"} | (env or {}))


def as_json(result: Result) -> Any:
    return json.loads(result.stdout)


# -- what it says --------------------------------------------------------------------------------------------


def test_trigger_wait_says_how_long_it_took_and_what_to_do_next(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    result = call("trigger", "--wait", "--id", "mine")
    assert result.exit_code == 0, result.output
    assert "snapshot mine  epoch 3  CAPTURED in 2 ms. The services were not stopped." in result.stdout
    assert "snapkafka assemble mine" in result.stdout


def test_trigger_says_the_same_as_data(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    result = call(
        "trigger", "--wait", "--id", "mine", "--storage", "/snaps", "--json", "--apps", "shop, shop"
    )
    found = as_json(result)
    assert found["id"] == "mine"
    assert found["status"] == "CAPTURED"
    assert found["capture_ms"] == 2
    assert found["storage"] == "/snaps"
    assert found["who"]
    assert result.stderr == ""


def test_trigger_without_wait_returns_at_once(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", reports=False)
    result = call("trigger", "--id", "mine")
    assert result.exit_code == 0
    assert "INITIATED" in result.stdout
    assert "snapkafka show mine" in result.stdout


def test_show_by_epoch_by_time_and_as_latest(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.clock_ms = 1_777_638_600_000  # 12:30 in Greenwich
    call("trigger", "--wait", "--id", "one")
    cluster.the_ledger.clock_ms += 3_600_000
    call("trigger", "--wait", "--id", "two")
    for arguments, expected in (
        (["latest"], "two"),
        (["3"], "one"),
        (["--at", "2026-05-01T12:31:00Z"], "one"),
        (["--at", "2026-05-01T15:31:00+02:00"], "two"),
        (["--at", "2026-05-03"], "two"),
    ):
        assert f"snapshot {expected}  attempt 1" in call("show", *arguments).stdout
    said_in_one_line_with_advice(call("show", "--at", "2026-05-01T12:29:00Z"), 5, "at or before that time")
    said_in_one_line_with_advice(call("show", "--at", "noon"), 2, "invalid time: 'noon'")
    said_in_one_line_with_advice(call("show"), 2, "name one snapshot: an id")


# -- errors --------------------------------------------------------------------------------------------------


def said_in_one_line_with_advice(result: Result, status: int, *words: str) -> None:
    assert result.exit_code == status, result.output
    error, advice, *rest = result.stderr.splitlines()
    assert error.startswith("error: ")
    assert all(word in error for word in words), error
    assert advice.startswith("       ")
    assert advice.strip()
    assert rest == []


def test_an_unknown_snapshot(cluster: FakeCluster) -> None:
    said_in_one_line_with_advice(call("show", "nope"), 5, "no snapshot 'nope'")


def test_no_app_has_joined(cluster: FakeCluster) -> None:
    said_in_one_line_with_advice(call("trigger"), 6, "no process of any app is running")


def test_a_snapshot_that_fails(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", closes=False)
    result = call("trigger", "--wait", "--id", "mine", "--ttl", "100")
    said_in_one_line_with_advice(result, 7, "snapshot mine failed", "process 0 of app shop")


def test_no_ledger(cluster: FakeCluster) -> None:
    cluster.the_ledger.exists = False
    said_in_one_line_with_advice(call("list"), 4, "there is no ledger")


def test_no_broker(cluster: FakeCluster) -> None:
    cluster.the_ledger.failure = BrokerUnavailableError("no Kafka broker answers at broker:9092")
    said_in_one_line_with_advice(call("list"), 3, "no Kafka broker answers")


def test_no_namespace(cluster: FakeCluster) -> None:
    said_in_one_line_with_advice(call("list", env={"SNAPKAFKA_NAMESPACE": ""}), 2, "no namespace is given")


def test_an_error_is_data_too(cluster: FakeCluster) -> None:
    result = call("show", "nope", "--json")
    assert as_json(result)["error"] == {
        "code": "unknown-snapshot",
        "message": "no snapshot 'nope' in the ledger",
        "hint": "`snapkafka list` lists the snapshots",
        "exit_status": 5,
    }
    assert result.stderr.startswith("error: no snapshot")


def test_a_bug_of_ours_is_none_of_the_statuses_that_mean_something(cluster: FakeCluster) -> None:
    cluster.the_ledger.failure = RuntimeError("oops")
    result = call("list")
    assert result.exit_code == 70
    assert "a bug in snapkafka" in result.stderr
    reported = as_json(call("list", "--json"))["error"]
    assert (reported["code"], reported["message"]) == ("internal", "a bug in snapkafka: RuntimeError: oops")


@pytest.mark.parametrize(
    "arguments", [("trigger", "--apps", ","), ("trigger", "--apps", ""), ("checkpoint", "--keep", "inf")]
)
def test_what_says_nothing_is_not_taken_for_all(cluster: FakeCluster, arguments: tuple[str, ...]) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    before = len(cluster.the_ledger.entries)
    assert call(*arguments).exit_code == 2
    assert len(cluster.the_ledger.entries) == before


def test_it_says_which_release_it_is() -> None:
    assert call("--version").stdout == f"snapkafka {__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("query", "SELECT 1", "--manifest", "x.json", "--snapshot", "y"),
        ("query", "SELECT 1", "--csv", "--json"),
        ("verify", "x", "--manifest", "y.json"),
        ("verify", "--offline", "--record"),
        ("verify", "--offline", "--invariants", "one_token"),
        ("restore", "--abort", "--dry-run"),
        ("restore", "--abort", "--check"),
        ("restore", "friday", "--abort"),
        ("restore", "--abort", "--suppress", "keys.csv"),
    ],
    ids=" ".join,
)
def test_what_excludes_each_other_is_refused(arguments: tuple[str, ...]) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr


def test_a_wrong_option_has_the_status_of_bad_input(cluster: FakeCluster) -> None:
    assert call("list", "--nonsense").exit_code == 2


# -- as a process --------------------------------------------------------------------------------------------


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "", "COLUMNS": "200"}
    command = [sys.executable, "-m", "snapkafka.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)


def test_a_broker_that_is_not_there_is_said_at_once_and_by_nobody_else() -> None:
    done = process("list", "--bootstrap", "127.0.0.1:1", "--namespace", "ns")
    assert done.returncode == 3
    error, advice = done.stderr.splitlines()
    assert error == "error: no Kafka broker answers at 127.0.0.1:1: could not connect"
    assert "--bootstrap" in advice


def test_an_address_is_needed() -> None:
    done = process("list", "--namespace", "ns", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["message"] == "no broker is given"


COMMAND = get_command(commands.app)
ALL = {name: command for name, command in every(COMMAND) if name != "demo"}


def help_of(name: str) -> list[str]:
    """The lines of the help of a command, on a terminal of 80 columns."""
    result = RUNNER.invoke(
        commands.app, [*name.split(), "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"}
    )
    assert result.exit_code == 0
    return [line.strip() for line in result.stdout.splitlines()]


def test_help_lists_every_command_once_in_a_group_by_task() -> None:
    listed: dict[str, str] = {}
    panel = ""
    for line in help_of(""):
        if line.startswith("╭─ "):
            panel = line.split()[1]
        elif panel != "Options" and (found := re.match(r"│ (\w+)  +\S", line)):
            assert found[1] not in listed
            listed[found[1]] = panel
    assert set(listed) == {name.partition(" ")[0] for name in ALL} | {"demo"}
    assert list(dict.fromkeys(listed.values())) == [*Panel]
    assert listed == {name: HELPS[name].panel for name in listed}


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


@pytest.mark.parametrize("name", ALL)
def test_help_of_an_option_is_short(name: str) -> None:
    for item in ALL[name].params:
        assert item.name == "help" or 0 < len(item.help) <= 60, item.help


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (3, "3 ms"),
        (999, "999 ms"),
        (1_500, "1.5 s"),
        (600_000, "10 min"),
        (36_000_000, "10 h"),
        (864e6, "10 days"),
    ],
)
def test_durations_are_said_as_people_do(ms: float, said: str) -> None:
    assert rounded_ms(ms) == said
