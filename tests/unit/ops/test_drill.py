"""`drill`: phases in their order, reasons not to trust, and that everything is removed whatever happens."""

import asyncio
import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
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
from snapkafka.manifest import CheckEntry
from snapkafka.ops.drilling import steps as module
from snapkafka.ops.drilling.result import of_the_fork
from snapkafka.ops.drilling.steps import DrillRun
from snapkafka.restore import Recovered, Request
from snapkafka.verbs import Drill
from tests.unit.base.test_manifest import example
from tests.worlds.planned import done as recovered
from tests.worlds.planned import planned

WHERE = Connection(bootstrap="127.0.0.1:1")
V1 = CheckEntry(name="V1 colours", run=True, status="passed", records=120)
MONEY = CheckEntry(name="V6 money", run=True, status="passed", records=0)
WORKER = """
import os, time
from snapkafka.runtime.door import knock
knock(os.environ['SNAPKAFKA_FORK_DOOR'], os.environ['SNAPKAFKA_FORK'])
open({marker!r}, 'w').write(f"{{os.getpid()}} {{os.environ['SNAPKAFKA_FORK']}}")
time.sleep(600)
"""


def assembled(verdict: str = "VERIFIED", *checks: CheckEntry) -> tuple[JobResult]:
    good, found = verdict.startswith("VERIFIED"), checks or (V1, MONEY)
    return (JobResult(id="s", epoch=4, verdict=verdict, good=good, manifest="s.json", checks=found),)


def forked() -> Recovered:
    request = Request(namespace="shop", name="friday", fork="d")
    plan = planned(request=request, namespace="fork.d.shop", apps=("fork.d.shop",))
    return recovered(plan, messages=3, state=5)


class Fake:
    """What the steps of a drill on the cluster do: an error, a wait, a result."""

    def __init__(
        self, patch: pytest.MonkeyPatch, marker: Path, refuses_to_drop: int = 0, **does: Any
    ) -> None:
        self.does, self.marker, self.refuses_to_drop = does, marker, refuses_to_drop
        self.calls: list[str] = []
        ledger = dataclasses.replace(example().ledger, triggered_ms=round(time.time() * 1_000) - 60_000)
        manifest = dataclasses.replace(example(), id="friday", epoch=4, ledger=ledger)
        patch.setattr(module, "read_manifest", lambda place: (None, manifest))
        for name, verb, result in (
            ("find", "manifest_places", ["friday.json"]),
            ("plan", "plan_recovery", forked().plan),
            ("create", "recover", forked()),
            ("watch", "keep", None),
            ("trigger", "trigger", SimpleNamespace(id="s")),
            ("assemble", "assemble", assembled()),
            ("verify", "verify", assembled()),
        ):
            patch.setattr(module, verb, partial(self.step, name, result))

    async def step(self, name: str, result: Any = None, *_: Any, **__: Any) -> Any:
        self.calls.append(name)
        done = self.does.get(name)
        if isinstance(done, BaseException):
            raise done
        if callable(done):
            return await done()
        return result if done is None else done

    def started(self) -> str:
        return self.marker.read_text() if self.marker.exists() else ""

    def __call__(self, **options: Any) -> DrillRun:
        return FakeRun(**options, fake=self)

    async def drill(self, **options: Any) -> ops.Drill:
        """Drill an app that runs until it is ended, and writes its pid and its fork into a file."""
        script = self.marker.with_suffix(".py")
        script.write_text(WORKER.format(marker=str(self.marker)))
        spec, app = options.pop("spec", ops.JobSpec()), options.pop("app", f"{sys.executable} {script}")
        kind: Any = self
        return await ops.drill(WHERE, "shop", Drill(apps=(app,), **options), spec=spec, kind=kind)

    def ended(self) -> bool:
        """Has the worker run, in the fork's environment, and does it no longer?"""
        pid, fork = self.started().split()
        assert fork.startswith("drill-")
        return not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


@dataclasses.dataclass(kw_only=True)
class FakeRun(DrillRun):
    fake: Fake

    async def set_goals(self, apps: object) -> None:
        pass

    async def missing(self) -> str:
        waits = "" if self.fake.started() else "the worker has not started"
        return str(await self.fake.step("missing", waits))

    async def left(self) -> str:
        return str(await self.fake.step("left", ""))

    async def drop(self) -> None:
        if self.fake.refuses_to_drop:
            self.fake.refuses_to_drop -= 1
            raise ForkRefusedError("a group has members")
        await self.fake.step("drop")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Fake]:
    monkeypatch.setattr(module, "POLL_S", 0.02)
    return partial(Fake, monkeypatch, tmp_path / "started")


async def test_a_good_backup_is_trusted_and_nothing_is_left(fake: Callable[..., Fake]) -> None:
    parts = fake()
    found = await parts.drill()
    assert found.trusted and not found.reasons
    assert [phase.status for phase in found.phases] == ["done"] * 9
    assert parts.calls[:3] == ["find", "plan", "create"] and parts.calls[-1] == "drop"
    assert parts.ended()
    assert (found.removed, found.kept, found.in_flight) == (True, False, 3)
    assert 59 < (found.rpo_s or 0) < 90 and found.rto_s is not None
    assert found.rto_s == pytest.approx(sum(phase.seconds for phase in found.phases[1:5]), abs=0.05)
    assert (found.source,) == (found.of_fork,) == assembled()


async def test_a_fork_is_kept_if_it_was_asked_for_and_a_predicate_awaited(fake: Callable[..., Fake]) -> None:
    none_run = assembled("VERIFIED", V1, *check_entries(()))  # as a manifest without invariants has them
    parts = fake(assemble=none_run, verify=none_run)
    found = await parts.drill(until="termination", keep=True)
    assert found.trusted and found.kept and "drop" not in parts.calls
    assert parts.ended(), "its workers are ended all the same"
    assert parts.calls.index("left") < parts.calls.index("watch") < parts.calls.index("trigger")


FAILURES: dict[str, Exception] = {
    "find": UnknownSnapshotError("no good snapshot"),
    "create": ForkFailedError("a topic was not created"),
    "trigger": SnapshotFailedError("not captured"),
    "assemble": OffsetsGoneError("gone"),
    "verify": OffsetsGoneError("gone"),
}


@pytest.mark.parametrize("step", FAILURES)
async def test_a_phase_that_fails_is_a_reason_and_what_follows_is_not_run(
    fake: Callable[..., Fake], step: str
) -> None:
    parts = fake(**{step: FAILURES[step]})
    found = await parts.drill()
    assert not found.trusted
    (failed,) = [phase for phase in found.phases if phase.status == "failed"]
    assert found.reasons == (f"{failed.name}: {FAILURES[step]}",)
    behind = found.phases[found.phases.index(failed) + 1 :]
    assert {phase.status for phase in behind if phase.name != "remove the fork"} <= {"not-run"}
    assert ("drop" in parts.calls) == (step != "find"), "what was begun is removed"
    assert found.removed
    assert step in ("find", "create") or parts.ended()


@pytest.mark.parametrize(
    ("does", "options"),
    [
        ({"assemble": assembled("INCONSISTENT")}, {}),
        ({"verify": assembled("UNVERIFIABLE")}, {}),
        ({"verify": assembled("VERIFIED", V1, dataclasses.replace(MONEY, status="failed", found=1))}, {}),
        ({"assemble": assembled("VERIFIED", V1, dataclasses.replace(MONEY, run=False))}, {}),
        ({"assemble": assembled("VERIFIED", dataclasses.replace(V1, records=0))}, {}),
        ({"assemble": assembled("VERIFIED", V1)}, {"spec": ops.JobSpec(invariants=("one_token",))}),
    ],
)
async def test_what_is_not_proved_is_a_reason_not_to_trust(
    fake: Callable[..., Fake], does: dict[str, Any], options: dict[str, Any]
) -> None:
    found = await fake(**does).drill(**options)
    assert (len(found.reasons), found.trusted, found.removed) == (1, False, True)


async def test_an_app_that_ends_is_named_with_its_last_line(fake: Callable[..., Fake]) -> None:
    parts = fake()
    found = await parts.drill(app=f"{sys.executable} -c 'print(\"no such topic\"); raise SystemExit(3)'")
    assert "ended with status 3, and had not joined the fork" in found.reasons[0]
    assert list(found.logs.values()) == ["no such topic"]
    assert parts.calls[-1] == "drop"


async def test_what_is_awaited_in_vain_is_named(
    fake: Callable[..., Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TIMEOUT_MS", 100)
    found = await fake(left="app fork.d.shop has committed 3 of 9 in in[0]").drill()
    (reason,) = found.reasons
    assert reason.startswith("work off") and reason.endswith("has committed 3 of 9 in in[0]")
    assert found.rto_s is None and found.removed


@pytest.mark.parametrize("step", ["create", "missing", "left", "trigger", "assemble", "verify"])
async def test_cancelled_at_any_step_it_ends_the_workers_and_removes_the_fork(
    fake: Callable[..., Fake], step: str
) -> None:
    """Ctrl-C and SIGTERM cancel the command."""
    reached = asyncio.Event()

    async def hangs() -> None:
        while step != "create" and not parts.started():  # noqa: ASYNC110 -- another process writes it
            await asyncio.sleep(0.02)
        reached.set()
        await asyncio.sleep(600)

    parts = fake(**{step: hangs}, refuses_to_drop=2)
    task = asyncio.ensure_future(parts.drill())
    await asyncio.wait_for(reached.wait(), 20)
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()  # again: what is put away is not disturbed
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parts.calls[-1] == "drop"
    assert step == "create" or parts.ended()


async def test_what_cannot_be_removed_is_a_reason_and_named(
    fake: Callable[..., Fake], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DROPPED_WITHIN_S", 0.05)
    found = await fake(refuses_to_drop=999).drill()
    assert (found.trusted, found.removed) == (False, False)
    assert found.reasons == ("remove the fork: a group has members",)


@pytest.mark.parametrize(
    "request_",
    [
        Drill(apps=()),
        Drill(apps=("",)),
        Drill(apps=("python 'unbalanced",)),
        *(Drill(apps=("true",), allow=(443, port)) for port in (1, 0, -1, 65_536)),  # 1: of the broker
    ],
)
async def test_what_makes_no_sense_is_refused_before_anything_is_done(
    fake: Callable[..., Any], request_: Drill
) -> None:
    parts = fake()
    with pytest.raises(BadInputError):
        await ops.drill(WHERE, "shop", request_, kind=parts)
    assert parts.calls == []


async def test_where_commands_cannot_be_locked_nothing_is_begun(
    fake: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["snapkafka.ops.drilling"], "lock_problem", lambda allow: "no Landlock")
    parts = fake()
    with pytest.raises(DependencyMissingError):
        await ops.drill(WHERE, "shop", Drill(apps=("true",)), kind=parts)
    assert parts.calls == []
    await ops.drill(WHERE, "shop", Drill(apps=("true",), unlocked=True), kind=parts)
    assert "create" in parts.calls, "who trusts the commands needs no lock"


def test_parameters_are_given_the_names_of_the_fork() -> None:
    given = {"total": "400", "topics": "transfers, credits", "apps": "accounts"}
    assert of_the_fork(given, ["prefix", "total", "topics", "apps"], "d1") == [
        "total=400",
        "topics=fork.d1.transfers,fork.d1.credits",
        "apps=fork.d1.accounts",
        "prefix=fork.d1.",
    ]
    assert of_the_fork({"total": "1"}, ["total"], "d1") == ["total=1"], "no invariant asks for a prefix"
