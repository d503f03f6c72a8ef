"""Which event is running here? A context variable, set where Faust starts an event.

Faust's own `current_event()` cannot say it: one `Event` object may run in several agents at once, and it is None
inside `take`. Tasks that an event starts inherit the variable; when the event has ended, the machine no longer knows
it as running, and what such a task sends has the colour of the process (R5).
"""

from __future__ import annotations

from contextvars import ContextVar

from snapkafka.protocol.colours import Cause

__all__ = ["current_cause", "set_cause"]

_cause: ContextVar[Cause | None] = ContextVar("snapkafka_cause", default=None)

current_cause = _cause.get
set_cause = _cause.set
