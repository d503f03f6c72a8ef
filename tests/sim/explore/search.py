"""Every interleaving of small worlds.

The random simulator meets likely histories; this one meets all of them, in worlds small enough for that. It drives the
same `World` and `Process`, hence the same `WorkerProtocol` and `LedgerState`, and every end is judged by the same
causal checker and verdict. It works depth first: where several things could happen, each is tried (`small`),
on a copy of the world (`choices`); a state that was met before is not entered again (`state`).

An *outcome* describes the snapshots of one run: failed, with a code; or captured, with verdict, positions, ends of
channels and of changelogs. A run without faults has to capture every snapshot.
"""

from __future__ import annotations

import gc
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from snapkafka.checks import Verdict
from snapkafka.sim import runs
from snapkafka.sim.judge import Violation

from .choices import Choice, ExploredWorld
from .small import SmallWorld

#: Of one snapshot: its id, how it ended, and what it holds.
End = tuple[str, str, tuple[Any, ...]]
Order = Callable[[ExploredWorld, list[Choice]], Iterator[Choice]]
#: A hunt gives up after so many states: a violation shows in many runs, so that another order is the better try.
HUNTED_MAX: Final = 150


@dataclass(frozen=True, slots=True)
class Broken:
    """A violation, with its world and the choices that lead there."""

    world: str
    rule: str
    what: str
    choices: tuple[str, ...]

    def __str__(self) -> str:
        again = f"python -m tests.sim explore --world {self.world} --replay '{'; '.join(self.choices)}'"
        return f"VIOLATION {self.rule}: {self.what}\n    {again}"


@dataclass(slots=True)
class Found:
    """The result of exploring one world."""

    states: int = 1
    transitions: int = 0
    ends: int = 0
    outcomes: Counter[tuple[End, ...]] = field(default_factory=Counter)
    violations: list[Broken] = field(default_factory=list)
    whole: bool = True  # nothing was left out

    def endings(self) -> Counter[str]:
        """Return the outcomes without the contents of snapshots, with the number of runs of each."""
        short: Counter[str] = Counter()
        for outcome, times in self.outcomes.items():
            short[", ".join(f"{name} {how}" for name, how, _ in outcome)] += times
        return short


def _order(seed: int) -> Order:
    """Return an order of choices: each kind of step of each process has an urgency for the whole run, so that some step
    is late throughout."""
    rng = random.Random(seed)
    urgency: dict[tuple[int, str], float] = {}

    def order(world: ExploredWorld, options: list[Choice]) -> Iterator[Choice]:
        if len(options) > 1:
            options.sort(key=lambda c: urgency.setdefault((c.process, world.finely(c)), rng.random()))
            if rng.random() < 0.15:
                options.insert(0, options.pop(rng.randrange(len(options))))
        return iter(options)

    return order


def explore(
    small: SmallWorld, *, hashing: bool = True, reduced: bool = True, hunt: int | None = None
) -> Found:
    """Go through all interleavings.

    Args:
        small: the world.
        hashing: do not enter a state again.
        reduced: leave out orders that make no difference (`SmallWorld.choices`).
        hunt: look for one violation only, in an order that is drawn by this seed, and not for long.
    """
    order: Order = (lambda _, options: iter(options)) if hunt is None else _order(hunt)
    collecting = gc.isenabled()
    gc.disable()  # nothing here is circular, and the collector would scan what is kept again and again
    found, root, path = Found(), small.root(), list[Choice]()
    seen, worlds, stack = {root.key()}, [root], [order(root, small.choices(root, reduced=reduced))]
    while stack and (hunt is None or (found.states < HUNTED_MAX and not found.violations)):
        choice = next(stack[-1], None)
        if choice is None:
            stack.pop(), worlds.pop()
            del path[-1:]
            continue
        world = worlds[-1].after(choice)
        found.transitions += 1
        if hashing:
            key = world.key()
            if key in seen:
                continue
            seen.add(key)
        found.states += 1
        path.append(choice)
        options = small.choices(world, reduced=reduced)
        if options:
            stack.append(order(world, options))
            worlds.append(world)
            continue
        found.ends += 1
        outcome, wrong = _judge(small, world)
        found.outcomes[outcome] += 1
        if wrong:
            chosen = labels(small, root, path, reduced=reduced)
            found.violations += [Broken(small.name, it.rule, it.what, chosen) for it in wrong]
        path.pop()
    found.whole = not stack
    if collecting:
        gc.enable()
    return found


def _judge(small: SmallWorld, world: ExploredWorld) -> tuple[tuple[End, ...], list[Violation]]:
    """Return the outcome of a run, and its violations."""
    world.stage.world = world
    ends: list[End] = []
    wrong: list[Violation] = []
    for epoch, snapshot in world.fold.snapshots.items():
        name = f"snapshot {snapshot.trigger.id}"
        found, verdict = runs.judge(world, epoch)
        wrong += found
        if verdict is Verdict.INCONSISTENT and not found:
            wrong.append(Violation("accused", f"{name} is consistent, and its verdict is {verdict}"))
        if snapshot.open and world.faults == small.faults and "ledger" in world.plan.hear:
            waits = [str(wait) for wait in world.fold.waiting(epoch)]
            wrong.append(Violation("liveness", f"{name} is not captured, though nothing went wrong: {waits}"))
        code = snapshot.failure.code if snapshot.failure is not None else "open"
        how = (code, ()) if verdict is None else (verdict.value, _held(world, epoch))
        ends.append((snapshot.trigger.id, *how))
    return tuple(sorted(ends)), wrong


def _held(world: ExploredWorld, epoch: int) -> tuple[Any, ...]:
    """Return the content of a captured snapshot: offsets, and nothing that depends on the order of events."""
    captured = world.fold.captured(epoch)
    inputs = [
        (cut.app, cut.topic, cut.partition, cut.agents, tuple((torn.agent, torn.offset) for torn in cut.torn))
        for cut in captured.inputs
    ]
    changelogs = [(end.topic, end.partition, end.end) for end in captured.changelogs]
    senders = [(s.topic, s.partition, s.white_end, s.last_seq) for s in captured.senders]
    # With a defect an input may be cut twice.
    return tuple(sorted(inputs, key=repr)), tuple(sorted(changelogs)), tuple(sorted(senders))


# -- again -------------------------------------------------------------------------------------------------------------


def _named(options: Sequence[Choice]) -> dict[str, Choice]:
    """Name choices; of two with one name the second gets a number."""
    named: dict[str, Choice] = {}
    for choice in options:
        before = [str(it) for it in named.values()].count(str(choice))
        named[f"{choice} ({before + 1})" if before else str(choice)] = choice
    return named


def labels(
    small: SmallWorld, world: ExploredWorld, path: Sequence[Choice], *, reduced: bool = True
) -> tuple[str, ...]:
    """Return the names of a run's choices; single options are left out."""
    chosen = []
    for choice in path:
        options = _named(small.choices(world, reduced=reduced))
        if len(options) > 1:
            chosen.append(next(name for name, option in options.items() if option == choice))
        world = world.after(choice)
    return tuple(chosen)


def replay(small: SmallWorld, chosen: Sequence[str]) -> tuple[list[str], list[Violation]]:
    """Replay one run, by the names of its choices; return a line per step, and the violations.

    Raises:
        ValueError: there is no such choice.
    """
    world, lines, left = small.root(), list[str](), list(chosen)
    while options := _named(small.choices(world)):
        name = next(iter(options)) if len(options) == 1 else (left.pop(0) if left else "")
        if name not in options:
            raise ValueError(f"after {len(lines)} steps the choice is one of {list(options)}, not {name!r}")
        before = len(world.broker.ledger)
        world = world.after(options[name])
        written = enumerate(world.broker.ledger[before:], before)
        lines += [name, *(f"    ledger {offset}: {record}" for offset, record in written)]
    outcome, wrong = _judge(small, world)
    return [*lines, *(f"snapshot {snapshot}: {how} {held}" for snapshot, how, held in outcome)], wrong
