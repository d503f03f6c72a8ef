"""`snapkafka restore` translates: a plan into tables, a refusal and a question into exit statuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import RestoreRefusedError
from snapkafka.recovery import Irrevocable, PartitionMove, Plan, Recovered, Refusal, TopicWork
from tests.worlds.planned import done, planned

ARGUMENTS = ("restore", "friday", "--bootstrap", "127.0.0.1:1", "--namespace", "shop")
OUTPUTS = (Irrevocable(topic="invoices", partition=3, start=100, end=120),)
PLAN = planned(
    moves=(
        PartitionMove(
            app="accounts", topic="orders", partition=0, before=900, after=None, appends=4_711, again=33
        ),
        PartitionMove(app="accounts", topic="raw", partition=1, before=77, after=55, again=22),
    ),
    work=(TopicWork(topic="orders", kind="input", records=4_711),),
    irrevocable=OUTPUTS,
    taken_ms=1,
)
REFUSAL = Refusal(
    code="group-has-members", what="consumer group accounts has 2 members", hint="stop all workers"
)
DONE = done(irrevocable=OUTPUTS)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ops.recover` was asked for; the plan is `PLAN`."""
    found: list[dict[str, Any]] = []

    async def plan(where: Any, request: ops.RecoveryRequest) -> Plan:
        found.append({"request": request})
        return PLAN

    async def act(where: Any, plan: Plan, **options: Any) -> Recovered:
        found.append({"plan": plan})
        return DONE

    async def wait(*arguments: Any, **options: Any) -> None:
        found.append(options)

    monkeypatch.setattr(ops, "plan_recovery", plan)
    monkeypatch.setattr(ops, "recover", act)
    monkeypatch.setattr(ops, "await_workers", wait)
    return found


def test_a_dry_run_prints_offsets_records_and_outputs_and_does_nothing(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 0
    for text in ("900", "at the appended messages", "77", "55", "4,711", "replaces all state", "3: 100-119",
        "55 events since the snapshot will run again", "the snapshot was taken",
    ):  # fmt: skip
        assert text in result.stdout, text
    assert not any("plan" in it for it in asked)


def test_a_refusal_is_printed_with_its_code_and_is_status_1(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    async def plan(*arguments: Any, **options: Any) -> Plan:
        return replace(PLAN, refusals=(REFUSAL,))

    monkeypatch.setattr(ops, "plan_recovery", plan)
    result = CliRunner().invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 30
    assert "refused (group-has-members): consumer group accounts has 2 members" in result.stdout
    reported = json.loads(CliRunner().invoke(app, [*ARGUMENTS, "--dry-run", "--json"]).stdout)
    assert reported["planned"]["refusals"][0]["code"] == "group-has-members"
    assert reported["done"] is None


def test_without_a_terminal_it_takes_yes_to_act(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 2
    assert "nothing was changed" in result.stderr
    assert not any("plan" in it for it in asked)
    asked.clear()
    result = CliRunner().invoke(app, [*ARGUMENTS, "--yes", "--wait", "90", "--force"])
    assert result.exit_code == 0, result.stderr
    waiting, planning, doing = asked
    assert (waiting["wait_s"], planning["request"].force) == (90, True)
    assert doing["plan"] is PLAN, "the plan that was printed is the one that is done"
    assert "cannot be undone: outputs in invoices" in result.stdout


def test_an_error_has_its_own_status(asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: Any, **options: Any) -> Recovered:
        raise RestoreRefusedError("nothing was changed: no")

    monkeypatch.setattr(ops, "recover", refuse)
    assert CliRunner().invoke(app, [*ARGUMENTS, "--yes"]).exit_code == 14
