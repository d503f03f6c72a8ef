"""R10: positions of an app that does not run, by what the broker and the trigger say; and a cycle of apps."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from snapkafka import verbs
from snapkafka.checks.stopped_app import ran_since, stopped_app
from snapkafka.errors import LedgerUnusableError, TriggerRefusedError
from snapkafka.kafka.preflight import check_trigger
from snapkafka.protocol import (
    NOBODY,
    Bye,
    Captured,
    ChangelogCut,
    Hello,
    InputTopic,
    LedgerRecord,
    LedgerState,
    StoppedApp,
    Table,
    TopicPartition,
    Trigger,
)
from tests.protocol.test_aligned import system
from tests.protocol.world import A, B, Process, World, settle
from tests.unit.base.test_manifest import example
from tests.worlds.fakes import FakeAdmin
from tests.worlds.on_disk import read_up_to

DONE, FRESH, UNNAMED = (TopicPartition("in", partition) for partition in range(3))
STATE = TopicPartition("shop-changelog", 0)
SHOP = Hello(
    n=1,
    app="shop",
    inputs=(InputTopic(topic="in", partitions=3),),
    tables=(Table(name="t", changelog=STATE.topic, partitions=1),),
    reset="latest",
)
OTHER = Hello(n=2, app="other", inputs=(InputTopic(topic="else", partitions=0),))


def stopped() -> LedgerState:
    state = LedgerState()
    records: tuple[LedgerRecord, ...] = (SHOP, Bye(process=0, n=1), OTHER)
    for offset, record in enumerate(records):
        state.apply(offset, record)
    return state


async def seen(admin: Any, ends: Mapping[TopicPartition, int] | None = None) -> StoppedApp:
    state = stopped()
    (view,) = (view for view in state.stopped() if view.hello.app == "shop")
    return await stopped_app(admin, state, view, ends or {})


async def test_r10_what_is_committed_goes_before_the_reset_policy_and_that_before_the_beginning() -> None:
    admin = FakeAdmin(starts={DONE: 1, FRESH: 1, UNNAMED: 1}, ends={STATE: 9}, commits={"shop": {DONE: 4}})
    app = await seen(admin, {DONE: 7, FRESH: 7})
    assert [position.offset for position in app.positions] == [4, 7, 1]
    assert [(end.table, end.end) for end in app.changelogs] == [("t", 9)]


@pytest.mark.parametrize("counts", [[1, 0], [0, 1]])
async def test_r10_its_group_is_looked_at_before_and_after(counts: list[int]) -> None:
    admin = FakeAdmin(member_counts=list(counts))
    with pytest.raises(TriggerRefusedError, match="runs without snapkafka"):
        await seen(admin)
    assert admin.asked_members == ["shop"] * (counts.index(1) + 1)


async def test_r10_a_group_that_cannot_be_seen_is_not_taken_for_an_empty_one() -> None:
    failure = LedgerUnusableError("not allowed to describe group shop", hint="ask")
    with pytest.raises(TriggerRefusedError) as refused:
        await seen(FakeAdmin(member_failure=failure))
    assert (refused.value.facts["reason"], refused.value.hint) == ("app-runs-without", "ask")


def captured(state: LedgerState, app: StoppedApp) -> Captured:
    """A snapshot of the app alone."""
    epoch = state.end + 1
    state.apply(state.end, Trigger(n=7, id="s", stopped=(app,)))
    inputs = tuple(
        replace(read_up_to(p.topic, p.partition, p.offset, topic_id=""), app=app.app, receiver=NOBODY)
        for p in app.positions
    )
    changelogs = tuple(
        ChangelogCut(app=app.app, topic_id="", process=NOBODY, **asdict(changelog))
        for changelog in app.changelogs
    )
    cut = replace(example().captured, epoch=epoch, processes=(), senders=(), recorded=())
    return replace(cut, inputs=inputs, changelogs=changelogs)


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
async def test_r10_an_app_that_has_run_since_is_found_out_by_assembly(
    later: dict[str, Any], what: str
) -> None:
    before: dict[str, Any] = {"ends": {STATE: 9}, "commits": {"shop": {DONE: 4}}}
    state, app = stopped(), await seen(FakeAdmin(**before))
    snapshot = captured(state, app)
    if later.pop("again", False):
        state.apply(state.end, replace(SHOP, n=9))
    found = await ran_since(FakeAdmin(**before | later), state, snapshot)
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
