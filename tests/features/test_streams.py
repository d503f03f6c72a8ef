"""What can be done with streams, with snapkafka and without: in Cython, and in pure Python."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence

import pytest

from snapkafka.testing import Broker

from .harness import running
from .judging import Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = [
    Row("group_by", ("group",), ("group-out",), order="key", inner=("group-{group}-by-third-repartition",)),
    Row("through", ("through",), ("through-out",), inner=("through-mid",)),
    Row("echo", ("echo",), ("echo-out", "echo-copy")),
    Row("forward", ("forward",), ("forward-out",), inner=("forward-mid",)),
    Row("filter", ("filter",), ("filter-out",)),
    Row("take_events", ("take",), ("take-out",)),
    Row("take", ("take-values",), ("take-values-out",), tables=("taken",)),
    Row("take_with_timestamp", ("take-timestamp",), ("take-timestamp-out",)),
    Row("noack_take", ("noack-take",), ("noack-take-out",)),
    Row("noack", ("noack",), ("noack-out",)),
    Row("noack-acked-later", ("noack-late",), ("noack-late-out",)),
    Row("concurrency", ("concurrency",), ("concurrency-out",), order="none"),
    Row("isolated_partitions", ("isolated",), ("isolated-out",)),
    Row("several-agents-on-one-topic", ("shared",), ("shared-one-out", "shared-two-out")),
    Row("one-agent-on-several-topics", ("multi-a", "multi-b"), ("multi-out",), order="none"),
    Row("agent-that-raises", ("raising",), ("raising-out",)),
    Row("stream-outside-agents", ("outside",), ("outside-out",)),
]
SECONDS = 7.0
COUNT = 200
THIRD = {"filter"}


def _records(count: int) -> Sequence[tuple[str, bytes, int | None]]:
    return [
        (f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}", "last": n >= count - 30}).encode(), None)
        for n in range(count)
    ]
