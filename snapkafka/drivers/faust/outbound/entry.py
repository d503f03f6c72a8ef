"""The entry of a record: it gets the colour and the cause of the event that sends it (R5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapkafka.protocol.colours import Effect

    from ...host import Host
    from ..inbound.running_events import Events


class RecordEntry:
    """The records of one app, as they enter.

    Args:
        host: whose machine gives colours.
        events: which one sends.
    """

    def __init__(self, host: Host, events: Events) -> None:
        self._host, self._events = host, events

    def entered(self) -> Effect | None:
        """Return the effect of what is sent here and now; None: it is unknown (R15)."""
        try:
            return self._host.machine.send_entered(self._events.cause_of_send())
        except Exception as error:
            self._host.stand_down("to record a send", error)
            return None

    def withdraw(self, effect: Effect) -> None:
        """Take an effect back: its record is not sent, or is sent as an external one."""
        try:
            self._host.do(self._host.machine.send_withdrawn(effect))
        except Exception as error:
            self._host.stand_down("to record a send", error)
