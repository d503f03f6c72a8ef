"""Two runs of one recovery, suspended and resumed at every step."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import ForkRefusedError, OvertakenError, RestoreRefusedError, SnapkafkaError
from snapkafka.restore import planning, steps
from tests.worlds.copies import Fork
from tests.worlds.fakes import FakeHold
from tests.worlds.restore import IN, STEPS, System, World


class Suspended:
    """A run that stops before a step, and goes on when it is told to."""

    def __init__(self, step: str) -> None:
        self.step, self.there, self.resumed = step, asyncio.Event(), asyncio.Event()

    async def sleeps(self, system: System) -> Suspended:
        self.task = asyncio.ensure_future(system.do(await system.plan(), crash=self))
        await asyncio.wait_for(self.there.wait(), 30)
        return self

    async def wakes(self) -> ops.Recovered:
        self.resumed.set()
        return await asyncio.wait_for(self.task, 30)

    def __call__(self, at: str) -> None:
        """Nothing is killed."""


@pytest.fixture(autouse=True)
def pausing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a step wait, as a process that is stopped by a signal and runs on later."""
    phase = steps.RecoveryRun.phase

    async def paused(run: Any, name: str, said: str) -> None:
        if isinstance(run.crash, Suspended) and run.crash.step == name:
            run.crash.there.set()
            await run.crash.resumed.wait()
        await phase(run, name, said)

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
    first = await Suspended(step).sleeps(system)
    expire(system.admin)
    if isinstance(system, Fork):
        await system.drop()
    await system.restore()
    system.holds_the_snapshot()
    system.positions.update({tp: at + 30 for tp, at in system.positions.items()})
    system.log.put(IN, b"k", b"after", by=2**30)
    before = system.fingerprint()
    with pytest.raises(SnapkafkaError) as ended:
        await first.wakes()
    assert isinstance(ended.value, OvertakenError) or isinstance(system, Fork)
    assert system.fingerprint() == before


@pytest.mark.parametrize("step", STEPS)
async def test_a_second_run_beside_the_first_changes_nothing(
    system: System, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one holds the groups: the second waits for it, gives up, and the first finishes."""
    monkeypatch.setattr(planning, "LEFT_BEHIND_S", 0.1)
    monkeypatch.setattr(planning, "POLL_S", 0.02)
    first = await Suspended(step).sleeps(system)
    with pytest.raises((RestoreRefusedError, ForkRefusedError)):
        await system.restore()
    await first.wakes()
    system.holds_the_snapshot()


@pytest.mark.parametrize("step", ["topics", "author", "quiet"])
async def test_a_suspended_restore_that_was_aborted_changes_nothing(world: World, step: str) -> None:
    first = await Suspended(step).sleeps(world)
    await ops.abort_restore(world.cluster, "shop", reason="a test")
    before = world.fingerprint()
    with pytest.raises(OvertakenError):
        await first.wakes()
    assert world.fingerprint() == before


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


async def test_of_two_runs_without_a_lease_the_ledger_lets_the_later_one_finish(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan of both is open when the first one wakes up; it belongs to the second."""

    async def acquire(hold: FakeHold) -> None:
        hold.admin.held[hold.group] = hold

    monkeypatch.setattr(FakeHold, "acquire", acquire)
    first, second = await Suspended("channels").sleeps(world), await Suspended("state").sleeps(world)
    monkeypatch.setattr(FakeHold, "require", lambda hold: None)
    with pytest.raises(OvertakenError):
        await first.wakes()
    await second.wakes()
    world.holds_the_snapshot()
