"""`snapkafka fork` translates: plans into tables, refusals and questions into exit statuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka import ops
from snapkafka.cli import app
from snapkafka.errors import ForkRefusedError, UnknownSnapshotError
from snapkafka.ops import Difference
from snapkafka.ops.diffing import ComparedTables
from snapkafka.query.manifest_check import Trust
from snapkafka.recovery import NewTopic, Refusal, Request, TopicWork
from tests.worlds.planned import done, planned

WHERE = ("--bootstrap", "127.0.0.1:1", "--namespace", "shop")
PLAN = planned(
    request=Request(namespace="shop", name="friday", fork="staging"),
    namespace="fork.staging.shop",
    apps=("fork.staging.accounts",),
    topics=(
        NewTopic(
            topic="fork.staging.orders",
            of="orders",
            partitions=3,
            replicas=None,
            settings={"retention.ms": "-1"},
            changed={"retention.ms": "-1"},
        ),
    ),
    work=(
        TopicWork(topic="orders", kind="input", records=4_711),
        TopicWork(topic="changelog", kind="changelog", records=12),
    ),
    stored=17,
    removes=("fork.staging.left",),
)
REFUSAL = Refusal(code="fork-exists", what="fork staging exists", hint="snapkafka fork drop staging")
DONE = done(
    kind="fork",
    fork="staging",
    source="shop",
    namespace="fork.staging.shop",
    apps=("fork.staging.accounts",),
    topics=("fork.staging.orders",),
    suppressed=2,
    masked=3,
    expires_ms=1_700_000_000_000,
)
FORK = ops.Fork(
    fork="staging",
    namespace="fork.staging.shop",
    source="shop",
    stage="ready",
    snapshot="friday",
    epoch=18,
    plan="abc",
    apps=("fork.staging.accounts",),
    topics=(("fork.staging.orders", "0" * 32),),
    created_ms=1_600_000_000_000,
    expires_ms=0,
    who="ann@host",
)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["fork", *arguments, *WHERE])


def answered(monkeypatch: pytest.MonkeyPatch, name: str, answer: Any) -> list[tuple[Any, ...]]:
    """Let `ops.NAME` answer so; returns what it is asked for: arguments after the connection, and options last."""
    asked: list[tuple[Any, ...]] = []

    async def verb(where: Any, *arguments: Any, **options: Any) -> Any:
        asked.append((*arguments, options))
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(ops, name, verb)
    return asked


@pytest.fixture
def created(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    answered(monkeypatch, "plan_recovery", PLAN)
    return answered(monkeypatch, "recover", DONE)


# --- create ----------------------------------------------------------------------------------------------------------


def test_a_dry_run_prints_what_would_be_created_and_creates_nothing(created: list[tuple[Any, ...]]) -> None:
    result = invoke("create", "staging", "--from", "friday", "--dry-run")
    assert result.exit_code == 0
    for text in (
        "fork.staging.orders",
        "retention.ms=-1",
        "4,711 messages",
        "12 rows",
        "17 stored external records",
        "removes first: 1",
    ):
        assert text in result.stdout, text
    assert created == []


def test_a_refused_plan_is_status_1_and_names_the_reason(
    created: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(monkeypatch, "plan_recovery", replace(PLAN, refusals=(REFUSAL,)))
    result = invoke("create", "staging")
    assert result.exit_code == 30
    assert "refused (fork-exists): fork staging exists" in result.stdout
    reported = json.loads(invoke("create", "staging", "--dry-run", "--json").stdout)
    assert (reported["planned"]["refusals"][0]["code"], reported["done"]) == ("fork-exists", None)
    assert created == []


def test_without_a_terminal_it_takes_yes_to_create(
    created: list[tuple[Any, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning = answered(monkeypatch, "plan_recovery", PLAN)
    result = invoke("create", "staging")
    assert (result.exit_code, created) == (2, [])
    assert "nothing was changed" in result.stderr
    masks, erased = tmp_path / "mask.toml", tmp_path / "erased.toml"
    masks.write_text("[[mask]]\ntopic = 'orders'\nvalue = '1'\n")
    erased.write_text("keys = ['ann']\n")
    more = ("--expires", "2d", "--with-inputs", "--mask", str(masks), "--suppress", str(erased), "--force")
    result = invoke("create", "staging", "--from", "friday", "--yes", *more)
    assert result.exit_code == 0, result.stderr
    ((plan, _),) = created
    assert plan is PLAN, "the plan that was printed is the one that is done"
    ((request, _),) = planning[-1:]
    assert (request.namespace, request.fork, request.name) == ("shop", "staging", "friday")
    assert request.expires_s == 172_800
    assert request.with_inputs and request.force
    assert request.masks[0].topic == "orders"
    assert request.suppress.keys == ("ann",)
    for text in ("4,711 messages", "masked: 3 values", "suppressed: 2", "SNAPKAFKA_FORK=staging"):
        assert text in result.stdout, text


def test_what_cannot_be_read_or_created_has_its_own_status(
    created: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("create", "staging", "--yes", "--expires", "soon").exit_code == 2
    assert invoke("create", "staging", "--yes", "--mask", "/nowhere.toml").exit_code == 2
    assert created == []
    answered(monkeypatch, "recover", ForkRefusedError("nothing was changed: no"))
    assert invoke("create", "staging", "--yes").exit_code == ForkRefusedError.exit_status
    answered(monkeypatch, "recover", UnknownSnapshotError("no good snapshot"))
    reported = json.loads(invoke("create", "staging", "--yes", "--json").stdout)
    assert reported["error"]["code"] == "unknown-snapshot"


# --- list ------------------------------------------------------------------------------------------------------------


def test_forks_are_listed_with_their_snapshot_and_end(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = answered(monkeypatch, "list_forks", (FORK,))
    result = invoke("list")
    assert result.exit_code == 0
    for text in ("staging", "friday", "ready", "2020-09-13 12:26:40Z", "never", "ann@host"):
        assert text in result.stdout, text
    assert asked == [("shop", {})]
    assert json.loads(invoke("list", "--json").stdout)["forks"][0]["fork"] == "staging"
    answered(monkeypatch, "list_forks", ())
    assert "No forks." in invoke("list").stdout


# --- diff ------------------------------------------------------------------------------------------------------------


def test_a_difference_is_printed_as_that_of_two_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Difference(
        before=ComparedTables(id="friday", epoch=18, namespace="shop", verdict="VERIFIED"),
        after=ComparedTables(id="tested", epoch=4, namespace="fork.staging.shop", verdict="VERIFIED"),
        tables=(),
        keys=(),
        channels=(),
        progress=(),
        trust=Trust(),
    )
    asked = answered(monkeypatch, "diff_fork", found)
    result = invoke("diff", "staging", "--to", "tested", "--storage", "/there", "--keys", "3")
    assert result.exit_code == 0, result.stderr
    assert asked == [
        ("shop", "staging", {"after": "tested", "storage": "/there", "keys": 3, "values": False})
    ]
    assert "friday" in result.stdout and "tested" in result.stdout
    assert json.loads(invoke("diff", "staging", "--json").stdout)["after"]["id"] == "tested"
    answered(monkeypatch, "diff_fork", ForkRefusedError("there is no fork staging"))
    assert invoke("diff", "staging").exit_code == ForkRefusedError.exit_status


# --- drop ------------------------------------------------------------------------------------------------------------


GOING = ops.Dropping(
    fork="staging",
    namespace="fork.staging.shop",
    topics=(("fork.staging.orders", "0" * 32),),
    apps=("fork.staging.accounts",),
)


def test_a_fork_is_dropped_by_name_once_somebody_has_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, "plan_drop", (GOING,))
    dropped = ops.Dropped(fork="staging", topics=("fork.staging.orders",), groups=("g",))
    asked = answered(monkeypatch, "drop_forks", (dropped,))
    result = invoke("drop", "staging")
    assert (result.exit_code, asked) == (2, [])
    assert "nothing was removed" in result.stderr
    assert "fork.staging.orders" in result.stdout
    assert invoke("drop", "staging", "--dry-run").exit_code == 0
    assert asked == []
    result = invoke("drop", "staging", "--yes")
    assert result.exit_code == 0
    assert "removed fork staging: 1 topic" in result.stdout
    ((planned_, _),) = asked
    assert planned_ == (GOING,), "the plan that was printed is the one that is done"


def test_a_fork_whose_workers_run_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    answered(monkeypatch, "plan_drop", (replace(GOING, kept="group g has 2 members"),))
    asked = answered(monkeypatch, "drop_forks", ())
    result = invoke("drop", "staging", "--yes")
    assert (result.exit_code, asked) == (30, [])
    assert "refused: fork staging stays: group g has 2 members" in result.stdout


def test_forks_whose_time_is_over_are_dropped_together_and_what_stays_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = (
        ops.Dropped(fork="old", topics=("a",), groups=(), left=("fork.old.mine",)),
        ops.Dropped(fork="busy", topics=(), groups=(), kept="consumer group fork.busy.app has 1 member"),
    )
    busy = replace(GOING, fork="busy", kept="consumer group fork.busy.app has 1 member")
    answered(monkeypatch, "plan_drop", (replace(GOING, fork="old"), busy))
    answered(monkeypatch, "drop_forks", found)
    result = invoke("drop", "--expired", "--yes")
    assert result.exit_code == 0
    for text in (
        "removed fork old",
        "kept, as it was not created with the fork: fork.old.mine",
        "fork busy stays: consumer group fork.busy.app",
    ):
        assert text in result.stdout, text
    reported = json.loads(invoke("drop", "--expired", "--yes", "--json").stdout)
    assert [it["fork"] for it in reported["done"]] == ["old", "busy"]
    answered(monkeypatch, "plan_drop", ())
    assert "No fork has expired." in invoke("drop", "--expired", "--yes").stdout


def test_drop_takes_a_name_or_expired_and_not_both() -> None:
    assert invoke("drop").exit_code == 2
    assert invoke("drop", "staging", "--expired", "--yes").exit_code == 2
