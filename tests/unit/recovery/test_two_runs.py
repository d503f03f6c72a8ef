"""Two runs of one recovery, suspended and resumed at every step, and what goes wrong without each guard."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import (
    ForkRefusedError,
    OvertakenError,
    RestoreFailedError,
    RestoreRefusedError,
    SnapkafkaError,
)
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import RestoreView
from snapkafka.recovery import planning, session, steps
from snapkafka.recovery.channels import Author, read_back
from tests.worlds.copies import Fork
from tests.worlds.fakes import FakeHold
from tests.worlds.recovery import (
    IN,
    LOG,
    RAW,
    STEPS,
    CrashError,
    System,
    World,
    crash_at,
    when,
)

# --- Two runs ---------------------------------------------------------------------------------------------------------


class Suspended:
    """A run that stops before a step, and goes on when it is told to."""

    def __init__(self, step: str) -> None:
        self.step, self.there, self.resumed = step, asyncio.Event(), asyncio.Event()

    async def run(self, system: System) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(system.do(await system.plan(), crash=self.crash))
        await asyncio.wait_for(self.there.wait(), 30)
        return task

    def crash(self, at: str) -> None:
        if at == self.step and not self.there.is_set():
            self.there.set()
            raise _PauseError(self)


class _PauseError(Exception):
    def __init__(self, suspended: Suspended) -> None:
        self.suspended = suspended


@pytest.fixture(autouse=True)
def pausing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step wait where its `crash` says so: a process that is stopped by a signal, and runs on later."""
    phase = steps.RecoveryRun.phase

    async def paused(run: Any, name: str) -> None:
        try:
            await phase(run, name)
        except _PauseError as pause:
            await pause.suspended.resumed.wait()
            await phase(run, name)

    monkeypatch.setattr(steps.RecoveryRun, "phase", paused)


def expire(admin: Any) -> None:
    """The sessions of who holds the groups are over."""
    for hold in list(admin.held.values()):
        hold.expire()


@pytest.mark.parametrize("step", STEPS)
async def test_a_suspended_run_changes_nothing_after_another_one_has_finished(
    system: System, step: str
) -> None:
    """Its sessions end, another run finishes, workers run and stop; then it wakes up."""
    asleep = Suspended(step)
    first = await asleep.run(system)
    expire(system.admin)
    if isinstance(system, Fork):
        await system.drop()
    await system.restore()
    system.holds_the_snapshot()
    system.positions.update({tp: at + 30 for tp, at in system.positions.items()})
    system.log.put(IN, b"k", b"after", by=2**30)
    before = system.fingerprint()
    asleep.resumed.set()
    with pytest.raises(SnapkafkaError) as ended:
        await asyncio.wait_for(first, 30)
    assert isinstance(ended.value, OvertakenError) or isinstance(system, Fork)
    assert system.fingerprint() == before


@pytest.mark.parametrize("step", STEPS)
async def test_a_second_run_beside_the_first_changes_nothing(
    system: System, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one holds the groups: the second waits for it, gives up, and the first finishes."""
    monkeypatch.setattr(session, "LEFT_BEHIND_S", 0.1)
    monkeypatch.setattr(session, "POLL_S", 0.02)
    asleep = Suspended(step)
    first = await asleep.run(system)
    before = system.fingerprint()
    with pytest.raises((RestoreRefusedError, ForkRefusedError)):
        await system.restore()
    assert system.fingerprint() == before
    asleep.resumed.set()
    await asyncio.wait_for(first, 30)
    system.holds_the_snapshot()


@pytest.mark.parametrize("step", STEPS[:5])
async def test_a_suspended_restore_that_was_aborted_changes_nothing(world: World, step: str) -> None:
    asleep = Suspended(step)
    first = await asleep.run(world)
    if step not in ("channels", "state"):  # from there on it may have appended
        await ops.abort_restore(world.cluster, "shop", reason="a test")
        before = world.fingerprint()
        asleep.resumed.set()
        with pytest.raises(OvertakenError):
            await asyncio.wait_for(first, 30)
        assert world.fingerprint() == before
        return
    with pytest.raises(RestoreRefusedError):
        await ops.abort_restore(world.cluster, "shop", reason="a test")
    asleep.resumed.set()
    await asyncio.wait_for(first, 30)
    world.holds_the_snapshot()


async def test_a_run_that_loses_its_groups_while_it_appends_appends_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is suspended between two records; when it wakes up its sessions are over."""
    monkeypatch.setattr(steps, "HOLD_EVERY", 1)
    appended: list[object] = []

    def lose(record: object) -> None:
        appended.append(record)
        expire(world.admin)

    world.log.appended = lose
    with pytest.raises(OvertakenError):
        await world.restore()
    assert len(appended) == 1
    world.log.appended = lambda record: None
    await world.restore()
    world.holds_the_snapshot()


# --- What goes wrong without each guard -------------------------------------------------------------------------------


async def test_without_the_fence_a_run_that_was_suspended_sets_the_groups_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks neither at the ledger nor at its holds before it sets offsets."""

    async def mine(run: Any) -> None:
        await run.work.catch_up()

    async def commit(hold: FakeHold, positions: Any, note: str) -> None:
        hold.admin.commits.setdefault(hold.group, {}).update(positions)

    monkeypatch.setattr(steps.RecoveryRun, "require_mine", mine)
    monkeypatch.setattr(FakeHold, "commit", commit)
    asleep = Suspended("groups")
    first = await asleep.run(world)
    expire(world.admin)
    await world.restore()
    positions = {tp: at + 30 for tp, at in world.positions.items()}
    world.admin.commits["app"] = dict(positions)
    asleep.resumed.set()
    with pytest.raises(SnapkafkaError):
        await asyncio.wait_for(first, 30)
    assert world.positions != positions, "30 events run twice"


async def test_without_the_lease_a_second_run_begins_beside_the_first(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def acquire(hold: FakeHold) -> None:
        hold.admin.held[hold.group] = hold

    monkeypatch.setattr(FakeHold, "acquire", acquire)
    asleep = Suspended("channels")
    first = await asleep.run(world)
    await world.restore()
    asleep.resumed.set()
    with pytest.raises(OvertakenError):
        await asyncio.wait_for(first, 30)


async def test_without_the_pinned_plan_something_else_is_done_than_was_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "raise_changed", lambda confirmed, now: None)
    plan = await world.plan()
    world.positions[RAW] += 5
    await world.do(plan)
    assert next(move.before for move in plan.moves if move.topic == "raw") == 9
    assert world.positions[RAW] == 2, "5 events more than were shown run again"


async def test_where_an_abort_forgets_what_was_appended_messages_are_taken_in_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestoreView, "leaves", frozenset())
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("groups"))
    await ops.abort_restore(world.cluster, "shop", reason="a test")
    assert world.state.restores.open is None, "workers start"
    unread = [record.value for record in world.log.records[IN][world.positions[IN] :]]
    assert unread == world.takes["a"], "all of these were processed"
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}, "and the table is that of the snapshot"


async def test_where_others_may_write_during_a_restore_it_commits_what_it_did_not_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lax(records: Sequence[KafkaRecord], author: Author, expected: Any, *_: Any, timed: bool) -> None:
        read_back(records, author, None, lambda record: True)

    async def uncompared(run: Any) -> None:
        """The second net, which the first one is tried without."""

    monkeypatch.setattr(steps, "read_back", lax)
    monkeypatch.setattr(steps.RecoveryRun, "_compare", uncompared)
    await world.restore(crash=when("read back", lambda: world.log.put(LOG, b'"x"', b"666")))
    assert world.folded()[b'"x"'] == b"666"


async def test_without_stamps_nothing_is_committed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Author, "stamped", lambda self, record: record)
    with pytest.raises(RestoreFailedError):
        await world.restore()
    assert not world.state.restores.bases


async def test_where_a_group_with_workers_can_be_held_a_restore_begins_beside_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = await world.plan()
    world.admin.member_counts = [1] * 99
    before = world.fingerprint()
    with pytest.raises(RestoreRefusedError):
        await world.do(plan)
    assert world.fingerprint() == before
    monkeypatch.setattr(world.admin, "busy", lambda group: False)
    world.admin.member_counts = [1] * 99
    await world.do(plan)
    assert world.state.restores.views[plan.plan].stage == "done", "beside workers that run"
