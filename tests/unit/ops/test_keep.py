"""`keep`: rounds of a schedule, on a cluster in memory and a storage on disk; what is assembled is pretended."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.cli import console
from snapkafka.cli.commands.keep import _print_round
from snapkafka.errors import (
    BadInputError,
    OffsetsGoneError,
    SnapkafkaError,
    StorageError,
    TimedOutError,
    all_errors,
)
from snapkafka.kafka import Connection
from snapkafka.manifest import dump
from snapkafka.manifest_entries import CheckEntry, WitnessEntry
from snapkafka.ops import checkpointing
from snapkafka.ops.keep import OF_ALL, keeping_lock, name_at, round_at
from snapkafka.protocol import Fork, Trigger, Verdict
from snapkafka.store import LocalStore
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeCluster, FakeTopic, Worker
from tests.worlds.on_disk import write_snapshot

#: `ops.keep` is the function.
MODULE = import_module("snapkafka.ops.keep")
DAY_MS = 86_400_000
MINUTE_MS = 60_000
#: A midnight, UTC.
START_MS = round(datetime(2026, 11, 25, tzinfo=UTC).timestamp()) * 1_000
#: The checks of a snapshot that violates an invariant, and nothing else.
VIOLATED = (
    CheckEntry(name="V1", run=True, status="passed"),
    CheckEntry(name="V5", run=False, status="not-run"),
    CheckEntry(
        name="V6 money",
        run=True,
        status="failed",
        found=9,
        witnesses=tuple(
            WitnessEntry(topic="", partition=-1, offset=-1, what=f'{{"row":{row}}}') for row in range(9)
        ),
    ),
    CheckEntry(name="V6 stock", run=True, status="passed"),
)


class Keeper:
    """Rounds of a schedule; each assembly writes the verdict that is next to be given."""

    def __init__(self, storage: Path, **schedule: object) -> None:
        self.cluster = FakeCluster()
        Worker(self.cluster.the_ledger, "shop", "orders")
        self.storage = storage
        self.schedule = ops.Schedule(**{"every_ms": 10 * MINUTE_MS, **schedule})  # type: ignore[arg-type]
        self.asked: list[str] = []
        self.verdict = "VERIFIED"
        self.checks: tuple[CheckEntry, ...] = ()
        self.contaminated = ""
        self.beyond_help: set[str] = set()
        self.why: SnapkafkaError = OffsetsGoneError("its records are gone")

    async def made(self, name: str) -> ops.JobResult:
        self.asked.append(name)
        if name in self.beyond_help:
            raise self.why
        (epoch,) = (item.epoch for item in await ops.list_snapshots(self.cluster, "ns") if item.id == name)
        place = f"{self.storage}/{name}.json"
        self.cluster.the_ledger.put(Verdict(n=100 * epoch, epoch=epoch, verdict=self.verdict, manifest=place))
        return ops.JobResult(
            id=name,
            epoch=epoch,
            verdict=self.verdict,
            good=self.verdict == "VERIFIED",
            manifest=place,
            checks=self.checks,
            contaminated=self.contaminated,
        )

    async def round(self, minutes: float) -> ops.KeptRound:
        return await round_at(
            START_MS + round(minutes * MINUTE_MS),
            self.cluster,
            "ns",
            self.schedule,
            storage=str(self.storage),
            who="keeper",
            made=self.made,
        )

    def triggers(self) -> list[Trigger]:
        entries = self.cluster.the_ledger.entries
        return [entry.record for entry in entries if isinstance(entry.record, Trigger)]


async def test_each_moment_has_a_snapshot_of_its_name_however_often_it_is_asked_for(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    first = await keeper.round(0)
    again = await keeper.round(9.9)
    second = await keeper.round(10)
    assert first == again
    assert (first.id, second.id) == ("keep-20261125T000000Z", "keep-20261125T001000Z")
    assert [trigger.id for trigger in keeper.triggers()] == [first.id, second.id]
    assert keeper.asked == [first.id, second.id]


async def test_incremental_ones_build_on_verified_ones(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, incremental=True)
    assert [(await keeper.round(minutes)).type for minutes in (0, 1440)] == ["full", "incremental"]


async def test_nothing_builds_on_what_is_not_good(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, incremental=True)
    keeper.verdict = "INCONSISTENT"
    found = await keeper.round(0)
    assert (found.outcome, found.verdict) == (ops.Outcome.NOT_GOOD, "INCONSISTENT")
    assert (await keeper.round(10)).type == "full"


async def test_nothing_old_is_made_up_for(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    await ops.trigger(keeper.cluster, "ns", snapshot_id=name_at(START_MS, 10 * MINUTE_MS), wait=True)
    found = await keeper.round(10)
    assert keeper.asked == [found.id]


@pytest.mark.parametrize("error", [cls for cls in all_errors() if not issubclass(cls, OF_ALL)])
async def test_one_that_fails_is_reported_and_costs_only_its_round(
    tmp_path: Path, error: type[SnapkafkaError]
) -> None:
    """Whatever it is: a strange record, a parent that is gone, a bug of the job."""
    keeper = Keeper(tmp_path)
    keeper.why = error("there it lies")
    keeper.beyond_help.add(name_at(START_MS, 10 * MINUTE_MS))
    found = await keeper.round(0)
    assert (found.outcome, found.code, found.why) == (ops.Outcome.FAILED, error.code, "there it lies")
    later = await keeper.round(10)
    assert later.outcome is ops.Outcome.VERIFIED
    assert keeper.asked == [found.id, later.id]


async def test_parents_are_of_this_storage(tmp_path: Path) -> None:
    """Of another storage nothing can be read on which a snapshot builds: the first one here is full."""
    keeper = Keeper(tmp_path / "old", incremental=True)
    assert [(await keeper.round(minutes)).type for minutes in (0, 10)] == ["full", "incremental"]
    keeper.storage = tmp_path / "new"
    assert [(await keeper.round(minutes)).type for minutes in (20, 30)] == ["full", "incremental"]
    keeper.storage = tmp_path / "old"
    assert (await keeper.round(40)).type == "incremental"
    parents = [trigger.parent for trigger in keeper.triggers()]
    names = [trigger.id for trigger in keeper.triggers()]
    assert parents == ["", names[0], "", names[2], names[1]]


async def test_whatever_befalls_a_later_round_is_reported_and_the_next_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[ops.KeptRound | SnapkafkaError] = [
        ops.KeptRound(id="one", outcome=ops.Outcome.VERIFIED),
        *(cls("there it lies") for cls in all_errors()),
        ops.KeptRound(id="last", outcome=ops.Outcome.VERIFIED),
    ]
    reported: list[ops.KeptRound] = []

    class EnoughError(Exception):
        pass

    async def round_of(*_: object, **__: object) -> ops.KeptRound:
        found = outcomes.pop(0)
        if isinstance(found, SnapkafkaError):
            raise found
        return found

    def report(item: ops.KeptRound) -> None:
        reported.append(item)
        if item.id == "last":
            raise EnoughError

    monkeypatch.setattr(MODULE, "round_at", round_of)
    with pytest.raises(EnoughError):
        await ops.keep(
            Connection(bootstrap="127.0.0.1:1"),
            "ns",
            ops.Schedule(every_ms=1),
            storage=str(tmp_path),
            report=report,
        )
    assert [item.code for item in reported] == ["", *(cls.code for cls in all_errors()), ""]


async def test_an_error_of_the_system_is_reported_as_it_is_and_the_next_round_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection of the storage that times out is not the end of a round of an hour; nor does a full disk end all."""
    causes = iter((None, TimeoutError("the socket"), OSError(28, "No space left on device"), RuntimeError))
    reported: list[ops.KeptRound] = []

    async def round_of(*_: object, **__: object) -> ops.KeptRound:
        if (cause := next(causes)) is not None:
            raise cause
        return ops.KeptRound(id="one", outcome=ops.Outcome.VERIFIED)

    monkeypatch.setattr(MODULE, "round_at", round_of)
    with pytest.raises(RuntimeError):
        await ops.keep(
            Connection(bootstrap="127.0.0.1:1"),
            "ns",
            ops.Schedule(every_ms=1),
            storage=str(tmp_path),
            report=reported.append,
        )
    assert [(item.outcome, item.why) for item in reported[1:]] == [
        (ops.Outcome.FAILED, "TimeoutError: the socket"),
        (ops.Outcome.FAILED, "OSError: [Errno 28] No space left on device"),
    ]


async def test_a_round_that_hangs_is_ended_and_the_next_one_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, reported, ended = iter(("hangs", "last")), list[ops.KeptRound](), list[str]()

    class EnoughError(Exception):
        pass

    async def round_of(*_: object, **__: object) -> ops.KeptRound:
        name = next(rounds)
        if name == "last":
            raise EnoughError
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        raise AssertionError("it hangs")

    monkeypatch.setattr(MODULE, "round_at", round_of)
    with pytest.raises(EnoughError):
        await ops.keep(
            Connection(bootstrap="127.0.0.1:1"),
            "ns",
            ops.Schedule(every_ms=1, round_ms=20),
            storage=str(tmp_path),
            report=reported.append,
        )
    assert ended == ["hangs"]
    (found,) = reported
    assert (found.outcome, found.code) == (ops.Outcome.FAILED, "timed-out")
    assert "ended after" in found.why


async def test_a_pruning_that_fails_leaves_the_snapshot_as_good_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(*_: object, **__: object) -> None:
        raise StorageError("the storage denies it")

    monkeypatch.setattr(MODULE, "plan_pruning", refused)
    found = await Keeper(tmp_path, keep_last=1).round(0)
    assert (found.outcome, found.why) == (
        ops.Outcome.VERIFIED,
        "nothing was pruned: the storage denies it",
    )


async def test_a_round_proposes_a_checkpoint_when_one_is_due(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps snapshots has a ledger that grows, and need not run `doctor` to know."""
    keeper = Keeper(tmp_path)
    assert (await keeper.round(0)).checkpoint_due == 0
    records = len(keeper.cluster.the_ledger.entries)
    monkeypatch.setattr(checkpointing, "DUE", records - 1)
    assert (await keeper.round(10)).checkpoint_due == records
    monkeypatch.setattr(checkpointing, "DUE", 100 * records)
    assert (await keeper.round(20)).checkpoint_due == 0


def test_a_checkpoint_that_is_due_is_printed_with_its_command() -> None:
    with console.capture() as printed:
        _print_round(ops.KeptRound(id="keep-x", outcome=ops.Outcome.VERIFIED, checkpoint_due=12_345))
    assert "12,345 old records in the ledger: run snapkafka checkpoint" in printed.get()


async def test_old_ones_are_pruned(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in range(3):
        write_snapshot(store, f"old-{number}", epoch=number + 1, namespace="ns")
    keeper = Keeper(tmp_path, keep_last=1)
    keeper.cluster.the_admin.topics = {"_snapkafka.ns": FakeTopic(1)}
    assert (await keeper.round(0)).removed == ("old-1", "old-0")


async def test_old_ones_are_pruned_by_a_round_that_fails_as_well(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in range(3):
        write_snapshot(store, f"old-{number}", epoch=number + 1, namespace="ns")
    keeper = Keeper(tmp_path, keep_last=1)
    keeper.cluster.the_admin.topics = {"_snapkafka.ns": FakeTopic(1)}
    keeper.beyond_help.add(name_at(START_MS, 10 * MINUTE_MS))
    found = await keeper.round(0)
    assert (found.outcome, found.removed) == (ops.Outcome.FAILED, ("old-1", "old-0"))


async def test_what_a_fork_was_created_from_is_not_pruned(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for number in range(3):
        write_snapshot(store, f"old-{number}", epoch=number + 1, namespace="ns")
    keeper = Keeper(tmp_path, keep_last=1)
    ledgers = ("_snapkafka.ns", "_snapkafka.fork.staging.ns")  # here they are one
    keeper.cluster.the_admin.topics = dict.fromkeys(ledgers, FakeTopic(1))
    keeper.cluster.the_ledger.put(
        Fork(n=999, plan="f", stage="begun", fork="staging", source="ns", snapshot="old-0")
    )
    assert (await keeper.round(0)).removed == ("old-1",)


def test_one_keeper_at_a_time(tmp_path: Path) -> None:
    with keeping_lock(str(tmp_path), "ns"):
        with pytest.raises(TimedOutError), keeping_lock(str(tmp_path), "ns"):
            pass
        with keeping_lock(str(tmp_path), "other"):
            pass
    with keeping_lock(str(tmp_path), "ns"):
        pass


async def test_a_round_has_the_invariants_that_failed_and_prints_their_first_rows(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.verdict = "INCONSISTENT"
    keeper.checks = VIOLATED
    found = await keeper.round(0)
    assert found.outcome is ops.Outcome.NOT_GOOD
    assert [(item.id, item.name, item.found) for item in found.violated] == [(found.id, "money", 9)]
    with console.capture() as printed:
        _print_round(found)
    lines = printed.get().splitlines()
    assert lines[1:] == [
        "  invariant money is violated, rows: 9",
        *(f'    {{"row":{row}}}' for row in range(5)),
        "    all of them: snapkafka invariants history money",
    ]


@pytest.mark.parametrize(
    ("v1", "contaminated"), [("failed", ""), ("unverifiable", ""), ("passed", "a process forgot its colour")]
)
async def test_rows_of_a_snapshot_that_proves_nothing_are_not_called_violations(
    tmp_path: Path, v1: str, contaminated: str
) -> None:
    keeper = Keeper(tmp_path)
    keeper.verdict, keeper.contaminated = "INCONSISTENT", contaminated
    keeper.checks = (
        CheckEntry(name="V1", run=True, status=v1),
        CheckEntry(name="V5", run=False, status="not-run"),
        CheckEntry(name="V6 money", run=True, status="failed", found=9),
    )
    found = await keeper.round(0)
    assert (found.outcome, found.violated) == (ops.Outcome.NOT_GOOD, ())


async def test_a_keeper_that_was_killed_before_its_report_reports_the_violation_afterwards(
    tmp_path: Path,
) -> None:
    keeper = Keeper(tmp_path)
    keeper.verdict, keeper.checks = "INCONSISTENT", VIOLATED
    first = await keeper.round(0)
    manifest = replace(example(), id=first.id, verdict="INCONSISTENT", checks=VIOLATED)
    Path(first.manifest).write_text(dump(manifest), "utf-8")  # noqa: ASYNC240
    assert await keeper.round(1) == first
    assert len(first.violated) == 1


async def test_invariants_that_cannot_be_read_are_refused_before_the_first_round(tmp_path: Path) -> None:
    spec = ops.JobSpec(invariants=(str(tmp_path / "none"),), engine="embedded")
    with pytest.raises(BadInputError):
        await ops.keep(
            Connection(bootstrap="127.0.0.1:1"),
            "ns",
            ops.Schedule(every_ms=10_000),
            storage=str(tmp_path),
            spec=spec,
            once=True,
        )
