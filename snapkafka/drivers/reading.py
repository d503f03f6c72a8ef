"""Where an aiokafka consumer reads: records that it passes without reading them are named (R3).

A gap in the offsets of what it reads means nothing: compaction and transactions leave gaps. So the two ways in which
its position moves without a record are watched: a reset, where the log has no longer what comes next, and a seek.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from aiokafka.consumer.subscription_state import TopicPartitionState

from snapkafka.protocol.records import TopicPartition, WhyUnread

#: Called with a partition, where it would have read (None: where the machine stands; -1: unknown), where it reads
#: instead, and why. Never raises.
Moved = Callable[[TopicPartition, int | None, int, WhyUnread], None]


class WatchedState(TopicPartitionState):  # type: ignore[misc]
    """Aiokafka's state of a partition that it reads.

    Attributes:
        notify: called where the position moves.
        left: the last position before a reset; None: there was none.
        why: of the reset that is under way.
    """

    notify: Callable[[int, int, WhyUnread], None]
    left: int | None = None
    why: WhyUnread = "lost"

    def await_reset(self, strategy: Any) -> None:
        self.left = self.left if self._position is None else self._position
        super().await_reset(strategy)

    def reset_to(self, position: int) -> None:
        super().reset_to(position)
        self._moved(position, self.why)

    def seek(self, position: int) -> None:
        self.left = self.left if self._position is None else self._position
        super().seek(position)
        self._moved(position, "sought")

    def _moved(self, position: int, why: WhyUnread) -> None:
        left, self.left, self.why = self.left, None, "lost"
        if left is not None:
            self.notify(left, position, why)


def watch_positions(client: Any, moved: Moved, put: Callable[[Any, str, Any], None] = setattr) -> None:
    """Watch the positions of an aiokafka consumer, from its next assignment on.

    Args:
        put: replaces a method of an object.
    """
    subscription, fetcher = client._subscription, client._fetcher
    assign, reset = subscription.assign_from_subscribed, fetcher.request_offset_reset

    def assigned(tps: Any) -> None:
        assign(tps)
        assignment = subscription.subscription.assignment
        for tp in assignment.tps:
            state = assignment.state_value(tp)
            state.__class__, state.notify = WatchedState, partial(moved, TopicPartition(*tp))

    def sought(tps: Any, strategy: Any) -> Any:
        assignment = subscription.subscription.assignment
        for tp in tps:
            assignment.state_value(tp).why = "sought"
        return reset(tps, strategy)

    put(subscription, "assign_from_subscribed", assigned)
    put(fetcher, "request_offset_reset", sought)
