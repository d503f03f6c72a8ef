"""Erased keys and masks are examined before a restore or a fork writes anything, and nothing erased is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from snapkafka.errors import BadInputError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import TopicPartition
from snapkafka.recovery import Mask, Suppression
from tests.worlds.forks import takes
from tests.worlds.new_cluster import New
from tests.worlds.recovery import LOG, RAW, World, delete, with_inputs

LONG = b"\0\0\0\0\0\0\0*"
REFUSED = [
    (Suppression(keys=("x", "nobody")), "holds nothing for key nobody"),
    (Suppression(keys=("x",), prefixes=("nobody",)), "holds nothing for prefix nobody"),
    (Suppression(sql=("value = 'nobody'",)), "holds nothing for sql value = 'nobody'"),
    (Suppression(sql=("nullif(value, 'three') = '1'",)), "is NULL for a record of topic in"),
]


class CrashError(Exception):
    """The end of a run."""


def crash_at(step: str) -> Callable[[str], None]:
    """End a run before a step."""

    def crash(at: str) -> None:
        if at == step:
            raise CrashError

    return crash


def holds(records: Iterable[KafkaRecord], text: bytes) -> bool:
    """Is a text anywhere in records: in a key, a value or a header?"""
    return any(
        text in (part or b"") for it in records for part in (it.key, it.value, *(of for _, of in it.headers))
    )


# --- In place --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suppression", "what"), REFUSED)
async def test_a_restore_examines_before_it_writes(world: World, suppression: Suppression, what: str) -> None:
    before = world.fingerprint()
    with pytest.raises(BadInputError, match=what):
        await world.restore(suppress=suppression)
    with pytest.raises(BadInputError, match=what):
        await world.plan(suppress=suppression)
    assert world.fingerprint() == before


async def test_a_restore_examines_external_records_since_the_cut(world: World) -> None:
    """Some lie where the position alone would go back; some came a moment ago."""
    world.log.put(RAW, LONG, b"1")
    before = world.fingerprint()
    with pytest.raises(BadInputError):
        await world.restore(suppress=Suppression(keys=("x",)))
    assert world.fingerprint() == before
    suppression = Suppression(keys=("x", "e"), sql=(f"key_raw = unhex('{LONG.hex()}')",), binary=("raw",))
    plan = await world.plan(suppress=suppression)
    assert [(rule.rule, rule.items) for rule in plan.rules][:2] == [("x", 1), ("e", 2)]
    done = await world.restore(suppress=suppression)
    assert done.rules == plan.rules
    assert [rule.items for rule in done.rules] == [1, 2, 1]
    assert done.suppressed == 4, "what was planned and examined does not count"
    assert world.taken("a") == [b"one", b"three"]
    end = world.admin.commits["app"][RAW]
    assert not holds(world.log.records[RAW][end:], LONG), "its records are not read again"


async def test_rules_that_match_nothing_may_be_allowed(world: World) -> None:
    done = await world.restore(suppress=Suppression(keys=("x", "nobody")), allow_unmatched=True)
    assert [rule.items for rule in done.rules] == [1, 0]
    assert world.folded() == {b'"y"': b"2"}


async def test_a_restore_that_was_committed_is_finished_without_another_examination(world: World) -> None:
    """Its logs may have gone on since."""
    with pytest.raises(CrashError):
        await world.restore(suppress=Suppression(keys=("x",)), crash=crash_at("groups"))
    world.log.put(RAW, LONG, b"1")
    done = await world.restore(suppress=Suppression(keys=("x",)))
    assert done.resumed
    assert world.state().restores.open is None


async def test_members_of_a_set_stay_erased(world: World) -> None:
    """The one that was touched since, and the one that was not."""
    await world.restore(suppress=Suppression(keys=("1",)))
    assert world.members() == {2}
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


# --- Into another cluster --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("suppression", "what"), REFUSED)
async def test_a_restore_into_examines_before_it_writes(
    new: New, suppression: Suppression, what: str
) -> None:
    before = new.fingerprint()
    with pytest.raises(BadInputError, match=what):
        await new.restore(suppress=suppression)
    with pytest.raises(BadInputError, match=what):
        await new.plan(suppress=suppression)
    assert new.fingerprint() == before


async def test_nothing_of_an_erased_key_is_written_into_another_cluster(new: New) -> None:
    """Not even the tombstone that deletes it: there is nothing to delete."""
    done = await new.restore(suppress=Suppression(keys=("x", "1")))
    assert [rule.items for rule in done.rules] == [1, 1]
    assert [(record.key, record.value) for record in new.log.records[LOG]] == [(b'"y"', b"2")]
    assert new.folded() == ({b'"y"': b"2"}, {2})
    members = [record.value for record in new.log.records[TopicPartition("app-s-changelog", 0)]]
    assert members == [b"2"]


async def test_records_that_producers_have_sent_into_the_new_cluster_are_examined(new: New) -> None:
    """Before a run that was killed is continued: they are appended once more behind what was in flight."""
    with pytest.raises(CrashError):
        await new.restore(crash=crash_at("ready"))
    new.log.put(RAW, LONG, b"1")
    before = new.fingerprint()
    with pytest.raises(BadInputError):
        await new.restore(suppress=Suppression(keys=("x",)))
    assert new.fingerprint() == before
    await new.restore(suppress=Suppression(keys=("x",), binary=("raw",)))
    assert new.taken("c", RAW) == [b"1"]
    assert new.folded() == ({b'"y"': b"2"}, {1, 2}), "what the first run had written is deleted"


# --- Stored external records -----------------------------------------------------------------------------------------


THEIRS = """list_contains(headers->>'$[*].key', 'from') AND value IN ('two, external', '4')"""


async def test_stored_external_records_are_examined_and_left_out_of_another_cluster(new: New) -> None:
    with_inputs(new.old, ("in", 1, 7), ("raw", 2, 9))
    before = new.fingerprint()
    with pytest.raises(BadInputError):
        await new.restore(suppress=Suppression(keys=("nobody",), sql=(THEIRS,)))
    assert new.fingerprint() == before
    done = await new.restore(suppress=Suppression(sql=(THEIRS,)))
    assert [rule.items for rule in done.rules] == [2]
    assert new.taken("a") == [b"one", b"three", b"five, external"]
    assert new.taken("c", RAW) == [b"2", b"5", b"6", b"7", b"8"]


async def test_stored_external_records_that_the_log_has_lost_are_examined_in_place(world: World) -> None:
    with_inputs(world, ("in", 1, 7), ("raw", 2, 9))
    delete(world, RAW, 5)
    done = await world.restore(suppress=Suppression(sql=(THEIRS,)))
    assert [rule.items for rule in done.rules] == [1], (
        "4 is from the storage, and two has another header in the log"
    )
    start = world.admin.commits["app"][RAW]
    read = [record.value for record in world.log.records[RAW][start:]]
    assert b"4" not in read
    assert read[-5:] == [b"3", b"5", b"6", b"7", b"8"]
    assert world.taken("a")[:2] == [b"one", b"two, external"]


# --- A fork ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "what"),
    [
        *(({"suppress": suppression}, what) for suppression, what in REFUSED),
        ({"masks": (Mask(table="t", fields={"a": "1"}),)}, "it is not a JSON object"),
        ({"masks": (Mask(topic="in", value="'*'"),)}, "has a header trace"),
        (
            {"masks": (Mask(topic="raw", value="'*'", headers="drop"),)},
            "nothing for value in the mask of topic raw",
        ),
        ({"suppress": Suppression(keys=("e",))}, "holds nothing for key e"),
    ],
)
async def test_a_fork_examines_before_it_writes(fork: Any, options: dict[str, Any], what: str) -> None:
    before, topics = fork.fingerprint(), {*fork.production.admin.topics}
    with pytest.raises(BadInputError, match=what):
        await fork.create(**options)
    with pytest.raises(BadInputError, match=what):
        await fork.plan(**options)
    assert fork.fingerprint() == before
    assert {*fork.production.admin.topics} == topics
    assert not fork.ledgers


async def test_a_fork_examines_the_external_records_that_it_copies(fork: Any) -> None:
    options: dict[str, Any] = {
        "with_inputs": True,
        "suppress": Suppression(keys=("e",)),
        "masks": (Mask(topic="raw", value="'*'", headers="drop"),),
    }
    plan = await fork.plan(**options)
    done = await fork.create(**options)
    assert done.rules == plan.rules
    assert [(rule.rule, rule.items) for rule in done.rules] == [("e", 2), ("value", 7)]
    assert takes(fork, "c", RAW) == [b"*"] * 6
    assert not holds(fork.production.log.records[TopicPartition("fork.staging.in", 0)], b"external")


async def test_a_fork_that_would_copy_what_cannot_be_examined_is_not_begun(fork: Any) -> None:
    fork.production.log.put(RAW, LONG, b"1")
    for act in (fork.create, fork.plan):
        with pytest.raises(BadInputError):
            await act(with_inputs=True, suppress=Suppression(keys=("x",)))
    assert not fork.ledgers
    done = await fork.create(suppress=Suppression(keys=("x",)))
    assert done.suppressed == 1, "without inputs nothing of that topic is copied"
