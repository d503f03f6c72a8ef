"""The host of the parts of the Faust driver: a process that speaks Kafka, and its app."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from ..kafka_process import KafkaProcess

if TYPE_CHECKING:
    from snapkafka.config import Config
    from snapkafka.protocol.records import TopicPartition, WhyUnread


class Host(KafkaProcess):
    """One app in one worker process, as the parts of its driver see it.

    Args:
        app: the Faust app.
        config: validated settings.
    """

    def __init__(self, app: Any, config: Config) -> None:
        super().__init__(config)
        self.app = app

    def reading_moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        """Note it in the thread of the app; the consumer has its own."""
        if self.runs_here():
            super().reading_moved(tp, start, end, why)
        else:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the app has stopped
                self.loop.call_soon_threadsafe(super().reading_moved, tp, start, end, why)
