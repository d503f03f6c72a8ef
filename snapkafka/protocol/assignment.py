"""The inputs that a process has, as it announces them in the ledger (R9)."""

from __future__ import annotations

from .events import AssignedInput, InputsAssigned
from .ledger_view import LedgerView
from .records import Assigned, ChangelogEnd, TopicPartition


class Inputs:
    """The assigned inputs, and those of them that are our own, as far as the ledger was read up to the `Assigned`
    (R9)."""

    def __init__(self) -> None:
        self.assigned = -1  # ledger offset of our latest Assigned
        self.tables: tuple[ChangelogEnd, ...] = ()  # as recovered with them
        self.latest: InputsAssigned | None = None
        self.taken = False  # all were, and what came instead is not told yet
        self._given_n = -1
        self._ours: InputsAssigned | None = None  # the assignment that is ours, once its Assigned is read

    @property
    def ready(self) -> bool:
        """Whether the latest inputs are announced and the ledger is read up to that record."""
        return not self.taken and (self.latest is None or self._ours is self.latest)

    @property
    def announceable(self) -> bool:
        """Whether there is something to announce: revoked inputs are not."""
        return not self.taken and self.latest is not None

    def assign(self, latest: InputsAssigned) -> None:
        self.latest, self.tables, self.taken = latest, (), False

    def take(self) -> None:
        self.tables, self.taken = (), True

    def lose(self) -> None:
        """Lose all inputs: they were assigned to an id that is void."""
        self.assigned, self.tables = -1, ()

    def announce(self, process: int, n: int) -> Assigned:
        """Return the record that announces our inputs in the ledger."""
        assert self.latest is not None
        self._given_n = n
        return Assigned(
            process=process,
            n=n,
            generation=self.latest.generation,
            inputs=tuple(sorted(item.tp for item in self.latest.inputs)),
            changelogs=tuple(
                sorted(TopicPartition(end.topic, end.partition) for end in self.latest.changelogs)
            ),
            member=self.latest.member,
        )

    def is_announced_by(self, record: Assigned, process: int | None) -> bool:
        return (record.process, record.n) == (process, self._given_n)

    def announced(self, offset: int) -> bool:
        """Note that our `Assigned` was read; return whether it is the first one that reports these inputs."""
        self.assigned = offset
        first = self._ours is not self.latest
        self._ours = self.latest
        return first

    def ours(self, ledger: LedgerView, process: int) -> list[AssignedInput]:
        """Return the assigned inputs that are our own, and keep the tables that are."""
        assert self.latest is not None
        app = ledger.app_of(process)
        self.tables = tuple(
            end
            for end in self.latest.changelogs
            if ledger.owner((app, TopicPartition(end.topic, end.partition))) == process
        )
        return [item for item in self.latest.inputs if ledger.owner((app, item.tp)) == process]
