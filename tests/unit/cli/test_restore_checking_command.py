"""`snapkafka restore --check` translates: a comparison into lines, a difference into an exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app

ARGUMENTS = ("restore", "--check", "friday", "--bootstrap", "127.0.0.1:1", "--namespace", "shop")


def checked(table: ops.CheckedTable, *misplaced: str) -> ops.CheckedRestore:
    return ops.CheckedRestore(
        snapshot="friday", epoch=18, namespace="shop", apps=("accounts",),
        equal=not (table.differing or misplaced), plan="abc", restored="thursday",
        tables=(table,), misplaced=misplaced, seconds=0.1,
    )  # fmt: skip


EQUAL = checked(ops.CheckedTable(app="accounts", table="balances"))
DIFFERENT = checked(
    ops.CheckedTable(
        app="accounts", table="balances", differing=2_000, keys=('key "[ann]" of partition 3 is missing',)
    ),
    "position of app accounts in orders[0] is 8, expected 7",
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What `ops.check_restored` was asked for; the answer is `EQUAL`."""
    found: list[dict[str, Any]] = []
    answer(monkeypatch, EQUAL, found)
    return found


def answer(monkeypatch: pytest.MonkeyPatch, found: ops.CheckedRestore, asked: list[dict[str, Any]]) -> None:
    async def check(*arguments: Any, **options: Any) -> ops.CheckedRestore:
        asked.append({"name": arguments[2], "hosts": arguments[0].hosts, **options})
        return found

    monkeypatch.setattr(ops, "check_restored", check)


def lines(*more: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(app, [*ARGUMENTS, *more])
    return result.exit_code, [" ".join(line.split()) for line in result.stdout.splitlines()]


def test_one_line_for_each_table(asked: list[dict[str, Any]]) -> None:
    status, printed = lines()
    assert status == 0, printed
    for line in (
        "balances accounts equal",
        "last restored to thursday (plan abc)",
        "accounts equals snapshot friday, epoch 18 (0.1 s)",
    ):
        assert line in printed, printed
    assert asked[0]["name"] == "friday"
    lines("--into", "127.0.0.1:2")
    assert list(asked[-1]["hosts"]) == ["127.0.0.1:2"], "the other cluster is compared"


def test_differences_are_named_and_are_status_1(
    asked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answer(monkeypatch, DIFFERENT, asked)
    status, printed = lines()
    assert status == 30
    for line in (
        "balances accounts 2,000 differ",
        'differs: table balances of app accounts: key "[ann]" of partition 3 is missing',
        "differs: table balances of app accounts: 1,999 more",
        "differs: position of app accounts in orders[0] is 8, expected 7",
        "accounts differs from snapshot friday, epoch 18 (0.1 s)",
    ):
        assert line in printed, printed
    result = CliRunner().invoke(app, [*ARGUMENTS, "--json"])
    assert result.exit_code == 30
    found = json.loads(result.stdout)["checked"]
    assert (found["equal"], found["tables"][0]["differing"]) == (False, 2_000)
