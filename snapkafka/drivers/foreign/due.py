"""The snapshot that waits for the state of a foreign process; its trigger is fed when the state is given, or never."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from snapkafka.ports import Entry
from snapkafka.protocol.events import TimerExpired
from snapkafka.protocol.records import NOT_GIVEN, Abort

from .host import ForeignHost
from .ledger_task import LedgerTask
from .settings import Marker


@dataclass(slots=True)
class Due:
    """A snapshot that waits for the state of the process, and the pieces that have arrived."""

    marker: Marker
    timer: asyncio.TimerHandle | None = None
    given: dict[bytes, int] = field(default_factory=dict)  # key -> bytes


class StateDue:
    """The one snapshot that waits, if any does.

    Args:
        node: the name of the process.
        task: holds the trigger, and goes on when it is fed.
        notify: asks the process for its state.
    """

    def __init__(
        self, node: str, host: ForeignHost, task: LedgerTask, notify: Callable[[Marker], None]
    ) -> None:
        self._node, self._host, self._task, self._notify = node, host, task, notify
        self.now: Due | None = None
        self._left = False  # the process takes part no more
        self._expired: list[
            int
        ] = []  # timers that went off while the machine was not fed; up to two of an epoch

    def of(self, snapshot_id: str) -> Due | None:
        """Return it, if it is that of this snapshot."""
        due = self.now
        return due if due is not None and due.marker.snapshot_id == snapshot_id else None

    def asks(self, epoch: int, entry: Entry) -> bool:
        """Return whether the snapshot of this trigger waits for the state of the process; if so, ask the process for
        it."""
        machine = self._host.machine
        view = self._task.ahead.open.get(epoch)
        if view is None or self._left or machine.process not in view.required:
            return False
        if not machine.inputs.ready or machine.inputs.assigned < 0:
            self._abort(epoch, f"{self._node} was joining")
            return False
        marker = Marker(view.trigger.id, epoch, entry.timestamp_ms * 1_000_000)
        self.now = due = Due(marker)
        what = f"{self._node} did not give its state within {view.trigger.ttl_ms} ms"
        loop = asyncio.get_running_loop()
        due.timer = loop.call_later(view.trigger.ttl_ms / 1_000, self._expire_due, due, what)
        self._notify(marker)
        return True

    def settle(self) -> None:
        """Feed the trigger, in the same instant as the cut."""
        due, self.now = self.now, None
        if due is not None and due.timer is not None:
            due.timer.cancel()
        self._task.go_on()
        if self.now is None:
            expired, self._expired = self._expired, []
            for epoch in sorted(expired):
                self.expire(epoch)

    def leave(self) -> None:
        """Ask for no state any more: the process has left."""
        self._left = True

    def give_up(self, what: str) -> None:
        """Fail the snapshot that waits for a state, before the machine reports a cut without one."""
        if self.now is not None:
            self._abort(self.now.marker.epoch, what)
            self.settle()

    def expire(self, epoch: int) -> None:
        """Pass an expired timer to the machine, unless a trigger waits: it judges by what it was fed, and would take
        others for late."""
        if self.now is not None:
            self._expired.append(epoch)
        elif epoch in self._task.ahead.open and not self._left:
            self._host.feed(TimerExpired(epoch=epoch))

    def _expire_due(self, due: Due, what: str) -> None:
        if self.now is due:
            self.give_up(what)

    def _abort(self, epoch: int, what: str) -> None:
        culprit = f"process {self._host.machine.process}"
        self._task.append(
            Abort(n=random.getrandbits(63), epoch=epoch, code=NOT_GIVEN, reason=what, culprit=culprit)
        )
