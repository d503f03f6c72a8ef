"""The one loop of every driver: feed the machine an event, do the actions that it returns, feed their results.

A driver decides nothing. It implements the hooks below; docs/explanation/drivers.md shows how, step by step. Faust
workers, remote processes and the processes of the simulator are driven by this loop.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import assert_never

from snapkafka.protocol.actions import (
    Action,
    AppendHello,
    AppendToLedger,
    AskState,
    Hold,
    LetGo,
    ReadLedgerTo,
    SendMarkers,
    StartTimer,
    TurnedRed,
)
from snapkafka.protocol.events import Event
from snapkafka.protocol.records import LedgerRecord, Report
from snapkafka.protocol.worker import WorkerProtocol

#: What the machine wants first, before a record or marker is taken in.
First = ReadLedgerTo | Hold


class MachineDriver(ABC):
    """The machine of one process, and the loop around it."""

    #: Measures how long a cut takes, in nanoseconds.
    clock_ns: Callable[[], int] = staticmethod(time.perf_counter_ns)

    def __init__(self, machine: WorkerProtocol) -> None:
        self.machine = machine
        self._cut_us: dict[int, int] = {}  # how long the cuts took that are not reported yet, by epoch

    def feed(self, event: Event) -> First | None:
        """Feed the machine an event, and do what it asks for.

        Returns:
            what the machine wants first, if the event is a record or marker that is about to be taken in: read the
            ledger up to there, and feed the event again (R2), or hold the record back (R16).
        """
        started = self.clock_ns()
        actions = self.machine.handle(event)
        return self.do(actions, us=(self.clock_ns() - started) // 1_000)

    def do(self, actions: Sequence[Action], *, us: int = 0) -> First | None:
        """Do the actions of the machine, in their order.

        Args:
            us: the machine has taken so long to decide on them, in microseconds.

        Returns:
            see `feed`.
        """
        asked: First | None = None
        for action in actions:
            match action:
                case AppendToLedger(record=Report() as report):
                    self.append(replace(report, cut_us=self._cut_us.get(report.epoch, 0)))
                case AppendToLedger(record=record):
                    self.append(record)
                case SendMarkers():
                    self.send_markers(action)
                case StartTimer():
                    self.start_timer(action)
                case Hold(inputs=True):
                    self.hold_inputs()
                case LetGo():
                    self.let_go()
                case AppendHello(was=was):
                    self.append_hello(was)
                case AskState():
                    self.ask_state(action)
                case ReadLedgerTo() | Hold():
                    asked = action
                case TurnedRed(epoch=epoch):
                    self.turned_red(action, us)
                    self._cut_us = {e: self._cut_us.get(e, us) for e in (*self.machine.open.cuts, epoch)}
                case _:
                    assert_never(action)
        self.changed()
        return asked

    # -- every driver has these -------------------------------------------------------------------------------------

    @abstractmethod
    def append(self, record: LedgerRecord) -> None:
        """Append to the ledger in the background, in the order asked. It comes back as `LedgerRead`."""

    @abstractmethod
    def send_markers(self, action: SendMarkers) -> None:
        """Send a marker to each partition, before any red record. Feed `MarkerSettled` for each."""

    @abstractmethod
    def start_timer(self, action: StartTimer) -> None:
        """Feed `TimerExpired` after that time, once the ledger is read to its end: who has reported there is not to be
        declared dead (R12)."""

    @abstractmethod
    def append_hello(self, was: int) -> None:
        """Join again as a new process, which was process `was`: feed `Joined`, and append the `Hello`."""

    # -- and may have these -----------------------------------------------------------------------------------------

    def hold_inputs(self) -> None:
        """Start no event before `let_go` (R16). Without this method a process fails aligned snapshots."""
        raise NotImplementedError

    def let_go(self) -> None:  # noqa: B027
        """Let go what was held back, in its order."""

    def ask_state(self, action: AskState) -> None:  # noqa: B027
        """Ask the process for its state; feed `StateGiven`. Only a machine that `asks_state` asks for this."""

    def turned_red(self, action: TurnedRed, us: int) -> None:  # noqa: B027
        """Note that the cut was taken, within so many microseconds."""

    def changed(self) -> None:  # noqa: B027
        """Wake the tasks that wait for the machine: it has taken something in, and its actions are done."""
