"""Runs of the simulator as they are to be written to a real broker: every append and every end of a transaction, in
the order in which it happened, and one snapshot of each run.

A run is healthy if its snapshot is consistent by causality and no verdict doubts it. A broken one is a run of a mutant
of the simulator, with a snapshot that is not consistent and is known not to be by its log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from snapkafka.checks import EXTERNAL, CutView, LogRecord, Verdict
from snapkafka.protocol import Captured, TopicPartition
from snapkafka.sim import SimBroker, SimStored, make_plan, played
from snapkafka.sim import World as Simulated
from snapkafka.sim.runs import judge
from snapkafka.sim.world import surroundings
from snapkafka.sim.world.broker_log import COMMITTED, FORGER, OPEN
from tests.sim.mutants.broken import patching
from tests.sim.mutants.rules import MUTANTS

from .simulated_logs import Names, kinds

#: Mutants whose seed has a snapshot that its log gives away, each in a way of its own.
BROKEN = (
    "R7 event",
    "R7 transaction",
    "R7 failed",
    "R8 start",
    "R8 late start",
    "R2 agent",
    "R9 history",
    "R12 dead",
)


class Append(NamedTuple):
    """A record comes to lie at an offset, in a transaction if it has one.

    `foreign`: its header is that of another ledger. `aborted`: nobody will read it.
    """

    record: LogRecord
    key: str
    transaction: int | None = None
    foreign: bool = False
    aborted: bool = False


class End(NamedTuple):
    """A transaction ends."""

    transaction: int
    commits: bool


@dataclass(eq=False)
class Run:
    """A run of the simulator with one of its snapshots; offsets are those of the simulator. `kinds`: what is in it."""

    n: int
    captured: Captured
    steps: list[Append | End]
    kinds: set[str] = field(default_factory=set)
    what: str = ""

    @cached_property
    def view(self) -> CutView:
        return CutView(self.captured)

    @property
    def appended(self) -> Iterator[Append]:
        return (step for step in self.steps if isinstance(step, Append))


class _Recording(SimBroker):
    """The broker of the simulator, which remembers what came in which order."""

    def __init__(self, *, strips: frozenset[str] = frozenset()) -> None:
        super().__init__(strips=strips)
        self.order: list[
            tuple[TopicPartition, int, str | None]
        ] = []  # None: it was appended; else how it ended

    def append(self, tp: TopicPartition, record: SimStored) -> int:
        offset = super().append(tp, record)
        self.order.append((tp, offset, None))
        return offset

    def end(self, tp: TopicPartition, offset: int, state: str) -> SimStored:
        self.order.append((tp, offset, state))
        return super().end(tp, offset, state)


def _recorded() -> AbstractContextManager[None]:
    return patching(surroundings, "SimBroker", lambda _: _Recording)()


def healthy(count: int) -> list[Run]:
    """So many runs, of the seeds from 0 on; of each the snapshot with the most in it."""
    found: list[Run] = []
    seed = 0
    while len(found) < count:
        with _recorded():
            world, _ = played(seed)
        runs = []
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if not wrong and verdict is not None and verdict.good:
                runs.append(_run(world, epoch, len(found) + 1, f"seed {seed}"))
        found += sorted(runs, key=lambda run: len(run.kinds))[-1:]
        seed += 1
    return found


#: Seeds of mutants whose pinned one gives no snapshot that the checks call inconsistent.
ACCUSED: Final = {"R8 late start": 5}


def broken(name: str, n: int) -> Run:
    """A snapshot of a mutant that is not consistent."""
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    seed = ACCUSED.get(name, mutant.seed)
    with mutant.patch(), _recorded():
        world, _ = played(seed, mutant.plan(replace(make_plan(seed), retries=0)))
        for epoch in world.fold.snapshots:
            wrong, verdict = judge(world, epoch)
            if wrong and verdict is Verdict.INCONSISTENT:
                return _run(world, epoch, n, name)
    raise AssertionError(f"{name} has no snapshot that is known to be inconsistent: give it another seed")


def recoloured(run: Run) -> bool:
    """Turn one record that a receiver had taken in red; False: there is none."""
    view = run.view
    for at, step in enumerate(run.steps):
        if not isinstance(step, Append) or step.aborted or not view.white_stamped(step.record):
            continue
        sources = view.inputs.get(step.record.tp, ())
        if any(source.low <= step.record.offset < source.position for source in sources):
            run.steps[at] = step._replace(record=step.record._replace(epoch=view.epoch, cause=None))
            run.what += ", a record recoloured"
            return True
    return False


def _run(world: Simulated, epoch: int, n: int, what: str) -> Run:
    broker, names = world.broker, Names(epoch, n)
    assert isinstance(broker, _Recording)
    captured = world.fold.captured(epoch)
    read = CutView(captured)
    topics = {tp.topic for tp in (*read.inputs, *read.changelogs)}
    ended = _transactions(broker)
    steps: list[Append | End] = []
    for tp, offset, state in broker.order:
        transaction = ended.get((tp, offset))
        if state is not None:
            assert transaction is not None
            if End(transaction, state == COMMITTED) != (steps[-1] if steps else None):
                steps.append(End(transaction, state == COMMITTED))
        elif tp.topic in topics:
            steps.append(_append(world, names, tp, offset, transaction))
    run = Run(n, names.captured(captured), steps, what=what)
    run.kinds = kinds(world, captured)
    run.kinds |= {"other ledgers"} if any(step.foreign for step in run.appended) else set()
    return run


def _transactions(broker: _Recording) -> dict[tuple[TopicPartition, int], int]:
    """Which transaction a record is part of: what ends at the same moment is one. What is open at the end of the run
    is a transaction that is committed then."""
    found: dict[tuple[TopicPartition, int], int] = {}
    before: str | None = None
    nth = 0
    for tp, offset, state in broker.order:
        nth += state != before
        before = state
        if state is not None:
            found[tp, offset] = nth
    still = [(tp, at) for tp, log in broker.logs.items() for at, one in enumerate(log) if one.state == OPEN]
    for tp, offset in still:
        broker.end(tp, offset, COMMITTED)
        found[tp, offset] = nth + 1
    return found


def _append(
    world: Simulated, names: Names, tp: TopicPartition, offset: int, transaction: int | None
) -> Append:
    broker = world.broker
    stored = broker.logs[tp][offset]
    stamped = stored.process != EXTERNAL
    foreign = stamped and stored.ledger != broker.ledger_id
    record = LogRecord(*tp, offset)
    if stamped and not foreign and stored.process != FORGER:
        record = LogRecord(*tp, offset, stored.process, stored.epoch, stored.seq, stored.marker, stored.cause)
    aborted = stored.state not in (COMMITTED, OPEN)
    return Append(names.record(record), stored.key, transaction, foreign, aborted)
