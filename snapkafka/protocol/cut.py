"""The cut: one synchronous instant in which a process turns red (R3).

Nothing here can be cancelled, nothing waits and nothing is held (R4). The facts noted at the instant are all that the
snapshot will ever know of this process's past: the position of each agent in each input, and the running events. So
position and state belong to one instant (R14), whatever Faust has committed by then. Running events keep their colour
(R5) and finish in white; `closing` notices when they have.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from .events import AssignedInput
from .records import (
    ChangelogEnd,
    ChannelRange,
    LogEnd,
    Position,
    Report,
    Skipped,
    TopicPartition,
    TornEvent,
)
from .restores import Rule

#: So many ranges that were never read are told apart.
SKIPPED_MAX: Final = 100
#: So many cuts of one assignment are remembered, for an event that starts below what they noted.
NOTED_MAX: Final = 32
_NO_RULE: Final = Rule(0)


class Positions:
    """The first offset not started, per agent and input, for the inputs of the current assignment."""

    def __init__(self) -> None:
        self._next: dict[tuple[str, TopicPartition], int] = {}
        self._inputs: dict[TopicPartition, AssignedInput] = {}
        self._replay_until: dict[TopicPartition, int] = {}
        #: Offsets above that a restore leaves to nobody (`restores`), of the agents that have any.
        self._skipped: dict[tuple[str, TopicPartition], frozenset[int]] = {}
        #: What the cuts under this assignment have noted.
        self.noted: deque[Report] = deque(maxlen=NOTED_MAX)
        #: What was passed without being read, whoever has its input now.
        self.skipped: tuple[Skipped, ...] = ()

    def moved(self, seen: Skipped) -> None:
        """Note that reading goes on at `end`, and not at `start`: what lies between is never read."""
        self._goes_back(TopicPartition(seen.topic, seen.partition), seen.end)
        kept = list(self.skipped)
        if seen.start < 0 or (seen.start < seen.end and len(kept) >= SKIPPED_MAX):
            seen = replace(seen, start=-1, end=-1)
        if seen.start < seen.end or (seen.start < 0 and seen not in kept):
            kept.append(seen)
        self.skipped = tuple(kept)

    def _goes_back(self, tp: TopicPartition, offset: int) -> None:
        """Note that reading goes on here: what was passed above is read after all."""
        above = (
            replace(item, end=min(item.end, offset)) if (item.topic, item.partition) == tp else item
            for item in self.skipped
        )
        self.skipped = tuple(item for item in above if item.start < item.end or item.start < 0)

    def assign(
        self,
        inputs: Iterable[AssignedInput],
        rules: Mapping[tuple[str, TopicPartition], Rule] = MappingProxyType({}),
    ) -> None:
        """Take in a new assignment. If an input starts below an event that was started before, effects happen twice
        (R10).

        Args:
            inputs: the assigned inputs.
            rules: the records that agents skip after a restore, if any.
        """
        self._inputs = {entry.tp: entry for entry in inputs}
        since = self._next
        for tp, entry in self._inputs.items() if self.skipped else ():
            self._goes_back(tp, entry.position)
        starts = {
            (agent, tp): rules.get((agent, tp), _NO_RULE).start(entry.position)
            for tp, entry in self._inputs.items()
            for agent in entry.agents
        }
        self._skipped = {item: rule.started_above for item, rule in starts.items() if rule.started_above}
        self._next = {item: max(rule.offset, since.get(item, 0)) for item, rule in starts.items()}
        for tp, entry in self._inputs.items():
            until = max(self._replay_until.pop(tp, 0), entry.replay_until)
            if until > entry.position:
                self._replay_until[tp] = until

    def take(self, undone_from: tuple[LogEnd, ...] | None = None) -> None:
        """Drop all inputs until the next assignment; what was started is remembered, unless its effects were undone:
        see `InputsRevoked`."""
        kept = {TopicPartition(end.topic, end.partition): end.end for end in undone_from or ()}
        for (_, tp), offset in self._next.items():
            until = offset if undone_from is None else kept.get(tp, 0)
            self._replay_until[tp] = max(self._replay_until.get(tp, 0), until)
        if self.skipped:  # where nothing was started behind it, whoever reads next comes to it again
            self.skipped = tuple(
                item
                for item in self.skipped
                if not 0 <= self.reads_at(TopicPartition(item.topic, item.partition)) <= item.end
            )
        self._next, self._inputs = {}, {}
        self.forget_cuts()

    def start(self, agent: str, tp: TopicPartition, offset: int) -> bool:
        """Note that an agent starts an event. Agents take records from a queue in the order of the log, also when
        several run at once.

        Returns:
            whether it is new; False: it, or a later one, was started before.
        """
        if offset >= self._next.get((agent, tp), 0):
            self._next[agent, tp] = offset + 1
            if self._skipped and (skipped := self._skipped.get((agent, tp))):
                left = Rule(offset + 1, skipped).start(offset + 1)
                self._next[agent, tp], self._skipped[agent, tp] = left.offset, left.started_above
            return True
        return False

    def void(self, agent: str, tp: TopicPartition, offset: int) -> list[Report]:
        """Return the cuts that have an event as started before although it starts only now. Each is returned once."""
        void = [
            cut
            for cut in self.noted
            if any(
                p.agent == agent and (p.topic, p.partition) == tp and p.offset > offset for p in cut.positions
            )
        ]
        for cut in void:
            self.noted.remove(cut)
        return void

    def forget_cuts(self) -> None:
        """Forget the positions that cuts have noted: events that start from here on may be replays."""
        self.noted.clear()

    def behind(self, ends: Mapping[TopicPartition, int]) -> TopicPartition | None:
        """Return an input of which some agent has not started all below its end; None: there is none."""
        return next((tp for (_, tp), offset in self._next.items() if offset < ends.get(tp, 0)), None)

    def reads_at(self, tp: TopicPartition) -> int:
        """Return the first offset of an input that no agent has started; -1: it is not ours."""
        return min((offset for (_, at), offset in self._next.items() if at == tp), default=-1)

    def inputs(self) -> tuple[TopicPartition, ...]:
        return tuple(sorted(self._inputs))

    def note(self) -> tuple[Position, ...]:
        """Return the position of every agent."""
        # A display, as here, allocates the exact size. Tuples that were shrunk to theirs, as of a generator, are kept
        # by Python and never used again: half a megabyte over the first thousand snapshots.
        positions = [
            Position(
                agent=agent,
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
                started_above=tuple(sorted(self._skipped.get((agent, tp), ()))),
                replay_until=until if (until := self._replay_until.get(tp, 0)) > offset else 0,
            )
            for (agent, tp), offset in sorted(self._next.items())
            if tp in self._inputs
        ]
        return (*positions,)


@dataclass(slots=True, kw_only=True)
class OpenCut:
    """A cut that is not reported yet: what it `noted` in its instant, and what becomes known until its report."""

    noted: Report
    changelogs: tuple[ChangelogEnd, ...]  # as recovered
    marker_topics: frozenset[str] = frozenset()  # where markers may go
    markers_asked: bool = False
    markers_due: set[TopicPartition] = field(default_factory=set)
    markers: dict[TopicPartition, int] = field(default_factory=dict)
    recorded: list[ChannelRange] = field(default_factory=list)
    torn: list[TornEvent] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        return self.noted.epoch

    @property
    def previous(self) -> int:
        return self.noted.previous

    def serves(self, epoch: int) -> bool:
        """Return whether this cut serves an epoch: one cut serves all epochs in (previous, epoch] (R2)."""
        return self.previous < epoch <= self.epoch

    def start(self, tp: TopicPartition) -> int | None:
        """Return the least position of an input; None: it was none of the process."""
        return min((p.offset for p in self.noted.positions if (p.topic, p.partition) == tp), default=None)
