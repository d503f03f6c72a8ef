"""The sensor hooks: Faust reports to its sensors that an event starts and ends, and that a table is used.

`app.sensors` notifies every sensor of everything, some ten times per event, of which we need few. So ours is not one
of its sensors, which stay the app's own: three methods of `app.sensors` are patched, and three of each table.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

from ..tables.reads import FIXED
from .streams import reading_of

if TYPE_CHECKING:
    from ...process import Process
    from ..tables.reads import Reads
    from .running_events import Events

OF_STREAMS: Final = ("on_stream_event_in", "on_stream_event_out", "on_message_out")
OF_TABLES: Final = {
    "on_table_get": "_sensor_on_get",
    "on_table_set": "_sensor_on_set",
    "on_table_del": "_sensor_on_del",
}

Notify = Callable[..., Any]


class Sensors:
    """Patches of the methods by which an app notifies its sensors.

    Args:
        host: whose machine is fed.
    """

    def __init__(self, host: Process, events: Events, reads: Reads) -> None:
        self._host = host
        self._machine = host.machine
        self._events, self._reads = events, reads

    def attach(self, sensors: Any) -> None:
        """Patch `app.sensors`: streams take its methods when they are created."""
        for name in OF_STREAMS:
            setattr(sensors, name, getattr(self, name)(getattr(sensors, name)))

    @staticmethod
    def attach_stream(stream: Any) -> None:
        """Patch a stream that exists already."""
        for name in OF_STREAMS:
            setattr(stream, f"_{name}", getattr(stream.app.sensors, name))

    def attach_table(self, table: Any) -> None:
        """Patch a table that is attached (`changelogs`): it has the methods from its creation on."""
        for name, held in OF_TABLES.items():
            setattr(table, held, getattr(self, name)(getattr(table, held)))

    # -- what stands in for the methods of `app.sensors` ------------------------------------------------------

    def on_stream_event_in(self, notify: Notify) -> Notify:
        """Note that a stream takes a record out of its queue and is about to hand it to its agent."""
        taken_in, stand_down = self._events.taken_in, self._host.stand_down

        def event_in(tp: Any, offset: int | None, stream: Any, event: Any) -> Any:
            state = notify(tp, offset, stream, event)
            if offset is None or offset < 0:
                return state  # an in-memory channel: no input of the snapshot
            try:
                reading = stream.__dict__.get("reading") or reading_of(stream)
                if reading.replies:
                    return state, None
                return state, taken_in(reading, tp, offset, event)
            except Exception as error:
                stand_down("to record that an event starts", error)
                return state, None

        return event_in

    def on_stream_event_out(self, notify: Notify) -> Notify:
        """Note that the agent asks for the next record, or acknowledges this one (Faust has no state then)."""
        through_with, stand_down = self._events.through_with, self._host.stand_down

        def event_out(tp: Any, offset: int | None, stream: Any, event: Any, state: Any = None) -> None:
            if offset is None or offset < 0:
                notify(tp, offset, stream, event, state)
                return
            state, cause = state or (None, None)
            notify(tp, offset, stream, event, state)
            try:
                through_with(stream.__dict__.get("reading") or reading_of(stream), tp, offset, cause)
            except Exception as error:
                stand_down("to record that an event is over", error)

        return event_out

    def on_message_out(self, notify: Notify) -> Notify:
        """Note that the last agent has acknowledged a record."""
        events, stand_down = self._events, self._host.stand_down

        def message_out(tp: Any, offset: int, message: Any) -> None:
            notify(tp, offset, message)
            try:
                if events.parked:  # asked here, too: it hardly ever is so
                    events.acknowledged(tp, offset)
            except Exception as error:
                stand_down("to record that a record is acknowledged", error)

        return message_out

    def on_table_get(self, notify: Notify) -> Notify:
        """Note that a key is read. Rare cases are checked here, too."""
        machine, host, table_reads = self._machine, self._host, self._reads

        def table_get(table: Any, key: Any) -> None:
            notify(table, key)
            try:
                if table.in_place or machine.colours.tearing or get_ident() != host.thread:
                    table_reads.note_lookup(table, key)
            except Exception as error:
                host.stand_down("to record that a table is read", error)

        return table_get

    def on_table_set(self, notify: Notify) -> Notify:
        """Note that a key is written."""
        machine, host, table_reads = self._machine, self._host, self._reads

        def table_set(table: Any, key: Any, value: Any) -> None:
            notify(table, key, value)
            try:
                if machine.colours.tearing or get_ident() != host.thread:
                    table_reads.touched(table, key, write=True)
                if type(value) not in FIXED:
                    table_reads.wrote_object(table, key, value)
            except Exception as error:
                host.stand_down("to record that a table is written", error)

        return table_set

    def on_table_del(self, notify: Notify) -> Notify:
        """Note that a key is deleted."""
        table_reads, stand_down = self._reads, self._host.stand_down

        def table_del(table: Any, key: Any) -> None:
            notify(table, key)
            try:
                table_reads.touched(table, key, write=True)
            except Exception as error:
                stand_down("to record that a key is deleted", error)

        return table_del
