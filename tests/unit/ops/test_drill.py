"""`drill`: phases in their order, reasons not to trust, and that everything is removed whatever happens."""

# mypy: disable-error-code="no-any-return,no-untyped-def,arg-type,union-attr,return-value,misc"
from __future__ import annotations

import asyncio
import dataclasses
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest

from snapkafka import ops
from snapkafka.assembly import JobResult, check_entries
from snapkafka.errors import (
    BadInputError,
    DependencyMissingError,
    ForkFailedError,
    ForkRefusedError,
    OffsetsGoneError,
    SnapshotFailedError,
    UnknownSnapshotError,
)
from snapkafka.kafka import Connection
from snapkafka.manifest_entries import CheckEntry
from snapkafka.ops.drill import new_id, records_of
from snapkafka.ops.drill import steps as module
from snapkafka.ops.drill.result import of_the_fork
from snapkafka.ops.drill.steps import DrillRun
from snapkafka.ops.drill.workers import Workers
from snapkafka.protocol import fork_problem
from snapkafka.restore import Recovered, Request
from snapkafka.verbs import Drill
from tests.unit.base.test_manifest import example
from tests.worlds.planned import done as recovered
from tests.worlds.planned import planned

WHERE = Connection(bootstrap="127.0.0.1:1")
CHECKS = (
    CheckEntry(name="V1 colours", run=True, status="passed", records=120),
    CheckEntry(name="V6 money", run=True, status="passed", records=0),
)


EXAMPLE = example()
MANIFEST = dataclasses.replace(
    EXAMPLE,
    id="friday",
    epoch=4,
    tables=tuple(
        dataclasses.replace(EXAMPLE.tables[0], name=name, rows=rows)
        for name, rows in (("state", 5), ("messages", 3))
    ),
)


def assembled(verdict: str = "VERIFIED", checks: tuple[CheckEntry, ...] = CHECKS) -> JobResult:
    return JobResult(
        id="s", epoch=4, verdict=verdict, good=verdict.startswith("VERIFIED"), manifest="s.json", checks=checks,
        tables={"state": 7, "messages": 1},
    )  # fmt: skip


@dataclass(kw_only=True)
class FakeRun(DrillRun):
    """A drill in which each step on the cluster does what it is to do: an error, a wait, a result."""

    does: dict[str, Any] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    refuses_to_drop: int = 0

    async def _step(self, name: str, result: Any) -> Any:
        self.calls.append(name)
        done = self.does.get(name)
        if isinstance(done, BaseException):
            raise done
        if callable(done):
            return await done()
        return result if done is None else done

    async def find(self):
        ledger = dataclasses.replace(EXAMPLE.ledger, triggered_ms=round(time.time() * 1_000) - 60_000)
        return await self._step("find", ("friday.json", dataclasses.replace(MANIFEST, ledger=ledger), 3))

    async def plan(self, source):
        return await self._step("plan", forked().plan)

    async def create(self, plan):
        return await self._step("create", forked())

    async def missing(self):
        return await self._step("missing", "")

    async def left(self):
        return await self._step("left", "")

    async def watch(self, until):
        await self._step("watch", None)

    async def trigger(self):
        return await self._step("trigger", "s")

    async def assemble(self, name):
        return await self._step("assemble", assembled())

    async def verify(self):
        return await self._step("verify", assembled())

    async def drop(self):
        if self.refuses_to_drop:
            self.refuses_to_drop -= 1
            raise ForkRefusedError("a group has members")
        await self._step("drop", None)


@dataclass
class Fake:
    """A drill to come, and then itself."""

    does: dict[str, Any] = field(default_factory=dict)
    refuses_to_drop: int = 0
    calls: list[str] = field(default_factory=list)

    def __call__(self, **options: Any) -> FakeRun:
        return FakeRun(**options, does=self.does, calls=self.calls, refuses_to_drop=self.refuses_to_drop)


def forked(**changes: Any) -> Recovered:
    request = Request(namespace="shop", name="friday", fork="d")
    plan = planned(request=request, namespace="fork.d.shop", apps=("fork.d.shop",))
    return recovered(plan, **({"messages": 3, "state": 5} | changes))


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "POLL_S", 0.02)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "started"


async def run(parts: Fake, marker: Path, **options: Any) -> ops.Drill:
    """A drill of an app that runs until it is ended, and writes its pid and its fork into a file."""
    script = marker.with_suffix(".py")
    script.write_text(
        "import os, time\n"
        "from snapkafka.runtime.door import knock\n"
        "knock(os.environ['SNAPKAFKA_FORK_DOOR'], os.environ['SNAPKAFKA_FORK'])\n"
        f"open({str(marker)!r}, 'w').write(f\"{{os.getpid()}} {{os.environ['SNAPKAFKA_FORK']}}\")\n"
        "time.sleep(600)\n"
    )
    spec = options.pop("spec", ops.JobSpec())
    request = Drill(apps=(f"{sys.executable} {script}",), **options)
    return await ops.drill(WHERE, "shop", request, spec=spec, kind=parts)


def ended(marker: Path) -> bool:
    """Has the worker run, in the fork's environment, and does it no longer?"""
    pid, fork = marker.read_text().split()
    assert fork.startswith("drill-")
    return not runs(pid)


def runs(pid: str) -> bool:
    """Does a process run? One that is dead, and that nobody has waited for, does not."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout
    return bool(state.strip()) and not state.strip().startswith("Z")


def until_started(marker: Path) -> Callable[[], Any]:
    async def missing() -> str:
        return "" if _text(marker) else "the worker has not started"

    return missing


def _text(marker: Path) -> str:
    return marker.read_text() if marker.exists() else ""


async def test_a_good_backup_is_trusted_and_nothing_is_left(marker: Path) -> None:
    parts = Fake({"missing": until_started(marker)})
    found = await run(parts, marker)
    assert found.trusted and not found.reasons
    assert [phase.status for phase in found.phases] == ["done"] * 9
    assert parts.calls[:3] == ["find", "plan", "create"] and parts.calls[-1] == "drop"
    assert ended(marker)
    assert found.removed and not found.kept
    assert 59 < (found.rpo_s or 0) < 90 and found.rto_s is not None
    assert found.source and records_of(found.source) == 120
    assert found.rto_s == pytest.approx(sum(phase.seconds for phase in found.phases[1:5]), abs=0.05)
    assert found.of_fork and [it.name for it in found.of_fork.checks] == ["V1 colours", "V6 money"]
    assert [(it.what, it.snapshot, it.fork, it.equal) for it in found.compared] == [
        ("messages in flight", 3, 3, True),
        ("rows of table messages", 3, 1, None),
        ("rows of table state", 5, 7, None),
    ]


async def test_without_an_invariant_the_others_decide_and_one_that_was_asked_for_has_to_run(
    marker: Path,
) -> None:
    it = assembled(
        checks=(CHECKS[0], *check_entries(()))
    )  # as the manifest of one without invariants has them
    parts = Fake({"missing": until_started(marker), "assemble": it, "verify": it})
    found = await run(parts, marker, until="done.sql", keep=True)
    assert found.trusted and found.kept and "drop" not in parts.calls
    assert ended(marker), "its workers are ended all the same"
    assert parts.calls.index("left") < parts.calls.index("watch") < parts.calls.index("trigger")
    marker.unlink()  # noqa: ASYNC240
    parts = Fake({"missing": until_started(marker), "assemble": it})
    found = await run(parts, marker, spec=ops.JobSpec(invariants=("money.sql",)))
    assert found.reasons == ("the fork's snapshot: invariants were given, and none was run",)


FAILURES: dict[str, BaseException] = {
    "find": UnknownSnapshotError("no good snapshot"),
    "create": ForkFailedError("a topic was not created"),
    "trigger": SnapshotFailedError("not captured"),
    "assemble": OffsetsGoneError("gone"),
    "verify": OffsetsGoneError("gone"),
}


@pytest.mark.parametrize("step", FAILURES)
async def test_a_phase_that_fails_is_a_reason_and_what_follows_is_not_run(marker: Path, step: str) -> None:
    parts = Fake({"missing": until_started(marker), step: FAILURES[step]})
    found = await run(parts, marker)
    assert not found.trusted
    (failed,) = [phase for phase in found.phases if phase.status == "failed"]
    assert (
        found.reasons == (f"{failed.name}: {FAILURES[step]}".split(";")[0],)
        or failed.what in found.reasons[0]
    )
    behind = found.phases[found.phases.index(failed) + 1 :]
    assert {phase.status for phase in behind if phase.name != "remove the fork"} <= {"not-run"}
    assert ("drop" in parts.calls) == (step != "find"), "what was begun is removed"
    assert found.removed
    assert step in ("find", "create") or ended(marker)


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ({"assemble": assembled("INCONSISTENT")}, "the fork's snapshot is INCONSISTENT"),
        ({"verify": assembled("UNVERIFIABLE")}, "snapshot friday is UNVERIFIABLE"),
        (
            {
                "verify": assembled(
                    checks=(CHECKS[0], CheckEntry(name="V6 money", run=True, status="failed", found=1))
                )
            },
            "snapshot friday: invariant V6 money failed",
        ),
        (
            {
                "assemble": assembled(
                    checks=(CHECKS[0], CheckEntry(name="V6 money", run=False, status="not-run"))
                )
            },
            "the fork's snapshot: invariant V6 money was not run",
        ),
        (
            {
                "assemble": assembled(
                    checks=(CheckEntry(name="V1 colours", run=True, status="passed", records=0),)
                )
            },
            "the fork's snapshot: its checks read no record, so they prove nothing",
        ),
        ({"create": forked(messages=2)}, "messages in flight: the fork has 2, not 3"),
    ],
)
async def test_what_is_not_proved_is_a_reason_not_to_trust(
    marker: Path, does: dict[str, Any], reason: str
) -> None:
    found = await run(Fake({"missing": until_started(marker), **does}), marker)
    assert found.reasons == (reason,)
    assert not found.trusted and found.removed


async def test_an_app_that_ends_is_named_with_its_last_line(tmp_path: Path) -> None:
    async def never() -> str:
        return "no worker of app shop has joined"

    parts = Fake({"missing": never})
    command = f"{sys.executable} -c 'print(\"no such topic\"); raise SystemExit(3)'"
    found = await ops.drill(WHERE, "shop", Drill(apps=(command,)), kind=parts)
    assert "ended with status 3, and had not joined the fork" in found.reasons[0]
    assert found.reasons[0].endswith(": no such topic")
    assert list(found.logs.values()) == ["no such topic"]
    assert parts.calls[-1] == "drop"


async def test_what_is_awaited_in_vain_is_named(marker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never() -> str:
        return "app fork.d.shop has committed 3 of 9 in in[0]"

    monkeypatch.setattr(module, "TIMEOUT_MS", 100)
    found = await run(Fake({"left": never}), marker)
    (reason,) = found.reasons
    assert reason.startswith("work off what was in flight: ")
    assert reason.endswith("app fork.d.shop has committed 3 of 9 in in[0]")
    assert found.rto_s is None and found.removed


@pytest.mark.parametrize("step", ["create", "missing", "left", "trigger", "assemble", "verify"])
async def test_cancelled_at_any_step_it_ends_the_workers_and_removes_the_fork(
    marker: Path, step: str
) -> None:
    """Ctrl-C and SIGTERM cancel the command."""
    reached = asyncio.Event()

    async def hangs() -> None:
        if step != "create":  # the worker is there by then
            while not _text(marker):  # noqa: ASYNC110 -- another process writes it
                await asyncio.sleep(0.02)
        reached.set()
        await asyncio.sleep(600)

    parts = Fake({"missing": until_started(marker), step: hangs}, refuses_to_drop=2)
    task = asyncio.ensure_future(run(parts, marker))
    await asyncio.wait_for(reached.wait(), 20)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # again: what is put away is not disturbed
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parts.calls[-1] == "drop"
    assert step == "create" or ended(marker)


async def test_what_cannot_be_removed_is_a_reason_and_named(
    marker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DROPPED_WITHIN_S", 0.05)
    parts = Fake({"missing": until_started(marker)}, refuses_to_drop=999)
    found = await run(parts, marker)
    assert (found.trusted, found.removed) == (False, False)
    assert found.reasons == ("remove the fork: a group has members",)


@pytest.mark.parametrize("apps", [[], [""], ["python 'unbalanced"]])
async def test_a_command_that_is_none_is_refused_before_anything_is_done(apps: list[str]) -> None:
    parts = Fake()
    with pytest.raises(BadInputError):
        await ops.drill(WHERE, "shop", Drill(apps=tuple(apps)), kind=parts)
    assert parts.calls == []


# --- The parts ------------------------------------------------------------------------------------------------------


def test_parameters_are_given_the_names_of_the_fork() -> None:
    given = {"total": "400", "topics": "transfers, credits", "apps": "accounts"}
    assert of_the_fork(given, ["prefix", "total", "topics", "apps"], "d1") == [
        "total=400",
        "topics=fork.d1.transfers,fork.d1.credits",
        "apps=fork.d1.accounts",
        "prefix=fork.d1.",
    ]
    assert of_the_fork({"total": "1"}, ["total"], "d1") == ["total=1"], "no invariant asks for a prefix"


# -- what is refused, and the id ----------------------------------------------------------------------------------


def test_an_id_holds_its_second_and_is_another_each_time() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    ids = {new_id(now) for _ in range(200)}
    assert len(ids) == 200
    for it in ids:
        assert re.fullmatch(r"drill-20260102-030405-[0-9a-f]{8}", it)
        assert fork_problem(it) is None, "it is the name of a fork"


class Admin:
    """A cluster without topics."""

    async def describe_topics(self) -> dict[str, Any]:
        return {}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None: ...


async def test_groups_that_an_interrupted_creation_held_are_removed_without_any_topic(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    deleted: list[str] = []

    class Bulk:
        def __init__(self, where: Connection) -> None:
            assert where is WHERE

        def delete_groups(self, groups: list[str]) -> None:
            deleted.extend(groups)

    @dataclass
    class Plan:
        apps: tuple[str, ...] = ("fork.drill-1.shop", "fork.drill-1.till", "shop")

    monkeypatch.setattr(module, "KafkaTopicAdmin", lambda where: Admin())
    monkeypatch.setattr(module, "KafkaBulk", Bulk)
    parts = DrillRun(
        where=WHERE, namespace="shop", fork="drill-1", request=Drill(apps=()), commands=[], folder="",
        spec=ops.JobSpec(), workers=Workers(tmp_path), who="", notify=print,
    )  # fmt: skip
    await parts.drop()
    assert deleted == [], "it has planned nothing"
    parts.planned = Plan()  # type: ignore[assignment]
    await parts.drop()
    assert deleted == ["fork.drill-1.shop", "fork.drill-1.till"], (
        "and nothing of production, whatever a plan names"
    )


async def test_where_commands_cannot_be_locked_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["snapkafka.ops.drill"], "lock_problem", lambda allow: "no Landlock")
    parts = Fake()
    with pytest.raises(DependencyMissingError, match="isolated from the broker here: no Landlock") as caught:
        await ops.drill(WHERE, "shop", Drill(apps=("true",)), kind=parts)
    assert "--unlocked" in caught.value.hint
    assert parts.calls == []
    await ops.drill(WHERE, "shop", Drill(apps=("true",), unlocked=True), kind=parts)
    assert "create" in parts.calls, "who trusts the commands needs no lock"


@pytest.mark.parametrize("port", [9092, 9093, 0, -1, 65_536])
async def test_a_port_of_the_brokers_is_not_allowed_nor_is_one_that_is_none(port: int) -> None:
    parts, where = Fake(), Connection(bootstrap="a:9092,b:9093")
    with pytest.raises(BadInputError):
        await ops.drill(where, "shop", Drill(apps=("true",), allow=(443, port)), kind=parts)
    assert parts.calls == []
