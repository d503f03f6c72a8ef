"""The reads of tables by running events, the first one and later ones (R6).

Faust's sensors see a look-up by key. All other reads are reported from here: tables as a whole, views and iterators,
and values that an event can see change while it holds them. Such values are the objects of a table in memory (a list
or a record is the same object for all readers), and the sets of a table of sets. A table in RocksDB decodes a new
object for each look-up.

Reads in another thread are noted for all events that run (`Events.read_in_thread`).
"""

from __future__ import annotations

import contextlib
import datetime
import decimal
import enum
import fractions
import uuid
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from snapkafka.protocol.colours import Cause

    from ...process import Process
    from ..audit.scan import Scan
    from ..inbound.running_events import Events

READS: Final = "to record what an event reads"

#: Objects of these types never change.
FIXED: Final[frozenset[type]] = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    }
)


def is_fixed(value: Any) -> bool:
    """Return whether neither a value nor anything in it can ever change in place."""
    kind = type(value)
    if kind in FIXED or isinstance(value, enum.Enum):
        return True
    return kind in (tuple, frozenset) and all(map(is_fixed, value))


class Reads:
    """The reads of the tables of one app.

    Args:
        host: whose machine is fed.
        events: the source of the reading event.
    """

    def __init__(self, host: Process, events: Events) -> None:
        self._host = host
        self._machine = host.machine
        self._events = events
        #: An audit that encodes a key before it is handed out or changed, while one runs.
        self.scan: Scan | None = None

    # -- keys ---------------------------------------------------------------------------------------------------

    def touched(self, table: Any, key: Any, *, write: bool) -> None:
        """Note that the event running here reads or writes a key."""
        try:
            if self.scan is not None:
                self.scan.before_use(table, key)
            if get_ident() != self._host.thread and self._elsewhere(table, key, write=write):
                return
            if self._machine.colours.tearing:
                touched = self._machine.table_touched(self._events.cause(), table.name, key, write=write)
                self._host.do(touched)
        except Exception as error:
            self._host.stand_down(READS, error)

    def note_lookup(self, table: Any, key: Any) -> None:
        """Note that the event running here has read a value that it can see change."""
        try:
            if self.scan is not None:
                self.scan.before_use(table, key)
            if not table.in_place or self._host.absent:
                self.touched(table, key, write=False)
            elif get_ident() == self._host.thread or not self._elsewhere(table, key, write=False):
                self._held(table, key)
        except Exception as error:
            self._host.stand_down(READS, error)

    def wrote_object(self, table: Any, key: Any, value: Any) -> None:
        """Note that an object was set: its writer still holds it, and a table in memory hands it to other readers."""
        if table.keeps_objects and not self._host.absent and not is_fixed(value):
            table.in_place = True
            if get_ident() == self._host.thread:
                self._held(table, key)

    def _held(self, table: Any, key: Any) -> None:
        cause = self._events.cause()
        if cause is not None:
            held = self._machine.value_held(cause, table.name, key, unrecorded=not table.of_sets)
            if held:
                self._host.do(held)

    def vanished(self, table: Any, key: Any) -> None:
        """Note that a key was removed from the store without a record, as when a window expires: this is a write."""
        try:
            if self._machine.colours.tearing:
                self._host.do(self._machine.table_touched(None, table.name, key, write=True))
        except Exception as error:
            self._host.stand_down("to record that a key expires", error)

    def rewritten(self, table: Any) -> None:
        """Note that Faust has changed a table as a whole without a record."""
        try:
            if self._machine.colours.tearing:
                self._host.do(self._machine.table_rewritten(table.name))
        except Exception as error:
            self._host.stand_down("to record that a table changes", error)

    # -- whole tables -------------------------------------------------------------------------------------------

    def hold_whole(self, table: Any, *, values: bool) -> None:
        """Note that the event running here iterates over a table, counts, compares or copies it: it may read any key
        until it ends.

        Args:
            values: it gets the objects of the table.
        """
        try:
            if self.scan is not None and values:
                self.scan.read_whole(table)
            if self._host.absent:
                return
            if get_ident() != self._host.thread and self._elsewhere(table, None, write=False):
                return
            cause, colours = self._events.cause(), self._machine.colours
            if cause is not None and cause in colours.running:
                self._host.do(self._machine.table_iterated(cause, table.name))
            elif colours.tearing:
                self._host.do(self._machine.table_read(cause, table.name))
        except Exception as error:
            self._host.stand_down(READS, error)

    def stand_down(self, error: Exception) -> None:
        """Stand down after a fault of ours during a read (R15)."""
        self._host.stand_down(READS, error)

    # -- other threads ------------------------------------------------------------------------------------------

    def _elsewhere(self, table: Any, key: Any, *, write: bool) -> bool:
        """Pass what another thread does to the loop, before any consequence of it can arrive there."""
        host = self._host
        if host.thread is None or host.absent:
            return host.absent != ""
        if not write:
            self._events.read_in_thread(table.name)
            return True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing is taken in any more
            host.loop.call_soon_threadsafe(self._written, table, key, self._events.cause())
        return True

    def _written(self, table: Any, key: Any, cause: Cause | None) -> None:
        try:
            if self._machine.colours.tearing:
                self._host.do(self._machine.table_touched(cause, table.name, key, write=True))
        except Exception as error:
            self._host.stand_down("to record what a thread writes", error)
