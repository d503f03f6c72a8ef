"""`restore`, `restore --into` and `fork create` print what rules match and what still holds erased keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli.app import app
from snapkafka.errors import BadInputError, StorageError
from tests.unit import test_fork_command, test_restore_command, test_restore_into_command

RULES = (
    ops.RuleCount(kind="key", rule="ann", items=4_711),
    ops.RuleCount(kind="mask", rule="field name", items=17, place="table t of app shop"),
)
HELD = (
    ops.StillHeld(id="monday", epoch=3, namespace="shop", tables=("state", "inputs")),
    ops.StillHeld(id="sunday", epoch=2, namespace="shop", tables=(), problems=("inputs: a key is not text",)),
)
INTO = ("restore", "friday", "--into", "127.0.0.1:1", "--storage", "/nowhere")
COMMANDS = {
    "restore": (test_restore_command.ARGUMENTS, "plan_restore", "restore", test_restore_command),
    "into": (INTO, "plan_restore_into", "restore_into", test_restore_into_command),
    "fork": (
        ("fork", "create", "staging", *test_fork_command.WHERE),
        "plan_fork",
        "create_fork",
        test_fork_command,
    ),
}
Invoke = Callable[..., Any]


@pytest.fixture(params=COMMANDS)
def invoke(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Invoke:
    """Run a command with erased keys; `asked` of it has what the verbs were asked for, `answers` what they answer."""
    arguments, plan, act, of = COMMANDS[request.param]
    answers = {plan: replace(of.PLAN, rules=RULES), act: replace(of.DONE, rules=RULES), "still_held": HELD}
    asked: dict[str, dict[str, Any]] = {}

    def verb(name: str) -> Any:
        async def answer(*given: Any, **options: Any) -> Any:
            asked[name] = options | {"given": given}
            found: Any = answers[name]
            if isinstance(found, Exception):
                raise found
            return found

        return answer

    for name in answers:
        monkeypatch.setattr(ops, name, verb(name))
    erased = tmp_path / "erased.toml"
    erased.write_text("keys = ['ann']\n")

    def run(*more: str) -> Any:
        return CliRunner().invoke(app, [*arguments, "--suppress", str(erased), *more])

    run.asked, run.answers, run.plan, run.act = asked, answers, plan, act  # type: ignore[attr-defined]
    return run


def test_the_plan_prints_what_each_rule_matches(invoke: Any) -> None:
    result = invoke("--dry-run", "--allow-unmatched")
    assert result.exit_code == 0, result.stderr
    for text in ("ann", "4,711", "field name", "table t of app shop", "17"):
        assert text in result.stdout, text
    assert invoke.asked[invoke.plan]["allow_unmatched"]
    assert invoke.asked[invoke.plan]["suppress"].keys == ("ann",)
    assert invoke.act not in invoke.asked


def test_what_still_holds_erased_keys_is_printed_after_the_work(invoke: Any) -> None:
    result = invoke("--yes")
    assert result.exit_code == 0, result.stderr
    assert "still holds erased keys: snapshot monday (state, inputs), until it is pruned" in result.stdout
    assert "not examined: snapshot sunday: inputs: a key is not text" in result.stdout
    assert not invoke.asked[invoke.act]["allow_unmatched"]
    assert invoke.asked["still_held"]["given"][-2:] == ("friday", ops.Suppression(keys=("ann",)))


def test_json_has_rules_and_what_still_holds_erased_keys(invoke: Any) -> None:
    found = json.loads(invoke("--yes", "--json").stdout)
    assert found["done"]["rules"][0] == {"kind": "key", "rule": "ann", "items": 4_711, "place": ""}
    assert [(it["id"], it["tables"]) for it in found["still_held"]] == [
        ("monday", ["state", "inputs"]),
        ("sunday", []),
    ]


def test_a_storage_that_cannot_be_read_afterwards_fails_nothing(invoke: Any) -> None:
    invoke.answers["still_held"] = StorageError("no such bucket")
    result = invoke("--yes")
    assert result.exit_code == 0
    assert "what the storage still holds of erased keys is not known: no such bucket" in result.stderr
    assert json.loads(invoke("--yes", "--json").stdout)["still_held"] is None


def test_a_rule_that_matches_nothing_is_status_2(invoke: Any) -> None:
    invoke.answers[invoke.plan] = invoke.answers[invoke.act] = BadInputError(
        "nothing was changed: no", hint="--allow-unmatched"
    )
    for more in ("--dry-run", "--yes"):
        result = invoke(more)
        assert result.exit_code == 2
        assert "--allow-unmatched" in result.stderr
    assert "still_held" not in invoke.asked
