"""Snapshots that a process of the simulator has under way: its place in the inputs, and the events that run."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from snapkafka.protocol.colours import Cause
from snapkafka.protocol.records import TopicPartition
from snapkafka.sim.judge import Execution

from .broker_log import SimStored
from .history import Cell, Memory
from .world_plan import Op


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
