"""The command: what it prints, what it says of errors, and its exit statuses."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import time
from typing import Any

import pytest
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner, Result

from snapkafka import __version__
from snapkafka.assembly import JobResult
from snapkafka.checks import NOTHING_SEEN
from snapkafka.cli import Screen, running
from snapkafka.cli import verbs as commands
from snapkafka.cli.commands import switches
from snapkafka.cli.helps import HELPS, Panel
from snapkafka.cli.present.printed import print_assembled
from snapkafka.cli.running import STATUSES
from snapkafka.errors import (
    BadInputError,
    BrokerUnavailableError,
    ForkIsolationError,
    InstallError,
    TriggerRefusedError,
)
from snapkafka.manifest_entries import CheckEntry
from snapkafka.protocol import Bye, CheckResult, Hello, InputTopic, Unread, Verdict
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


def test_list_is_a_table(cluster: FakeCluster) -> None:
    assert "No snapshots yet" in call("list").stdout
    Worker(cluster.the_ledger, "shop", "orders")
    call("trigger", "--wait", "--id", "good")
    checks = (CheckResult(name="V1", status="passed", records=1_200), CheckResult(name="V4", status="passed"))
    cluster.the_ledger.put(
        Verdict(n=77, epoch=3, verdict="VERIFIED", checks=checks, manifest="/snaps/good.json")
    )
    Worker(cluster.the_ledger, "tills", "sales", closes=False)
    call("trigger", "--wait", "--id", "[bad]", "--ttl", "100")
    lines = [line for line in call("list").stdout.splitlines() if line.strip()]
    assert "COMPLETED" in lines[2]
    assert "VERIFIED" in lines[2]
    assert "[bad]" in lines[3]
    assert "not captured within 100 ms" in lines[4], "a failure has a line of its own"
    found = as_json(call("list", "--json"))
    assert [(item["id"], item["status"]) for item in found["snapshots"]] == [
        ("good", "COMPLETED"),
        ("[bad]", "FAILED"),
    ]
    assert "checks: V1 passed (1,200 records), V4 passed" in call("show", "good").stdout
    assert [item["records"] for item in as_json(call("show", "good", "--json"))["checks"]] == [1_200, -1]


def test_show_says_plainly_that_nothing_was_looked_at(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    call("trigger", "--wait", "--id", "mine")
    checks = tuple(CheckResult(name=name, status="passed", records=0) for name in ("V1", "V2"))
    cluster.the_ledger.put(Verdict(n=77, epoch=3, verdict="VERIFIED", checks=checks))
    shown = call("show", "mine").stdout
    assert "checks: V1 passed (no record), V2 passed (no record)" in shown
    assert NOTHING_SEEN in shown


def test_an_assembly_says_what_each_check_looked_at_and_nothing_plainly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def entry(name: str, records: int | None) -> CheckEntry:
        return CheckEntry(name=name, run=True, status="passed", records=records, partitions=1, channels=0)

    def printed(*checks: CheckEntry) -> str:
        found = JobResult(
            id="mine", epoch=3, verdict="VERIFIED_OPEN", good=True, manifest="mine.json", checks=checks,
            unread=(Unread(app="payments", topic="to-pay"),),
        )  # fmt: skip
        print_assembled(Screen(Console(width=10_000)), (found,))
        return capsys.readouterr().out

    shown = printed(entry("V1", 1_200), entry("V2", 0), entry("V6 money", None))
    assert "1,200 records of 1 partition" in shown
    assert "no record" in shown
    assert NOTHING_SEEN not in shown
    assert (
        "warning: topic to-pay did not exist when payments started: create it and restart payments" in shown
    )
    assert NOTHING_SEEN in printed(entry("V1", 0), entry("V2", 0), entry("V6 money", None))


@pytest.mark.parametrize("columns", [80, 10_000])
def test_no_id_takes_the_place_of_all_else(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    name = "nightly-" + "x" * 180
    call("trigger", "--wait", "--id", name)
    monkeypatch.setattr(running.console, "width", columns)
    shown = call("list").stdout
    assert "CAPTURED" in shown
    assert name in shown


def test_show_of_a_running_one(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", closes=False)
    Worker(cluster.the_ledger, "tills", "sales", reports=False)
    call("trigger", "--id", "mine")
    shown = call("show", "mine").stdout
    assert "waiting for (fails 5.0 s after the trigger)" in shown
    assert "process 0 (shop on box, pid 7) to finish events that began" in shown
    assert "the cut of input sales[0] by process 2 (tills on box, pid 7)" in shown
    found = as_json(call("show", "mine", "--json"))
    assert [wait["what"] for wait in found["waits"]] == ["closing", "report", "input", "input"]


def test_what_no_snapshot_holds_is_beside_the_verdict(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", uncaptured=("agent a reads an in-memory channel",))
    call("trigger", "--wait", "--id", "mine")
    assert "not included: app shop: agent a reads an in-memory channel" in call("show", "mine").stdout
    found = as_json(call("show", "mine", "--json"))
    assert found["uncaptured"] == [{"app": "shop", "what": "agent a reads an in-memory channel"}]


def test_show_of_a_captured_one(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", partitions=50)
    call("trigger", "--wait", "--id", "mine")
    shown = call("show", "mine").stdout
    assert "captured in 2 ms" in shown
    assert "90 us" in shown
    assert "orders[0]" in shown
    assert "Not shown: 10 more positions (--all)." in shown
    assert "orders[49]" in call("show", "mine", "--all").stdout
    found = as_json(call("show", "mine", "--json"))
    assert len(found["positions"]) == 50
    assert found["captured"]["inputs"][0]["position"] == 10


def test_show_hides_processes_that_had_left(cluster: FakeCluster) -> None:
    gone = Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.put(Bye(process=gone.process, n=99))
    Worker(cluster.the_ledger, "shop", "orders")
    call("trigger", "--wait", "--id", "mine")
    shown = call("show", "mine").stdout
    assert "left earlier" not in shown.replace("Not shown: 1 process that left earlier (--all).", "")
    assert "Not shown: 1 process that left earlier (--all)." in shown
    assert "left earlier" in call("show", "mine", "--all").stdout


def test_trigger_and_show_name_an_input_that_no_worker_has(cluster: FakeCluster) -> None:
    cluster.the_ledger.put(Hello(n=1, app="payments", missing=("to-pay",)))
    said = "topic to-pay did not exist when payments started: create it and restart payments"
    said_in_one_line_with_advice(call("trigger"), 6, said)
    cluster.the_ledger.put(Bye(process=0, n=1))
    Worker(cluster.the_ledger, "shop", "orders")
    for arguments in (["trigger", "--id", "mine"], ["show", "mine"]):
        assert f"warning: {said}" in call(*arguments).stdout
        assert as_json(call(*arguments, "--json"))
    item = {"app": "payments", "topic": "to-pay"}
    assert as_json(call("trigger", "--id", "mine", "--json"))["unread"] == [item]
    assert as_json(call("show", "mine", "--json"))["summary"]["unread"] == [item]
    cluster.the_ledger.put(Hello(n=2, app="payments", inputs=(InputTopic(topic="to-pay", partitions=1),)))
    assert "to-pay" not in call("trigger", "--id", "next").stdout


def test_show_of_a_failed_one_names_the_culprit(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders", closes=False)
    call("trigger", "--wait", "--id", "mine", "--ttl", "100")
    shown = call("show", "mine").stdout
    assert (
        "failed (ttl): not captured within 100 ms: waited for process 0 of app shop to finish events" in shown
    )


def test_show_by_epoch_by_time_and_as_latest(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.clock_ms = 1_777_638_600_000  # 12:30 in Greenwich
    call("trigger", "--wait", "--id", "one")
    cluster.the_ledger.clock_ms += 3_600_000
    call("trigger", "--wait", "--id", "two")
    for arguments, expected in (
        (["latest"], "two"),
        (["--epoch", "3"], "one"),
        (["--at", "2026-05-01T12:31:00Z"], "one"),
        (["--at", "2026-05-01T15:31:00+02:00"], "two"),
        (["--at", "2026-05-03"], "two"),
    ):
        assert f"snapshot {expected}  attempt 1" in call("show", *arguments).stdout
    said_in_one_line_with_advice(call("show", "--at", "2026-05-01T12:29:00Z"), 5, "at or before that time")
    said_in_one_line_with_advice(call("show", "--at", "noon"), 2, "invalid time: 'noon'")
    said_in_one_line_with_advice(call("show", "--epoch", "3", "one"), 2, "name one snapshot: an id")
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


def test_garbage_in_the_ledger_is_no_error(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.put(None)
    assert call("trigger", "--wait").exit_code == 0
    assert call("list").exit_code == 0


def test_an_error_is_data_too(cluster: FakeCluster) -> None:
    result = call("show", "nope", "--json")
    assert as_json(result)["error"] == {
        "code": "unknown-snapshot",
        "message": "no snapshot 'nope' in the ledger",
        "hint": "`snapkafka list` lists the snapshots",
        "exit_status": 5,
    }
    assert result.stderr.startswith("error: no snapshot")


def test_markup_in_names_is_no_markup(cluster: FakeCluster) -> None:
    assert "no snapshot '[red]'" in call("show", "[red]").stderr


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
KNOWN = {status for status, _, _ in STATUSES}
#: Of errors that meet an app or a worker and no command.
OF_WORKERS = {InstallError.exit_status, ForkIsolationError.exit_status}


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


def test_demo_has_an_example() -> None:
    assert HELPS["demo"].example in process("demo", "--help").stdout


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


def test_checkpoint_says_what_became_of_the_ledger(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    cluster.the_ledger.clock_ms = round(time.time() * 1_000)
    assert call("trigger", "--wait").exit_code == 0
    assert "The ledger now begins at offset 2. 2 of 2 records still matter" in call("checkpoint").stdout
    assert "Nothing to trim: no record is that old." in call("checkpoint", "--keep", "700000d").stdout
    found = as_json(call("checkpoint", "--keep", "0", "--json"))
    assert (found["namespace"], found["upto"], found["records"]) == ("ns", 6, 4)


def test_pause_resume_and_retire_say_where_the_namespace_stands(cluster: FakeCluster) -> None:
    Worker(cluster.the_ledger, "shop", "orders")
    assert "ns is paused; `snapkafka resume` allows snapshots again" in call("pause").stdout
    assert "(unchanged)" in call("pause").stdout
    refused = call("trigger")
    assert refused.exit_code == TriggerRefusedError.exit_status
    assert "snapshots are paused in this namespace" in refused.stderr
    assert as_json(call("resume", "--json")) == {
        "namespace": "ns", "paused": False, "retired": [], "changed": True, "aborted": [],
    }  # fmt: skip
    assert call("retire", "--app", "shop").exit_code == BadInputError.exit_status
