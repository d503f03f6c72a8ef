"""`snapkafka restore` translates: a plan into tables, a refusal and a question into exit statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli.app import app
from snapkafka.errors import RestoreRefusedError
from snapkafka.ops.restore import Irrevocable, PartitionMove, Plan, Refusal, Restored, TopicWork

ARGUMENTS = ("restore", "friday", "--bootstrap", "127.0.0.1:1", "--namespace", "shop")
OUTPUTS = (Irrevocable(topic="invoices", partition=3, start=100, end=120),)
PLAN = Plan(
    snapshot="friday",
    epoch=18,
    namespace="shop",
    verdict="VERIFIED",
    apps=("accounts",),
    moves=(
        PartitionMove(app="accounts", topic="orders", partition=0, before=900, after=None, appends=4_711),
        PartitionMove(app="accounts", topic="raw", partition=1, before=77, after=55),
    ),
    work=(TopicWork(topic="orders", kind="input", records=4_711, bytes=2_000),),
    irrevocable=OUTPUTS,
    refusals=(),
)
REFUSAL = Refusal(
    code="group-has-members", what="consumer group accounts has 2 members", hint="stop all workers"
)
DONE = Restored(
    plan="abc",
    snapshot="friday",
    epoch=18,
    apps=("accounts",),
    author=40,
    resumed=False,
    messages=4_711,
    state=12,
    irrevocable=OUTPUTS,
    seconds=1.5,
    undo="before-restore-1",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ops.restore` was asked for; the plan is `PLAN`."""
    found: list[dict[str, Any]] = []

    async def plan(*arguments: Any, **options: Any) -> Plan:
        return PLAN

    async def act(*arguments: Any, **options: Any) -> Restored:
        found.append(options)
        return DONE

    monkeypatch.setattr(ops, "plan_restore", plan)
    monkeypatch.setattr(ops, "restore", act)
    return found


def test_a_dry_run_prints_offsets_records_and_outputs_and_does_nothing(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 0
    for text in ("900", "behind its end", "77", "55", "4,711", "overwrites, does not merge", "3: 100-119"):
        assert text in result.stdout, text
    assert asked == []


def test_a_refusal_is_printed_with_its_code_and_is_status_1(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    async def plan(*arguments: Any, **options: Any) -> Plan:
        return replace(PLAN, refusals=(REFUSAL,))

    monkeypatch.setattr(ops, "plan_restore", plan)
    result = CliRunner().invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 1
    assert "refused (group-has-members): consumer group accounts has 2 members" in result.stdout
    told = json.loads(CliRunner().invoke(app, [*ARGUMENTS, "--dry-run", "--json"]).stdout)
    assert told["planned"]["refusals"][0]["code"] == "group-has-members"
    assert told["done"] is None


def test_without_a_terminal_it_takes_yes_to_act(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 2
    assert "nothing was changed" in result.stderr
    assert asked == []
    result = CliRunner().invoke(app, [*ARGUMENTS, "--yes", "--wait", "90", "--no-safety", "--force"])
    assert result.exit_code == 0, result.stderr
    (options,) = asked
    assert (options["wait_s"], options["safety"], options["force"]) == (90, False, True)
    assert "undo: snapkafka assemble before-restore-1; snapkafka restore before-restore-1" in result.stdout
    assert "cannot be taken back: outputs in invoices" in result.stdout


def test_an_error_has_its_own_status(asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: Any, **options: Any) -> Restored:
        raise RestoreRefusedError("nothing was changed: no")

    monkeypatch.setattr(ops, "restore", refuse)
    assert CliRunner().invoke(app, [*ARGUMENTS, "--yes"]).exit_code == 14
