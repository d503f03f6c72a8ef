"""The true history: every step, its dependencies, and its record in the log; and the events that run.

Two steps depend on each other if one follows the other in the same execution, if one took in what the other sent, or
if both touch the same key of the same memory and one of them writes it. This is Lamport's happened-before with the
program order of a process replaced by the actual conflicts: an agent's events overlap, and those that touch nothing in
common commute. The checker (`sim.judge`) gets this and the snapshot, and nothing of the protocol.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

from snapkafka.protocol.colours import Cause
from snapkafka.protocol.records import TopicPartition
from snapkafka.sim.judge import Execution, Step

from .broker_log import SimStored
from .world_plan import Op


@dataclass(slots=True)
class Cell:
    """One key of a table in the memory of a process."""

    written: int = -1  # the step that wrote it
    read: list[int] = field(default_factory=list)  # the steps that read it since


Memory = dict[str, Cell]

#: Steps that send something.
EFFECTS = frozenset({"write", "send", "buffer", "ask", "answer", "timer"})


@dataclass(slots=True)
class History:
    """Steps and executions by their numbers, in the order in which they happened."""

    steps: dict[int, Step] = field(default_factory=dict)
    executions: dict[int, Execution] = field(default_factory=dict)

    def number_of_execution(self, *place: Hashable) -> int:
        """Return a number for one more execution of an event in a process."""
        return len(self.executions)

    def number_of_step(self, execution: Execution | None) -> int:
        """Return a number for the next step of an execution, or outside any."""
        return len(self.steps)

    def execution(self, process: int, app: str, agent: str, tp: TopicPartition, offset: int) -> Execution:
        """Record a new execution: an event starts."""
        number = self.number_of_execution(process, app, agent, tp, offset)
        execution = self.executions[number] = Execution(number, process, app, agent, tp, offset)
        return execution

    def step(self, execution: Execution | None, what: str, *after: int) -> Step:
        """Record a step of an execution (None: outside any event), after the steps on which it depends."""
        before = [execution.steps[-1]] if execution is not None and execution.steps else []
        number = self.number_of_step(execution)
        depends = tuple(sorted({n for n in (*before, *after) if n >= 0}))
        run = -1 if execution is None else execution.number
        step = self.steps[number] = Step(number, run, what, depends, effect=what.split(" ")[0] in EFFECTS)
        if execution is not None:
            execution.steps.append(number)
        return step

    def look(self, execution: Execution, cell: Cell, what: str) -> Step:
        """Record the read of a value, looked up or through what an event holds of it."""
        step = self.step(execution, what, cell.written)
        cell.read.append(step.number)
        return step

    def change(self, execution: Execution, cell: Cell, what: str) -> Step:
        """Record a change of a value in place: later readers depend on it. No record has it yet, so it comes before
        all reads so far; the step that sets it does not."""
        step = self.step(execution, what, cell.written)
        cell.written = step.number
        return step

    def write(self, execution: Execution | None, memory: Memory, key: str, how: str = "write") -> Step:
        cell = memory.setdefault(key, Cell())
        step = self.step(execution, f"{how} {key}", cell.written, *cell.read)
        cell.written, cell.read = step.number, []
        return step

    def expire(self, memory: Memory, key: str, process: int, epoch: int) -> None:
        """Record the expiry of a window in the memory of a process: no record has it, and it belongs to no event.

        Args:
            process: its id.
            epoch: for which it was red at that instant.
        """
        self.write(None, memory, key, "expire").instant = process, epoch

    def fail(self, step: int) -> None:
        """Note that the record of a step did not arrive, and that its sender was notified."""
        self.steps[step].failed = True

    def recovered(self, memory: Memory, key: str, step: int) -> None:
        """Record a key as recovered from the changelog: an event that touches or holds it depends on the step that
        wrote it."""
        cell = memory.setdefault(key, Cell())
        cell.written, cell.read = step, []


@dataclass(slots=True)
class SimConsumer:
    """The reading of a process: its fetch position, the records that wait to be started, the finished ones."""

    fetch: dict[TopicPartition, int] = field(default_factory=dict)
    queues: dict[tuple[str, TopicPartition], deque[tuple[int, SimStored]]] = field(default_factory=dict)
    #: Offset -> agents still to be done.
    done: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    generation: int = 0
    held: set[TopicPartition] = field(default_factory=set)  # a red record waits there (R16)
    held_all: bool = False


@dataclass(slots=True, eq=False)
class SimRunning:
    """A running event: its program and progress, the memory that it has, the remaining hops of its record."""

    cause: Cause
    execution: Execution
    program: tuple[Op, ...]
    memory: Memory
    hops: int
    partition: int
    reply_to: tuple[int, int] | None
    consumer: SimConsumer
    at: int = 0
    awaits: bool = False
    unacked: int = 0
    answer: SimStored | None = None
    held: dict[str, tuple[Cell, int]] = field(default_factory=dict)  # by table and key, with the epoch then
    iterator: list[tuple[str, Cell]] | None = None  # what it has still to go over, last first
