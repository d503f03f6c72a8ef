"""Commands that change something: the plan is printed, refused, confirmed, and that very plan is run.

What their results look like is in the golden files, what the verbs decide in the tests of `ops` and `recovery`.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest
from typer.testing import CliRunner, Result

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError, ForkRefusedError, RestoreRefusedError
from tests.worlds import planned

WHERE = ("--bootstrap", "127.0.0.1:1", "--namespace", "shop")
RECOVERY, DROPS = ("plan_recovery", "recover"), (planned.DROPPING,)
KEPT = (replace(planned.DROPPING, kept="group g has 2 members"),)


def refused(plan: Any) -> Any:
    return replace(plan, refusals=(planned.REFUSAL,))


#: By command: its argument, the functions that plan and act, the plan, a refused one, and the result.
COMMANDS: dict[str, tuple[str, str, str, Any, Any, Any]] = {
    "restore": ("friday", *RECOVERY, planned.RESTORING, refused(planned.RESTORING), planned.RESTORED),
    "fork create": ("staging", *RECOVERY, planned.FORKING, refused(planned.FORKING), planned.FORKED),
    "fork drop": ("staging", "plan_drop", "drop_forks", DROPS, KEPT, DROPS),
}


class Command:
    """A command whose plan is given. `asked`: what it was planned with; `acted`: the plans that were run."""

    def __init__(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.name = name
        self.argument, plan, act, self.plan, self.refused, self.done = COMMANDS[name]
        self.answer: Any = self.plan
        self.asked: list[tuple[Any, ...]] = []
        self.acted: list[Any] = []
        monkeypatch.setattr(ops, plan, self._planning)
        monkeypatch.setattr(ops, act, self._acting)

    async def _planning(self, where: Any, *arguments: Any, **options: Any) -> Any:
        self.asked.append((*arguments, options))
        return self.answer

    async def _acting(self, where: Any, plan: Any, **options: Any) -> Any:
        self.acted.append(plan)
        return self.done

    def __call__(self, *more: str) -> Result:
        return CliRunner().invoke(app, [*self.name.split(), self.argument, *WHERE, *more])


@pytest.mark.parametrize("name", COMMANDS)
def test_a_plan_is_printed_refused_confirmed_and_run_as_it_is(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = Command(name, monkeypatch)
    result = command("--dry-run")
    assert result.exit_code == 0 and "orders" in result.stdout
    reported = json.loads(command("--dry-run", "--json").stdout)
    assert reported["planned"] and reported["done"] is None

    command.answer = command.refused
    result = command("--yes")
    error = RestoreRefusedError if name == "restore" else ForkRefusedError
    assert result.exit_code == error.exit_status and "refus" in result.stdout
    assert json.loads(command("--yes", "--json").stdout)["done"] is None
    assert command("--dry-run").exit_code == EXIT_NOT_GOOD

    command.answer = command.plan
    assert command().exit_code == BadInputError.exit_status, "there is no terminal to ask on"
    assert command.acted == []
    result = command("--yes")
    assert result.exit_code == 0, result.output
    assert command.acted == [command.plan], "the plan that was printed is the one that is run"
    assert json.loads(command("--yes", "--json").stdout)["done"]


def test_options_are_the_fields_of_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    masks, erased = tmp_path / "mask.toml", tmp_path / "erased.toml"
    masks.write_text("[[mask]]\ntopic = 'orders'\nvalue = '1'\n")
    erased.write_text("keys = ['ann']\n")
    fork = Command("fork create", monkeypatch)
    more = ("--expires", "2d", "--with-inputs", "--mask", str(masks), "--force", "--from", "friday")
    assert fork("--yes", *more, "--suppress", str(erased), "--allow-unmatched").exit_code == 0
    ((request, _),) = fork.asked
    assert (request.namespace, request.fork, request.name) == ("shop", "staging", "friday")
    assert request.expires_ms == 172_800_000
    assert request.with_inputs and request.force and request.allow_unmatched
    assert request.masks[0].topic == "orders"
    assert request.suppress.keys == ("ann",)
    for wrong in (("--expires", "soon"), ("--mask", "/nowhere.toml"), ("--suppress", "/nowhere.toml")):
        assert fork("--yes", *wrong).exit_code == BadInputError.exit_status

    restore = Command("restore", monkeypatch)
    waited: list[dict[str, Any]] = []

    async def wait(*arguments: Any, **options: Any) -> None:
        waited.append(options)

    monkeypatch.setattr(ops, "await_workers", wait)
    assert restore("--yes", "--wait", "90", "--force").exit_code == 0
    assert (waited[0]["wait_s"], restore.asked[0][0].force) == (90, True)


def test_another_cluster_is_the_one_that_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    check = AsyncMock(return_value=planned.EQUAL)
    monkeypatch.setattr(ops, "check_restored", check)
    arguments = ["restore", "--check", "friday", *WHERE, "--into", "127.0.0.1:2"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert list(check.await_args_list[0].args[0].hosts) == ["127.0.0.1:2"]


def test_the_result_of_a_drill_is_written_into_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ops, "drill", AsyncMock(return_value=planned.DRILL))
    file = tmp_path / "drill.json"
    arguments = ["drill", *WHERE, "--app", "worker", "--json", str(file)]
    assert not CliRunner().invoke(app, arguments).stdout.startswith("{")
    assert json.loads(file.read_text())["fork"] == planned.DRILL.fork
