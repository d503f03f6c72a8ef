"""Where Faust says that an event starts and ends, and that a table is touched: its own sensor interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faust import Sensor

from snapkafka.protocol.colours import Cause

from .streams import reading_of

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["EventSensor"]


class EventSensor(Sensor):
    """Tells what runs.

    Args:
        driver: the driver of this app.
    """

    def __init__(self, driver: FaustDriver, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._driver = driver
        self._machine = driver.machine
        self._events = driver.events

    def on_stream_event_in(self, tp: Any, offset: int | None, stream: Any, event: Any) -> Cause | None:
        """A stream takes a record out of its queue and is about to hand it to its agent."""
        if offset is None or offset < 0:
            return None  # an in-memory channel: no input of the snapshot
        reading = reading_of(stream)
        if reading.replies:
            self._driver.replies.taken_in(tp, offset, event.value)
            return None
        return self._events.taken_in(reading, tp, offset, event)

    def on_stream_event_out(
        self, tp: Any, offset: int | None, stream: Any, event: Any, state: Cause | None = None
    ) -> None:
        """The agent asks for the next record, or acknowledges this one."""
        if offset is not None and offset >= 0:
            self._events.through_with(reading_of(stream), tp, offset, state)

    def on_message_out(self, tp: Any, offset: int, message: Any) -> None:
        """The last agent has acknowledged a record."""
        self._events.acknowledged(tp, offset)

    def on_table_get(self, table: Any, key: Any) -> None:
        """Key is read."""
        if self._machine.colours.tearing:  # asked here, too: it hardly ever is so
            self.touched(table, key, write=False)

    def on_table_set(self, table: Any, key: Any, value: Any) -> None:
        """Key is written."""
        if self._machine.colours.tearing:
            self.touched(table, key, write=True)

    def on_table_del(self, table: Any, key: Any) -> None:
        """Key is deleted."""
        self.touched(table, key, write=True)

    def touched(self, table: Any, key: Any, *, write: bool) -> None:
        """What is running here reads or writes a key."""
        if self._machine.colours.tearing:
            self._driver.do(self._machine.table_touched(self._events.cause(), table.name, key, write=write))

    def read_whole(self, table: Any) -> None:
        """What is running here iterates over a table, or counts its keys."""
        if self._machine.colours.tearing:
            self._driver.do(self._machine.table_read(self._events.cause(), table.name))
