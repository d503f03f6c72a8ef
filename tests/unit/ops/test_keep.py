"""`keep`: rounds of a schedule, on a cluster in memory and a storage on disk; what is assembled is pretended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.cli.commands.keep import _print_round
from snapkafka.cli.running import console
from snapkafka.errors import BadInputError, OffsetsGoneError, TimedOutError
from snapkafka.ops import checkpointing
from snapkafka.ops.keep import keeping_lock, name_at, round_at
from snapkafka.protocol.records import Fork, Trigger, Verdict
from snapkafka.store import LocalStore
from tests.worlds.fakes import FakeCluster, FakeTopic, Worker
from tests.worlds.on_disk import write_snapshot

DAY_MS = 86_400_000
MINUTE_MS = 60_000
#: A midnight, UTC.
START_MS = round(datetime(2026, 11, 25, tzinfo=UTC).timestamp()) * 1_000


class Keeper:
    """Rounds of a schedule; each assembly writes the verdict that is next to be given."""

    def __init__(self, storage: Path, **schedule: object) -> None:
        self.cluster = FakeCluster()
        Worker(self.cluster.the_ledger, "shop", "orders")
        self.storage = storage
        self.schedule = ops.Schedule(**{"every_ms": 10 * MINUTE_MS, **schedule})  # type: ignore[arg-type]
        self.asked: list[list[str]] = []
        self.verdict = "VERIFIED"
        self.beyond_help: set[str] = set()

    async def made(self, names: Sequence[str]) -> tuple[ops.JobResult, ...]:
        self.asked.append([*names])
        if self.beyond_help & {*names}:
            raise OffsetsGoneError("its records are gone")
        listed = {item.id: item for item in await ops.list_snapshots(self.cluster, "ns")}
        for number, name in enumerate(names):
            place = f"{self.storage}/{name}.json"
            epoch = listed[name].epoch
            self.cluster.the_ledger.put(
                Verdict(n=100 * epoch + number, epoch=epoch, verdict=self.verdict, manifest=place)
            )
        return tuple(
            ops.JobResult(
                id=name,
                epoch=listed[name].epoch,
                verdict=self.verdict,
                good=self.verdict == "VERIFIED",
                manifest=f"{self.storage}/{name}.json",
                checks=(),
            )
            for name in names
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
    assert keeper.asked == [[first.id], [second.id]]


async def test_incremental_ones_build_on_verified_ones_and_the_first_of_a_day_is_full(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, incremental=True, full_daily=True)
    types = [(await keeper.round(minutes)).type for minutes in (0, 10, 20, 1440, 1450)]
    assert types == ["full", "incremental", "incremental", "full", "incremental"]
    without = Keeper(tmp_path, incremental=True)
    assert [(await without.round(minutes)).type for minutes in (0, 1440)] == ["full", "incremental"]


async def test_nothing_builds_on_what_is_not_good(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path, incremental=True)
    keeper.verdict = "INCONSISTENT"
    found = await keeper.round(0)
    assert (found.outcome, found.verdict) == (ops.Outcome.NOT_GOOD, "INCONSISTENT")
    assert (await keeper.round(10)).type == "full"


async def test_what_was_captured_and_not_assembled_is_made_up_for(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    missed = name_at(START_MS, 10 * MINUTE_MS)
    await ops.trigger(keeper.cluster, "ns", snapshot_id=missed, wait=True)
    await ops.trigger(keeper.cluster, "ns", snapshot_id="by-hand", wait=True)
    found = await keeper.round(10)
    assert keeper.asked == [[missed, found.id]]
    assert found.made_up_for == (missed,)


async def test_one_beyond_help_does_not_keep_the_next_from_being_assembled(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    missed = name_at(START_MS, 10 * MINUTE_MS)
    await ops.trigger(keeper.cluster, "ns", snapshot_id=missed, wait=True)
    keeper.beyond_help.add(missed)
    found = await keeper.round(10)
    assert keeper.asked == [[missed, found.id], [found.id]]
    assert (found.outcome, found.made_up_for) == (ops.Outcome.VERIFIED, ())


async def test_one_that_fails_is_reported_and_costs_only_its_round(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    keeper.beyond_help.add(name_at(START_MS, 10 * MINUTE_MS))
    found = await keeper.round(0)
    assert (found.outcome, found.code, found.why) == (
        ops.Outcome.FAILED,
        "offsets-gone",
        "its records are gone",
    )
    keeper.beyond_help.clear()
    assert (await keeper.round(10)).outcome is ops.Outcome.VERIFIED


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


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("22:00-23:00", ["22:00", "22:59"], ["21:59", "23:00"]),
        ("23:30-00:30", ["23:30", "00:29"], ["00:30", "12:00"]),
    ],
)
async def test_quiet_times_may_pass_midnight(
    text: str, inside: list[str], outside: list[str], tmp_path: Path
) -> None:
    quiet = ops.Quiet.parse(text)

    def at(clock: str) -> int:
        return round(datetime.fromisoformat(f"2026-11-25T{clock}").timestamp()) * 1_000  # this machine's time

    assert all(quiet.covers(at(clock)) for clock in inside)
    assert not any(quiet.covers(at(clock)) for clock in outside)
    keeper = Keeper(tmp_path, quiet=[quiet])
    found = await keeper.round((at(inside[0]) - START_MS) / MINUTE_MS)
    assert (found.outcome, keeper.triggers()) == (ops.Outcome.QUIET, [])


@pytest.mark.parametrize("text", ["", "22", "22:00", "25:00-26:00", "22:00-22:00", "1h-2h"])
def test_what_is_no_time_of_day_is_refused(text: str) -> None:
    with pytest.raises(BadInputError, match="is not a time of day"):
        ops.Quiet.parse(text)


async def test_one_keeper_at_a_time(tmp_path: Path) -> None:
    async with keeping_lock(str(tmp_path), "ns"):
        with pytest.raises(TimedOutError, match="another `snapkafka keep` of namespace ns"):
            async with keeping_lock(str(tmp_path), "ns"):
                pass
        async with keeping_lock(str(tmp_path), "other"):
            pass
    async with keeping_lock(str(tmp_path), "ns"):
        pass
