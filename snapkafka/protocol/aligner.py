"""The aligned snapshots that one process has not cut for yet, or for which it holds back its inputs (R16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .actions import Hold, LetGo
from .alignment import ends_of, graph_of, holds_after
from .records import NOT_ALIGNED, NOT_GIVEN, TopicPartition

if TYPE_CHECKING:
    from .colours import Colours
    from .cut import Positions
    from .ledger_view import LedgerView


@dataclass(slots=True)
class _Aligned:
    """One aligned snapshot. `senders`: the processes that send to this one; `ends`: where the white records of all
    senders end, once they have reported. `state`: whether the process has handed over its state, where it does so
    before it cuts; True, too, where a snapshot needs none, and waits for that of an earlier one."""

    cut: bool = False
    state: bool | None = None
    senders: frozenset[int] | None = None
    ends: dict[TopicPartition, int] | None = None


class Aligner:
    """The alignments of one process, by epoch."""

    def __init__(self) -> None:
        self.open: dict[int, _Aligned] = {}
        #: The lowest epoch of a record that is held back, 0: all inputs are; None: nothing is.
        self._held_from: int | None = None

    def begin(self, epoch: int, *, state: bool | None = None) -> None:
        """Begin to align for a snapshot, or to wait for the state of the process."""
        self.open[epoch] = _Aligned(state=state)

    def awaits_state(self) -> list[int]:
        """List the snapshots that wait for the state of the process."""
        return sorted(epoch for epoch, item in self.open.items() if item.state is False)

    def state_given(self, epoch: int) -> None:
        """Note that the process has handed over its state."""
        if epoch in self.open:
            self.open[epoch].state = True

    def cannot_wait(self, upto: int, why: str) -> list[tuple[int, str, str]]:
        """Give up the snapshots up to this epoch for which the process has not cut. Return each with the code of its
        failure, and with what the process did."""
        found = []
        for epoch in sorted(epoch for epoch in self.open if epoch <= upto and self.is_white(epoch)):
            item = self.open.pop(epoch)
            if item.state is False:
                found.append((epoch, NOT_GIVEN, "turned red before it had handed over its state"))
            elif item.state is None:
                found.append((epoch, NOT_ALIGNED, f"did not wait: {why}"))
        return found

    def is_white(self, epoch: int) -> bool:
        """Return whether the process still waits before it cuts for this snapshot."""
        return epoch in self.open and not self.open[epoch].cut

    def is_ahead(self, epoch: int) -> bool:
        """Return whether something of this epoch is red for a snapshot for which the process has not cut."""
        return any(since <= epoch for since, item in self.open.items() if not item.cut)

    def holds(self, epoch: int) -> bool:
        """Return whether a record of this epoch has to wait. If so, it counts as held back."""
        if not self.is_ahead(epoch):
            return False
        self._held_from = epoch if self._held_from is None else min(epoch, self._held_from)
        return True

    def due(self, ledger: LedgerView, process: int, positions: Positions, colours: Colours) -> int | None:
        """Return a snapshot for which to cut now; None: there is none. Alignments that are over are dropped."""
        for epoch, item in sorted(self.open.items()):
            snapshot = ledger.open.get(epoch)
            if snapshot is None or (not item.cut and epoch <= colours.epoch):
                del self.open[epoch]
            elif item.cut:
                if not holds_after(ledger, snapshot, process):
                    del self.open[epoch]
            elif item.state is False:
                return None  # a cut for a later one would serve this one, too
            elif item.state or not self.waits_for(ledger, epoch, process, positions):
                return epoch
        return None

    def waits_for(self, ledger: LedgerView, epoch: int, process: int, positions: Positions) -> str:
        """Return the first thing that the process waits for before it cuts; empty: nothing is in flight to it."""
        snapshot, item = ledger.open[epoch], self.open[epoch]
        if item.senders is None:
            apps = graph_of(snapshot).senders(ledger.app_of(process))
            item.senders = frozenset(p for p in snapshot.required if ledger.app_of(p) in apps)
        if item.ends is None:
            if late := sorted(item.senders - snapshot.reports.keys()):
                return f"process {late[0]} of app {ledger.app_of(late[0])} to report"
            item.ends = ends_of(snapshot, snapshot.apps[ledger.app_of(process)])
        behind = positions.behind(item.ends)
        return "" if behind is None else f"input {behind} to be read up to its barrier"

    def cut(self, ledger: LedgerView, epoch: int, process: int, *, aligned: bool) -> list[Hold]:
        """Note a cut, which serves all epochs up to this one. Return the action that holds back all inputs, if any."""
        for served in [e for e, item in self.open.items() if e <= epoch and not item.cut]:
            snapshot = ledger.open.get(served)
            if aligned and snapshot is not None and holds_after(ledger, snapshot, process):
                self.open[served].cut = True
                self._held_from = 0
            else:
                del self.open[served]
        holds = aligned and any(item.cut for item in self.open.values())
        return [Hold(epoch=epoch, inputs=True)] if holds else []

    def give_up(self, epoch: int) -> None:
        """Hold back nothing more for this snapshot."""
        self.open.pop(epoch, None)

    def clear(self) -> list[LetGo]:
        """Give up all alignments."""
        self.open.clear()
        return self.let_go()

    def let_go(self) -> list[LetGo]:
        """Return the action that lets go what is held back, unless some of it still waits. Each record asks again."""
        held_from = self._held_from
        if held_from is None or any(item.cut or epoch <= held_from for epoch, item in self.open.items()):
            return []
        self._held_from = None
        return [LetGo()]
