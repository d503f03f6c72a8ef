"""R11: the ledger has lost acknowledged records, and assigns their offsets once more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from snapkafka.protocol import (
    AppendHello,
    AppendToLedger,
    LedgerCutShort,
    LedgerState,
    Restore,
    RestoreStage,
    RestoreView,
    TailLost,
    TopicPartition,
    take_checkpoint,
)

from .world import A, Process, World, settle

TP_C = TopicPartition("c", 0)


@pytest.fixture
def world() -> World:
    return World()


def lose(world: World, since: int) -> None:
    """The ledger loses all from there on."""
    del world.ledger[since:]
    world.fold = LedgerState()
    for offset, record in enumerate(world.ledger):
        world.fold.apply(offset, record)


def notice(process: Process, since: int) -> TailLost:
    """It finds that out, and reads the ledger again; what it says, which is repeated as far as its range goes."""
    world, upto = process.world, process.read
    process.read = 0
    world.numbers += 1
    process.feed(LedgerCutShort(since=since, upto=upto, n=world.numbers))
    said = process.asked[-2]
    assert isinstance(said, AppendToLedger)
    assert isinstance(said.record, TailLost)
    pass_by(world, said.record)
    return said.record


def pass_by(world: World, record: TailLost) -> None:
    """Do the writer's part: repeat the record until the ledger has passed its range."""
    while len(world.ledger) < record.upto:
        world.append(record)


def join(process: Process) -> int:
    """Join again, as it has asked to; its new id."""
    hello = process.asked[-1]
    assert isinstance(hello, AppendHello)
    process.join(was=hello.was)
    return process.id


def captured(world: World, *processes: Process, name: str) -> int:
    epoch = world.trigger(name)
    settle(*processes)
    assert world.snapshot(epoch).captured_at is not None, world.snapshot(epoch).failure
    return epoch


def test_r11_a_checkpoint_keeps_what_is_lost(world: World) -> None:
    p = Process(world, "p", (A,))
    settle(p)
    since = len(world.ledger)
    late = Process(world, "r", (TP_C,))
    settle(late)
    lose(world, since)
    epoch = captured(world, p, name="meanwhile")
    notice(late, since)
    join(late)
    settle(p, late)
    upto = len(world.ledger)
    chunks = take_checkpoint(enumerate(world.ledger), first_n=10**6)
    fold = LedgerState(start=upto)
    for offset, chunk in enumerate(chunks, start=upto):
        fold.apply(offset, chunk)
    assert fold.whole
    assert fold.tails.upto == world.fold.tails.upto > 0
    assert fold.snapshots[epoch].contaminated == world.snapshot(epoch).contaminated != ""
    assert {view.process for view in fold.living()} == {view.process for view in world.fold.living()}


def test_a_restore_that_may_have_appended_is_not_aborted_and_only_replaced_by_one_of_all_its_apps() -> None:
    """The record that it appends from now on may be among those that are lost."""

    def restore(plan: str, stage: RestoreStage, *apps: str, replaces: str = "") -> Restore:
        return Restore(n=0, plan=plan, stage=stage, snapshot="s", apps=apps, replaces=replaces)

    fold = LedgerState()
    numbers = iter(range(100))

    def append(record: Restore | TailLost) -> RestoreView | None:
        n = next(numbers)
        fold.apply(n, replace(record, n=n))
        return fold.restores.open

    append(restore("one", "begun", "p", "q"))
    append(TailLost(n=0, since=1, upto=2))
    for record in (
        restore("one", "aborted"),
        restore("two", "begun", "p", replaces="one"),
    ):
        view = append(record)
        assert view is not None
        assert view.plan == "one", record
    view = append(restore("three", "begun", "p", "q", replaces="one"))
    assert view is not None
    assert (view.plan, view.unsure) == ("three", True)
    append(restore("three", "aborted"))
    assert fold.restores.open is view


def test_the_lost_offsets_are_stated_for_people() -> None:
    fold = LedgerState()
    assert str(fold.tails) == ""
    for n, (since, upto) in enumerate(((3, 6), (8, 9))):
        fold.apply(n, TailLost(n=n, since=since, upto=upto))
    assert str(fold.tails) == "the ledger has lost acknowledged records, at offsets 3 to 5, 8 to 8"


def test_a_process_whose_leaving_failed_takes_no_part_any_more(world: World) -> None:
    """It has no identity, so a later snapshot asks nothing of it."""
    process = Process(world, "p", (A,))
    was = process.id
    process.machine.lose_identity(was)
    asked = len(process.asked)
    world.trigger()
    process.catch_up()
    assert process.machine.process is None
    assert process.machine.stood_down == was
    assert process.asked[asked:] == []
