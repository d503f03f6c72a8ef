"""The host of the parts of the Faust driver: a process that speaks Kafka, and its app."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..kafka_process import KafkaProcess

if TYPE_CHECKING:
    from snapkafka.config import Config


class Host(KafkaProcess):
    """One app in one worker process, as the parts of its driver see it.

    Args:
        app: the Faust app.
        config: validated settings.
    """

    def __init__(self, app: Any, config: Config) -> None:
        super().__init__(config)
        self.app = app
