"""`snapkafka drill` translates: a result into tables, files and an exit status."""

# mypy: disable-error-code="no-any-return,no-untyped-def,arg-type,union-attr,return-value,misc"
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.ops import Drill
from snapkafka.ops.drill import Compared, Judged, Phase

ARGUMENTS = (
    "drill",
    "--bootstrap",
    "127.0.0.1:1",
    "--namespace",
    "shop",
    "--app",
    "python -m faust -A shop worker",
)
FOUND = Drill(
    id="drill-1",
    trusted=True,
    reasons=(),
    namespace="shop",
    fork="drill-1",
    snapshot="friday",
    epoch=4,
    started_at="2026-01-01T00:00:00+00:00",
    rpo_s=61.0,
    rto_s=12.5,
    apps=("python -m faust -A shop worker",),
    phases=(Phase(name="find the snapshot", status="done", seconds=0.2, what="friday"),),
    compared=(Compared(what="messages in flight", snapshot=3, fork=3, equal=True),),
    source=Judged(id="friday", epoch=4, verdict="VERIFIED", good=True),
    removed=True,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    options: dict[str, Any] = {"found": FOUND}

    async def drill(*arguments: Any, **more: Any) -> Drill:
        options["request"] = arguments[2]
        return options["found"]

    monkeypatch.setattr(ops, "drill", drill)
    return options


def test_a_backup_that_can_be_trusted_is_status_0(asked: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    more = ("--timeout", "90s", "--keep", "--json", str(file))
    result = CliRunner().invoke(app, [*ARGUMENTS, *more])
    assert result.exit_code == 0, result.output
    assert "the backup can be trusted: friday" in result.stdout
    assert "RPO 61.0 s, RTO 12.5 s" in result.stdout
    assert json.loads(file.read_text())["trusted"] is True
    assert asked["request"] == ops.DrillRequest(
        apps=["python -m faust -A shop worker"], timeout_s=90.0, keep=True, joins_within_s=60.0
    )


def test_how_commands_are_kept_from_the_network_can_be_chosen(asked: dict[str, Any]) -> None:
    more = ("--join-within", "2min", "--allow", "443", "--allow", "5432", "--unlocked")
    assert CliRunner().invoke(app, [*ARGUMENTS, *more]).exit_code == 0
    request = asked["request"]
    assert (request.joins_within_s, request.allow, request.lock) == (120.0, [443, 5432], False)


def test_one_that_cannot_is_status_1_with_its_reasons(asked: dict[str, Any]) -> None:
    asked["found"] = replace(
        FOUND, trusted=False, reasons=("the fork's snapshot is INCONSISTENT",), removed=False
    )
    result = CliRunner().invoke(app, [*ARGUMENTS])
    assert result.exit_code == 30
    assert "reason: the fork's snapshot is INCONSISTENT" in result.stdout
    assert "the backup cannot be trusted" in result.stdout
    assert "snapkafka fork drop drill-1" in result.stdout


def test_the_result_alone_is_printed_as_json_if_asked(asked: dict[str, Any]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--json", "-"])
    assert json.loads(result.stdout)["snapshot"] == "friday"


def test_a_file_that_cannot_be_written_is_an_error(asked: dict[str, Any]) -> None:
    result = CliRunner().invoke(app, [*ARGUMENTS, "--json", "/no/such/folder/x.json"])
    assert result.exit_code != 0
