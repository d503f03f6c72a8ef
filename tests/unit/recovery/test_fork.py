"""`fork` on logs in memory: what is created, that production stays as it was, a crash at every step, and removal."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import (
    BadInputError,
    ForkFailedError,
    ForkRefusedError,
    UnknownSnapshotError,
)
from snapkafka.protocol import Hello, Trigger, Verdict
from snapkafka.recovery import Carried, NewTopic
from snapkafka.recovery.target_fork import in_fork
from snapkafka.recovery.topics import Contents, Source, new_topics
from snapkafka.units import wall_ms
from snapkafka.wire import headers as wire
from tests.worlds.fakes import FakeTopic, Worker
from tests.worlds.forks import OWN, Fork, ForkAdmin, P, named, takes
from tests.worlds.on_disk import write_snapshot
from tests.worlds.recovery import IN, LEDGER, LOG, OUT, RAW, SETS, World, save


async def test_a_fork_begins_where_the_snapshot_stood_and_production_stays_as_it_was(fork: Fork) -> None:
    before = fork.fingerprint()
    done = await fork.create()
    assert fork.fingerprint() == before
    assert (done.fork, done.namespace, done.source) == ("staging", f"{P}shop", "shop")
    assert done.apps == (f"{P}app",)
    assert (done.messages, done.inputs, done.state) == (2, 0, 4)
    assert fork.values(IN) == [b"one", b"three"]
    assert fork.values(RAW) == fork.values(OUT) == []
    assert takes(fork, "a") == [b"one", b"three"]
    assert takes(fork, "b") == [b"three"]
    table = {record.key: record.value for record in fork.production.log.records[named(LOG)]}
    assert table == {b'"x"': b"1", b'"y"': b"2"}
    members = [(record.key, record.value) for record in fork.production.log.records[named(SETS)]]
    assert members == [(b'[1,"k"]', b"1"), (b'[1,"k"]', b"2")]
    admin = fork.production.admin
    assert admin.settings[named(LOG).topic] == admin.settings[LOG.topic], "the same settings"
    assert admin.commits[f"{P}app"] == {named(IN): 0, named(RAW): 0}
    assert admin.noted == {f"snapkafka:{done.plan}"}
    state = fork.state
    assert state.restores.open is None
    assert not list(state.living()), "the tool has left"
    assert state.fork is not None
    assert state.fork.created
    assert {it.topic for it in state.fork.topics()} == {
        OWN,
        *(named(tp).topic for tp in (IN, OUT, RAW, LOG, SETS)),
    }
    assert all(it.topic_id for it in state.fork.topics())


async def test_what_is_copied_is_stamped_by_the_fork(fork: Fork) -> None:
    await fork.create()
    (author,) = [p for p, view in fork.state.processes.items() if view.hello.mode == "restore"]
    for seq, record in enumerate(fork.production.log.records[named(IN)]):
        stamp = wire.read(record.headers[-1][1] or b"", LEDGER, wire.tp_check(*named(IN)))
        assert stamp is not None
        assert (stamp.process, stamp.seq, stamp.epoch) == (author, seq, 0)
        assert record.headers[:2] == (("trace", b"7"), ("trace", None)), "own headers stay"
        assert record.timestamp_ms < 2_000, "and so do timestamps"


async def test_with_inputs_it_has_external_records_from_each_position_to_now(fork: Fork) -> None:
    done = await fork.create(with_inputs=True)
    assert (done.messages, done.inputs) == (2, 2 + 7)
    assert fork.values(IN) == [b"one", b"two, external", b"three", b"five, external"], "nothing red"
    assert fork.values(RAW) == [b"%d" % number for number in range(2, 9)]
    assert takes(fork, "b") == [b"three", b"five, external"]
    assert takes(fork, "c", RAW) == [b"2", *(b"%d" % number for number in range(4, 9))]


STEPS = (
    "begun", "topics", "silence", "author", "quiet", "channels", "state", "read back", "compare", "ready",
    "groups", "done",
)  # fmt: skip


class CrashError(Exception):
    """The tool is killed here."""


@pytest.mark.parametrize("step", STEPS)
async def test_after_a_crash_at_any_step_it_starts_over(fork: Fork, step: str) -> None:
    def crash(at: str) -> None:
        if at == step:
            raise CrashError

    before = fork.fingerprint()
    with pytest.raises(CrashError):
        await fork.create(crash=crash)
    assert [it.stage for it in await ops.list_forks(fork)] == ([] if step == "begun" else ["creating"])
    said: list[str] = []
    await fork.create(notify=said.append)
    assert said[0] == "removing what an earlier attempt has left"
    assert fork.values(IN) == [b"one", b"three"], "once"
    assert takes(fork, "a") == [b"one", b"three"]
    assert fork.fingerprint() == before
    (found,) = await ops.list_forks(fork)
    assert (found.stage, found.snapshot, found.source, found.expires_ms) == ("ready", "friday", "shop", 0)


async def test_every_step_is_reached(fork: Fork) -> None:
    reached: list[str] = []
    await fork.create(crash=reached.append)
    assert tuple(dict.fromkeys(reached)) == STEPS


async def test_a_fork_that_exists_is_not_overwritten(fork: Fork) -> None:
    await fork.create()
    before = (fork.fingerprint(), fork.values(IN), len(fork.ledgers[OWN].entries))
    with pytest.raises(
        ForkRefusedError, match=r"fork staging exists: it is of snapshot friday \(fork-exists\)"
    ):
        await fork.create()
    assert (fork.fingerprint(), fork.values(IN), len(fork.ledgers[OWN].entries)) == before


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("verdict", lambda it: save(it, dataclasses.replace(it.manifest, verdict="INCONSISTENT"))),
        ("topics-exist", lambda it: it.admin.topics.update({f"{P}mine": FakeTopic(1)})),
        (
            "name-too-long",
            lambda it: save(
                it,
                dataclasses.replace(
                    it.manifest,
                    topics=(*it.manifest.topics, dataclasses.replace(it.manifest.topics[0], name="x" * 240)),
                ),
            ),
        ),
        ("files", lambda it: next(iter(Path(it.store.root).rglob("*.parquet"))).write_bytes(b"")),
    ],
)
async def test_a_refusal_names_its_reason_and_changes_nothing(fork: Fork, code: str, change: Any) -> None:
    change(fork.production)
    before = (fork.fingerprint(), dict(fork.ledgers), sorted(fork.production.admin.topics))
    with pytest.raises(ForkRefusedError, match=rf"\({code}\)"):
        await fork.create()
    assert (fork.fingerprint(), dict(fork.ledgers), sorted(fork.production.admin.topics)) == before


async def test_a_name_and_a_time_that_make_no_sense_are_refused(fork: Fork) -> None:
    with pytest.raises(BadInputError, match="invalid name"):
        await fork.plan(fork="a.b")
    with pytest.raises(BadInputError, match="cannot expire"):
        await fork.create(expires_s=0)


async def test_a_topic_that_appears_meanwhile_is_not_written_to(fork: Fork) -> None:
    def crash(at: str) -> None:
        if at == "topics":
            fork.production.admin.topics[named(OUT).topic] = FakeTopic(1, "9" * 32)

    with pytest.raises(ForkFailedError, match="created by another client"):
        await fork.create(crash=crash)


# -- removal ------------------------------------------------------------------------------------------------------


async def test_a_fork_is_removed_with_all_that_bears_its_prefix(fork: Fork) -> None:
    before = (fork.fingerprint(), sorted(fork.production.admin.topics))
    await fork.create()
    await fork.admin().create_topic(f"{P}app-__assignor-__leader")
    await fork.admin().create_topic("fork.other.in")
    (done,) = await fork.drop()
    assert f"{P}app-__assignor-__leader" in done.topics
    assert fork.groups_deleted == [f"{P}app", f"{P}snapkafka.shop.app"]
    assert not fork.ledgers
    assert fork.production.admin.topics.pop("fork.other.in", None) is not None
    fork.production.admin.commits.pop(f"{P}app")
    assert (fork.fingerprint(), sorted(fork.production.admin.topics)) == before
    with pytest.raises(ForkRefusedError, match="there is no fork staging"):
        await fork.drop()


async def test_a_fork_whose_workers_run_or_of_another_namespace_stays(fork: Fork) -> None:
    await fork.create()
    with pytest.raises(ForkRefusedError, match="is not of namespace bank"):
        await fork.drop("bank")
    fork.production.admin.member_counts = [2, 2]
    (stays,) = await fork.drop()
    assert (stays.topics, stays.kept) == ((), f"consumer group {P}app has 2 members")
    assert named(IN).topic in fork.production.admin.topics


async def test_expiry_removes_only_what_the_creation_created(fork: Fork) -> None:
    """By name and id: not what bears the prefix besides, nor what was recreated under such a name."""
    done = await fork.create(expires_s=60)
    admin = fork.admin()
    await admin.create_topic(f"{P}mine")
    admin.topics[named(OUT).topic] = FakeTopic(1, "9" * 32)
    assert await fork.drop("", expired=True, now_ms=done.expires_ms - 1) == ()
    (dropped,) = await fork.drop("", expired=True, now_ms=done.expires_ms)
    assert sorted(dropped.topics) == sorted([OWN, *(named(tp).topic for tp in (IN, RAW, LOG, SETS))])
    assert dropped.left == (f"{P}mine", named(OUT).topic)
    assert {name for name in admin.topics if name.startswith(P)} == set(dropped.left)


async def test_a_fork_without_end_does_not_expire_and_one_whose_workers_run_stays(fork: Fork) -> None:
    await fork.create()
    assert await fork.drop("", expired=True, now_ms=2**62) == ()
    await fork.drop()
    await fork.create(expires_s=1)
    fork.production.admin.member_counts = [1]
    (kept,) = await fork.drop("", expired=True, now_ms=2**62)
    assert kept.kept == f"consumer group {P}app has 1 member"
    assert not kept.topics
    assert [it.stage for it in await ops.list_forks(fork)] == ["ready"]


async def test_a_topic_that_is_being_created_when_the_creation_is_cancelled_is_removed_too(
    fork: Fork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker carries out what it was asked for, whether or not anybody waits for the answer."""
    asked, create = asyncio.Event(), ForkAdmin.create_topic

    async def by_the_broker(admin: ForkAdmin, topic: str, **settings: Any) -> bool:
        async def carried_out() -> bool:
            await asyncio.sleep(0.05)
            return await create(admin, topic, **settings)

        if settings.get("validate_only"):
            return await create(admin, topic, **settings)
        doing = asyncio.ensure_future(carried_out())
        asked.set()
        return await asyncio.shield(doing)

    monkeypatch.setattr(ForkAdmin, "create_topic", by_the_broker)
    creating = asyncio.ensure_future(fork.create())
    await asyncio.wait_for(asked.wait(), 30)
    creating.cancel()
    with pytest.raises(asyncio.CancelledError):
        await creating
    await fork.drop()
    await asyncio.sleep(0.1)  # twice as long as the broker takes
    assert not [name for name in fork.production.admin.topics if name.startswith("fork.")]


async def test_an_app_that_joined_the_fork_later_is_known_to_its_removal(fork: Fork) -> None:
    await fork.create()
    fork.ledgers[OWN].put(Hello(n=7, app=f"{P}later"))
    await fork.drop()
    shown = [f"{P}snapkafka.shop.app", f"{P}snapkafka.shop.later"]
    assert fork.groups_deleted == [f"{P}app", f"{P}later", *shown]


# -- comparison ---------------------------------------------------------------------------------------------------


async def test_what_a_fork_has_changed_is_listed_by_the_names_of_production(fork: Fork) -> None:
    it = fork.production
    await fork.create()
    Worker(fork.ledgers[OWN], f"{P}app", f"{P}in")
    epoch = fork.ledgers[OWN].put(Trigger(n=900, id="tested", storage=str(it.store.root))) + 1
    row = {"app": f"{P}app", "partition": 0, "table_name": "t", "changelog_topic": f"{P}{LOG.topic}"}
    in_set = {"table_name": "s", "changelog_topic": f"{P}{SETS.topic}", "key_raw": b'[15,"k"]'}
    write_snapshot(
        it.store,
        "tested",
        epoch,
        namespace=f"{P}shop",
        state=[
            {**row, "key_raw": b'"x"', "value_raw": b"9"},
            {**row, "key_raw": b'"z"', "value_raw": b"3"},
            {**row, **in_set, "value_raw": b"[[1,2],[]]"},
        ],
        channels=[
            {
                "sender_app": f"{P}app",
                "receiver_app": f"{P}app",
                "topic": f"{P}in",
                "partition": 0,
                "messages": 5,
                "bytes": 50,
            }
        ],
    )
    with pytest.raises(UnknownSnapshotError):
        await ops.diff_fork(fork, "shop", "staging", storage=str(it.store.root))
    place = it.store.manifest_place("tested")
    fork.ledgers[OWN].put(Verdict(n=901, epoch=epoch, verdict="VERIFIED", manifest=place))
    found = await ops.diff_fork(fork, "shop", "staging", storage=str(it.store.root), keys=2)
    assert (found.before.id, found.before.namespace) == ("friday", "shop")
    assert (found.after.id, found.after.namespace) == ("tested", f"{P}shop")
    counts = {(it.app, it.table): (it.added, it.changed, it.removed, it.unchanged) for it in found.tables}
    assert counts == {("app", "t"): (1, 1, 1, 0), ("app", "s"): (0, 0, 0, 1)}
    named = {(key.change, bytes.fromhex(key.key_raw or "")) for key in found.keys}
    assert named == {("added", b'"z"'), ("changed", b'"x"'), ("removed", b'"y"')}
    (channel,) = found.channels
    assert (channel.sender_app, channel.receiver_app, channel.topic) == ("app", "app", "in")
    assert (channel.messages_before, channel.messages_after) == (0, 5)


async def test_a_fork_that_does_not_exist_is_not_compared(fork: Fork) -> None:
    await fork.create()
    with pytest.raises(ForkRefusedError, match="there is no fork other"):
        await ops.diff_fork(fork, "shop", "other", storage=str(fork.production.store.root))


# -- plans --------------------------------------------------------------------------------------------------------


def test_settings_that_would_lose_or_refuse_what_a_fork_begins_with_are_changed(world: World) -> None:
    own = {"retention.ms": "1000", "cleanup.policy": "delete"}
    holding = own | {"max.message.bytes": "200", "message.timestamp.before.max.ms": "500"}
    sources = {"in": Source(topic_id="", partitions=1, settings=holding, own=own)}

    def computed(carried: Carried) -> dict[str, NewTopic]:
        contents = Contents(captured=world.manifest.captured, carried={"in": carried}, largest={})
        topics, refusals = new_topics(world.manifest, sources, contents, {}, lambda name: P + name)
        assert refusals == ()
        return {it.of: it for it in topics}

    found = computed(Carried(records=1, oldest_ms=0, youngest_ms=0, largest=100))
    assert found["in"].changed == {
        "max.message.bytes": "232",
        "retention.ms": "-1",
        "message.timestamp.before.max.ms": str(2**63 - 1),
    }
    assert found["in"].settings == {"cleanup.policy": "delete", **found["in"].changed}
    assert found["raw"].settings == found["raw"].changed == {}
    now_ms = wall_ms()
    young = Carried(records=1, oldest_ms=now_ms, youngest_ms=now_ms, largest=1)
    assert computed(young)["in"].settings == own


def test_a_cut_is_translated_whole(world: World) -> None:
    found = in_fork(world.manifest.captured, "staging")
    assert {cut.topic for cut in found.inputs} == {f"{P}in", f"{P}raw"}
    assert {at.topic for cut in found.inputs for at in cut.agents} == {f"{P}in", f"{P}raw"}
    assert {(cut.app, cut.topic) for cut in found.changelogs} == {
        (f"{P}app", named(LOG).topic),
        (f"{P}app", named(SETS).topic),
    }
