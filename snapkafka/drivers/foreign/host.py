"""The machine of one foreign process, and the hooks of its loop. It decides nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from snapkafka.protocol.actions import SendMarkers, StartTimer, TurnedRed
from snapkafka.protocol.records import LedgerRecord
from snapkafka.protocol.worker import WorkerProtocol

from ..machine_driver import MachineDriver


class ForeignHost(MachineDriver):
    """The host of the parts that stand for one foreign process.

    Args:
        admin: the cluster.
        append: appends to the ledger, in the order asked.
        expire: called when the time to live of a snapshot is over.
        leave: called with the reason why the process no longer takes part.
    """

    def __init__(
        self,
        *,
        admin: Any,
        append: Callable[[LedgerRecord], None],
        expire: Callable[[int], None],
        leave: Callable[[str], None],
    ) -> None:
        super().__init__(WorkerProtocol())
        self.machine.send_no_markers()  # the headers do it: nobody may send in its name but this object
        self._admin, self._append, self._expire, self._leave = admin, append, expire, leave
        self._background: set[asyncio.Task[None]] = set()

    # -- the hooks of the loop --------------------------------------------------------------------------------------

    def append(self, record: LedgerRecord) -> None:
        """Append in the background."""
        self._append(record)

    def send_markers(self, action: SendMarkers) -> None:
        """Send none: the machine asks for none."""

    def start_timer(self, action: StartTimer) -> None:
        """Notify the driver, which may wait for a state."""
        asyncio.get_running_loop().call_later(action.ttl_ms / 1_000, self._expire, action.epoch)

    def append_hello(self, was: int) -> None:
        """Leave: a process whose id is void has to join by itself."""
        self._leave("its id is void: it was declared dead, or the ledger is another one")

    def hold_inputs(self) -> None:
        """Hold nothing back: its state comes at the cut, so it does not align."""

    def let_go(self) -> None:
        """Let nothing go: nothing is held back."""

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Tear the events that run across a cut (R6): all events of the process share one state."""
        for event in list(self.machine.colours.running):
            self.do(self.machine.worked_off(event, None))

    # -- tasks in the background ------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task in the background, until it is done or `close`."""
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def close(self) -> None:
        """Cancel the background tasks."""
        for task in list(self._background):
            task.cancel()
