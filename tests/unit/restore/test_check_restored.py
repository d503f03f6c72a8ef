"""`restore --check` on a log in memory: what was restored is equal, and each damage of it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import RestoreRefusedError
from snapkafka.protocol import Hello, TopicPartition
from snapkafka.restore import Suppression
from tests.worlds.copies import New
from tests.worlds.restore import IN, LOG, RAW, SENDER, SETS, System, World


async def check(system: System, **options: Any) -> ops.CheckedRestore:
    storage = system.options["storage"]
    return await ops.check_restored(
        system.cluster, "shop", "friday", storage=storage, bulk=system.log, **options
    )


def named(checked: ops.CheckedRestore) -> list[str]:
    return [*(f"{it.table}: {key}" for it in checked.tables for key in it.keys), *checked.misplaced]


def put(world: World, tp: TopicPartition, key: bytes, value: bytes | None, *, by: int | None = None) -> None:
    """Append as the restore has done, or as another process."""
    author = max(view.author for view in world.state.restores.views.values()) if by is None else by
    world.log.put(tp, key, value, by=author)


async def test_what_was_restored_is_equal_and_so_is_what_is_restored_again(world: World) -> None:
    before = world.fingerprint()
    assert not (await check(world)).equal, "the system has gone on since the cut"
    assert world.fingerprint() == before, "a comparison changes nothing"
    done = await world.restore()
    checked = await check(world)
    assert checked.equal
    assert (checked.plan, checked.restored, checked.apps) == (done.plan.plan, "friday", ("app",))
    assert [(it.table, it.differing, it.keys) for it in checked.tables] == [("s", 0, ()), ("t", 0, ())]
    await world.restore()
    assert (await check(world)).equal
    for number in range(30):
        put(world, LOG, b"%d" % number, b"1")
    (_, table) = (await check(world)).tables
    assert (table.differing, len(table.keys)) == (30, 20), "all are counted, the first are named"


@pytest.mark.parametrize(
    ("damage", "difference"),
    [
        (lambda it: put(it, LOG, b'"x"', None), 't: key "x" of partition 0 is missing'),
        (lambda it: put(it, LOG, b'"y"', b"3"), 't: key "y" of partition 0 is different'),
        (lambda it: put(it, LOG, b'"n"', b"3"), 't: key "n" of partition 0 is unexpected'),
        (lambda it: put(it, SETS, b'[2,"k"]', b"1"), 's: member 1 of set "k" of partition 0 is missing'),
        (lambda it: put(it, SETS, b'[1,"k"]', b"4"), 's: member 4 of set "k" of partition 0 is unexpected'),
        (lambda it: it.positions.update({RAW: 3}), "position of app app in raw[0] is 3, expected 2"),
        (lambda it: it.positions.pop(IN), "position of app app in in[0] is nothing, expected 7"),
    ],
)
async def test_each_damage_is_named_and_nothing_else(
    world: World, damage: Callable[[World], None], difference: str
) -> None:
    await world.restore()
    damage(world)
    checked = await check(world)
    assert (checked.equal, named(checked)) == (False, [difference])


async def test_what_processes_of_before_append_since_is_no_difference(world: World) -> None:
    """What is void no worker with snapkafka applies."""
    await world.restore()
    put(world, LOG, b'"x"', b"99", by=SENDER)
    assert (await check(world)).equal
    worker = world.cluster.the_ledger.put(Hello(n=9, app="app"))
    put(world, LOG, b'"z"', b"1", by=worker)
    assert named(await check(world)) == ['t: key "z" of partition 0 is unexpected']


async def test_a_system_that_stands_still_at_the_cut_is_equal_without_a_restore(world: World) -> None:
    for tp in (LOG, SETS):
        del world.log.records[tp][2:]
    world.admin.commits["app"] = {IN: 1, RAW: 2}
    checked = await check(world)
    assert (checked.equal, checked.plan) == (True, "")
    world.admin.commits["app"][IN] = 2
    assert named(await check(world)) == ["position of app app in in[0] is 2, expected 1"]


async def test_another_cluster_is_compared_with_the_snapshot_that_it_was_restored_to(new: New) -> None:
    done = await new.restore()
    assert ((checked := await check(new)).equal, checked.plan) == (True, done.plan.plan)
    new.admin.commits["app"][RAW] = 3
    new.log.put(LOG, b'"n"', b"3", by=done.author)
    assert named(await check(new)) == [
        't: key "n" of partition 0 is unexpected',
        "position of app app in raw[0] is 3, expected 0",
    ]


async def test_erased_keys_are_to_be_absent(world: World) -> None:
    erased = Suppression(keys=("x", "e"))
    await world.restore(suppress=erased)
    assert (await check(world, suppress=erased)).equal
    assert named(await check(world)) == ['t: key "x" of partition 0 is missing']


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
        with pytest.raises(RestoreRefusedError, match=r"\(transaction-open\)"):
            await check(world)
    (file,) = (world.store.root / "friday" / "state").glob("*.parquet")
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(RestoreRefusedError, match=r"\(files\)"):
        await check(world)


async def test_tables_whose_topics_are_not_there_lack_everything(world: World) -> None:
    await world.restore()
    del world.admin.topics[LOG.topic]
    assert named(await check(world)) == [f't: key "{key}" of partition 0 is missing' for key in ("x", "y")]
