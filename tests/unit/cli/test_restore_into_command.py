"""`snapkafka restore --into` translates: a plan into tables, what is not there into lines, refusals into statuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import RestoreRefusedError
from snapkafka.recovery import NewTopic, Plan, Recovered, Refusal, Request, TopicWork
from tests.worlds.planned import done, planned

ARGUMENTS = ("restore", "friday", "--into", "127.0.0.1:1", "--storage", "/there")
ABSENT = (ops.AbsentInput(topic="orders", partition=3, start=100, cut_end=4_811),)
PLAN = planned(
    request=Request(name="friday", storage="/there", into=True),
    topics=(
        NewTopic(
            topic="orders",
            of="orders",
            partitions=3,
            replicas=None,
            settings={"cleanup.policy": "delete", "retention.ms": "-1"},
            changed={"retention.ms": "-1"},
        ),
    ),
    existing=("invoices",),
    work=(
        TopicWork(topic="orders", kind="input", records=77),
        TopicWork(topic="changelog", kind="changelog", records=12),
    ),
    stored=5,
    absent=ABSENT,
    notes=("outputs begin empty: invoices",),
)
REFUSAL = Refusal(code="topic-not-empty", what="topic orders exists here", hint="use another cluster")
DONE = done(
    kind="cluster",
    topics=("orders",),
    messages=77,
    inputs=5,
    absent=ABSENT,
    notes=PLAN.notes,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ops.recover` and its planning were asked for; the plan is `PLAN`."""
    found: list[dict[str, Any]] = []

    async def plan(where: Any, request: ops.RecoveryRequest) -> Plan:
        found.append({"request": request})
        return PLAN

    async def act(where: Any, plan: Plan, **options: Any) -> Recovered:
        found.append({"plan": plan})
        return DONE

    monkeypatch.setattr(ops, "plan_recovery", plan)
    monkeypatch.setattr(ops, "recover", act)
    return found


def acted(asked: list[dict[str, Any]]) -> bool:
    return any("plan" in it for it in asked)


def test_a_dry_run_prints_topics_and_what_is_not_there_and_does_nothing(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--dry-run"])
    assert result.exit_code == 0, result.stderr
    for text in (
        "cleanup.policy=delete",
        "retention.ms=-1",
        "already there: invoices",
        "not restored: external records of orders[3] from old offset 100 (4,711 offsets up to the cut",
        "note: outputs begin empty: invoices",
        "77 messages in flight, 5 stored external records, at most 12 rows of state",
    ):
        assert text in result.stdout, text
    assert not acted(asked)


def test_a_refusal_is_printed_with_its_code_and_is_status_1(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def plan(*arguments: Any, **options: Any) -> Plan:
        return replace(PLAN, refusals=(REFUSAL,))

    monkeypatch.setattr(ops, "plan_recovery", plan)
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 30
    assert "refused (topic-not-empty): topic orders exists here" in result.stdout
    reported = json.loads(CliRunner().invoke(app, [*ARGUMENTS, "--dry-run", "--json"]).stdout)
    assert (reported["planned"]["refusals"][0]["code"], reported["done"]) == ("topic-not-empty", None)
    assert not acted(asked)


def test_without_a_terminal_it_takes_yes_to_act(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert (result.exit_code, acted(asked)) == (2, False)
    assert "nothing was changed" in result.stderr
    asked.clear()
    result = CliRunner().invoke(app, [*ARGUMENTS, "--yes", "--force"])
    assert result.exit_code == 0, result.stderr
    planning, doing = asked
    request = planning["request"]
    assert doing["plan"] is PLAN
    assert (request.storage, request.force) == ("/there", True)
    for text in (
        "created: 1 topic",
        "77 messages",
        "5 external records",
        "not restored:",
    ):
        assert text in result.stdout, text


def test_what_a_restore_in_place_alone_has_is_refused(
    asked: list[dict[str, Any]],
) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--yes", "--wait", "5"])
    assert (result.exit_code, acted(asked)) == (2, False)
    assert "--into and --wait cannot be combined" in result.stderr


def test_an_error_has_its_own_status(asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*arguments: Any, **options: Any) -> Recovered:
        raise RestoreRefusedError("nothing was changed: no")

    monkeypatch.setattr(ops, "recover", refuse)
    assert CliRunner().invoke(app, [*ARGUMENTS, "--yes"]).exit_code == 14
