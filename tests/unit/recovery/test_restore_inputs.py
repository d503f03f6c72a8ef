"""External records that were stored with a snapshot: what a restore does when the log has them no longer."""

from __future__ import annotations

import pytest

from snapkafka.errors import RestoreRefusedError
from tests.worlds.new_cluster import New
from tests.worlds.recovery import IN, RAW, World, delete, with_inputs


async def test_a_new_cluster_gets_the_external_records_that_were_stored(new: New) -> None:
    with_inputs(new.old, ("in", 1, 7), ("raw", 2, 9))
    plan = await new.plan()
    assert (plan.messages, plan.stored, plan.state) == (2, 9, 3)
    assert {it.topic: (it.start, it.unread) for it in plan.absent} == {
        "in": (7, 0),
        "raw": (9, 0),
    }
    done = await new.restore()
    assert (done.messages, done.inputs) == (2, 9)
    assert new.taken("a") == [b"one", b"two, external", b"three", b"five, external"], (
        "in the order of the old log"
    )
    assert new.taken("b") == [b"three", b"five, external"]
    assert new.taken("c", RAW) == [b"2", b"4", b"5", b"6", b"7", b"8"], (
        "of 2 and all others but 3, which had started"
    )
    (two,) = [record for record in new.log.records[IN] if record.value == b"two, external"]
    assert two.headers[0] == ("from", b"outside")
    assert two.timestamp_ms == 2_002


async def test_what_is_not_stored_is_listed_from_there_on(new: New) -> None:
    with_inputs(new.old, ("raw", 2, 6))
    absent = {it.topic: (it.start, it.unread) for it in (await new.plan()).absent}
    assert absent == {"in": (1, 3), "raw": (6, 0)}
    with_inputs(new.old, ("raw", 3, 9))  # it began past the position: what lies before is not there
    starts = {it.topic: it.start for it in (await new.plan()).absent}
    assert starts["raw"] == 2


async def test_in_place_deleted_external_records_come_from_the_storage(world: World) -> None:
    with_inputs(world, ("in", 1, 7), ("raw", 2, 9))
    delete(world, RAW, 5)
    done = await world.restore()
    assert world.taken("a") == [b"one", b"two, external", b"three", b"five, external"]
    start = world.admin.commits["app"][RAW]
    rule = world.state().restores.rules("app", RAW)["c"]
    taken = [record.value for record in world.log.records[RAW][start:] if rule.takes(record.offset)]
    assert taken == [b"2", b"4", b"5", b"6", b"7", b"8"], (
        "those that are still there come from the log, each once"
    )
    assert (done.messages, done.inputs) == (2, 2 + 7)


async def test_in_place_what_is_still_in_the_log_is_not_appended(world: World) -> None:
    with_inputs(world, ("in", 1, 7), ("raw", 2, 9))
    await world.restore()
    assert len(world.log.records[RAW]) == 9
    assert world.admin.commits["app"][RAW] == 2


@pytest.mark.parametrize(("stored", "deleted_below"), [((), 5), ((("raw", 2, 4),), 5), ((("raw", 3, 9),), 5)])
async def test_what_is_neither_in_the_log_nor_stored_is_a_reason_to_refuse(
    world: World, stored: tuple[tuple[str, int, int], ...], deleted_below: int
) -> None:
    with_inputs(world, *stored)
    delete(world, RAW, deleted_below)
    before = world.fingerprint()
    with pytest.raises(RestoreRefusedError):
        await world.restore()
    assert world.fingerprint() == before
