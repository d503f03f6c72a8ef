"""R12 and R15: what a later life, and one that was absent, leaves as it was."""

from __future__ import annotations

import pytest

from snapkafka.checks import read_before
from snapkafka.protocol import (
    AppendHello,
    Dead,
    InputsRevoked,
    LedgerRecreated,
    LedgerState,
    TopicPartition,
)

from .world import A, B, Process, World, settle


def another_life(p: Process, n: int) -> None:
    """It is taken for dead, reads that and joins again."""
    p.world.append(Dead(n=n, dead=p.id))
    p.catch_up()
    p.join()
    p.catch_up()


def test_r12_what_a_life_wrote_counts_until_the_inputs_are_given_anew(world: World) -> None:
    """However many lives come after it. What is recovered with new inputs holds it: if the changelog is made anew by
    then, that is less."""
    p = Process(world, "p", (A,))
    for _ in range(3):
        p.send(TopicPartition("p-t-changelog", 0))
    ends = []
    for n, name in enumerate(("the next life", "the one after")):
        another_life(p, n)
        epoch = world.trigger(name)
        settle(p)
        ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    p.feed(InputsRevoked())
    p.give(A, generation=2, recovered=1)
    epoch = world.trigger("made anew")
    settle(p)
    ends += [cut.end for cut in world.fold.captured(epoch).changelogs]
    assert ends == [3, 3, 1]


def next_life(p: Process) -> AppendHello:
    """Join as the machine asked it to."""
    hello = [action for action in p.asked if isinstance(action, AppendHello)][-1]
    p.join(was=hello.was)
    p.catch_up()
    return hello


def recreate_ledger(world: World, *processes: Process) -> None:
    world.ledger, world.fold = [], LedgerState()
    for process in processes:
        process.read = 0
        process.feed(LedgerRecreated())


@pytest.mark.parametrize("ledgers", [1, 2])
def test_r11_who_may_have_read_an_input_in_a_ledger_that_is_gone_is_an_earlier_reader(
    world: World, ledgers: int
) -> None:
    """Its event goes on, under an id of the new ledger, which does not know that it had the input: what that sends is
    run again where the next reader stands. The simulator found verdicts that blamed it."""
    p, heir, q = Process(world, "p", (A,)), Process(world, "p", ()), Process(world, "q", (B,))
    event = p.start(A, 0)
    p.feed(InputsRevoked())
    p.give(generation=2)
    heir.give(A, generation=2)
    for _ in range(ledgers):
        recreate_ledger(world, p, heir, q)
        for process in (p, heir, q):
            next_life(process)
    sent = p.machine.send_entered(event)
    assert sent.cause == event
    p.end(event)
    p.do(p.machine.send_withdrawn(sent))
    epoch = world.trigger()
    settle(p, heir, q)
    cuts = {cut.app: cut for cut in world.fold.captured(epoch).inputs}
    assert cuts["p"].receiver == heir.id
    assert read_before(cuts["p"], p.id)
    assert not read_before(cuts["p"], heir.id), "it had nothing under way"
    assert cuts["q"].earlier == (), "its app does not read that"
