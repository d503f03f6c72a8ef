"""Erased keys and masks on the way from a snapshot: all is examined before anything is written, and nothing erased is
written."""

from __future__ import annotations

from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.restore import Mask, Suppression
from tests.worlds.copies import Fork, New
from tests.worlds.restore import IN, LOG, RAW, SETS, CrashError, System, World, crash_at, delete, with_inputs

LONG = b"\0\0\0\0\0\0\0*"
THEIRS = """list_contains(headers->>'$[*].key', 'from') AND value IN ('two, external', '4')"""


async def refused(system: System, **options: Any) -> None:
    """The plan is, and nothing was changed."""
    before = system.fingerprint()
    for act in (system.plan, system.restore):
        with pytest.raises(BadInputError):
            await act(**options)
    assert system.fingerprint() == before


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
    done = await system.restore(suppress=Suppression(keys=("x", "1")))
    assert [rule.items for rule in done.plan.rules] == [1, 1]
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


async def test_rules_that_match_nothing_may_be_allowed(world: World) -> None:
    done = await world.restore(suppress=Suppression(keys=("x", "nobody")), allow_unmatched=True)
    assert [rule.items for rule in done.plan.rules] == [1, 0]


async def test_a_run_that_is_continued_examines_what_producers_have_sent_meanwhile(new: New) -> None:
    """They are appended once more behind what was in flight; what the first run has written is deleted."""
    with pytest.raises(CrashError):
        await new.restore(crash=crash_at("groups"))
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
