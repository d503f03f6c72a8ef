"""Where Faust says that an event starts and ends, and that a table is touched: its own sensor interface.

An event starts at `on_stream_event_in`, whatever processors, joins or Cython are in use; the running set is a set, so
an "out" without an "in", or a late one, does no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from faust import Sensor

from snapkafka.protocol.colours import Cause

from .context import current_cause, set_cause

if TYPE_CHECKING:
    from .driver import FaustDriver

__all__ = ["EventSensor"]


class EventSensor(Sensor):
    """Tells the machine what runs.

    Args:
        driver: the driver of this app.
    """

    def __init__(self, driver: FaustDriver, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._driver = driver
        self._machine = driver.machine

    def on_stream_event_in(self, tp: Any, offset: int | None, stream: Any, event: Any) -> Cause | None:
        """A stream takes a record out of its queue and is about to hand it to its agent."""
        if offset is None or offset < 0:
            return None  # an in-memory channel: no input of the snapshot
        cause = Cause(agent_of(stream), tp, offset)
        while cause in self._machine.colours.running:  # a replay begins while the first run still goes on
            cause = cause._replace(run=cause.run + 1)
        self._machine.event_started(cause)
        set_cause(cause)
        return cause

    def on_stream_event_out(
        self, tp: Any, offset: int | None, stream: Any, event: Any, state: Cause | None = None
    ) -> None:
        """The agent asks for the next record, or acknowledges this one."""
        if offset is None or offset < 0:
            return
        cause = state if state is not None else Cause(agent_of(stream), tp, offset)
        self._driver.do(self._machine.event_ended(cause))

    def on_table_get(self, table: Any, key: Any) -> None:
        """Key is read."""
        self._touched(table, key, write=False)

    def on_table_set(self, table: Any, key: Any, value: Any) -> None:
        """Key is written."""
        self._touched(table, key, write=True)

    def on_table_del(self, table: Any, key: Any) -> None:
        """Key is deleted."""
        self._touched(table, key, write=True)

    def _touched(self, table: Any, key: Any, *, write: bool) -> None:
        if self._machine.colours.tearing:
            self._driver.do(self._machine.table_touched(current_cause(), table.name, key, write=write))


def agent_of(stream: Any) -> str:
    """The name of the agent whose stream this is; a stream outside agents goes by the name of its task."""
    return stream.prefix or "stream"
