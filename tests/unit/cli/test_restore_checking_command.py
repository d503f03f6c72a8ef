"""`snapkafka restore --check` translates: a comparison into lines, a difference into an exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.recovery import ComparedTable, KeyDifference
from snapkafka.recovery.checking import ComparedInput, ComparedSystem
from snapkafka.recovery.comparing_inputs import MessageDifference, PositionDifference

ARGUMENTS = ("restore", "--check", "friday", "--bootstrap", "127.0.0.1:1", "--namespace", "shop")
EQUAL = ComparedSystem(
    tables=(ComparedTable(app="accounts", table="balances", topic="b-changelog", rows=4_711),),
    inputs=(ComparedInput(topic="orders", messages=12, positions=3),),
    notes=("a note",),
)
DIFFERENT = ComparedSystem(
    tables=(
        ComparedTable(
            app="accounts",
            table="balances",
            topic="b-changelog",
            rows=4_711,
            missing=2_000,
            keys=(KeyDifference(kind="missing", partition=3, key='"[ann]"'),),
        ),
    ),
    inputs=(
        ComparedInput(
            topic="orders",
            messages=12,
            positions=3,
            differing=1,
            differences=(
                MessageDifference(kind="twice", topic="orders", partition=0, old=-1, new=9, key="k"),
            ),
            misplaced=(
                PositionDifference(
                    app="accounts", agent="", topic="orders", partition=0, expected=7, found=8
                ),
            ),
        ),
    ),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ops.check_restored` was asked for; the answer is `EQUAL`."""
    found: list[dict[str, Any]] = []
    answer(monkeypatch, EQUAL, found)
    return found


def answer(monkeypatch: pytest.MonkeyPatch, compared: ComparedSystem, asked: list[dict[str, Any]]) -> None:
    async def check(*arguments: Any, **options: Any) -> ops.CheckedRestore:
        asked.append({"name": arguments[2], "hosts": arguments[0].hosts, **options})
        return ops.CheckedRestore(
            snapshot="friday", epoch=18, namespace="shop", apps=("accounts",), equal=compared.equal,
            plan="abc", restored="thursday", compared=compared, seconds=0.1,
        )  # fmt: skip

    monkeypatch.setattr(ops, "check_restored", check)


def test_one_line_for_each_table_and_input(asked: list[dict[str, Any]]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 0, result.stderr
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "table balances accounts 4,711 rows equal",
        "input orders 12 messages, 3 positions equal",
        "note: a note",
        "last restored to thursday (plan abc)",
        "accounts equals snapshot friday, epoch 18 (0.1 s)",
    ):
        assert line in lines, lines
    (options,) = asked
    assert options["name"] == "friday"
    CliRunner().invoke(app, [*ARGUMENTS, "--into", "127.0.0.1:2"])
    assert list(asked[-1]["hosts"]) == ["127.0.0.1:2"], "the other cluster is compared"


def test_differences_are_named_and_are_status_1(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, DIFFERENT, asked)
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 30
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    for line in (
        "table balances accounts 4,711 rows 2,000 differ",
        "input orders 12 messages, 3 positions 2 differ",
        'differs: table balances of app accounts: key "[ann]" of partition 3 is missing',
        "differs: table balances of app accounts: 1,999 more",
        "differs: position of app accounts in orders[0] is 8, expected 7",
        "differs: message at offset 9 in orders[0], key k, is there twice",
        "accounts differs from snapshot friday, epoch 18 (0.1 s)",
    ):
        assert line in lines, lines
    result = CliRunner().invoke(app, [*ARGUMENTS, "--json"])
    assert result.exit_code == 30
    found = json.loads(result.stdout)["checked"]
    assert (found["equal"], found["compared"]["tables"][0]["missing"]) == (False, 2_000)
