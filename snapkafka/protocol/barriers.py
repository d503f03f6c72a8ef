"""Barrier alignment by one process: it states where it sends, waits, cuts, and lets its inputs go (R16).

When it cuts is decided in `aligner`, from what is known of all processes in `alignment`.
"""

from __future__ import annotations

from abc import abstractmethod

from .actions import Action, AppendToLedger, AskState, StartTimer
from .membership import Member
from .records import NOT_GIVEN, Aligning, Heard


class BarrierMember(Member):
    """A process that waits with its cut while messages are in flight to it, if a snapshot asks for that.

    Args:
        aligns: the driver can hold back inputs. Otherwise the process cuts at the trigger, and if it has inputs the
            snapshot is an ordinary one.
        asks_state: the process hands over its state before it cuts, and takes in nothing red meanwhile.
    """

    def __init__(self, *, aligns: bool, asks_state: bool) -> None:
        super().__init__()
        self._aligns, self._asks_state = aligns, asks_state

    @abstractmethod
    def _cut(self, epoch: int, heard: Heard, *, unaligned: str | None = None) -> list[Action]:
        """Turn red here and now (R3)."""

    def _begin_to_align(self, epoch: int) -> list[Action]:
        """State where this process sends, and wait, if the snapshot is to be aligned. Wait for its state, if it hands
        that over."""
        snapshot = self.ledger.open.get(epoch)
        asked: list[Action] = []
        if self._asks_state:
            if snapshot is not None and self.process in snapshot.required:
                if self.inputs.assigned < 0:
                    return self._without_state([epoch], "was joining")
                self.aligner.begin(epoch, state=False)
                asked.append(AskState(epoch=epoch, id=snapshot.trigger.id))
            elif self.aligner.awaits_state():
                self.aligner.begin(epoch, state=True)
        if snapshot is None or not snapshot.trigger.align or self.process not in snapshot.required:
            return asked
        inputs = {topic for topics in snapshot.apps.values() for topic in topics}
        topics = tuple(sorted({tp.topic for tp in self.colours.sent} & inputs))
        actions: list[Action] = [
            *asked,
            AppendToLedger(record=Aligning(process=self._me, n=self._next_n(), epoch=epoch, topics=topics)),
        ]
        if self._aligns:
            self.aligner.begin(epoch)
            if snapshot.trigger.align_timeout_ms:
                timeout_ms = snapshot.trigger.align_timeout_ms
                actions.append(StartTimer(epoch=epoch, ttl_ms=timeout_ms, align=True))
        return actions

    def _without_state(self, epochs: list[int], why: str) -> list[Action]:
        """Fail snapshots for which this process does not hand over its state."""
        actions: list[Action] = []
        for epoch in epochs:
            actions += self._abort_open(epoch - 1, epoch, NOT_GIVEN, f"{self._name} {why}", self._name)
            self.aligner.give_up(epoch)
        return actions

    def _cannot_align(self, epoch: int) -> str | None:
        """Return why a snapshot that is to be aligned is none, if that is because of this process."""
        snapshot = self.ledger.open.get(epoch)
        if self._aligns or snapshot is None or not snapshot.trigger.align or not self.positions.inputs():
            return None
        return f"{self._name} cannot hold back its inputs"

    def _align(self) -> list[Action]:
        """Cut for what is aligned by now; let go what need not wait any more."""
        actions: list[Action] = []
        while due := self.aligner.due(self.ledger, self._me, self.positions, self.colours):
            epoch, why = due
            actions += self._cut(epoch, "ledger", unaligned=why or self._cannot_align(epoch) or "")
        return [*actions, *self.aligner.let_go()]

    def _why_unaligned(self, heard: Heard) -> str:
        match heard:
            case "assigned":
                how = "a rebalance moved its inputs"
            case "header":
                how = "a red reply or table change cannot be held back"
            case _:
                how = "it cut for another snapshot meanwhile"
        return f"{self._name} did not wait: {how}"

    def _inputs_move(self, *, undone: bool) -> list[Action]:
        """Stop aligning, as the inputs are revoked: their positions are known here for the last time. `undone`: they
        are wrong, as the process goes back itself; then the snapshot fails."""
        if self.process is None or not self.aligning:
            return []
        actions: list[Action] = []
        white = self.aligner.white()
        if white and undone:  # its positions are those of events that will run again
            what = f"{self._name} aborted a transaction while it waited with its cut"
            actions = self._abort_open(self.colours.epoch, max(white), "send-failed", what, self._name)
        elif white:
            actions = self._cut(max(white), "ledger", unaligned=self._why_unaligned("assigned"))
        return [*actions, *self.aligner.clear()]

    def _not_aligned(self, epoch: int) -> list[Action]:
        """Turn an aligned snapshot into an ordinary one: it took too long."""
        snapshot = self.ledger.open.get(epoch)
        if self.process is None or snapshot is None:
            return []
        actions: list[Action] = []
        if self.aligner.is_white(epoch):
            first = self.aligner.waits_for(self.ledger, epoch, self.process, self.positions)
            took = f"within {snapshot.trigger.align_timeout_ms} ms"
            why = f"{self._name} was not aligned {took}: it waited for {first}"
            actions = self._cut(epoch, "ledger", unaligned=why)
        self.aligner.give_up(epoch)
        return [*actions, *self.aligner.let_go(), *self._advance()]
