"""Pains of plain Faust, by the thread they were told in (docs/known-pains.md), on Faust's own classes."""

from __future__ import annotations

from typing import Any

import faust
import pytest
from faust.types import TP, ConsumerMessage

REQUESTS = TP("requests", 0)


@pytest.mark.parametrize("running", [10, 11])
async def test_682_plain_faust_commits_past_an_event_that_runs(running: int) -> None:
    """robinhood/faust#682: with concurrency a later event may be done first. The guard against that is off by one: the
    event right behind the position protects nothing, the next one does."""
    app = faust.App("pains", broker="kafka://127.0.0.1:1")
    app.topics._acking_topics.add(REQUESTS.topic)
    consumer: Any = app.consumer
    consumer._committed_offset[REQUESTS] = 10
    for offset in {10, 11, 12} - {running}:
        consumer.ack(message_at(offset))
    for _ in range(2):  # as its timer does
        if (found := consumer._new_offset(REQUESTS)) is not None:
            consumer._committed_offset[REQUESTS] = found
    assert consumer._committed_offset[REQUESTS] == 13, "all of them, though one runs still"


def message_at(offset: int) -> Any:
    return ConsumerMessage(
        REQUESTS.topic, REQUESTS.partition, offset, 0.0, 0, [], None, b"", None, 0, 0, REQUESTS
    )
