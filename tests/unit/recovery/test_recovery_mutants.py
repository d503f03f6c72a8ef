"""What goes wrong without each guard of a recovery: the guard is taken away, and the harm is seen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import SnapkafkaError
from snapkafka.protocol import RestoreView
from snapkafka.recovery import recovery, steps
from snapkafka.recovery.appending import read_back
from snapkafka.recovery.finish import Commit
from tests.unit.recovery.test_second_operator import Suspended, expire, pausing
from tests.worlds.fakes import FakeHold
from tests.worlds.forks import Fork
from tests.worlds.recovery import IN, LOG, RAW, CrashError, World, crash_at

__all__ = ["pausing"]


async def _mine(run: Any) -> None:
    await run.work.catch_up()


def no_fence(patch: pytest.MonkeyPatch) -> None:
    """A run looks neither at the ledger nor at its holds before it sets offsets."""

    async def commit(hold: FakeHold, positions: Any, note: str) -> None:
        hold.admin.commits.setdefault(hold.group, {}).update(positions)

    patch.setattr(Commit, "require_mine", _mine)
    patch.setattr(FakeHold, "commit", commit)


async def test_without_the_fence_a_run_that_was_suspended_sets_the_groups_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_fence(monkeypatch)
    asleep = Suspended("groups")
    plan = await world.plan()
    first = asleep.run(lambda **options: world.do(plan, **options))
    await asyncio.wait_for(asleep.there.wait(), 30)
    expire(world.admin)
    await world.restore()
    positions = {tp: at + 30 for tp, at in world.admin.commits["app"].items()}
    world.admin.commits["app"] = dict(positions)
    asleep.resumed.set()
    await asyncio.wait_for(first, 30)
    assert world.admin.commits["app"] != positions, "30 events run twice"


async def test_without_the_lease_a_second_run_removes_the_topics_of_the_first(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def acquire(hold: FakeHold) -> None:
        hold.admin.held[hold.group] = hold

    monkeypatch.setattr(FakeHold, "acquire", acquire)
    asleep = Suspended("channels")
    plan = await fork.plan()

    async def do(**options: Any) -> Any:
        return await ops.recover(fork, plan, bulk=fork.production.log, **options)

    first = asleep.run(do)
    await asyncio.wait_for(asleep.there.wait(), 30)
    made = {
        name: it.topic_id for name, it in fork.production.admin.topics.items() if name.startswith("fork.")
    }
    await fork.create()
    now = {name: it.topic_id for name, it in fork.production.admin.topics.items() if name.startswith("fork.")}
    assert all(made[name] != topic_id for name, topic_id in now.items() if name in made)
    asleep.resumed.set()
    with pytest.raises(SnapkafkaError):
        await asyncio.wait_for(first, 30)


async def test_without_the_pinned_plan_something_else_is_done_than_was_confirmed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "raise_changed", lambda confirmed, now: None)
    plan = await world.plan()
    world.admin.commits["app"][RAW] += 5
    await world.do(plan)
    assert next(move.before for move in plan.moves if move.topic == "raw") == 9
    assert world.admin.commits["app"][RAW] == 2, "5 events more than were shown run again"


async def test_where_an_abort_forgets_what_was_appended_messages_are_taken_in_twice(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RestoreView, "leaves", frozenset())
    with pytest.raises(CrashError):
        await world.restore(crash=crash_at("ready"))
    await ops.abort_restore(world.cluster, "shop", reason="a test")
    assert world.state().restores.open is None, "workers start"
    unread = [record.value for record in world.log.records[IN][world.admin.commits["app"][IN] :]]
    assert unread == [b"one", b"two, external", b"three", b"five, external"], "all of these were processed"
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}, "and the table is that of the snapshot"


async def test_where_others_may_write_during_a_restore_it_commits_what_it_did_not_write(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        steps,
        "read_back",
        lambda records, author, expected, *_, timed: read_back(records, author, None, lambda record: True),
    )

    async def uncompared(run: Any) -> None:
        """The second net, which the first one is tried without."""

    monkeypatch.setattr(steps.RecoveryRun, "_compare", uncompared)

    def crash(at: str) -> None:
        if at == "read back":
            world.log.put(LOG, b'"x"', b"666")

    await world.restore(crash=crash)
    assert world.folded()[b'"x"'] == b"666"


async def test_where_a_group_with_workers_can_be_held_a_restore_begins_beside_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.admin, "busy", lambda group: False)
    plan = await world.plan()
    world.admin.member_counts = [1] * 99
    await world.do(plan)
    assert world.state().restores.views[plan.plan].stage == "done", "beside workers that run"
