"""`restore`, `restore --into` and `fork create` print what rules match."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import BadInputError
from tests.unit.cli import test_fork_command, test_restore_command, test_restore_into_command

RULES = (
    ops.RuleCount(kind="key", rule="ann", items=4_711),
    ops.RuleCount(kind="mask", rule="field name", items=17, place="table t of app shop"),
)
FORK = ("fork", "create", "staging", *test_fork_command.WHERE)
COMMANDS: dict[str, Any] = {
    "restore": (test_restore_command.ARGUMENTS, test_restore_command),
    "into": (test_restore_into_command.ARGUMENTS, test_restore_into_command),
    "fork": (FORK, test_fork_command),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    arguments, of = COMMANDS[request.param]
    return Command(arguments, of, monkeypatch, tmp_path / "erased.toml")


class Command:
    """A command with erased keys. `planned`: what its plan was asked for; `acted`: what was done."""

    def __init__(
        self,
        arguments: tuple[str, ...],
        of: Any,
        monkeypatch: pytest.MonkeyPatch,
        erased: Path,
    ) -> None:
        self.arguments, self.erased = arguments, erased
        self.answer: Any = replace(of.PLAN, rules=RULES)
        self.done = replace(of.DONE, rules=RULES, suppressed=3)
        self.planned: list[ops.RecoveryRequest] = []
        self.acted: list[Any] = []
        erased.write_text("keys = ['ann']\n")
        monkeypatch.setattr(ops, "plan_recovery", self._plan)
        monkeypatch.setattr(ops, "recover", self._act)

    async def _plan(self, where: Any, request: ops.RecoveryRequest) -> Any:
        self.planned.append(request)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    async def _act(self, _: Any, plan: Any, **options: Any) -> Any:
        self.acted.append(plan)
        return self.done

    def __call__(self, *more: str) -> Any:
        return CliRunner().invoke(app, [*self.arguments, "--suppress", str(self.erased), *more])


def test_the_plan_prints_what_each_rule_matches(command: Command) -> None:
    result = command("--dry-run", "--allow-unmatched")
    assert result.exit_code == 0, result.stderr
    for text in ("ann", "4,711", "field name", "table t of app shop", "17"):
        assert text in result.stdout, text
    (asked,) = command.planned
    assert asked.allow_unmatched
    assert asked.suppress is not None and asked.suppress.keys == ("ann",)
    assert command.acted == []


def test_json_has_what_rules_match(command: Command) -> None:
    found = json.loads(command("--yes", "--json").stdout)
    assert found["planned"]["rules"][0] == {"kind": "key", "rule": "ann", "items": 4_711, "place": ""}
    assert found["done"]["rules"] == found["planned"]["rules"]
    assert command.acted == [command.answer]
    assert not command.planned[0].allow_unmatched


def test_a_rule_that_matches_nothing_is_status_2(command: Command) -> None:
    command.answer = BadInputError("nothing was changed: no", hint="add --allow-unmatched")
    for more in ("--dry-run", "--yes"):
        result = command(more)
        assert result.exit_code == 2
        assert "--allow-unmatched" in result.stderr
    assert command.acted == []
