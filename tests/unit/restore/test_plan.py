"""The plan of a recovery: positions, what is created, what is not there, and what changes until it is confirmed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from unittest.mock import AsyncMock

import pytest

from snapkafka.errors import LedgerUnusableError, PlanChangedError, RestoreFailedError, UnknownSnapshotError
from snapkafka.manifest import ExternalEntry
from snapkafka.ports import Group, Topic
from snapkafka.protocol import Restore, TopicPartition, Uncaptured
from snapkafka.protocol.offsets import Position
from snapkafka.restore import Carried, topics
from snapkafka.restore.state import Appended, moved
from snapkafka.restore.topics import ENDLESS, Contents
from snapkafka.units import DAY_MS
from tests.worlds.copies import ALL, Fork, New
from tests.worlds.restore import EPOCH, IN, LOG, OUT, RAW, SENDER, SETS, World, captured, delete, with_inputs

# --- Positions --------------------------------------------------------------------------------------------------------


def position(offset: int, *above: int) -> Position:
    return Position(agent="a", topic="in", partition=0, offset=offset, started_above=above)


@pytest.mark.parametrize(
    ("old", "appended", "new"),
    [
        (position(5), [], (100, ())),
        (position(1), [(1, 100), (3, 101)], (100, ())),
        (position(3), [(1, 100), (3, 101)], (101, ())),
        (position(4), [(1, 100), (3, 101)], (102, ())),
        (position(1, 3), [(1, 100), (3, 101), (4, 102)], (100, (101,))),
        (position(3), [(1, 101), (3, 102)], (100, (101,))),  # somebody else appended at 100 meanwhile
        (position(4), [(1, 100), (3, 102)], (101, (102,))),
    ],
)
def test_a_position_is_translated_and_skips_nothing_of_others(
    old: Position, appended: list[tuple[int, int]], new: tuple[int, tuple[int, ...]]
) -> None:
    assert moved(old, 100, [Appended(*item) for item in appended]) == new


# --- What it shows ----------------------------------------------------------------------------------------------------


async def test_a_plan_shows_moves_and_outputs_that_cannot_be_undone(world: World) -> None:
    world.log.removed = {(RAW, offset) for offset in (2, 4, 5, 6, 7)}  # by compaction
    senders = world.manifest.captured.senders
    world.change(senders=(*senders, *(dataclasses.replace(it, process=9, white_end=2) for it in senders)))
    reads = {"archive": "in", "elsewhere": "raw", "snapkafka.x": "in"}
    world.admin.groups = AsyncMock(return_value=[Group(name, frozenset({it})) for name, it in reads.items()])  # type: ignore[method-assign]
    plan = await world.plan()
    assert (plan.refusals, plan.messages, plan.state, plan.read_again_by) == ((), 2, 3, ("archive",))
    moves = {it.topic: (it.before, it.after, it.appends, it.again) for it in plan.moves}
    assert moves == {"in": (7, None, 4, 4), "raw": (9, 2, 0, 2)}
    assert [(item.topic, item.start, item.end) for item in plan.irrevocable] == [("out", 1, 3)]


async def test_a_plan_for_another_cluster_lists_what_is_created_and_what_is_not_there(new: New) -> None:
    new.old.change(uncaptured=(Uncaptured(app="app", what="a counter in a module"),))
    new.admin.topics[OUT.topic] = Topic(1)
    plan = await new.plan()
    assert (plan.refusals, plan.existing) == ((), (OUT.topic,))
    assert sorted(it.topic for it in plan.topics) == sorted(tp.topic for tp in ALL if tp != OUT)
    assert (plan.messages, plan.state) == (2, 3)
    absent = {it.topic: it.records for it in plan.absent}
    assert absent == {"in": 1, "raw": 1}, "neither what is in flight nor what had started"
    assert len(plan.notes) == 2, "what no snapshot holds, and code that has not run here"
    done = await new.restore()
    assert sorted(done.topics) == sorted(it.topic for it in plan.topics), "it is taken as it is"
    assert new.admin.settings[LOG.topic] == {"cleanup.policy": "compact", "segment.ms": "7"}


async def test_what_is_stored_or_comes_from_no_outsider_is_not_absent(new: New) -> None:
    assert {it.topic for it in (await new.plan()).absent} == {"in", "raw"}
    for stored, absent in (
        ((("in", 1, 7), ("raw", 2, 9)), {}),
        ((("raw", 2, 6),), {"in": 1}),
        ((("raw", 3, 9),), {"in": 1, "raw": 1}),  # it began past the position
    ):
        with_inputs(new.old, *stored)
        assert {it.topic: it.records for it in (await new.plan()).absent} == absent
    sender = dataclasses.replace(new.old.manifest.captured.senders[0], topic="in", white_end=4)
    new.old.change(senders=(sender,), external=())
    assert {it.topic for it in (await new.plan()).absent} == {"raw"}


async def test_topics_of_a_fork_have_the_settings_that_were_recorded(fork: Fork) -> None:
    """Where they do not delete what is old already."""
    with_inputs(fork.production, ("in", 1, 7), ("raw", 2, 9))
    delete(fork.production, RAW, 5)
    brief = {"cleanup.policy": "delete", "retention.ms": "1000"}
    topics = fork.production.manifest.topics
    fork.production.change(
        topics=tuple(dataclasses.replace(it, settings=brief if it.name == "raw" else {}) for it in topics)
    )
    changed = {it.of: it.changed for it in (await fork.plan(with_inputs=True)).topics}
    assert changed["raw"] == {"retention.ms": "-1"}
    await fork.restore()
    assert fork.admin.settings[fork.named(LOG).topic] == {"cleanup.policy": "compact"}


# --- Until it is confirmed --------------------------------------------------------------------------------------------

OTHER = Restore(n=99, plan="other", stage="begun", snapshot="friday", epoch=EPOCH, apps=("app",))


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.change(content="f" * 64),
        lambda world: world.log.put(OUT, b"o", b"more", by=SENDER),
        lambda world: world.positions.update({IN: 8}),
        lambda world: world.cluster.the_ledger.put(OTHER),
        lambda world: world.admin.topics.pop("raw"),
    ],
    ids=["another manifest", "outputs", "events ran", "another restore", "a topic is gone"],
)
async def test_what_changes_between_the_question_and_the_answer_is_refused(
    world: World, change: Callable[[World], object]
) -> None:
    plan = await world.plan()
    change(world)
    with pytest.raises(PlanChangedError):
        await world.do(plan)


async def test_external_records_that_arrive_meanwhile_are_no_other_plan(world: World) -> None:
    plan = await world.plan()
    world.log.put(IN, b"e", b"six, external")
    world.log.put(RAW, b"r", b"9")
    await world.do(plan)
    assert world.taken("a") == [*world.takes["a"], b"six, external"]


async def test_latest_is_the_snapshot_that_was_shown(world: World) -> None:
    """`keep` verifies another one while the question stands."""
    plan = await world.plan(name="latest")
    text = world.store.manifest_path("friday").read_text()
    world.store.manifest_path("monday").write_text(
        text.replace('"friday"', '"monday"').replace(f'"epoch": {EPOCH}', f'"epoch": {EPOCH + 9}')
    )
    assert (await world.plan(name="latest")).snapshot == "monday"
    done = await world.do(plan)
    assert (done.plan.snapshot, done.plan.epoch) == ("friday", EPOCH)
    world.store.manifest_path("friday").unlink()
    with pytest.raises(UnknownSnapshotError):
        await world.plan()


# --- Settings ---------------------------------------------------------------------------------------------------------

BEFORE, AFTER, APART = (f"message.timestamp.{it}.max.ms" for it in ("before", "after", "difference"))
#: What holds for a topic that was created without settings on Kafka 4.0.
DEFAULTS = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY_MS),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    BEFORE: ENDLESS,
    AFTER: "3600000",
}
NOW = 100 * DAY_MS


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the clock stand still."""
    monkeypatch.setattr(topics, "wall_ms", lambda: NOW)


def carried(age_ms: int = 0, ahead_ms: int = 0, largest: int = 100, records: int = 1) -> Carried:
    times = NOW - age_ms, NOW + ahead_ms
    return Carried(records, largest * records, *times, largest if records else 0)


OLD = carried(age_ms=30 * DAY_MS)
COMPACTED = {"cleanup.policy": "compact"}
BOTH = {"cleanup.policy": "compact,delete"}
SECONDS = {"retention.ms": "1000"}
ENDLESS_SETS = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
#: What is carried into `in`, its settings, those that were recorded (None: it is there already), and what is changed.
INPUT: list[tuple[Carried, dict[str, str], dict[str, str] | None, dict[str, str]]] = [
    (carried(), {}, {}, {}),
    (carried(age_ms=6 * DAY_MS - 1), {}, {}, {}),
    (carried(age_ms=6 * DAY_MS + 1), {}, {}, {"retention.ms": "-1"}),
    (carried(age_ms=6 * DAY_MS + 1), {}, None, {}),  # it has no time to catch up
    (OLD, {"retention.ms": "-1"}, {}, {}),
    (carried(age_ms=300), SECONDS, {}, {}),
    (carried(age_ms=501), SECONDS, {}, {"retention.ms": "-1"}),
    (OLD, {"message.timestamp.type": "LogAppendTime"}, {}, {}),
    (carried(ahead_ms=3_600_001), {}, {}, {AFTER: ENDLESS}),
    (carried(ahead_ms=3_600_000), {}, {}, {}),
    (carried(age_ms=2), {BEFORE: "1"}, {}, {BEFORE: ENDLESS}),
    (carried(age_ms=2), {APART: "1"}, {}, {APART: ENDLESS}),
    (carried(largest=1_048_500), {}, {}, {"max.message.bytes": "1048632"}),
    (carried(records=10), {"retention.bytes": "2000"}, {}, {"retention.bytes": "-1"}),
    (carried(records=10), {"retention.bytes": "3000"}, {}, {}),
    (carried(), COMPACTED, {}, {"cleanup.policy": "delete"}),
    (carried(records=0), COMPACTED | {"retention.ms": "1"}, {}, {}),
    (OLD, COMPACTED, COMPACTED, {}),
    (OLD, COMPACTED, None, {}),
    (OLD, BOTH, BOTH, {"retention.ms": "-1"}),
]
#: A changelog, its settings, its largest row, and what is changed. A windowed table of Faust has `compact,delete` with
#: a retention of seconds; of a set compaction would keep one member.
CHANGELOGS: list[tuple[TopicPartition, dict[str, str], int, dict[str, str]]] = [
    *((LOG, SECONDS | {"cleanup.policy": policy}, 10, COMPACTED) for policy in ("delete", "delete,compact")),
    (LOG, SECONDS | BOTH, 10, COMPACTED),
    (LOG, COMPACTED, 1_048_588, {"max.message.bytes": "1048720"}),
    (SETS, {}, 10, {"retention.ms": "-1"}),
    (SETS, COMPACTED | {"retention.bytes": "1000"}, 10, ENDLESS_SETS),
]


@pytest.mark.parametrize(("found", "settings", "recorded", "expected"), INPUT)
def test_what_would_lose_or_refuse_messages_is_changed_and_nothing_else(
    found: Carried, settings: dict[str, str], recorded: dict[str, str] | None, expected: dict[str, str]
) -> None:
    contents = Contents(captured=captured(), carried={"in": found}, largest={})
    assert contents.changes("in", DEFAULTS | settings, recorded=recorded) == expected


@pytest.mark.parametrize(("tp", "settings", "largest", "expected"), CHANGELOGS)
def test_a_changelog_is_compacted_and_that_of_sets_keeps_every_record(
    tp: TopicPartition, settings: dict[str, str], largest: int, expected: dict[str, str]
) -> None:
    contents = Contents(captured=captured(), carried={"in": Carried()}, largest={tp.topic: largest})
    assert contents.changes(tp.topic, DEFAULTS | settings, recorded={}) == expected
    assert expected != COMPACTED or contents.changes(tp.topic, DEFAULTS | BOTH, recorded=None) == {}


async def test_batches_are_no_larger_than_any_topic_takes(world: World, fork: Fork) -> None:
    """A broker refuses a larger one, however small its records are."""
    topics = world.manifest.topics
    for limit, batch in (("1048588", 1_000_000), ("50000", 49_500)):
        world.admin.settings["in"]["max.message.bytes"] = limit
        world.change(
            topics=tuple(dataclasses.replace(it, settings={"max.message.bytes": limit}) for it in topics)
        )
        for system in (world, fork):
            world.log.batch_bytes = 0
            await system.plan()
            assert world.log.batch_bytes == batch


@pytest.mark.parametrize("authorized", [True, False])
async def test_what_the_defaults_of_the_new_brokers_would_delete_is_kept(
    new: New, monkeypatch: pytest.MonkeyPatch, authorized: bool
) -> None:
    """Messages of 1970, a topic without settings of its own, and Kafka's seven days."""
    bare = tuple(dataclasses.replace(it, settings={}) for it in new.old.manifest.topics)
    new.old.change(topics=bare, external=(ExternalEntry(topic="raw", mixed=False),))
    if not authorized:  # then the topics that were created tell, before anything is appended
        monkeypatch.setattr(
            new.admin, "topic_defaults", AsyncMock(side_effect=LedgerUnusableError("no right"))
        )
        with pytest.raises(RestoreFailedError):
            await new.restore()
        assert not any(new.log.records.values())
        return
    changed = {it.topic: it.changed for it in (await new.plan()).topics}
    assert (changed["in"], changed[LOG.topic]) == ({"retention.ms": "-1"}, {"cleanup.policy": "compact"})
    await new.restore()
    new.holds_the_snapshot()
