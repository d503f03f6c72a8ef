"""Describe what running events look at in tables, at first and later (R6).

Faust's sensors hear of a look-up by its key. All else is reported from here: tables as a whole, views and iterators,
and values that an event can see change while it holds them. Those are what a table in memory hands out (it keeps
objects: a list or a record is one and the same for all), and the sets of a table of sets. A table in RocksDB decodes a
new object for each look-up.

In another thread it is unknown at which moment of the loop something was read, nor mostly for which event. All that is
read there counts as read, and held to their ends, by all events that run; and it is reported by name, for a thread may
hand on what it has read to events that start later, and no hook sees that. The loop takes it in before
anything is sent and before any event ends, also of an event that waits for the thread without giving way to the loop.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import logging
import threading
import uuid
from collections.abc import Iterator
from itertools import chain
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from snapkafka.protocol.colours import Cause

if TYPE_CHECKING:
    from ..driver import FaustDriver

__all__ = ["FIXED", "Looks", "is_fixed"]

logger = logging.getLogger("snapkafka")

READS: Final = "to note what an event reads"

#: Objects of these types never change.
FIXED: Final[frozenset[type]] = frozenset(
    {
        *(type(None), bool, int, float, complex, str, bytes, range),
        *(decimal.Decimal, fractions.Fraction, uuid.UUID),
        *(datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone),
    }
)


def is_fixed(value: Any) -> bool:
    """Return whether a value can never change in place: nor can what it holds."""
    kind = type(value)
    if kind in FIXED or isinstance(value, enum.Enum):
        return True
    return kind in (tuple, frozenset) and all(map(is_fixed, value))


class Looks:
    """Looks at the tables of one app.

    Args:
        driver: its machine is informed.
    """

    def __init__(self, driver: FaustDriver) -> None:
        self._driver = driver
        self._machine = driver.machine
        self._events = driver.events
        #: Table -> the first thread besides the loop's that has read it.
        self.threads: dict[str, str] = {}

    # -- keys ---------------------------------------------------------------------------------------------------

    def touched(self, table: Any, key: Any, *, write: bool) -> None:
        """Note that the event running here reads or writes a key."""
        try:
            if get_ident() != self._driver.thread and self._elsewhere(table, key, write=write):
                return
            if self._machine.colours.tearing:
                touched = self._machine.table_touched(self._events.cause(), table.name, key, write=write)
                self._driver.do(touched)
        except Exception as error:
            self._driver.stand_down(READS, error)

    def looked_up(self, table: Any, key: Any) -> None:
        """Note that the event running here has looked a value up, and can see it change in such a table."""
        try:
            if not table.in_place or self._driver.absent:
                self.touched(table, key, write=False)
            elif get_ident() == self._driver.thread or not self._elsewhere(table, key, write=False):
                self._held(table, key)
        except Exception as error:
            self._driver.stand_down(READS, error)

    def wrote_object(self, table: Any, key: Any, value: Any) -> None:
        """An object was set: anyone who sets it has it still, and a table in memory hands it to others."""
        if table.keeps_objects and not self._driver.absent and not is_fixed(value):
            table.in_place = True
            if get_ident() == self._driver.thread:
                self._held(table, key)

    def _held(self, table: Any, key: Any) -> None:
        cause = self._events.cause()
        if cause is not None:
            held = self._machine.value_held(cause, table.name, key, unrecorded=not table.of_sets)
            if held:
                self._driver.do(held)

    def vanished(self, table: Any, key: Any) -> None:
        """Note that a key was taken out of the store with no record of it, as a window is that expires: a write."""
        try:
            if self._machine.colours.tearing:
                self._driver.do(self._machine.table_touched(None, table.name, key, write=True))
        except Exception as error:
            self._driver.stand_down("to note that a key expires", error)

    def rewritten(self, table: Any) -> None:
        """Note that Faust has changed a table as a whole, with no record of it."""
        try:
            if self._machine.colours.tearing:
                self._driver.do(self._machine.table_rewritten(table.name))
        except Exception as error:
            self._driver.stand_down("to note that a table changes", error)

    # -- whole tables -------------------------------------------------------------------------------------------

    def read_whole(self, table: Any) -> None:
        """Note that the event running here counts the keys of a table, or compares it."""
        try:
            if get_ident() != self._driver.thread and self._elsewhere(table, None, write=False):
                return
            if self._machine.colours.tearing:
                self._driver.do(self._machine.table_read(self._events.cause(), table.name))
        except Exception as error:
            self._driver.stand_down(READS, error)

    def copied(self, table: Any) -> None:
        """A copy has the objects of the table in it."""
        try:
            if not (table.in_place and self._iterate(table)):
                self.read_whole(table)
        except Exception as error:
            self._driver.stand_down(READS, error)

    def iterating(self, table: Any, iterator: Iterator[Any], of_values: bool) -> Iterator[Any]:
        """Note that the event running here iterates over a table.

        Returns:
            the same, as fast; when it is at its end or dropped the machine is informed, unless what it has handed out
            may still change.
        """
        try:
            cause = self._iterate(table)
            if cause is None:
                self.read_whole(table)
                return iterator
            if of_values and table.in_place:
                return iterator
            return chain(iterator, _End(self, cause, table.name))
        except Exception as error:
            self._driver.stand_down(READS, error)
        return iterator

    def _iterate(self, table: Any) -> Cause | None:
        """The event that goes over it; None where that is nobody's, or cannot be determined here."""
        if get_ident() != self._driver.thread or self._driver.absent:
            return None
        cause = self._events.cause()
        if cause is not None and cause in self._machine.colours.running:
            self._driver.do(self._machine.table_iterated(cause, table.name))
            return cause
        return None

    def iterated(self, cause: Cause, table: str) -> None:
        """An iterator is at its end, or dropped; where that is noticed in another thread, it is held on to."""
        try:
            if get_ident() == self._driver.thread:
                self._machine.iterated(cause, table)
        except Exception as error:
            self._driver.stand_down("to note that an iterator is at its end", error)

    def stand_down(self, error: Exception) -> None:
        """A fault of ours was met in the midst of a look (R15)."""
        self._driver.stand_down(READS, error)

    # -- other threads ------------------------------------------------------------------------------------------

    def _elsewhere(self, table: Any, key: Any, *, write: bool) -> bool:
        """Note what another thread does in the loop, before anything that comes of it can arrive there."""
        driver, cause = self._driver, self._events.cause_in_thread()
        if driver.thread is None or driver.absent:
            return driver.absent != ""
        due, unnoted = (table.name, cause), self._events.unnoted
        if not write and due in unnoted:
            return True
        try:
            if write:
                driver.loop.call_soon_threadsafe(self._written, table, key, cause)
            else:
                unnoted[due] = threading.current_thread().name
                driver.loop.call_soon_threadsafe(self.note)
        except RuntimeError:  # the loop is closed: nothing is taken in any more
            unnoted.pop(due, None)
        return True

    def note(self) -> None:
        """Take in what other threads have read: before an event that may have waited for it sends, or ends."""
        try:
            unnoted = self._events.unnoted
            while unnoted:
                (table, cause), thread = unnoted.popitem()
                running = self._machine.colours.running
                for event in [cause] if cause is not None and cause in running else list(running):
                    self._driver.do(self._machine.table_iterated(event, table))
                if table not in self.threads:
                    self.threads[table] = thread
                    logger.warning("snapkafka: %s", self.of_thread(table), extra=self._driver.about())
        except Exception as error:
            self._driver.stand_down("to note what a thread reads", error)

    def _written(self, table: Any, key: Any, cause: Cause | None) -> None:
        try:
            if self._machine.colours.tearing:
                self._driver.do(self._machine.table_touched(cause, table.name, key, write=True))
        except Exception as error:
            self._driver.stand_down("to note what a thread writes", error)

    def of_thread(self, table: str) -> str:
        """Describe what no snapshot holds of a table that another thread reads."""
        return (
            f"thread {self.threads[table]} reads table {table}: that counts for all events that run at the time; what"
            " it hands on to later ones is in no snapshot"
        )


class _End(Iterator[Any]):
    """The end of an iterator: reached, or dropped with it."""

    __slots__ = ("_cause", "_looks", "_table")

    def __init__(self, looks: Looks, cause: Cause, table: str) -> None:
        self._looks, self._cause, self._table = looks, cause, table

    def __next__(self) -> Any:
        try:
            self._looks.iterated(self._cause, self._table)
            self._table = ""
        except Exception as error:
            self._looks.stand_down(error)
        raise StopIteration

    def __del__(self) -> None:
        looks = getattr(self, "_looks", None)
        try:
            if looks is not None and self._table:
                looks.iterated(self._cause, self._table)
        except Exception as error:
            if looks is not None:
                looks.stand_down(error)
