"""A recovery on logs in memory, in place, in another cluster and as a fork: what comes of it, a crash at every step,
other writers, and the removal of a fork."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import (
    ForkFailedError,
    ForkRefusedError,
    RestoreFailedError,
    RestoreRefusedError,
    SnapkafkaError,
)
from snapkafka.kafka import KafkaRecord
from snapkafka.ports import Topic
from snapkafka.protocol import Restore, TopicPartition
from snapkafka.restore import steps
from snapkafka.wire import headers as wire
from tests.worlds.copies import NEW_LEDGER, Fork, New
from tests.worlds.logs import LEDGER
from tests.worlds.restore import (
    EPOCH,
    IN,
    LOG,
    OUT,
    RAW,
    SENDER,
    SETS,
    STEPS,
    CrashError,
    System,
    World,
    delete,
    when,
)

# --- What comes of it -------------------------------------------------------------------------------------------------


async def test_a_system_goes_on_from_the_snapshot(system: System) -> None:
    reached: list[str] = []
    before = {tp: len(found) for tp, found in system.log.records.items()}
    original = system.original() if isinstance(system, Fork) else None
    done = await system.restore(crash=reached.append)
    assert tuple(dict.fromkeys(reached)) == ("begun", *STEPS)
    system.holds_the_snapshot()
    in_place = isinstance(system, World)
    assert (done.messages, done.inputs, done.state) == ((2, 2, 5) if in_place else (2, 0, 4))
    assert system.positions[system.named(RAW)] == (2 if in_place else 0)
    assert system.admin.noted == {f"snapkafka:{done.plan.plan}"}
    state = system.state
    assert state.restores.open is None and not list(state.living()), "the tool has left"
    base = before.get(system.named(IN), 0)
    assert state.restores.bases[system.named(IN)].end == base
    inputs_and_tables = {system.named(tp).topic for tp in (IN, RAW, LOG, SETS)}
    assert {*state.restores.views[done.plan.plan].topic_ids} == inputs_and_tables
    assert original is None or system.original() == original  # type: ignore[attr-defined]
    new = system.records(IN)[base:]
    assert [it.timestamp_ms for it in new] == ([1_001, 1_002, 1_003, 1_005] if in_place else [1_001, 1_003])
    assert new[0].headers[:2] == (("trace", b"7"), ("trace", None))
    ledger = NEW_LEDGER if isinstance(system, New) else wire.ledger_id(b"\xff" * 16) if original else LEDGER
    stamps = [wire.read(it.headers[-1][1] or b"", ledger, wire.tp_check(*system.named(IN))) for it in new]
    assert [(it.process, it.seq, it.epoch) for it in stamps if it is not None] == [
        (done.author, seq, EPOCH if in_place else 0) for seq in range(len(new))
    ] or in_place


async def test_what_the_logs_have_lost_comes_from_the_tables(world: World) -> None:
    """No record behind the cut names `y`, whose only one is deleted; more is deleted meanwhile, which matters not."""
    world.log.records[LOG][3] = world.log.records[LOG][3]._replace(key=b'"w"')
    world.admin.starts = world.log.starts = {IN: 2, LOG: 2, SETS: 3}
    await world.restore(crash=when("compare", lambda: delete(world, LOG, 4)))
    assert {agent: world.taken(agent) for agent in ("a", "b")} == world.takes
    there = {record.key: record.value for record in world.log.records[LOG][4:]}
    assert {key: value for key, value in there.items() if value is not None} == {b'"x"': b"1", b'"y"': b"2"}


async def test_it_is_restored_twice(world: World) -> None:
    """The stamps of the first restore tell its copies from external records: the second one does not double them."""
    await world.restore()
    world.log.put(IN, b"e", b"six, external")
    await world.restore()
    assert world.taken("a") == [*world.takes["a"], b"six, external"]
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


async def test_what_producers_send_into_another_cluster_is_taken_once_and_behind(new: New) -> None:
    """While the tool works, is killed and run again, and in the midst of what it appends."""

    def crash(at: str) -> None:
        if at == "channels":
            new.log.put(IN, b"e", b"meanwhile")
            new.log.put(RAW, b"e", b"raw, meanwhile")
        if at == "compare":
            raise CrashError

    with pytest.raises(CrashError):
        await new.restore(crash=crash)
    new.log.put(IN, b"e", b"then")

    def beside(record: Any) -> None:
        if record.value == b"three":
            new.log.appended = lambda it: None
            new.log.put(IN, b"e", b"beside")

    new.log.appended = beside
    assert (await new.restore()).inputs == 3
    assert new.taken("a") == [b"one", b"beside", b"three", b"meanwhile", b"then"]
    assert new.taken("b") == [b"beside", b"three", b"meanwhile", b"then"]
    assert new.taken("c", RAW) == [b"raw, meanwhile"]


# --- Crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", STEPS)
async def test_after_a_crash_at_any_step_the_same_command_finishes_it(system: System, step: str) -> None:
    original = system.original() if isinstance(system, Fork) else None
    with pytest.raises(CrashError):
        await system.restore(crash=when(step))
    first = system.state.restores.open
    assert first is not None and system.state.restores.holds(f"{system.prefix}app"), "workers wait"
    if isinstance(system, Fork):
        assert [it.stage for it in await ops.list_forks(system.cluster)] == ["creating"]
        with pytest.raises(ForkRefusedError) as refused:
            await system.restore()
        assert "fork-exists" in refused.value.facts["codes"]
        await system.drop()
    else:
        planned = await system.plan()
        assert (planned.resumes, planned.refusals) == (first.plan, ())
    await system.restore()
    system.holds_the_snapshot()
    assert original is None or system.original() == original  # type: ignore[attr-defined]


async def test_after_a_crash_between_any_two_appends_it_is_finished(world: World) -> None:
    """Each run is killed one append later than the one before; the last one gets through."""
    crashes = 0
    for most in range(20):
        count = 0

        def one_more(record: object, most: int = most) -> None:
            nonlocal count
            count += 1
            if count > most:
                raise CrashError

        world.log.appended = one_more
        try:
            await world.restore()
            break
        except CrashError:
            crashes += 1
    assert crashes == 7, "what an earlier run has written to changelogs is no difference"
    world.holds_the_snapshot()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("system", ["in-place", "cluster"], indirect=True)
async def test_a_restore_is_given_up_only_before_it_has_appended_anything(system: System, step: str) -> None:
    """From then on records lie above the positions, which a worker would take in: it is finished, or replaced."""
    before = system.fingerprint()
    with pytest.raises(CrashError):
        await system.restore(crash=when(step))
    if STEPS.index(step) <= STEPS.index("quiet"):
        await ops.abort_restore(system.cluster, "shop", reason="a test")
        assert system.state.restores.open is None
        assert isinstance(system, New) or system.fingerprint()[1:] == before[1:]  # type: ignore[index]
    else:
        with pytest.raises(RestoreRefusedError) as refused:
            await ops.abort_restore(system.cluster, "shop", reason="a test")
        assert ("another snapshot" in refused.value.hint) is not isinstance(system, New), (
            "none takes its place"
        )
        view = system.state.restores.open
        assert view is not None, "workers hold their inputs until it is finished"
        # The check of the command may be older than the record it appends: the fold of the ledger decides.
        system.cluster.the_ledger.put(Restore(n=77, plan=view.plan, stage="aborted", reason="late"))
        assert system.state.restores.open is not None
    await system.restore()
    system.holds_the_snapshot()


async def test_a_restore_that_was_not_finished_is_replaced_by_that_of_another_snapshot(world: World) -> None:
    """The way back from a restore that has appended: what it left lies below the bases of the next one."""
    with pytest.raises(CrashError):
        await world.restore(crash=when("done"))
    first = world.state.restores.open
    assert first is not None
    changelogs = world.manifest.captured.changelogs
    world.change(epoch=EPOCH + 1, changelogs=changelogs[:1])
    assert [refusal.code for refusal in (await world.plan()).refusals] == ["plan-open"], "it covers less"
    world.change(changelogs=changelogs)
    planned = await world.plan()
    assert (planned.replaces, planned.refusals) == (first.plan, ())
    await world.do(planned)
    world.holds_the_snapshot()
    assert [view.stage for view in world.state.restores.views.values()] == ["aborted", "done"]


# --- Other writers, and the comparison before the commit --------------------------------------------------------------


def of_apps_alone(world: World) -> None:
    """Leave out external records of `in`: it has writers of the snapshot, and nobody else may write there."""
    captured = world.manifest.captured
    in_log = [record for record in world.log.records[IN] if wire.find(record.headers) is not None]
    world.log.records[IN][:] = [record._replace(offset=at) for at, record in enumerate(in_log)]
    mixed = dataclasses.replace(captured.senders[0], topic="in", white_end=4)
    agents = tuple(dataclasses.replace(p, offset=1) for p in captured.inputs[0].agents)
    inputs = (dataclasses.replace(captured.inputs[0], agents=agents), captured.inputs[1])
    world.change(senders=(*captured.senders, mixed), inputs=inputs)


def put_last(world: World, tp: TopicPartition, *records: KafkaRecord) -> None:
    world.records(tp)[-len(records) :] = records


def twice(world: World) -> None:
    world.records(IN).append(world.records(IN)[-1]._replace(offset=len(world.records(IN))))


#: What happens before a step, and why the plan that would be run again is refused then; empty: it finishes.
HARM: list[tuple[str, Callable[[World], object], str]] = [
    *(
        harm
        for step in ("channels", "state", "read back")
        for harm in (
            (step, lambda it: it.log.put(IN, b"k", b"a zombie's", by=SENDER), ""),
            (step, lambda it: it.log.put(LOG, b'"x"', b"666"), ""),
            (step, lambda it: it.log.put(IN, b"k", b"without snapkafka"), "unstamped"),
        )
    ),
    ("read back", lambda it: it.records(IN).pop(), ""),
    ("read back", twice, ""),
    ("read back", lambda it: put_last(it, IN, it.records(IN)[-1]._replace(value=b"other")), ""),
    ("read back", lambda it: put_last(it, IN, *it.records(IN)[:-3:-1]), ""),
    ("compare", lambda it: put_last(it, LOG, it.records(LOG)[-1]._replace(value=b"other")), ""),
    ("compare", lambda it: delete(it, SETS, 3), ""),
    ("groups", lambda it: it.admin.topics.update({"in": Topic(1, "9" * 32)}), ""),
    *((step, lambda it: delete(it, RAW, 5), "offsets-gone") for step in ("channels", "groups")),
]


@pytest.mark.parametrize(("step", "harm", "code"), HARM)
async def test_nothing_is_committed_of_an_attempt_that_somebody_else_has_written_to_or_that_differs(
    world: World, step: str, harm: Callable[[World], object], code: str
) -> None:
    """Of records: lost, there twice, of another value, out of order; a row; a topic recreated; what was deleted."""
    of_apps_alone(world)
    with pytest.raises(RestoreFailedError):
        await world.restore(crash=when(step, lambda: harm(world)))
    assert world.state.restores.open is not None and not world.state.restores.bases
    assert step == "groups" or world.positions == {IN: 7, RAW: 9}
    if code:
        assert [it.code for it in (await world.plan()).refusals] == [code]
        return
    await world.restore()
    assert world.folded() == {b'"x"': b"1", b'"y"': b"2"}


async def test_nothing_is_appended_while_a_transaction_is_open(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "QUIET_WITHIN_S", 0.1)
    before, world.admin.in_transaction = len(world.records(IN)), {IN: 3}
    with pytest.raises(RestoreFailedError):
        await world.restore()
    assert len(world.records(IN)) == before
    world.admin.in_transaction = {}
    await world.restore()
    world.holds_the_snapshot()


async def test_a_topic_that_another_client_creates_meanwhile_ends_it_before_anything_is_appended(
    new: New, fork: Fork
) -> None:
    for system, error in ((new, RestoreFailedError), (fork, ForkFailedError)):
        topic, lengths = system.named(OUT).topic, {tp: len(of) for tp, of in system.log.records.items() if of}
        there = when("topics", partial(system.admin.topics.update, {topic: Topic(1, "9" * 32)}))
        with pytest.raises(error):
            await system.restore(crash=there)
        assert {tp: len(of) for tp, of in system.log.records.items() if of} == lengths


async def test_nobody_else_writes_to_a_fork_while_it_is_created(fork: Fork) -> None:
    with pytest.raises(ForkFailedError):
        await fork.restore(crash=when("channels", lambda: fork.log.put(fork.named(IN), b"k", b"v")))


# --- Forks: removal ---------------------------------------------------------------------------------------------------


async def test_a_fork_is_removed_with_all_that_bears_its_prefix(fork: Fork) -> None:
    before = (fork.original(), sorted(fork.admin.topics))
    done = await fork.restore(expires_ms=60_000)
    (found,) = await ops.list_forks(fork.cluster)
    assert (found.stage, found.snapshot, found.source) == ("ready", "friday", "shop")
    assert found.expires_ms == done.expires_ms > 0
    await fork.admin.create_topic(f"{fork.prefix}app-__assignor-__leader")
    await fork.admin.create_topic("fork.other.in")
    fork.admin.commits[f"{fork.prefix}snapkafka.shop.app"] = {}
    assert await fork.drop("", expired=True, now_ms=done.expires_ms - 1) == ()
    with pytest.raises(ForkRefusedError):
        await fork.drop("bank")
    fork.admin.member_counts = [0, 2, 0, 2]
    (stays,) = await fork.drop()
    assert stays.kept, "its workers run"
    assert fork.named(IN).topic in fork.admin.topics
    fork.admin.member_counts = []
    (dropped,) = await fork.drop("", expired=True, now_ms=done.expires_ms)
    assert f"{fork.prefix}app-__assignor-__leader" in dict(dropped.topics)
    assert sorted(fork.admin.commits) == ["app"]
    assert fork.admin.topics.pop("fork.other.in", None) is not None
    fork.admin.settings.pop("fork.other.in")
    assert (fork.original(), sorted(fork.admin.topics)) == before
    assert [*fork.admin.ledgers] == ["_snapkafka.shop"]
    with pytest.raises(ForkRefusedError):
        await fork.drop()


async def test_no_topic_is_removed_that_is_not_of_a_fork(fork: Fork) -> None:
    """Without a ledger a prefix is not that of a fork, and a name with a dot is that of a part of one."""
    for topic in ("fork.mine.orders", "fork.staging.eu.orders", "_snapkafka.fork.staging.eu.shop"):
        await fork.admin.create_topic(topic)
    for name in ("mine", "staging.eu"):
        with pytest.raises(ForkRefusedError):
            await ops.plan_drop(fork.cluster, "shop", name)


async def test_a_removal_is_of_the_topics_that_were_shown(fork: Fork) -> None:
    """By name and id; a fork without an expiry never expires."""
    await fork.restore()
    assert await fork.drop("", expired=True, now_ms=2**62) == ()
    planned = await ops.plan_drop(fork.cluster, "shop", "staging")
    fork.admin.topics[fork.named(OUT).topic] = Topic(1, "9" * 32)
    with pytest.raises(SnapkafkaError) as refused:
        await ops.drop_forks(fork.cluster, planned)
    assert refused.value.code == "plan-changed"
    assert fork.named(IN).topic in fork.admin.topics


async def test_a_topic_that_is_being_created_when_the_creation_is_cancelled_is_removed_too(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker carries out what it was asked for, whether or not anybody waits for the answer."""
    asked, create = asyncio.Event(), fork.admin.create_topic

    async def by_the_broker(topic: str, **settings: Any) -> bool:
        async def carried_out() -> bool:
            await asyncio.sleep(0.05)
            return await create(topic, **settings)

        if settings.get("validate_only"):
            return await create(topic, **settings)
        doing = asyncio.ensure_future(carried_out())
        asked.set()
        return await asyncio.shield(doing)

    monkeypatch.setattr(fork.admin, "create_topic", by_the_broker)
    creating = asyncio.ensure_future(fork.restore())
    await asyncio.wait_for(asked.wait(), 30)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await fork.drop()
    await asyncio.sleep(0.1)  # twice as long as the broker takes
    assert not [name for name in fork.admin.topics if name.startswith("fork.")]
