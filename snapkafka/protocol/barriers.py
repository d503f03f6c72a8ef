"""Barrier alignment by one process: it waits, cuts, and lets its inputs go (R16).

When it cuts is decided in `aligner`, from what is known of all processes in `alignment`.
"""

from __future__ import annotations

from abc import abstractmethod

from .actions import Action, AskState
from .membership import Member
from .records import NOT_ALIGNED, NOT_GIVEN, Heard


class BarrierMember(Member):
    """A process that waits with its cut while messages are in flight to it, if a snapshot asks for that.

    Args:
        aligns: the driver can hold back inputs. Otherwise a process with inputs fails an aligned snapshot.
        asks_state: the process hands over its state before it cuts, and takes in nothing red meanwhile.
    """

    def __init__(self, *, aligns: bool, asks_state: bool) -> None:
        super().__init__()
        self._aligns, self._asks_state = aligns, asks_state

    @abstractmethod
    def _cut(self, epoch: int, heard: Heard, *, aligned: bool = False) -> list[Action]:
        """Turn red here and now (R3)."""

    def _begin_to_wait(self, epoch: int) -> list[Action]:
        """Wait with the cut, if the snapshot is to be aligned, and for the state of this process, if it hands that
        over."""
        snapshot = self.ledger.open.get(epoch)
        required = snapshot is not None and self.process in snapshot.required
        if self._asks_state and required and self.inputs.assigned < 0:
            return self._without_state([epoch], "was joining")
        if snapshot is None or not required:
            if self.aligner.awaits_state():
                self.aligner.begin(epoch, state=True)
            return []
        if snapshot.trigger.align and self._aligns:
            self.aligner.begin(epoch)
        elif snapshot.trigger.align and self.positions.inputs():
            why = f"{self._name} cannot hold back its inputs"
            return self._abort_open(epoch - 1, epoch, NOT_ALIGNED, why, self._name)
        elif self._asks_state:
            self.aligner.begin(epoch, state=False)
            return [AskState(epoch=epoch, id=snapshot.trigger.id)]
        return []

    def _without_state(self, epochs: list[int], why: str) -> list[Action]:
        """Fail snapshots for which this process does not hand over its state."""
        actions: list[Action] = []
        for epoch in epochs:
            actions += self._abort_open(epoch - 1, epoch, NOT_GIVEN, f"{self._name} {why}", self._name)
            self.aligner.give_up(epoch)
        return actions

    def _cannot_wait(self, upto: int, why: str) -> list[Action]:
        """Fail the snapshots up to this epoch for which this process waits with its cut."""
        return [
            action
            for epoch, code, what in self.aligner.cannot_wait(upto, why)
            for action in self._abort_open(epoch - 1, epoch, code, f"{self._name} {what}", self._name)
        ]

    def _align(self) -> list[Action]:
        """Cut for what is aligned by now; let go what need not wait any more."""
        actions: list[Action] = []
        while epoch := self.aligner.due(self.ledger, self._me, self.positions, self.colours):
            actions += self._cut(epoch, "ledger", aligned=True)
        return [*actions, *self.aligner.let_go()]

    def _inputs_move(self, *, undone: bool) -> list[Action]:
        """Stop aligning, as the inputs are revoked. `undone`: this process itself goes back, in an aborted
        transaction."""
        if self.process is None or not self.aligning:
            return []
        why = "it aborted a transaction" if undone else "a rebalance moved its inputs"
        return [*self._cannot_wait(max(self.aligning), why), *self.aligner.clear()]
