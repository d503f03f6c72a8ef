"""What is written of a snapshot: nothing erased, and all is examined before; and external records are read again, from
the log or from the tables, or they are gone, and it is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from snapkafka.errors import BadInputError, ForkFailedError, ForkRefusedError, RestoreRefusedError
from snapkafka.manifest import ExternalEntry
from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.restore import Mask, Suppression
from tests.worlds.copies import Fork, New
from tests.worlds.restore import (
    EPOCH,
    IN,
    LOG,
    RAW,
    SENDER,
    SETS,
    CrashError,
    System,
    World,
    delete,
    when,
    with_inputs,
)

LONG = b"\0\0\0\0\0\0\0*"
THEIRS = """list_contains(headers->>'$[*].key', 'from') AND value IN ('two, external', '4')"""


async def refused(system: System, **options: Any) -> None:
    with pytest.raises(BadInputError):
        await system.plan(**options)


@pytest.mark.parametrize(
    "suppression",
    [
        Suppression(keys=("x", "nobody")),
        Suppression(keys=("x",), prefixes=("nobody",)),
        Suppression(sql=("value = 'nobody'",)),
        Suppression(sql=("nullif(value, 'three') = '1'",)),
    ],
)
async def test_a_rule_without_a_match_or_an_answer_is_refused(
    system: System, suppression: Suppression
) -> None:
    await refused(system, suppress=suppression)


@pytest.mark.parametrize(
    "options",
    [
        {"masks": (Mask(table="t", fields={"a": "1"}),)},
        {"masks": (Mask(topic="in", value="'*'"),)},
        {"masks": (Mask(topic="raw", value="'*'", headers="drop"),)},
        {"suppress": Suppression(keys=("e",))},
    ],
    ids=["no JSON object", "headers", "an input without records", "records that are not copied"],
)
async def test_a_fork_examines_what_it_writes(fork: Fork, options: dict[str, Any]) -> None:
    await refused(fork, **options)


async def test_nothing_of_an_erased_key_is_written(system: System) -> None:
    done = await system.restore(suppress=Suppression(keys=("x", "1", "nobody")), allow_unmatched=True)
    assert [rule.items for rule in done.plan.rules] == [1, 1, 0]
    assert (system.folded(), system.members()) == ({b'"y"': b"2"}, {2})
    if not isinstance(system, World):
        assert [(it.key, it.value) for it in system.records(LOG)] == [(b'"y"', b"2")], "no tombstone either"
        assert system.values(SETS) == [b"2"]


async def test_a_restore_keeps_erased_keys_erased(world: World) -> None:
    """In tables that were not touched since, too, and of external records where the position would only go back."""
    await world.restore(suppress=Suppression(keys=("x", "r", "k")))
    assert (world.folded(), world.members()) == ({b'"y"': b"2"}, set())
    assert world.taken("a") == [b"two, external", b"five, external"]
    assert world.positions[RAW] == 9, "every external record was of an erased key"


async def test_a_restore_examines_external_records_since_the_cut(world: World) -> None:
    """Some lie where the position alone would go back; some came a moment ago."""
    world.log.put(RAW, LONG, b"1")
    await refused(world, suppress=Suppression(keys=("x",)))
    suppression = Suppression(keys=("x", "e"), sql=(f"key_raw = unhex('{LONG.hex()}')",), binary=("raw",))
    plan = await world.plan(suppress=suppression)
    done = await world.do(plan)
    assert [rule.items for rule in done.plan.rules] == [1, 2, 1]
    assert world.taken("a") == [b"one", b"three"]
    assert LONG not in [record.key for record in world.log.records[RAW][world.positions[RAW] :]]


async def test_a_run_that_is_continued_examines_what_producers_have_sent_meanwhile(new: New) -> None:
    """They are appended once more behind what was in flight; what the first run has written is deleted."""
    with pytest.raises(CrashError):
        await new.restore(crash=when("groups"))
    new.log.put(RAW, LONG, b"1")
    await refused(new, suppress=Suppression(keys=("x",)))
    await new.restore(suppress=Suppression(keys=("x",), binary=("raw",)))
    assert new.taken("c", RAW) == [b"1"]
    assert (new.folded(), new.members()) == ({b'"y"': b"2"}, {1, 2})


async def test_stored_external_records_are_examined_and_left_out(new: New) -> None:
    with_inputs(new.old, ("in", 1, 7), ("raw", 2, 9))
    await refused(new, suppress=Suppression(keys=("nobody",), sql=(THEIRS,)))
    done = await new.restore(suppress=Suppression(sql=(THEIRS,)))
    assert [rule.items for rule in done.plan.rules] == [2]
    assert new.taken("a") == [b"one", b"three", b"five, external"]
    assert new.taken("c", RAW) == [b"2", b"5", b"6", b"7", b"8"]


async def test_in_place_those_that_the_log_has_lost_are_examined(world: World) -> None:
    with_inputs(world, ("in", 1, 7), ("raw", 2, 9))
    delete(world, RAW, 5)
    done = await world.restore(suppress=Suppression(sql=(THEIRS,)))
    assert [rule.items for rule in done.plan.rules] == [1], (
        "4 is stored, and two has another header in the log"
    )
    assert world.values(RAW)[-5:] == [b"3", b"5", b"6", b"7", b"8"]


async def test_a_fork_without_erased_keys_and_with_masks(fork: Fork) -> None:
    options: dict[str, Any] = {
        "with_inputs": True,
        "suppress": Suppression(keys=("x", "r"), sql=("value = 'three'",)),
        "masks": (Mask(table="t", value="'9'"), Mask(topic="in", value="'m'", headers="drop")),
    }
    done = await fork.restore(**options)
    assert fork.folded() == {b'"y"': b"9"}
    assert (fork.values(IN), fork.values(RAW)) == ([b"m", b"m", b"m"], [])
    assert fork.taken("b") == [b"m"], "the agent is behind what is left out"
    assert (done.messages, done.inputs) == (1, 2)


async def test_a_mask_that_fails_leaves_no_fork_that_runs(fork: Fork) -> None:
    """It fails on a record that came after all was examined."""

    def send(step: str) -> None:
        if step == "channels":
            fork.log.put(RAW, b"r", b"odd")

    mask = Mask(topic="raw", value="nullif(value, 'odd')", headers="drop")
    with pytest.raises(BadInputError):
        await fork.restore(with_inputs=True, masks=(mask,), crash=send)
    assert fork.state.restores.open is not None, "its workers wait"


STORED = (("in", 1, 7), ("raw", 2, 9))
ALL_OF_RAW = [b"%d" % number for number in range(2, 9)]
TAKEN_BY_C = [b"2", *(b"%d" % number for number in range(4, 9))]  # 3 had started


# --- Stored, or in the log --------------------------------------------------------------------------------------------


async def test_a_new_cluster_gets_the_external_records_that_were_stored(new: New) -> None:
    with_inputs(new.old, *STORED)
    plan = await new.plan()
    assert (plan.messages, plan.stored, plan.state) == (2, 9, 3)
    done = await new.restore()
    assert (done.messages, done.inputs) == (2, 9)
    assert new.taken("a") == [b"one", b"two, external", b"three", b"five, external"], "in their old order"
    assert new.taken("b") == [b"three", b"five, external"]
    assert new.taken("c", RAW) == TAKEN_BY_C
    (two,) = [record for record in new.log.records[IN] if record.value == b"two, external"]
    assert (two.headers[0], two.timestamp_ms) == (("from", b"outside"), 1_002)


@pytest.mark.parametrize("deleted", [False, True])
async def test_in_place_only_deleted_ones_come_from_the_storage(world: World, deleted: bool) -> None:
    with_inputs(world, *STORED)
    if deleted:
        delete(world, RAW, 5)
    done = await world.restore()
    world.holds_the_snapshot()
    assert [it for it in world.taken("c", RAW) if it != b"3"] == TAKEN_BY_C, "each once"
    assert (done.messages, done.inputs) == (2, 2 + 7 * deleted)
    assert len(world.log.records[RAW]) == 9 + 7 * deleted


@pytest.mark.parametrize("harm", ["nothing", "deleted", "no topic"])
async def test_a_fork_with_inputs_has_them_from_each_position_to_now(fork: Fork, harm: str) -> None:
    if harm != "nothing":
        with_inputs(fork.production, *STORED)
        delete(fork, RAW, 5)
    if harm == "no topic":
        del fork.admin.topics["raw"]
    stored = {"nothing": 0, "deleted": 3, "no topic": 7}[harm]
    assert (await fork.plan(with_inputs=True)).stored == stored
    assert (await fork.plan()).stored == 0
    done = await fork.restore(with_inputs=True)
    assert (done.messages, done.inputs) == (2, 2 + 7)
    assert fork.values(IN) == [b"one", b"two, external", b"three", b"five, external"], "nothing red"
    assert fork.values(RAW) == ALL_OF_RAW
    assert fork.taken("b") == [b"three", b"five, external"]
    assert fork.taken("c", RAW) == TAKEN_BY_C


# --- Gone -------------------------------------------------------------------------------------------------------------


def codes(plan: Any) -> list[tuple[str, bool]]:
    return [(item.code, item.forceable) for item in plan.refusals]


@pytest.mark.parametrize("stored", [(), (("raw", 2, 4),), (("raw", 3, 9),)])
async def test_what_is_neither_in_the_log_nor_stored_is_a_reason_to_refuse(
    world: World, stored: tuple[tuple[str, int, int], ...]
) -> None:
    with_inputs(world, *stored)
    delete(world, RAW, 5)
    assert codes(await world.plan()) == [("offsets-gone", False)]
    with pytest.raises(RestoreRefusedError):
        await world.restore(force=True)


def rewritten(world: World, senders: Sequence[int]) -> None:
    """Let these processes (-1: somebody outside) have written `in`; the snapshot was taken after 0 to 3."""
    world.log.records[IN].clear()
    for offset, by in enumerate(senders):
        world.log.put(IN, b"k", b"%d" % offset, by=by, epoch=EPOCH if offset > 3 else 0)
    source, raw = world.manifest.captured.inputs
    agents = tuple(dataclasses.replace(at, offset=3) for at in source.agents)
    ends = [SenderEnd(process=SENDER, topic="in", partition=0, white_end=4, last_seq=3)] * (
        SENDER in senders[:4]
    )
    world.change(
        senders=(*world.manifest.captured.senders, *ends),
        inputs=(dataclasses.replace(source, position=3, agents=agents), raw),
    )


#: A process of the snapshot, and somebody outside.
A, OUT = SENDER, -1


@pytest.mark.parametrize(
    ("senders", "below", "external", "expected"),
    [
        ((A, A, A, A, A, A), 4, (), []),  # what is gone is in flight
        ((A, A, A, A, A, A), 5, (), [("offsets-gone", True)]),
        ((A, A, A, A, A, A), 5, (ExternalEntry(topic="in", mixed=True),), [("offsets-gone", False)]),
        ((A, A, A, A, OUT, A), 5, (), [("offsets-gone", True)]),
        ((OUT, OUT, OUT, OUT, A, A, A), 6, (), [("offsets-gone", False)]),
    ],
)
async def test_what_is_gone_and_not_in_flight_may_be_forced_where_apps_write(
    world: World, senders: Any, below: int, external: Any, expected: list[tuple[str, bool]]
) -> None:
    rewritten(world, senders)
    world.change(external=external)
    delete(world, IN, below)
    assert [it for it in codes(await world.plan()) if it[0] == "offsets-gone"] == expected


async def test_readers_do_not_go_back_to_where_the_log_has_begun_since(world: World) -> None:
    """Only external records are left, so nothing would be appended; the group would be set to a deleted offset."""
    rewritten(world, (A, A, A, A, OUT, OUT))
    world.change(external=(ExternalEntry(topic="in", mixed=True),))
    delete(world, IN, 4)
    await world.restore()
    assert world.taken("a") == world.taken("b") == [b"three", b"4", b"5"]
    assert world.positions[IN] >= 6


async def test_what_lies_behind_a_hole_is_appended_again(world: World) -> None:
    """Nothing was in the hole, as the stored range tells; to go back there would set the group to a deleted offset."""
    source, raw = world.manifest.captured.inputs
    agents = tuple(dataclasses.replace(it, offset=9, started_above=()) for it in raw.agents)
    world.change(inputs=(source, dataclasses.replace(raw, position=9, agents=agents)))
    for number in (9, 10, 11):
        world.log.put(RAW, b"r", b"%d" % number)
    with_inputs(world, ("raw", 9, 12))
    delete(world, RAW, 11)
    await world.restore()
    assert world.taken("c", RAW) == [b"11"]


async def test_a_forced_doubt_appends_what_is_left(world: World) -> None:
    rewritten(world, (A, A, A, A, A, A, A, A))
    delete(world, IN, 6)
    await world.restore(force=True)
    assert world.taken("a") == [b"three"]


async def test_a_fork_with_inputs_misses_nothing_either(fork: Fork) -> None:
    plan = await fork.plan(with_inputs=True)
    with pytest.raises(ForkFailedError):
        await fork.do(plan, crash=lambda at: delete(fork, RAW, 5) if at == "channels" else None)
    await fork.drop()
    assert codes(await fork.plan(with_inputs=True)) == [("offsets-gone", False)]
    with pytest.raises(ForkRefusedError):
        await fork.restore(with_inputs=True)
    assert codes(await fork.plan()) == []


async def test_another_cluster_that_has_lost_what_came_in_is_refused(new: New) -> None:
    with pytest.raises(CrashError):
        await new.restore(crash=when("author"))
    for number in range(3):
        new.log.put(RAW, b"r", b"%d" % number)
    assert codes(await new.plan()) == []
    delete(new, RAW, 2)
    assert codes(await new.plan()) == [("offsets-gone", False)]
