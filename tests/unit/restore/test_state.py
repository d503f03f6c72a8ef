"""State by difference: whatever a changelog holds, what is appended makes it fold to the rows; `restore --check` names
each damage of what was restored, by the same difference."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from snapkafka import ops
from snapkafka.errors import RestoreRefusedError
from snapkafka.kafka import KafkaRecord
from snapkafka.protocol import Hello, TopicPartition
from snapkafka.restore import Suppression, differences
from snapkafka.wire import headers as wire
from tests.worlds.logs import LEDGER
from tests.worlds.restore import (
    EPOCH,
    IN,
    LOG,
    RAW,
    SENDER,
    SETS,
    System,
    World,
    captured,
    fold,
    fold_sets,
    row_of,
)

CUTS = {TopicPartition(cut.topic, cut.partition): cut for cut in captured().changelogs}


def written(tp: TopicPartition, *changes: tuple[bytes, bytes | None]) -> list[KafkaRecord]:
    return [KafkaRecord(*tp, at, key, value, (), 0) for at, (key, value) in enumerate(changes)]


def lacking(
    rows: Iterable[KafkaRecord], log: Iterable[KafkaRecord], tp: TopicPartition = LOG
) -> list[tuple[str, bytes | None, bytes | None]]:
    records = list(log)
    found = differences(rows, lambda of: records if of == tp else (), {tp: CUTS[tp]})
    return [(it.kind, it.record.key, it.record.value) for it in found]


def of(log: list[KafkaRecord]) -> Callable[[TopicPartition], list[KafkaRecord]]:
    return lambda tp: log


class History:
    """A changelog with a cut, and what a broker has made of it since: compacted, its beginning deleted."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.log = [
            KafkaRecord(*LOG, offset, b"k%d" % rng.randrange(6), rng.choice([b"1", b"2", None]), (), 0)
            for offset in range(rng.randint(2, 20))
        ]
        end = len(self.log)
        self.cut = fold(self.log[: rng.randint(1, end)])
        latest = {record.key: record.offset for record in self.log}
        clean, purge = rng.randint(0, end), rng.randint(0, end)
        if rng.random() < 0.7:
            self.log = [
                record
                for record in self.log
                if record.offset == latest[record.key]
                or record.offset >= clean
                or (record.value is not None and rng.random() < 0.3)
            ]
        if rng.random() < 0.5:  # delete.retention.ms has passed
            values = {record.key for record in self.log if record.value is not None}
            self.log = [
                record
                for record in self.log
                if record.value is not None or record.key in values or record.offset >= purge
            ]
        start = rng.randint(0, end) if rng.random() < 0.3 else 0
        self.log = [record for record in self.log if record.offset >= start]


def test_whatever_was_compacted_or_deleted_since_the_changelog_folds_to_the_cut_again() -> None:
    """Over 1,000 histories, row by row; and what a run has written is no difference to the next."""
    written_in = 0
    for seed in range(1_000):
        history = History(seed)
        rows = [row_of(LOG, key, value) for key, value in history.cut.items()]
        found = list(differences(rows, of(history.log), {LOG: CUTS[LOG]}))
        written_in += bool(found)
        for crashed_after in (0, len(found) // 2, len(found)):
            log = [*history.log, *(KafkaRecord(*it.record.tp, 99, it.record.key, it.record.value, (), 0)
                                   for it in found[:crashed_after])]  # fmt: skip
            again = [it.record for it in differences(rows, of(log), {LOG: CUTS[LOG]})]
            assert fold([*log, *again]) == history.cut, seed
            assert crashed_after < len(found) or not again, seed
    assert written_in > 500


@pytest.mark.parametrize("seed", range(50))
def test_sets_fold_to_the_cut_again_member_by_member(seed: int) -> None:
    """Single adds and discards, and updates of many members; 1.0 is 1 to a set of Python."""
    rng = random.Random(seed)

    def members() -> list[object]:
        return [rng.choice([1, 1.0, 2, "a", None, [1]]) for _ in range(rng.randint(0, 3))]

    changes: list[tuple[bytes, bytes | None]] = []
    for _ in range(rng.randint(0, 12)):
        of = rng.choice(["k", "l"])
        kind = rng.choice([1, 2, 15])
        value = [members(), members()] if kind == 15 else rng.choice([1, 2.0, "a"])
        changes.append((json.dumps([kind, of]).encode(), json.dumps(value).encode()))
    wanted = {of: {json.dumps(it) for it in members() if not isinstance(it, float)} for of in ("k", "l")}
    rows = [
        row_of(
            SETS, json.dumps([15, of]).encode(), json.dumps([[json.loads(it) for it in found], []]).encode()
        )
        for of, found in wanted.items()
    ]
    log = written(SETS, *changes)
    appended = [(key or b"", value) for _, key, value in lacking(rows, log, SETS)]
    assert all(json.loads(key)[0] in (1, 2) for key, _ in appended), "never an update of many"
    there = fold_sets(written(SETS, *changes, *appended))
    assert {of: there[of] for of in wanted} == wanted


def test_partitions_without_rows_are_emptied_and_come_in_order() -> None:
    rows = [row_of(SETS, b'[15,"k"]', b"[[1],[]]")]
    logs = {LOG: written(LOG, (b'"x"', b"1")), SETS: written(SETS)}
    found = [(it.record.tp, it.kind) for it in differences(rows, lambda tp: logs[tp], CUTS)]
    assert found == [(SETS, "missing"), (LOG, "unexpected")]


def test_a_key_that_looks_like_that_of_a_marker_is_a_key() -> None:
    """A marker is one by its header: keys of users may be anything."""
    check = wire.tp_check(*LOG)
    ours = wire.stamp(LEDGER, check, 0, SENDER, 0)
    of_marker = wire.marker(LEDGER, check, EPOCH, SENDER, 1, 0)
    log = [
        KafkaRecord(*LOG, 0, b"_sk:1", b"1", ((wire.HEADER, ours),), 0),
        KafkaRecord(*LOG, 1, b"_sk:2", b"1", (), 0),
        KafkaRecord(*LOG, 2, b"_sk:3", None, ((wire.HEADER, of_marker),), 0),
    ]
    assert [key for _, key, _ in lacking([], log)] == [b"_sk:1", b"_sk:2"]


def test_an_undecodable_change_of_a_set_is_left_alone() -> None:
    log = written(SETS, (b"\xff", b"1"), (b'[1,"k"]', None), (b'[9,"k"]', b"1"))
    assert lacking([row_of(SETS, b"\xff", b"1")], log, SETS) == []


async def check(system: System, **options: Any) -> ops.CheckedRestore:
    storage = system.options["storage"]
    return await ops.check_restored(
        system.cluster, "shop", "friday", storage=storage, bulk=system.log, **options
    )


def named(checked: ops.CheckedRestore) -> list[str]:
    return [*(f"{it.table}: {key}" for it in checked.tables for key in it.keys), *checked.misplaced]


def put(
    system: System, tp: TopicPartition, key: bytes, value: bytes | None, *, by: int | None = None
) -> None:
    """Append as the restore has done, or as another process."""
    author = max(view.author for view in system.state.restores.views.values()) if by is None else by
    system.log.put(tp, key, value, by=author)


async def test_what_was_restored_is_equal_and_so_is_what_is_restored_again(world: World) -> None:
    before = world.fingerprint()
    assert not (await check(world)).equal, "the system has gone on since the cut"
    assert world.fingerprint() == before, "a comparison changes nothing"
    for _ in range(2):
        done = await world.restore()
        checked = await check(world)
        assert checked.equal
        assert (checked.plan, checked.restored, checked.apps) == (done.plan.plan, "friday", ("app",))
        assert [(it.table, it.differing, it.keys) for it in checked.tables] == [("s", 0, ()), ("t", 0, ())]
    for number in range(30):
        put(world, LOG, b"%d" % number, b"1")
    (_, table) = (await check(world)).tables
    assert (table.differing, len(table.keys)) == (30, 20), "all are counted, the first are named"


HERE = "of partition 0 is"
#: What happens after a restore, and how it is named; what processes of before append no worker with snapkafka applies.
DAMAGE: list[tuple[str, Callable[[Any], object], str]] = [
    ("in-place", lambda it: put(it, LOG, b'"x"', None), f't: key "x" {HERE} missing'),
    ("in-place", lambda it: put(it, LOG, b'"y"', b"3"), f't: key "y" {HERE} different'),
    ("in-place", lambda it: put(it, LOG, b'"n"', b"3"), f't: key "n" {HERE} unexpected'),
    ("in-place", lambda it: put(it, SETS, b'[2,"k"]', b"1"), f's: member 1 of set "k" {HERE} missing'),
    ("in-place", lambda it: put(it, SETS, b'[1,"k"]', b"4"), f's: member 4 of set "k" {HERE} unexpected'),
    ("in-place", lambda it: it.positions.update({RAW: 3}), "position of app app in raw[0] is 3, expected 2"),
    ("in-place", lambda it: it.positions.pop(IN), "position of app app in in[0] is nothing, expected 7"),
    (
        "in-place",
        lambda it: it.admin.topics.pop(LOG.topic),
        "; ".join(f't: key "{of}" {HERE} missing' for of in "xy"),
    ),
    ("in-place", lambda it: put(it, LOG, b'"x"', b"99", by=SENDER), ""),
    (
        "in-place",
        lambda it: put(it, LOG, b'"z"', b"1", by=it.ledger.put(Hello(n=9, app="app"))),
        f't: key "z" {HERE} unexpected',
    ),
    ("cluster", lambda it: None, ""),
    ("cluster", lambda it: put(it, LOG, b'"n"', b"3"), f't: key "n" {HERE} unexpected'),
    ("cluster", lambda it: it.positions.update({RAW: 3}), "position of app app in raw[0] is 3, expected 0"),
]


@pytest.mark.parametrize(("system", "damage", "difference"), DAMAGE, indirect=["system"])
async def test_each_damage_is_named_and_nothing_else(
    system: System, damage: Callable[[System], None], difference: str
) -> None:
    done = await system.restore()
    damage(system)
    checked = await check(system)
    assert (checked.equal, "; ".join(named(checked))) == (not difference, difference)
    assert checked.plan == done.plan.plan


async def test_a_system_that_stands_still_at_the_cut_is_equal_without_a_restore(world: World) -> None:
    for tp in (LOG, SETS):
        del world.log.records[tp][2:]
    world.admin.commits["app"] = {IN: 1, RAW: 2}
    checked = await check(world)
    assert (checked.equal, checked.plan) == (True, "")
    world.admin.commits["app"][IN] = 2
    assert named(await check(world)) == ["position of app app in in[0] is 2, expected 1"]


async def test_erased_keys_are_to_be_absent(world: World) -> None:
    erased = Suppression(keys=("x", "e"))
    await world.restore(suppress=erased)
    assert (await check(world, suppress=erased)).equal
    assert named(await check(world)) == ['t: key "x" of partition 0 is missing']


async def test_a_system_that_does_not_stand_still_is_not_compared(world: World) -> None:
    await world.restore()
    (file,) = (world.store.root / "friday" / "state").glob("*.parquet")
    for harm, code in (
        (lambda: setattr(world.admin, "member_counts", [2]), "group-has-members"),
        (lambda: setattr(world.admin, "in_transaction", {LOG: 3}), "transaction-open"),
        (lambda: file.write_bytes(file.read_bytes() + b"x"), "files"),
    ):
        world.admin.in_transaction = {}
        harm()
        with pytest.raises(RestoreRefusedError) as refused:
            await check(world)
        assert refused.value.facts == {"codes": [code]}
