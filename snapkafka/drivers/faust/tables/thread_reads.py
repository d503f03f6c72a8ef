"""Reads of tables in other threads than the loop's (R6).

The moment of the loop is unknown for such a read, and mostly the event as well. It counts as a read by all running
events, held until they end. It is also reported by name: a thread may pass what it has read to events that start
later, and no hook sees that. The loop processes such reads before anything is sent and before any event ends, even if
the event blocks the loop while it waits for the thread.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapkafka.protocol.colours import Cause

    from ...host import Host

logger = logging.getLogger("snapkafka")


class ThreadReads:
    """The reads of other threads than the loop's.

    Args:
        host: whose machine is fed.

    Attributes:
        unnoted: (table, event as far as it is known) -> the thread that has read it, and the machine does not know yet.
        first: table -> the first thread besides the loop's that has read it.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self.unnoted: dict[tuple[str, Cause | None], str] = {}
        self.first: dict[str, str] = {}

    def read(self, table: str, cause: Cause | None) -> None:
        """Note that a table is read in this thread."""
        due = (table, cause)
        if due in self.unnoted:
            return
        try:
            self.unnoted[due] = threading.current_thread().name
            self._host.loop.call_soon_threadsafe(self.note)
        except RuntimeError:  # the loop is closed: nothing is taken in any more
            self.unnoted.pop(due, None)

    def note(self) -> None:
        """Process the reads of other threads: before an event that may have waited for them sends or ends."""
        try:
            machine, unnoted = self._host.machine, self.unnoted
            while unnoted:
                (table, cause), thread = unnoted.popitem()
                running = machine.colours.running
                for event in [cause] if cause is not None and cause in running else list(running):
                    self._host.do(machine.table_iterated(event, table))
                if table not in self.first:
                    self.first[table] = thread
                    logger.warning("snapkafka: %s", self.of_thread(table), extra=self._host.about())
        except Exception as error:
            self._host.stand_down("to record what a thread reads", error)

    def of_thread(self, table: str) -> str:
        """Name the state that no snapshot holds of a table that another thread reads."""
        return (
            f"thread {self.first[table]} reads table {table}: that counts for all events that run at the time; what"
            " it hands on to later ones is in no snapshot"
        )
