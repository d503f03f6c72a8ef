"""The true history of an explored world, with names instead of numbers.

The simulator's history numbers steps and executions as they happen, so two orders of independent steps would give two
histories. Here an execution is (process, app, agent, input, offset, how many such ran before), and a step is its place
in its execution. Then independent steps in either order lead to one and the same state.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from snapkafka.protocol import TopicPartition
from snapkafka.sim.judge import Execution, Step
from snapkafka.sim.world.history import EFFECTS, History

from .state import Names

#: No execution has so many steps.
STEPS_MAX: Final = 1000


class NamedHistory(History):
    """A history with names that do not depend on the order of events."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.by_number: dict[int, Step] = {}
        self.runs: dict[int, Execution] = {}
        self.timers = 0

    # The world looks steps up by their number, and counts executions; no more than that is asked of a history.

    @property
    def steps(self) -> dict[int, Step]:  # type: ignore[override]
        return self.by_number

    @property
    def executions(self) -> dict[int, Execution]:  # type: ignore[override]
        return self.runs

    def copied(self) -> NamedHistory:
        new = NamedHistory(self.names)
        new.by_number, new.runs, new.timers = self.by_number.copy(), self.runs.copy(), self.timers
        return new

    def execution(self, process: int, app: str, agent: str, tp: TopicPartition, offset: int) -> Execution:
        number = again = 0
        while again == 0 or number in self.runs:
            number = self.names.number(("execution", process, app, agent, tp, offset, again))
            again += 1
        execution = self.runs[number] = Execution(number, process, app, agent, tp, offset)
        return execution

    def step(self, execution: Execution | None, what: str, *after: int) -> Step:
        if execution is None:
            self.timers += 1
            number, before = self.names.number(("timer", self.timers)) * STEPS_MAX, []
        else:
            number, before = execution.number * STEPS_MAX + len(execution.steps), execution.steps[-1:]
            execution.steps.append(number)
        depends = tuple(sorted({n for n in (*before, *after) if n >= 0}))
        effect = what.split(" ")[0] in EFFECTS
        step = Step(number, -1 if execution is None else execution.number, what, depends, effect=effect)
        self.by_number[number] = step
        return step

    def fail(self, step: int) -> None:
        self.own(step)
        super().fail(step)

    def own(self, number: int) -> None:
        """Copy a step that is about to change: the other worlds keep theirs."""
        s = self.by_number[number]
        self.by_number[number] = Step(s.number, s.execution, s.what, s.after, s.record, s.effect, s.failed)

    def plain(self) -> History:
        """Return the history with consecutive numbers, for the checker."""
        number = {n: i for i, n in enumerate(sorted(self.by_number))}
        places = {n: i for i, n in enumerate(sorted(self.runs))} | {-1: -1}
        plain = History()
        for n, s in sorted(self.by_number.items()):
            after = tuple(number[before] for before in s.after)
            plain.steps.append(
                Step(number[n], places[s.execution], s.what, after, s.record, s.effect, s.failed)
            )
        for n, e in sorted(self.runs.items()):
            steps = [number[step] for step in e.steps]
            plain.executions.append(
                Execution(
                    places[n], e.process, e.app, e.agent, e.tp, e.offset, steps, e.torn_at, e.died, e.undone
                )
            )
        return plain

    def key(self) -> Hashable:
        """Return a key that is equal for two histories of the same steps, whatever the order of unconnected ones."""
        names = self.names
        steps = frozenset([names.once(step, _step_key) for step in self.by_number.values()])
        runs = frozenset(
            [
                (e.number, len(e.steps), tuple(sorted(e.torn_at.items())), e.died, e.undone)
                for e in self.runs.values()
            ]
        )
        return steps, runs


def _step_key(step: Step) -> Hashable:
    return step.number, step.what, step.after, step.record, step.failed
