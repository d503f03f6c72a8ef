"""`keep`: rounds on a cluster in memory and a storage on disk; what is assembled is pretended."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from snapkafka import ops
from snapkafka.errors import (
    BadInputError,
    OffsetsGoneError,
    SnapkafkaError,
    StorageError,
    TimedOutError,
    all_errors,
)
from snapkafka.manifest import CheckEntry, WitnessEntry, dump
from snapkafka.ops import Outcome, pruning
from snapkafka.ops.keeping import OF_ALL
from snapkafka.ports import Topic
from snapkafka.protocol.records import Trigger, Verdict
from snapkafka.query.locate import heads
from snapkafka.store import Store
from snapkafka.verbs import Keep
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.on_disk import write_snapshot
from tests.worlds.stores import LocalStore

#: `ops.keep` is the function.
MODULE = import_module("snapkafka.ops.keeping")
MINUTE_MS = 60_000
#: A midnight, UTC.
START_MS = round(datetime(2026, 11, 25, tzinfo=UTC).timestamp()) * 1_000
MOMENTS = ("keep-20261125T000000Z", "keep-20261125T001000Z")
ROW = WitnessEntry(topic="hops", partition=0, offset=9, what='{"topic":"hops"}')
VIOLATED = (
    CheckEntry(name="V1", run=True, status="passed"),
    CheckEntry(name="V6 money", run=True, status="failed", found=9, witnesses=(ROW,)),
    CheckEntry(name="V6 stock", run=True, status="passed"),
)
HOLDS = CheckEntry(name="V6 termination", run=True, status="passed")
NOT_YET = CheckEntry(name="V6 termination", run=True, status="failed", found=1, witnesses=(ROW,))
UNCLEAR = CheckEntry(name="V6 termination", run=True, status="unverifiable", found=1, witnesses=(ROW,))


class EnoughError(Exception):
    """Ends a keeper that would go on for good."""


class Keeper:
    """A keeper; each assembly gives the verdict, or raises the error, or has the answers that are next."""

    def __init__(self, storage: Path, monkeypatch: pytest.MonkeyPatch, **request: Any) -> None:
        self.cluster = FakeCluster()
        self.cluster.the_admin.topics = {"_snapkafka.ns": Topic(1)}
        Worker(self.cluster.the_ledger, "shop", "orders")
        self.request = {"every_ms": 10 * MINUTE_MS, "storage": str(storage), **request}
        self.asked: list[ops.JobSpec] = []
        self.verdict, self.checks = "VERIFIED", tuple[CheckEntry, ...]()
        self.errors: list[Exception | None] = []
        self.answers: list[tuple[CheckEntry, ...]] = []
        self.reported: list[ops.KeptRound] = []
        self.store: LocalStore | None = None
        monkeypatch.setattr(MODULE, "assemble", self._assemble)

    async def _assemble(self, where: Any, spec: ops.JobSpec, **_: Any) -> tuple[ops.JobResult, ...]:
        self.asked.append(spec)
        if self.errors and (error := self.errors.pop(0)):
            raise error
        (name,) = spec.snapshots
        (epoch,) = (item.epoch for item in await ops.list_snapshots(self.cluster, "ns") if item.id == name)
        place = f"{spec.storage}/{name}.json"
        if self.store is not None:
            write_snapshot(self.store, name, epoch, namespace="ns", verdict=self.verdict)
        self.cluster.the_ledger.put(Verdict(n=100 * epoch, epoch=epoch, verdict=self.verdict, manifest=place))
        answers = self.answers.pop(0) if self.answers else ()
        of: dict[str, Any] = {"verdict": self.verdict, "good": self.verdict == "VERIFIED", "manifest": place}
        return (ops.JobResult(id=name, epoch=epoch, checks=self.checks, answers=answers, **of),)

    async def round(self, minutes: float, **request: Any) -> ops.KeptRound:
        """Run the round of a moment."""
        wanted: Any = self.request | {"once": True} | request
        at_ms = START_MS + round(minutes * MINUTE_MS)
        return await ops.keep(self.cluster, "ns", Keep(**wanted), clock=lambda: at_ms)  # type: ignore[arg-type]

    async def rounds(self, most: int, **request: Any) -> ops.KeptRound:
        """Run rounds one after the other."""

        def report(item: ops.KeptRound) -> None:
            self.reported.append(item)
            if len(self.reported) == most:
                raise EnoughError

        wanted: Any = self.request | {"every_ms": 1} | request
        return await ops.keep(self.cluster, "ns", Keep(**wanted), report=report)  # type: ignore[arg-type]

    @property
    def triggers(self) -> list[Trigger]:
        return [it.record for it in self.cluster.the_ledger.entries if isinstance(it.record, Trigger)]


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    return Keeper(tmp_path, monkeypatch)


async def test_each_moment_has_one_snapshot_however_often_it_is_asked_for(keeper: Keeper) -> None:
    first, again, second = [await keeper.round(minutes) for minutes in (0, 9.9, 10)]
    assert first == again
    assert (first.id, second.id) == MOMENTS
    assert [trigger.id for trigger in keeper.triggers] == [*MOMENTS]
    assert [spec.snapshots for spec in keeper.asked] == [(name,) for name in MOMENTS]


async def test_incremental_ones_build_on_good_ones_of_this_storage(keeper: Keeper, tmp_path: Path) -> None:
    types = []
    for number, (verdict, storage) in enumerate(
        [("VERIFIED", "a"), ("VERIFIED", "a"), ("INCONSISTENT", "b"), ("VERIFIED", "b"), ("VERIFIED", "a")]
    ):
        keeper.verdict = verdict
        found = await keeper.round(10 * number, incremental=True, storage=str(tmp_path / storage))
        types.append(found.type)
        assert found.outcome is (Outcome.VERIFIED if verdict == "VERIFIED" else Outcome.NOT_GOOD)
    assert types == ["full", "incremental", "full", "full", "incremental"]
    ids = [trigger.id for trigger in keeper.triggers]
    assert [trigger.parent for trigger in keeper.triggers] == ["", ids[0], "", "", ids[1]]


@pytest.mark.parametrize("error", [cls for cls in all_errors() if not issubclass(cls, OF_ALL)])
async def test_an_assembly_that_fails_costs_only_its_round(
    keeper: Keeper, error: type[SnapkafkaError]
) -> None:
    keeper.errors = [error("there it lies")]
    found = await keeper.round(0)
    assert (found.outcome, found.code, found.why) == (Outcome.FAILED, error.code, "there it lies")
    assert (await keeper.round(10)).outcome is Outcome.VERIFIED


async def test_whatever_befalls_a_later_round_is_reported_and_the_next_one_follows(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What befalls the first is rather a slip of who asks."""
    good = ops.KeptRound(id="one", outcome=Outcome.VERIFIED)
    system = [TimeoutError("the socket"), OSError(28, "No space left on device")]
    causes: list[Exception | None] = [None, *(cls("there it lies") for cls in all_errors()), *system, None]

    async def round_of(*_: object, **__: object) -> ops.KeptRound:
        if (cause := causes.pop(0)) is not None:
            raise cause
        return good

    monkeypatch.setattr(MODULE.Keeper, "round_of", round_of)
    with pytest.raises(EnoughError):
        await keeper.rounds(len(causes))
    codes = [cls.code for cls in all_errors()]
    assert [item.code for item in keeper.reported] == ["", *codes, "internal", "internal", ""]
    for slip in (StorageError("full"), OSError(28, "No space left on device")):
        causes.append(slip)
        with pytest.raises(type(slip)):
            await keeper.rounds(1)


async def test_a_round_that_hangs_is_ended(keeper: Keeper, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MODULE.Keeper, "round_of", lambda *_, **__: asyncio.Event().wait())
    monkeypatch.setattr(MODULE, "ROUND_MS", 20)
    with pytest.raises(EnoughError):
        await keeper.rounds(2)
    assert [(item.outcome, item.code) for item in keeper.reported] == [(Outcome.FAILED, "timed-out")] * 2


async def test_old_ones_are_pruned_also_by_a_round_that_fails(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    for number in range(4):
        write_snapshot(store, f"old-{number}", epoch=number + 1, namespace="ns")
    keeper.errors = [OffsetsGoneError("its records are gone"), OSError(28, "No space left on device")]
    found = await keeper.round(0, keep_last=3)
    assert (found.outcome, found.removed) == (Outcome.FAILED, ("old-0",))
    with pytest.raises(OSError, match="No space"):
        await keeper.round(0, keep_last=2)
    assert len(heads(store)) == 2, "before new space is taken, whatever befalls the round"

    def writable_once_pruned(self: Any) -> None:
        if len(heads(self)) > 1:
            raise StorageError("no space left")

    monkeypatch.setattr(Store, "check_writable", writable_once_pruned)
    assert (await keeper.round(10, keep_last=1)).removed == ("old-2",)

    monkeypatch.setattr(MODULE, "plan_pruning", AsyncMock(side_effect=StorageError("the storage denies it")))
    found = await keeper.round(20, keep_last=1)
    assert (found.outcome, found.code) == (Outcome.VERIFIED, "storage"), "the snapshot is as good as it is"


async def test_a_round_proposes_a_checkpoint_when_one_is_due(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await keeper.round(0)).checkpoint_due == 0
    records = len(keeper.cluster.the_ledger.entries)
    monkeypatch.setattr(pruning, "DUE", records - 1)
    assert (await keeper.round(10)).checkpoint_due == records


async def test_violated_invariants_are_reported_also_after_a_keeper_that_was_killed(keeper: Keeper) -> None:
    keeper.verdict, keeper.checks = "INCONSISTENT", VIOLATED
    first = await keeper.round(0)
    assert first.outcome is Outcome.NOT_GOOD
    assert [(item.id, item.name, item.found) for item in first.violated] == [(first.id, "money", 9)]
    manifest = replace(example(), id=first.id, verdict="INCONSISTENT", checks=VIOLATED)
    Path(first.manifest).write_text(dump(manifest), "utf-8")  # noqa: ASYNC240
    assert await keeper.round(1) == first


@pytest.mark.parametrize(
    ("request_", "spec"),
    [
        ({"until": "nothing.sql"}, {}),
        ({"until": "one_token"}, {}),
        ({"until": "termination"}, {"parameters": ("total=1",)}),
        ({"until": "termination"}, {"invariants": ("one_token",), "parameters": ("total=1",)}),
        ({"storage": ""}, {}),
        ({}, {"invariants": ("nowhere",)}),
    ],
)
async def test_what_makes_no_sense_is_refused_before_a_snapshot_is_taken(
    keeper: Keeper, request_: dict[str, Any], spec: dict[str, Any]
) -> None:
    wanted = Keep(**(keeper.request | {"once": True} | request_))
    with pytest.raises(BadInputError):
        await ops.keep(keeper.cluster, "ns", wanted, spec=ops.JobSpec(**spec))  # type: ignore[arg-type]
    assert keeper.triggers == []


# -- until a predicate holds ---------------------------------------------------------------------------------


def answers(rounds: Iterable[ops.KeptRound]) -> list[str]:
    return [str(item.answer or item.outcome) for item in rounds]


async def test_it_goes_on_until_the_predicate_holds(keeper: Keeper) -> None:
    """True in a snapshot: true since its capture. False in one: it was false when that was triggered."""
    keeper.answers = [(NOT_YET,), (UNCLEAR, NOT_YET), (HOLDS, UNCLEAR), (HOLDS, HOLDS)]
    keeper.errors = [None, None, OffsetsGoneError("gone"), None, None]
    found = await keeper.rounds(9, until="termination")
    assert answers(keeper.reported) == ["not yet", "not yet", "failed", "unproven", "holds"]
    assert found == keeper.reported[-1]
    triggered = [item.triggered_ms for item in await ops.list_snapshots(keeper.cluster, "ns")]
    assert [item.not_yet_ms for item in keeper.reported] == [triggered[0], *[triggered[1]] * 4]
    assert found.holds_ms is not None and found.holds_ms > triggered[-1]
    assert (keeper.reported[0].found, keeper.reported[0].witnesses) == (1, (ROW,))
    assert {(spec.asked, spec.invariants) for spec in keeper.asked} == {(("termination",), ())}
    assert len({spec.snapshots for spec in keeper.asked}) == 5, "each is a snapshot of its own"


async def test_only_what_was_taken_for_the_predicate_is_pruned(keeper: Keeper, tmp_path: Path) -> None:
    keeper.store = LocalStore(tmp_path)
    for number in range(3):
        write_snapshot(keeper.store, f"hourly-{number}", epoch=number + 1, namespace="ns")
    keeper.answers = [(NOT_YET,), (NOT_YET,), (HOLDS,)]
    await keeper.rounds(9, until="termination", keep_last=1)
    first, second, last = keeper.reported
    assert [it.removed for it in keeper.reported] == [(), (first.id,), (second.id,)]
    assert {it.id for it in heads(keeper.store)} == {"hourly-0", "hourly-1", "hourly-2", last.id}


@pytest.mark.parametrize("verdict", ["INCONSISTENT", "UNVERIFIABLE"])
async def test_a_snapshot_that_is_not_good_answers_nothing(keeper: Keeper, verdict: str) -> None:
    """Whatever its tables say: the states before and after are not joined to it."""
    keeper.verdict, keeper.answers = verdict, [(HOLDS,), (HOLDS,)]
    with pytest.raises(EnoughError):
        await keeper.rounds(2, until="termination")
    assert answers(keeper.reported) == ["unproven", "unproven"]


async def test_time_is_over(keeper: Keeper) -> None:
    keeper.answers = [(NOT_YET,)] * 1_000
    with pytest.raises(TimedOutError):
        await keeper.rounds(1_000, until="termination", timeout_ms=300)
