"""What runs of the simulator leave: consistent snapshots with all that happens to honest systems, and broken ones.

Retries, failed sends, transactions, rebalances, replays, torn events, processes that left and zombies are the
simulator's.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from snapkafka.checks import GOOD, CutView, LogBounds, Verdict, reading_ranges
from snapkafka.protocol import TopicPartition
from snapkafka.sim import World, make_plan, played
from snapkafka.sim.runs import judge
from tests.sim.mutants.table import MUTANTS

from .damaged_logs import Damaged

#: Mutants whose seed has a snapshot that its log gives away, each in a way of its own.
BROKEN: Final = (
    *("R7 event", "R7 transaction", "R7 failed"),
    *("R8 start", "R8 late start", "R2 agent", "R9 moved"),
)
#: Seeds of mutants whose pinned one gives no snapshot that the checks call inconsistent.
ACCUSED: Final = {"R7 transaction": 33, "R7 failed": 1, "R9 moved": 34}


def consistent(seed: int) -> Iterator[Damaged]:
    """The snapshots of one seed that are consistent by causality, and no verdict doubts."""
    world, _ = played(seed)
    for epoch in world.fold.snapshots:
        wrong, verdict = judge(world, epoch)
        if not wrong and verdict in GOOD:
            yield _snapshot(world, epoch)


def broken(name: str) -> Damaged:
    """A snapshot of a mutant that is not consistent, and is known not to be by its log."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    seed = ACCUSED.get(name, mutant.seed or 0)
    with mutant.patch():
        world, _ = played(seed, mutant.plan(replace(make_plan(seed), retries=0)))
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if wrong and verdict is Verdict.INCONSISTENT:
                return _snapshot(world, epoch)
    raise AssertionError(f"{name} has no snapshot that is known to be inconsistent: give it another seed")


def _snapshot(world: World, epoch: int) -> Damaged:
    """A snapshot, and what it reads of the logs of its run."""
    captured = world.fold.captured(epoch)
    read = {TopicPartition(cut.topic, cut.partition) for cut in captured.inputs}
    read |= {TopicPartition(cut.topic, cut.partition) for cut in captured.changelogs}
    bounds = {tp: LogBounds(start=0, end=len(world.broker.log(tp))) for tp in read}
    view = CutView(captured, bounds)
    return Damaged(view, [it for it in world.broker.records() if it.tp in read], reading_ranges(view))
