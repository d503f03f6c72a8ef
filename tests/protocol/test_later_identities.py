"""R12 and R15: what a later life, and one that was absent, leaves as it was."""

from __future__ import annotations

from snapkafka.protocol.events import InputsRevoked, WentAbsent
from snapkafka.protocol.ledger_state import Status
from snapkafka.protocol.records import Abort, Dead, TopicPartition

from .world import A, Process, World, records, settle


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


def test_r15_an_absence_says_nothing_against_what_is_captured(
    world: World, pair: tuple[Process, Process]
) -> None:
    p, q = pair
    epoch = world.trigger()
    settle(p, q)
    assert world.snapshot(epoch).status is Status.CAPTURED
    p.feed(WentAbsent())
    settle(p, q)
    assert records(p, Abort) == []
