"""Describe what truly happened: every step, what it depended on, and what came of it in the log.

Two steps depend on each other if one is the next of the same execution, if one took in what the other sent, or if both
touch the same key of the same memory and one of them writes it. This is Lamport's happened-before with the program
order of a process replaced by the conflicts that there are: an agent's events overlap, and those that touch nothing in
common commute. The checker (`checks.causal`) gets this and the snapshot, and nothing of the protocol.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from snapkafka.checks.causal import Execution, Step
from snapkafka.protocol.records import TopicPartition

__all__ = ["Cell", "History", "Memory"]


@dataclass(slots=True)
class Cell:
    """One key of a table in the memory of a process."""

    value: int = 0
    written: int = -1  # the step that wrote it
    read: list[int] = field(default_factory=list)  # the steps that read it since


Memory = dict[str, Cell]

#: Steps that send something.
EFFECTS = frozenset({"write", "send", "buffer", "ask", "answer", "timer"})


@dataclass(slots=True)
class History:
    """Steps and executions, in the order in which they happened."""

    steps: list[Step] = field(default_factory=list)
    executions: list[Execution] = field(default_factory=list)

    def execution(self, process: int, app: str, agent: str, tp: TopicPartition, offset: int) -> Execution:
        """An event starts: a new execution."""
        execution = Execution(len(self.executions), process, app, agent, tp, offset)
        self.executions.append(execution)
        return execution

    def step(self, execution: Execution | None, what: str, *after: int) -> Step:
        """A step of an execution (None: outside any event), after the steps that it depends on."""
        before = [execution.steps[-1]] if execution is not None and execution.steps else []
        step = Step(
            len(self.steps),
            execution.number if execution is not None else -1,
            what,
            tuple(sorted({n for n in (*before, *after) if n >= 0})),
            effect=what.split(" ")[0] in EFFECTS,
        )
        self.steps.append(step)
        if execution is not None:
            execution.steps.append(step.number)
        return step

    def read(self, execution: Execution, memory: Memory, key: str) -> Step:
        return self.look(execution, memory.setdefault(key, Cell()), f"read {key}")

    def look(self, execution: Execution, cell: Cell, what: str) -> Step:
        """A value is read, looked up or through what an event holds of it."""
        step = self.step(execution, what, cell.written)
        cell.read.append(step.number)
        return step

    def change(self, execution: Execution, cell: Cell, what: str) -> Step:
        """A value is changed in place: anyone who reads it from here on depends on that. No record has it yet, so it
        comes before whatever has read the value so far; what sets it does not."""
        step = self.step(execution, what, cell.written)
        cell.value = cell.written = step.number
        return step

    def write(self, execution: Execution | None, memory: Memory, key: str) -> Step:
        cell = memory.setdefault(key, Cell())
        step = self.step(execution, f"write {key}", cell.written, *cell.read)
        cell.value, cell.written, cell.read = step.number, step.number, []
        return step

    def expire(self, memory: Memory, key: str, process: int, epoch: int) -> Step:
        """A window expires in the memory of a process: no record has it, and it is not of any event.

        Args:
            process: its id.
            epoch: that it was red for at that instant.
        """
        cell = memory[key]
        step = self.step(None, f"expire {key}", cell.written, *cell.read)
        step.instant = process, epoch
        cell.value, cell.written, cell.read = 0, step.number, []
        return step

    def fail(self, step: int) -> None:
        """Note that what a step sent did not arrive, and that its sender was informed."""
        self.steps[step].failed = True

    def recovered(self, memory: Memory, key: str, value: int, step: int) -> None:
        """A key as the changelog has it: who touches it, or holds it, depends on the step that wrote it."""
        cell = memory.setdefault(key, Cell())
        cell.value, cell.written, cell.read = value, step, []
