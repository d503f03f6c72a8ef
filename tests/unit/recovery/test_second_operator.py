"""Two runs of one recovery on logs in memory: suspended and resumed at every step, in both orders, and other hands."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import (
    OvertakenError,
    PlanChangedError,
    RestoreFailedError,
    RestoreRefusedError,
    SnapkafkaError,
    UnknownSnapshotError,
)
from snapkafka.protocol import Restore
from snapkafka.wire import headers as wire
from tests.unit.recovery.test_fork import STEPS as FORK_STEPS
from tests.unit.recovery.test_restore_into import as_in_the_snapshot
from tests.worlds.forks import Fork, takes
from tests.worlds.new_cluster import New
from tests.worlds.recovery import (
    EPOCH,
    IN,
    LOG,
    OUT,
    RAW,
    SENDER,
    STEPS,
    CrashError,
    World,
    crash_at,
    holds_the_snapshot,
    save,
)


class Suspended:
    """A run that stops before a step, and goes on when it is told to."""

    def __init__(self, step: str) -> None:
        self.step, self.there, self.resumed = step, asyncio.Event(), asyncio.Event()

    def run(self, do: Callable[..., Any]) -> asyncio.Task[Any]:
        async def work() -> Any:
            return await do(crash=self.crash)

        return asyncio.ensure_future(work())

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
    from snapkafka.recovery.finish import Commit

    phase = Commit.phase

    async def paused(run: Any, name: str) -> None:
        try:
            await phase(run, name)
        except _PauseError as pause:
            await pause.suspended.resumed.wait()
            await phase(run, name)

    monkeypatch.setattr(Commit, "phase", paused)


def expire(admin: Any) -> None:
    """The sessions of who holds the groups are over."""
    for hold in list(admin.held.values()):
        hold.expire()


# -- in place -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
async def test_a_suspended_restore_changes_nothing_after_another_run_has_finished_it(
    world: World, step: str
) -> None:
    """Its sessions end, another run finishes, workers run and stop; then it wakes up."""
    asleep = Suspended(step)
    plan = await world.plan()
    first = asleep.run(lambda **options: world.do(plan, **options))
    await asyncio.wait_for(asleep.there.wait(), 30)
    expire(world.admin)
    await world.restore()
    holds_the_snapshot(world)
    world.admin.commits["app"] = {tp: at + 30 for tp, at in world.admin.commits["app"].items()}
    world.log.put(IN, b"k", b"after", by=2**30)
    before = world.fingerprint()
    asleep.resumed.set()
    with pytest.raises(OvertakenError):
        await asyncio.wait_for(first, 30)
    assert world.fingerprint() == before


@pytest.mark.parametrize("step", STEPS)
async def test_a_second_run_beside_the_first_changes_nothing(
    world: World, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one holds the groups: the second waits for it, gives up, and the first finishes."""
    from snapkafka.recovery import session

    monkeypatch.setattr(session, "LEFT_BEHIND_S", 0.1)
    monkeypatch.setattr(session, "POLL_S", 0.02)
    asleep = Suspended(step)
    plan = await world.plan()
    first = asleep.run(lambda **options: world.do(plan, **options))
    await asyncio.wait_for(asleep.there.wait(), 30)
    before = world.fingerprint()
    with pytest.raises(RestoreRefusedError):
        await world.restore()
    assert world.fingerprint() == before
    asleep.resumed.set()
    await asyncio.wait_for(first, 30)
    holds_the_snapshot(world)


@pytest.mark.parametrize("step", STEPS[:5])
async def test_a_suspended_restore_that_was_aborted_changes_nothing(world: World, step: str) -> None:
    asleep = Suspended(step)
    plan = await world.plan()
    first = asleep.run(lambda **options: world.do(plan, **options))
    await asyncio.wait_for(asleep.there.wait(), 30)
    with contextlib.suppress(RestoreRefusedError):
        await ops.abort_restore(world.cluster, "shop", reason="a test")
    if world.state().restores.open is not None:
        return  # it has appended: what this test is about cannot happen
    before = world.fingerprint()
    asleep.resumed.set()
    with pytest.raises(OvertakenError):
        await asyncio.wait_for(first, 30)
    assert world.fingerprint() == before


async def test_an_abort_that_comes_when_records_are_appended_is_not_one(world: World) -> None:
    """The check of the command may be older than the record it appends: the fold of the ledger decides."""
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("state"))
    plan = world.state().restores.open
    assert plan is not None
    world.cluster.the_ledger.put(Restore(n=77, plan=plan.plan, stage="aborted", reason="late"))
    assert world.state().restores.open is not None
    await world.restore()
    holds_the_snapshot(world)


# -- the plan -------------------------------------------------------------------------------------------------------


def _newer(world: World) -> None:
    save(world, dataclasses.replace(world.manifest, content="f" * 64))


def _more_outputs(world: World) -> None:
    world.log.put(OUT, b"o", b"more", by=SENDER)


def _events_ran(world: World) -> None:
    world.admin.commits["app"][IN] += 1


def _begun_by_another(world: World) -> None:
    world.cluster.the_ledger.put(
        Restore(n=99, plan="other", stage="begun", snapshot="friday", epoch=EPOCH, apps=("app",))
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (_newer, "is another manifest now"),
        (_more_outputs, r"outputs in out\[0\]: 1 to 3 -> 1 to 4"),
        (
            _events_ran,
            r"position of app in in\[0\]: 7 to at the appended messages -> 8 to at the appended messages",
        ),
        (_begun_by_another, "open plan: none -> other begun"),
        (
            lambda world: world.admin.topics.pop("raw"),
            "reasons to refuse it: none -> topic raw does not exist",
        ),
    ],
)
async def test_what_changes_between_the_question_and_the_answer_is_refused(
    world: World, change: Callable[[World], None], what: str
) -> None:
    plan = await world.plan()
    change(world)
    before = world.fingerprint()
    with pytest.raises(PlanChangedError, match=what):
        await world.do(plan)
    assert world.fingerprint() == before
    assert not world.admin.held


async def test_external_records_that_arrive_meanwhile_are_no_other_plan(world: World) -> None:
    plan = await world.plan()
    world.log.put(IN, b"e", b"six, external")
    world.log.put(RAW, b"r", b"9")
    await world.do(plan)
    assert world.taken("a") == [b"one", b"two, external", b"three", b"five, external", b"six, external"]


async def test_latest_is_the_snapshot_that_was_shown(world: World) -> None:
    """`keep` verifies another one while the question stands."""
    plan = await world.plan(name="latest")
    text = world.store.manifest_path("friday").read_text()
    world.store.manifest_path("monday").write_text(
        text.replace('"friday"', '"monday"').replace(f'"epoch": {EPOCH}', f'"epoch": {EPOCH + 9}')
    )
    assert (await world.plan(name="latest")).snapshot == "monday"
    done = await world.do(plan)
    assert (done.snapshot, done.epoch) == ("friday", EPOCH)


# -- the snapshot is gone --------------------------------------------------------


@pytest.mark.parametrize("step", ["groups", "done"])
async def test_a_committed_restore_is_finished_from_the_ledger_alone(world: World, step: str) -> None:
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at(step))
    world.store.manifest_path("friday").unlink()
    with pytest.raises(RestoreRefusedError):
        await ops.abort_restore(world.cluster, "shop", reason="a test")
    for name in ("latest", "friday", str(EPOCH)):
        plan = await world.plan(name=name, storage="")
        assert (plan.committed, plan.snapshot, plan.refusals) == (True, "friday", ())
    done = await world.do(plan)
    assert (done.resumed, done.messages) == (True, -1)
    holds_the_snapshot(world)
    assert world.state().restores.open is None


async def test_before_the_commit_point_it_takes_the_snapshot(world: World) -> None:
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("ready"))
    world.store.manifest_path("friday").unlink()
    with pytest.raises(UnknownSnapshotError):
        await world.plan()


# -- replaced ----------------------------------------------------------------------------------------------------------


async def test_a_restore_that_was_not_finished_is_replaced_by_that_of_another_snapshot(world: World) -> None:
    """The way back from a restore that has appended: what it left lies below the bases of the next one."""
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("ready"))
    first = world.state().restores.open
    assert first is not None
    save(world, dataclasses.replace(world.manifest, epoch=EPOCH + 1))
    planned = await world.plan()
    assert planned.replaces == first.plan
    assert any("replaces plan" in note for note in planned.notes)
    await world.restore()
    holds_the_snapshot(world)
    views = world.state().restores.views
    assert (views[first.plan].stage, views[planned.plan if planned.plan in views else first.plan].open) == (
        "aborted",
        False,
    )


async def test_one_that_does_not_cover_what_was_appended_replaces_nothing(world: World) -> None:
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("ready"))
    captured = world.manifest.captured
    fewer = dataclasses.replace(captured, changelogs=captured.changelogs[:1])
    save(world, dataclasses.replace(world.manifest, captured=fewer, epoch=EPOCH + 1))
    assert [refusal.code for refusal in (await world.plan()).refusals] == ["plan-open"]


# -- somebody else writes --------------------------------------------------------


def _stamped(world: World) -> None:
    world.log.put(IN, b"k", b"a zombie's", by=SENDER)


def _bare_in_changelog(world: World) -> None:
    world.log.put(LOG, b'"x"', b"666")


def _bare_in_input(world: World) -> None:
    world.log.put(IN, b"k", b"without snapkafka")


@pytest.mark.parametrize("write", [_stamped, _bare_in_changelog, _bare_in_input])
@pytest.mark.parametrize("step", ["channels", "state", "read back"])
async def test_a_record_of_somebody_else_above_the_base_is_not_committed(
    world: World, step: str, write: Callable[[World], None]
) -> None:
    """`in` has writers of the snapshot and no external records: nobody else may write there."""
    mixed = dataclasses.replace(world.manifest.captured.senders[0], topic="in", white_end=4)
    senders = (*world.manifest.captured.senders, mixed)
    captured = dataclasses.replace(world.manifest.captured, senders=senders)
    in_log = [record for record in world.log.records[IN] if wire.find(record.headers) is not None]
    world.log.records[IN][:] = [record._replace(offset=at) for at, record in enumerate(in_log)]
    agents = tuple(dataclasses.replace(p, offset=1) for p in captured.inputs[0].agents)
    inputs = (dataclasses.replace(captured.inputs[0], agents=agents), captured.inputs[1])
    save(world, dataclasses.replace(world.manifest, captured=dataclasses.replace(captured, inputs=inputs)))
    wrote = 0

    def crash(at: str) -> None:
        nonlocal wrote
        if at == step:
            wrote += 1
            write(world)

    with pytest.raises(RestoreFailedError):
        await world.restore(crash=crash)
    assert wrote == 1
    assert not world.state().restores.bases, "nothing is committed"
    assert world.admin.commits["app"] == {IN: 7, RAW: 9}
    if write is _bare_in_input:
        assert [it.code for it in (await world.plan()).refusals] == ["unstamped"]
        return
    await world.restore()
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


async def test_a_worker_that_starts_before_the_groups_are_held_is_a_reason_to_refuse(world: World) -> None:
    plan = await world.plan()
    world.admin.member_counts = [1] * 99
    before = world.fingerprint()
    with pytest.raises(RestoreRefusedError):
        await world.do(plan)
    assert world.fingerprint() == before


async def test_a_run_that_loses_its_groups_while_it_appends_appends_no_more(world: World) -> None:
    """It is suspended between two records; when it wakes up its sessions are over."""
    count = 0

    def lose(record: object) -> None:
        nonlocal count
        count += 1
        expire(world.admin)

    from snapkafka.recovery import steps

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "HOLD_EVERY", 1)
        world.log.appended = lose
        with pytest.raises(OvertakenError):
            await world.restore()
    assert count == 1
    world.log.appended = lambda record: None
    await world.restore()
    holds_the_snapshot(world)


# -- another cluster --------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
async def test_a_suspended_restore_into_a_cluster_changes_nothing_after_another_run(
    new: New, step: str
) -> None:
    asleep = Suspended(step)
    plan = await new.plan()

    async def do(**options: Any) -> Any:
        return await ops.recover(new.cluster, plan, bulk=new.log, **options)

    first = asleep.run(do)
    await asyncio.wait_for(asleep.there.wait(), 30)
    expire(new.admin)
    await new.restore()
    as_in_the_snapshot(new)
    new.admin.commits["app"] = {tp: at + 3 for tp, at in new.admin.commits["app"].items()}
    before = new.fingerprint()
    asleep.resumed.set()
    with pytest.raises(OvertakenError):
        await asyncio.wait_for(first, 30)
    assert new.fingerprint() == before


# -- forks ---------------------------------------------------------------


@pytest.mark.parametrize("step", FORK_STEPS[1:])
async def test_two_runs_of_one_fork_never_both_write_it(fork: Fork, step: str) -> None:
    """The first one sleeps until its sessions are over; the second removes its topics, and creates them anew."""
    asleep = Suspended(step)
    plan = await fork.plan()

    async def do(**options: Any) -> Any:
        return await ops.recover(fork, plan, bulk=fork.production.log, **options)

    first = asleep.run(do)
    await asyncio.wait_for(asleep.there.wait(), 30)
    production = fork.fingerprint()
    expire(fork.production.admin)
    await fork.create()
    before = (fork.fingerprint(), [fork.values(tp) for tp in (IN, RAW, OUT, LOG)])
    asleep.resumed.set()
    with pytest.raises(SnapkafkaError):
        await asyncio.wait_for(first, 30)
    assert (fork.fingerprint(), [fork.values(tp) for tp in (IN, RAW, OUT, LOG)]) == before
    assert fork.fingerprint() == production
    assert fork.values(IN) == [b"one", b"three"], "once"
    assert takes(fork, "a") == [b"one", b"three"]


@pytest.mark.parametrize("step", FORK_STEPS[1:])
async def test_a_second_run_beside_the_first_leaves_its_topics_alone(
    fork: Fork, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from snapkafka.recovery import session

    monkeypatch.setattr(session, "LEFT_BEHIND_S", 0.1)
    monkeypatch.setattr(session, "POLL_S", 0.02)
    asleep = Suspended(step)
    plan = await fork.plan()

    async def do(**options: Any) -> Any:
        return await ops.recover(fork, plan, bulk=fork.production.log, **options)

    first = asleep.run(do)
    await asyncio.wait_for(asleep.there.wait(), 30)
    topics = sorted(fork.production.admin.topics)
    with pytest.raises(SnapkafkaError):
        await fork.create()
    assert sorted(fork.production.admin.topics) == topics
    asleep.resumed.set()
    await asyncio.wait_for(first, 30)
    assert fork.values(IN) == [b"one", b"three"]
