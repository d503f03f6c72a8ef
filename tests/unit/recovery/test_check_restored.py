"""`restore --check` on a log in memory: what was restored is equal, and each damage of it is named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import RestoreFailedError, RestoreRefusedError
from snapkafka.protocol import Agent, Hello, TopicPartition
from snapkafka.recovery import Suppression
from tests.worlds.new_cluster import New
from tests.worlds.recovery import (
    AGENTS,
    EPOCH,
    HELLO,
    IN,
    LOG,
    RAW,
    SENDER,
    SETS,
    CrashError,
    World,
    manifest_with,
    with_inputs,
)


async def check(world: World, **options: Any) -> ops.CheckedRestore:
    return await ops.check_restored(
        world.cluster, "shop", "friday", storage=str(world.store.root), bulk=world.log, **options
    )


async def differences(world: World, **options: Any) -> list[str]:
    checked = await check(world, **options)
    found = list(checked.compared.differences())
    assert checked.equal == (not found)
    return found


def put(world: World, tp: TopicPartition, key: bytes, value: bytes | None, *, by: int = -1) -> None:
    """Append a record stamped by a process, by default by the restore."""
    author = max(view.author for view in world.state().restores.views.values())
    world.log.put(tp, key, value, by=author if by < 0 else by, epoch=EPOCH)


def alter(world: World, tp: TopicPartition, place: int, **changes: Any) -> None:
    world.log.records[tp][place] = world.log.records[tp][place]._replace(**changes)


def swap(world: World) -> None:
    """The last two messages, each with the other's content."""
    one, other = world.log.records[IN][-2:]
    world.log.records[IN][-2:] = [other._replace(offset=one.offset), one._replace(offset=other.offset)]


def drop(world: World) -> None:
    """As if the last message had never been appended."""
    world.log.records[IN].pop()


def double(world: World) -> None:
    records = world.log.records[IN]
    records.append(records[7]._replace(offset=len(records)))


async def test_what_was_restored_is_equal_and_so_is_what_is_restored_again(world: World) -> None:
    before = world.fingerprint()
    assert await differences(world) != [], "the system has gone on since the cut"
    assert world.fingerprint() == before, "a comparison changes nothing"
    done = await world.restore()
    checked = await check(world)
    assert checked.equal
    assert (checked.plan, checked.restored, checked.apps) == (done.plan, "friday", ("app",))
    assert {table.table: table.rows for table in checked.compared.tables} == {"t": 2, "s": 2}
    assert {it.topic: (it.messages, it.positions) for it in checked.compared.inputs} == {
        "in": (4, 2),
        "raw": (0, 1),
    }
    await world.restore()
    assert await differences(world) == []


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (lambda it: put(it, LOG, b'"x"', None), 'table t of app app: key "x" of partition 0 is missing'),
        (lambda it: put(it, LOG, b'"y"', b"3"), 'table t of app app: key "y" of partition 0 is different'),
        (lambda it: put(it, LOG, b'"n"', b"3"), 'table t of app app: key "n" of partition 0 is unexpected'),
        (
            lambda it: put(it, SETS, b'[2,"k"]', b"1"),
            'table s of app app: member 1 of set "k" of partition 0 is missing',
        ),
        (
            lambda it: put(it, SETS, b'[1,"k"]', b"4"),
            'table s of app app: member 4 of set "k" of partition 0 is unexpected',
        ),
        (
            lambda it: it.admin.commits["app"].update({RAW: 3}),
            "position of agent c of app app in raw[0] is 4, expected 2 without 3",
        ),
        (
            lambda it: it.admin.commits["app"].update({IN: 8}),
            "position of agent a of app app in in[0] is 8, expected 7",
        ),
        (
            lambda it: it.admin.commits["app"].pop(RAW),
            "position of agent c of app app in raw[0] is nothing, expected 2 without 3",
        ),
        (drop, "message of offset 5 at the cut in in[0], key e, is missing"),
        (double, "message at offset 11 in in[0], key k, is there twice"),
        (swap, "message at offset 9 of offset 5 at the cut in in[0], key e, is out of order"),
        (
            lambda it: put(it, IN, b"k", b"new"),
            "message at offset 11 in in[0], key k, is unexpected",
        ),
        (
            lambda it: put(it, RAW, b"k", b"new"),
            "message at offset 9 in raw[0], key k, is unexpected",
        ),
    ],
)
async def test_each_damage_is_named_and_nothing_else(
    world: World, damage: Callable[[World], None], named: str
) -> None:
    await world.restore()
    damage(world)
    assert await differences(world) == [named]


async def test_a_message_that_was_altered_is_another_one(world: World) -> None:
    await world.restore()
    alter(world, IN, -1, value=b"other")
    assert await differences(world) == [
        "message at offset 10 in in[0], key e, is unexpected",
        "message of offset 5 at the cut in in[0], key e, is missing",
    ]


async def test_state_positions_and_messages_are_named_together(world: World) -> None:
    await world.restore()
    put(world, LOG, b'"x"', b"7")
    world.admin.commits["app"][IN] = 9
    double(world)
    assert await differences(world) == [
        'table t of app app: key "x" of partition 0 is different',
        "position of agent a of app app in in[0] is 9, expected 7",
        "message at offset 11 in in[0], key k, is there twice",
    ]


async def test_what_producers_send_and_processes_of_before_append_since_is_no_difference(
    world: World,
) -> None:
    """External records are read after those of the cut; what is void no worker with snapkafka applies."""
    await world.restore()
    world.log.put(IN, b"e", b"new, external")
    put(world, IN, b"k", b"late", by=SENDER)
    put(world, IN, b"_sk:9", None)
    put(world, LOG, b"_sk:9", None, by=SENDER)
    put(world, LOG, b'"x"', b"99", by=SENDER)
    outsider = world.cluster.the_ledger.put(Hello(n=9, app="outsider"))
    put(world, IN, b"k", b"of an app that is not in the snapshot", by=outsider)
    checked = await check(world)
    assert checked.equal
    (note,) = checked.compared.notes
    assert note.startswith(f"{LOG.topic} holds 1 records that processes of before the restore")


async def test_a_worker_that_has_run_since_is_no_system_that_stands_at_the_cut(world: World) -> None:
    await world.restore()
    worker = world.cluster.the_ledger.put(Hello(n=9, app="app"))
    put(world, LOG, b'"z"', b"1", by=worker)
    put(world, IN, b"k", b"new", by=worker)
    assert await differences(world) == [
        'table t of app app: key "z" of partition 0 is unexpected',
        "message at offset 11 in in[0], key k, is unexpected",
    ]


async def test_a_system_that_stands_still_at_the_cut_is_equal_without_a_restore(world: World) -> None:
    """Nothing of after the cut is there; offsets are those of the cut. One agent has one position, as a group has."""
    at = {IN: 6, LOG: 2, SETS: 2}
    for tp, end in at.items():
        del world.log.records[tp][end:]
    del world.log.records[RAW][3:]
    for offset in (1, 3):
        own = (("trace", b"7"), ("trace", None), *world.log.records[IN][offset].headers)
        alter(world, IN, offset, headers=own)
    cut = world.manifest.captured
    inputs = tuple(
        dataclasses.replace(
            it,
            agents=tuple(
                dataclasses.replace(agent, offset=it.position, started_above=()) for agent in it.agents
            ),
        )
        for it in cut.inputs
    )
    manifest_with(captured=dataclasses.replace(cut, inputs=inputs))(world)
    world.admin.commits["app"] = {IN: 1, RAW: 2}
    checked = await check(world)
    assert (checked.equal, checked.plan) == (True, "")
    assert {it.topic: it.messages for it in checked.compared.inputs} == {"in": 2, "raw": 0}
    erased = await differences(world, suppress=Suppression(keys=("k",)))
    assert [text for text in erased if "in[0]" in text] == [
        f"message at offset {offset} in in[0], key k, is unexpected" for offset in (1, 3)
    ]
    world.log.put(IN, b"k", b"red", by=SENDER, epoch=EPOCH)
    assert await differences(world) == ["message at offset 6 in in[0], key k, is unexpected"]
    started = tuple(
        dataclasses.replace(
            it,
            agents=tuple(
                dataclasses.replace(agent, started_above=(6,) if it.topic == "in" else ())
                for agent in it.agents
            ),
        )
        for it in inputs
    )
    manifest_with(captured=dataclasses.replace(cut, inputs=started))(world)
    assert await differences(world) == [
        f"position of agent {agent} of app app in in[0] is 1, expected 1 without 6" for agent in "ab"
    ], "the message that both had started is not among those in flight"


async def test_where_the_log_has_lost_what_was_in_flight_the_tables_have_it(world: World) -> None:
    world.admin.starts[IN] = 2
    world.log.starts = world.admin.starts
    await world.restore()
    checked = await check(world)
    assert (checked.equal, checked.compared.notes) == (True, ())


async def test_external_records_that_are_deleted_since_are_named_as_what_cannot_be_compared(
    world: World,
) -> None:
    await world.restore()
    world.admin.starts[IN] = 4
    world.log.starts = world.admin.starts
    checked = await check(world)
    assert list(checked.compared.differences()) == [
        "position of agent b of app app in in[0] is 9, expected 8",
        "message at offset 8 in in[0], key e, is unexpected",
    ]
    (note,) = checked.compared.notes
    assert note.startswith("in[0] has lost the records from offset 1 to 4")


async def test_stored_external_records_stand_for_those_that_are_deleted(world: World) -> None:
    with_inputs(world, ("in", 1, 7), ("raw", 2, 9))
    for offset in (2, 5):
        alter(world, IN, offset, headers=(("from", b"outside"),), timestamp_ms=2_000 + offset)
    await world.restore()
    assert await differences(world) == []
    world.admin.starts[IN] = 4
    world.log.starts = world.admin.starts
    assert await differences(world) == []


async def test_times_of_a_topic_that_does_not_keep_them_are_not_compared(world: World) -> None:
    await world.restore()
    alter(world, IN, -1, timestamp_ms=9)
    assert len(await differences(world)) == 2
    world.admin.settings["in"]["message.timestamp.type"] = "LogAppendTime"
    assert await differences(world) == []


async def test_erased_keys_are_to_be_absent(world: World) -> None:
    erased = Suppression(keys=("x", "e"))
    await world.restore(suppress=erased)
    assert await differences(world, suppress=erased) == []
    named = await differences(world)
    assert named[0] == 'table t of app app: key "x" of partition 0 is missing'
    assert [text.split(", ")[-1] for text in named[1:]] == ["is missing"] * 2
    put(world, LOG, b'"x"', b"1")
    assert await differences(world, suppress=erased) == [
        'table t of app app: key "x" of partition 0 is unexpected'
    ]


async def test_a_restore_into_another_cluster_is_compared_there(new: New) -> None:
    with_inputs(new.old, ("in", 1, 7), ("raw", 2, 9))
    await new.restore()

    async def found() -> list[str]:
        checked = await ops.check_restored(
            new.cluster, "shop", "friday", storage=str(new.old.store.root), bulk=new.log
        )
        return list(checked.compared.differences())

    assert await found() == []
    (group,) = new.admin.commits.values()
    group[IN] += 1
    assert [text.split(" in in[0]")[0] for text in await found()] == ["position of agent a of app app"]


@pytest.mark.parametrize("step", ["ready", "groups", "done"])
async def test_an_unfinished_restore_is_equal_once_its_groups_are_set(world: World, step: str) -> None:
    def crash(at: str) -> None:
        if at == step:
            raise CrashError

    with pytest.raises(CrashError):
        await world.restore(crash=crash)
    assert (await differences(world) == []) == (step == "done")


# --- Refusals -------------------------------------------------------------------------------------------------------


async def test_a_system_that_does_not_stand_still_is_not_compared(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.restore()
    world.admin.member_counts = [2]
    with pytest.raises(RestoreRefusedError, match=r"group app has 2 members \(group-has-members\)"):
        await check(world)
    stable = world.log.stable_ends
    with monkeypatch.context() as patched:
        patched.setattr(world.log, "stable_ends", lambda tps: stable(tps) | {LOG: 3})
        with pytest.raises(RestoreRefusedError, match=r"a transaction on .* is open \(transaction-open\)"):
            await check(world)
    (file,) = (world.store.root / "friday" / "state").glob("*.parquet")
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RestoreRefusedError, match=r"\(files\)"):
        await check(world)


async def test_topics_that_are_not_there_have_lost_everything(world: World) -> None:
    await world.restore()
    for topic in (LOG.topic, "in"):
        del world.admin.topics[topic]
    named = await differences(world)
    assert [text for text in named if "table t" in text] == [
        f'table t of app app: key "{key}" of partition 0 is missing' for key in ("x", "y")
    ]
    assert len([text for text in named if "in in[0]" in text and text.endswith("is missing")]) >= 2


async def test_an_input_whose_fastest_agent_stands_at_its_end_was_not_moved(world: World) -> None:
    """Its position is the base, too; the other agent shows that the input is read where it lies."""
    cut = world.manifest.captured
    raw = cut.inputs[1]
    fast = dataclasses.replace(raw.agents[0], agent="d", offset=9, started_above=())
    more = (cut.inputs[0], dataclasses.replace(raw, agents=(*raw.agents, fast)))
    code = dataclasses.replace(
        HELLO, n=2, agents=(*AGENTS, Agent(name="d", topics=("raw",), key_codec="raw", value_codec="json"))
    )
    world.cluster.the_ledger.put(code)
    manifest_with(captured=dataclasses.replace(cut, inputs=more))(world)
    await world.restore()
    assert world.state().restores.bases[RAW].end == 9
    assert await differences(world) == []


# --- Before the commit point ------------------------------------------------------------------------------------------


def spoil(world: World, step: str) -> None:
    """What a restore that appends wrongly does: a row, a member and a message are not those of the cut."""
    if step == "ready":
        alter(world, LOG, -1, key=b'"q"', value=b"1")
        alter(world, SETS, -1, value=b"1")
        alter(world, IN, -1, value=b"other")


async def test_an_attempt_that_differs_from_the_snapshot_is_not_committed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Faults of the rules that decide what is appended: the log holds what was written, and that is wrong."""
    from snapkafka.recovery import records_of_state as whole
    from snapkafka.recovery import steps

    def lossy(*arguments: Any) -> Iterator[Any]:
        return (record for record in whole(*arguments) if record.key not in (b'"x"', b'[2,"k"]'))

    monkeypatch.setattr(steps, "records_of_state", lossy)
    positions = dict(world.admin.commits["app"])
    with pytest.raises(RestoreFailedError) as failed:
        await world.restore()
    for difference in (
        'table t of app app: key "x" of partition 0 is different',
        'table s of app app: member 3 of set "k" of partition 0 is unexpected',
    ):
        assert difference in failed.value.message
    assert world.admin.commits["app"] == positions
    view = world.state().restores.open
    assert view is not None and not view.committed
    monkeypatch.setattr(steps, "records_of_state", whole)
    done = await world.restore()
    assert "equal: table t of app app, 2 keys" in done.compared
    assert "equal: input in[0], 4 messages" in done.compared
    assert await differences(world) == [], "the next attempt is right"


def put_late(world: World) -> None:
    """A worker that was suspended appends behind the base."""
    put(world, IN, b"k", b"late", by=SENDER)
    put(world, LOG, b'"x"', b"99", by=SENDER)
