"""Who runs without us: an app that is stopped (R10), and groups that may write back what they read; a cycle of apps."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from snapkafka import verbs
from snapkafka.checks.stopped_app import ran_since, stopped_app
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, TriggerRefusedError
from snapkafka.kafka.cluster.external_groups import external_readers, left_open, still_open
from snapkafka.kafka.preflight import check_trigger
from snapkafka.manifest import OpenEntry
from snapkafka.protocol import Hello, InputTopic, LedgerState, Table, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, Outsider, ProcessCut, SenderEnd
from snapkafka.protocol.offsets import NOBODY, RunsWithout, StoppedApp
from snapkafka.protocol.records import Bye
from tests.protocol.test_aligned import system
from tests.protocol.world import A, B, Process, World, settle
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeAdmin, fake_group
from tests.worlds.on_disk import read_up_to

DONE, FRESH, UNNAMED = (TopicPartition("in", partition) for partition in range(3))
STATE = TopicPartition("shop-changelog", 0)
CHANGELOG = ChangelogCut(app="shop", table="t", topic=STATE.topic, topic_id="", partition=0, end=1, process=1)
SHOP = Hello(
    n=1,
    app="shop",
    inputs=(InputTopic(topic="in", partitions=3),),
    tables=(Table(name="t", changelog=STATE.topic, partitions=1),),
    reset="latest",
)


def stopped() -> LedgerState:
    state = LedgerState()
    state.apply(0, SHOP)
    state.apply(1, Bye(process=0, n=1))
    return state


async def seen(admin: Any, ends: Mapping[TopicPartition, int] | None = None) -> StoppedApp:
    (view,) = (state := stopped()).stopped()
    return await stopped_app(admin, state, view, ends or {})


async def test_r10_what_is_committed_goes_before_the_reset_policy_and_that_before_the_beginning() -> None:
    admin = FakeAdmin(starts={DONE: 1, FRESH: 1, UNNAMED: 1}, ends={STATE: 9}, commits={"shop": {DONE: 4}})
    app = await seen(admin, {DONE: 7, FRESH: 7})
    assert [position.offset for position in app.positions] == [4, 7, 1]
    assert [(end.table, end.end) for end in app.changelogs] == [("t", 9)]


@pytest.mark.parametrize(
    "admin",
    [
        FakeAdmin(member_counts=[1, 0]),
        FakeAdmin(member_counts=[0, 1]),
        FakeAdmin(member_failure=LedgerUnusableError("not allowed to describe group shop")),
    ],
    ids=["before", "after", "unseen"],
)
async def test_r10_its_group_has_to_be_seen_empty_before_and_after(admin: FakeAdmin) -> None:
    with pytest.raises(TriggerRefusedError) as refused:
        await seen(admin)
    assert refused.value.facts["reason"] == "app-runs-without"


#: It alone, as it stood, is in a snapshot.
STOOD = replace(
    example().captured,
    epoch=2,
    processes=(),
    senders=(),
    recorded=(),
    inputs=(replace(read_up_to("in", 0, 4, topic_id=""), app="shop", receiver=NOBODY),),
    changelogs=(replace(CHANGELOG, end=9, process=NOBODY),),
)


@pytest.mark.parametrize(
    ("later", "what"),
    [
        ({}, ""),
        ({"member_counts": [1]}, "its group has members"),
        ({"commits": {"shop": {DONE: 5}}}, "its position in in[0] has moved"),
        ({"headers_at": {(STATE, 9): [("trace", b"1")]}}, "a record without our header follows its table"),
        ({"headers_at": {(STATE, 9): [("_sk", b"1")]}}, ""),
        # It was started with snapkafka since, and may have moved.
        ({"ends": {STATE: 12}, "commits": {"shop": {DONE: 8}}, "member_counts": [1], "again": True}, ""),
    ],
)
async def test_r10_an_app_that_has_run_since_is_found_by_assembly(later: dict[str, Any], what: str) -> None:
    before: dict[str, Any] = {"ends": {STATE: 9}, "commits": {"shop": {DONE: 4}}}
    state = stopped()
    if later.pop("again", False):
        state.apply(2, replace(SHOP, n=9))
    found = await ran_since(FakeAdmin(**before | later), state, STOOD)
    assert (what in found) if what else not found


ALIGNED = verbs.Trigger(align=True)


@pytest.mark.parametrize("aligned", [True, False])
def test_a_cycle_is_refused_from_the_snapshot_on_that_shows_it(aligned: bool) -> None:
    world = World()
    front, back = system(world)
    back.send(A)
    check_trigger(world.fold, ALIGNED)  # nobody knows of the cycle yet
    world.trigger(align=aligned)
    settle(front, back)
    with pytest.raises(TriggerRefusedError, check=lambda error: error.facts["reason"] == "cycle"):
        check_trigger(world.fold, ALIGNED)
    check_trigger(world.fold, verbs.Trigger())
    check_trigger(world.fold, verbs.Trigger(apps=("front",), align=True))
    world.append(Bye(process=back.id, n=78))
    Process(world, "back", (B,))
    check_trigger(world.fold, ALIGNED)  # nobody knows where the new one sends


def sent(topic: str, last_seq: int = 0) -> SenderEnd:
    return SenderEnd(process=1, topic=topic, partition=0, white_end=1, last_seq=last_seq)


INPUT = replace(read_up_to("orders", 0, 0), app="shop")
CAPTURED = replace(
    example().captured,
    processes=(ProcessCut(process=1, app="shop"),),
    inputs=(INPUT,),
    senders=(sent("bills"), sent("letters"), sent("shop-changelog"), sent("only-a-marker", last_seq=-1)),
    changelogs=(CHANGELOG,),
)


@pytest.mark.parametrize(
    ("group", "reads", "found"),
    [
        ("bank", {"bills", "elsewhere"}, ("bills",)),
        ("bank", {"letters", "bills"}, ("bills", "letters")),
        ("bank", None, ()),  # it may read anything
        ("shop", {"bills"}, None),  # an app of the snapshot
        ("neighbour", {"bills"}, None),  # out of its scope, and it turned red for it all the same
        ("once", {"bills"}, ("bills",)),  # it ran with snapkafka once, and does so no more
        ("snapkafka.ns.shop", {"bills"}, None),  # positions that we have committed ourselves
        ("bank", {"orders"}, None),  # an input that nobody of ours writes to
        ("bank", {"shop-changelog"}, None),
        ("bank", {"only-a-marker"}, None),
        ("archive", {"bills"}, None),  # said to write nothing back
    ],
)
async def test_external_readers(group: str, reads: set[str] | None, found: tuple[str, ...] | None) -> None:
    """Groups that read outputs without snapkafka."""
    admin = FakeAdmin(known_groups=[fake_group(group, None if reads is None else frozenset(reads))])
    neighbours = (Outsider(process=2, app="neighbour", cut=True), Outsider(process=3, app="once", left=True))
    seen = await external_readers(admin, replace(CAPTURED, outsiders=neighbours), sinks=["archive"])
    assert seen == (() if found is None else (OpenEntry(group=group, topics=found),))


@pytest.mark.parametrize(
    ("reads", "sinks", "found"),
    [
        (("bills", "orders"), (), ("bills",)),
        ((), (), ()),
        (("orders",), (), None),
        (("bills",), ("relay",), None),
    ],
)
async def test_who_ran_without_taking_part_at_the_trigger_counts_though_it_is_away(
    reads: tuple[str, ...], sinks: tuple[str, ...], found: tuple[str, ...] | None
) -> None:
    captured = replace(
        CAPTURED,
        run_without=(RunsWithout(app="relay", topics=reads),),
        outsiders=(Outsider(process=2, app="relay", cut=True),),  # another worker of it takes part
    )
    for admin in (FakeAdmin(), FakeAdmin(known_groups=[fake_group("relay", frozenset({"bills"}))])):
        seen = await external_readers(admin, captured, sinks=sinks)
        assert seen == (() if found is None else (OpenEntry(group="relay", topics=found),))


@pytest.mark.parametrize("why", [LedgerUnusableError("no right"), BrokerUnavailableError("gone")])
async def test_groups_that_cannot_be_seen_are_no_proof_that_there_are_none(why: Exception) -> None:
    (entry,) = await external_readers(FakeAdmin(failure=why), CAPTURED)
    assert entry == OpenEntry(group="")
    assert "DESCRIBE" in next(left_open([entry], (), (), strict=False))
    assert await external_readers(FakeAdmin(failure=why), CAPTURED, sinks=["*"]) == (), "nobody writes back"


def test_an_earlier_look_counts_unless_it_has_seen_nothing() -> None:
    bank, till, unseen = (OpenEntry(group=name) for name in ("bank", "till", ""))
    assert still_open([bank, till], [till], []) == (bank, till)
    assert still_open([bank, till], [], ["bank"]) == (till,)
    assert still_open([unseen], [till], []) == (till,), "they could not be seen then, and can be now"
    assert still_open([bank], [unseen], []) == (bank, unseen)
    assert still_open([bank], [], ["*"]) == ()
