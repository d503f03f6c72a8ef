"""`python -m tests.sim explore`: every interleaving of small worlds.

The random simulator meets likely histories; this one meets all of them, in worlds small enough for that. It drives the
same `World` and `Process`, hence the same `WorkerProtocol` and `LedgerState`, and every end is judged by the same
causal checker and verdict. It works depth first: where several things could happen, each is tried (`moves`),
on a copy of the world (`choices`); a state that was met before is not entered again (`state`).

An *outcome* describes the snapshots of one run: failed, with a code; or captured, with verdict, positions, ends of
channels and of changelogs. A run without faults has to capture every snapshot.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from snapkafka.checks import Verdict
from snapkafka.sim import runs
from snapkafka.sim.judge import Violation

from .choices import Choice, ExploredWorld
from .lens import SmallWorld, choices
from .small import LARGE, SMALL, by_name

#: Of one snapshot: its id, how it ended, and what it holds.
End = tuple[str, str, tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A violation, with its world and the choices that lead there."""

    world: str
    violation: Violation
    choices: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        what = self.violation
        return {"world": self.world, "rule": what.rule, "what": what.what, "choices": list(self.choices)}

    def __str__(self) -> str:
        what = self.violation
        again = f"python -m tests.sim explore --world {self.world} --replay '{'; '.join(self.choices)}'"
        return f"VIOLATION {what.rule}: {what.what}\n    {again}"


@dataclass(slots=True)
class Found:
    """The result of exploring one world."""

    world: str
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

    def as_json(self) -> dict[str, Any]:
        return {
            "states": self.states,
            "transitions": self.transitions,
            "outcomes": len(self.outcomes),
            "endings": dict(sorted(self.endings().items())),
            "violations": [broken.as_json() for broken in self.violations],
        }


class Order:
    """The order in which choices are tried. All are tried in the end; but a violation may show sooner in another
    order.

    Args:
        seed: None: as they come. Even: at random. Odd: each kind of step of each process has a random urgency for the
            whole run, so that some step is late throughout.
    """

    def __init__(self, seed: int | None) -> None:
        self.seed, self.rng = seed, random.Random(seed)
        self.urgency: dict[tuple[int, str], float] = {}

    def __call__(self, world: ExploredWorld, options: list[Choice]) -> Iterator[Choice]:
        if self.seed is not None and len(options) > 1:
            if self.seed % 2:
                options.sort(
                    key=lambda c: self.urgency.setdefault((c.process, world.finely(c)), self.rng.random())
                )
            if self.seed % 2 == 0:
                self.rng.shuffle(options)
            elif self.rng.random() < 0.15:
                options.insert(0, options.pop(self.rng.randrange(len(options))))
        return iter(options)


def explore(
    small: SmallWorld,
    *,
    hashing: bool = True,
    reduced: bool = True,
    states_max: int = 10**9,
    seed: int | None = None,
    first: bool = False,
) -> Found:
    """Go through all interleavings.

    Args:
        small: the world.
        hashing: do not enter a state again.
        reduced: leave out orders that make no difference (`moves`).
        states_max: give up after so many.
        seed: of the order in which choices are tried.
        first: stop at the first violation.
    """
    collecting = gc.isenabled()
    gc.disable()  # nothing here is circular, and the collector would scan what is kept again and again
    try:
        return _explore(small, hashing, reduced, states_max, Order(seed), first)
    finally:
        if collecting:
            gc.enable()


def _explore(
    small: SmallWorld, hashing: bool, reduced: bool, states_max: int, order: Order, first: bool
) -> Found:
    found, seen = Found(small.name), set()
    root = small.root()
    seen.add(root.key())
    path: list[Choice] = []
    stack = [order(root, choices(root, small, reduced=reduced))]
    worlds = [root]
    while stack:
        choice = next(stack[-1], None)
        if choice is None:
            stack.pop()
            worlds.pop()
            if path:
                path.pop()
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
        options = choices(world, small, reduced=reduced)
        if options:
            stack.append(order(world, options))
            worlds.append(world)
        else:
            _end(found, small, root, world, path, reduced=reduced)
            path.pop()
        if found.states >= states_max or (first and found.violations):
            found.whole = False
            break
    return found


def _end(
    found: Found,
    small: SmallWorld,
    root: ExploredWorld,
    world: ExploredWorld,
    path: list[Choice],
    *,
    reduced: bool,
) -> None:
    found.ends += 1
    outcome, wrong = _judge(small, world)
    found.outcomes[outcome] += 1
    if wrong:
        chosen = labels(small, root, path, reduced=reduced)
        found.violations.extend(Broken(small.name, violation, chosen) for violation in wrong)


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
        if verdict is not None:
            ends.append((snapshot.trigger.id, verdict.value, _held(world, epoch)))
        else:
            code = snapshot.failure.code if snapshot.failure is not None else "open"
            ends.append((snapshot.trigger.id, code, ()))
    return tuple(sorted(ends)), wrong


def _held(world: ExploredWorld, epoch: int) -> tuple[Any, ...]:
    """Return the content of a captured snapshot: offsets, and nothing that depends on the order of events."""
    captured = world.fold.captured(epoch)
    inputs = [
        (
            source.app,
            source.topic,
            source.partition,
            tuple((a.agent, a.offset, a.started_above, a.replay_until) for a in source.agents),
            tuple((torn.agent, torn.offset) for torn in source.torn),
        )
        for source in captured.inputs
    ]
    changelogs = [(end.topic, end.partition, end.end) for end in captured.changelogs]
    senders = [(s.topic, s.partition, s.white_end, s.last_seq) for s in captured.senders]
    return tuple(sorted(inputs)), tuple(sorted(changelogs)), tuple(sorted(senders))


# -- again -------------------------------------------------------------------------------------------------------------


def _named(options: Sequence[Choice]) -> dict[str, Choice]:
    """Name choices; of two with one name the second gets a number."""
    named: dict[str, Choice] = {}
    for choice in options:
        name, nth = str(choice), 1
        while name in named:
            nth += 1
            name = f"{choice} ({nth})"
        named[name] = choice
    return named


def labels(
    small: SmallWorld, root: ExploredWorld, path: Sequence[Choice], *, reduced: bool = True
) -> tuple[str, ...]:
    """Return the names of a run's choices; single options are left out."""
    chosen = []
    world = root
    for choice in path:
        options = _named(choices(world, small, reduced=reduced))
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
    while options := _named(choices(world, small)):
        name = next(iter(options)) if len(options) == 1 else (left.pop(0) if left else "")
        if name not in options:
            raise ValueError(f"after {len(lines)} steps the choice is one of {list(options)}, not {name!r}")
        before = len(world.broker.ledger)
        world = world.after(options[name])
        lines.append(name)
        for offset in range(before, len(world.broker.ledger)):
            lines.append(f"    ledger {offset}: {world.broker.ledger[offset]}")
    outcome, wrong = _judge(small, world)
    lines += [f"snapshot {snapshot}: {how} {held}" for snapshot, how, held in outcome]
    return lines, wrong


# -- the command -------------------------------------------------------------------------------------------------------


def main(arguments: Sequence[str]) -> int:
    """Run `explore`; return the exit status: 0, 1 if something does not hold, 2 for a bad argument."""
    parser = argparse.ArgumentParser(
        "python -m tests.sim explore", description="All interleavings of small worlds."
    )
    names = ", ".join(small.name for small in (*SMALL, *LARGE))
    parser.add_argument("--world", metavar="NAME", help=f"one world only: {names}")
    parser.add_argument("--large", action="store_true", help="the large worlds too (minutes)")
    parser.add_argument("--json", action="store_true", help="the result as data")
    parser.add_argument(
        "--replay", metavar="CHOICES", help="one run of the world: its choices, separated by ';'"
    )
    options = parser.parse_args(arguments)
    small = by_name(options.world) if options.world is not None else None
    if options.world is not None and small is None:
        parser.error(f"there is no world {options.world!r}, but: {names}")
    if options.replay is not None:
        if small is None:
            parser.error("--replay needs --world")
        return _replay(parser, small, options.replay)
    worlds = (small,) if small is not None else (*SMALL, *LARGE) if options.large else SMALL
    found = []
    for world in worlds:
        started = time.process_time()
        found.append(explore(world))
        if found[-1].states < world.states:
            what = (
                f"{found[-1].states} states, and there were {world.states}: something is not tried any more"
            )
            found[-1].violations.append(Broken(world.name, Violation("states", what), ()))
        if not options.json:
            _print_found(world, found[-1], time.process_time() - started)
    violations = [broken for one in found for broken in one.violations]
    states = sum(one.states for one in found)
    if options.json:
        data = {
            "states": states,
            "violations": [broken.as_json() for broken in violations],
            "worlds": {one.world: one.as_json() for one in found},
        }
        print(json.dumps(data, indent=1))
    else:
        print(f"{states} distinct states in {len(found)} worlds, {len(violations) or 'no'} violations")
    return 1 if violations else 0


def _print_found(small: SmallWorld, found: Found, seconds: float) -> None:
    print(
        f"{small.name}: {small.what}\n    {found.states} distinct states, {found.transitions} transitions, "
        f"{found.ends} ends, {len(found.outcomes)} outcomes ({seconds:.1f} s)"
    )
    for ending, times in sorted(found.endings().items()):
        print(f"    {times:6} {ending}")
    for broken in found.violations[:5]:
        print(f"    {broken}")
    sys.stdout.flush()


def _replay(parser: argparse.ArgumentParser, small: SmallWorld, chosen: str) -> int:
    try:
        lines, wrong = replay(small, [name.strip() for name in chosen.split(";") if name.strip()])
    except ValueError as error:
        parser.error(str(error))
    print("\n".join(lines))
    for violation in wrong:
        print(f"VIOLATION {violation.rule}: {violation.what}")
    return 1 if wrong else 0
