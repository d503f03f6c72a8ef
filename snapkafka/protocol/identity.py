"""Earlier identities of a process: its work in flight under ids that are void (R12).

A process that was declared dead, or whose ledger was recreated, continues under another id. Its earlier work has no
colour: as long as any of it is in flight, no cut of this process can be proven, and when all of it has landed, only
the ends of what it wrote remain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from .colours import Cause, Colours
from .exact import exact
from .records import ChangelogEnd, TopicPartition


class EarlierIncarnations:
    """The identities before this one."""

    def __init__(self) -> None:
        self.busy: list[Colours] = []  # those that still have something on its way, when last looked at
        self._written: dict[TopicPartition, int] = {}  # ends of what the others wrote, as far as they know

    def add(self, colours: Colours) -> None:
        """End an identity."""
        self.busy.append(colours)

    def event_ended(self, event: Cause) -> None:
        for life in self.busy:
            life.end(event)

    def run(self, event: Cause) -> bool:
        """Return whether this event has been running since an earlier identity."""
        return any(event in life.running for life in self.busy)

    def settle(self) -> None:
        """Reduce identities with nothing in flight to the ends of what they wrote."""
        for life in self.busy:
            if not life.busy:
                for tp, sent in life.sent.items():
                    self._written[tp] = max(sent.end, self._written.get(tp, 0))
        self.busy = [life for life in self.busy if life.busy]

    def ends(self, recovered: Iterable[ChangelogEnd]) -> tuple[ChangelogEnd, ...]:
        """Return the ends that were recovered with our inputs, raised by what earlier identities wrote since."""
        return exact(
            replace(end, end=max(end.end, self._written.get(TopicPartition(end.topic, end.partition), 0)))
            for end in recovered
        )

    def recovered(self) -> None:
        """Drop the ends: new inputs came with recovered tables, which contain whatever was written."""
        self._written.clear()
