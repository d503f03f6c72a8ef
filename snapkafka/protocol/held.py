"""Values and tables that running events hold and may read again (R6).

A value that can change in place (a set, a list, a record in memory) is one object for all events that have looked it
up. An event that holds it sees later changes by others without another look-up. An event that iterates over a table, or
reads it as a whole in another way, may read any key until it ends. So both are noted from the first read on, whatever
the colour of the process, because the cut may come in between; an event that holds neither costs nothing.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

#: A table, and a key of it.
Key = tuple[str, object]
#: A running event.
E = TypeVar("E", bound=Hashable)


class Held(Generic[E]):
    """The values and tables held, by event. Everything is kept in the order in which it came, so that a run can be
    repeated."""

    __slots__ = ("_holders", "_iterating", "by_event")

    def __init__(self) -> None:
        #: Running event -> the keys whose values it holds; True: it may change that one with no record of it. Also of
        #: those that hold tables only. Asked at the end of each event, so no more than a dictionary.
        self.by_event: dict[E, dict[Key, bool]] = {}
        self._holders: dict[Key, dict[E, None]] = {}
        #: Table -> the events that hold it.
        self._iterating: dict[str, dict[E, None]] = {}

    def hold(self, event: E, key: Key, *, unrecorded: bool) -> None:
        """Note that an event has looked up a value that can change in place."""
        keys = self.by_event.setdefault(event, {})
        if key not in keys:
            self._holders.setdefault(key, {})[event] = None
        keys[key] = unrecorded or keys.get(key, False)

    def iterate(self, event: E, table: str) -> None:
        """Note that an event iterates over a table."""
        self.by_event.setdefault(event, {})
        self._iterating.setdefault(table, {})[event] = None

    def end(self, event: E) -> None:
        """Note that an event is over: it reads nothing any more."""
        for key in self.by_event.pop(event, ()):
            holders = self._holders[key]
            del holders[event]
            if not holders:
                del self._holders[key]
        for table in self.iterated_by(event):
            del self._iterating[table][event]
            if not self._iterating[table]:
                del self._iterating[table]

    def iterated_by(self, event: E) -> list[str]:
        """Return the tables over which an event iterates."""
        return [table for table, iterating in self._iterating.items() if event in iterating]

    def who_holds_of(self, table: str) -> list[E]:
        """Return the events that see a change of any key of this table without looking it up."""
        found = {
            event: None for (name, _), holders in self._holders.items() if name == table for event in holders
        }
        return [*found, *self._iterating.get(table, ())]

    def who_sees(self, key: Key) -> list[E]:
        """Return the events that see a change of this key without looking it up."""
        return [*self._holders.get(key, ()), *self._iterating.get(key[0], ())]
