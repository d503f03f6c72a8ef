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
    Row(
        "group_by", ("group",), ("group-out",), order="key", inner=("group-<input>-group-by-key-repartition",)
    ),
    Row("through", ("through",), ("through-out",), inner=("through-mid",)),
    Row("echo", ("echo",), ("echo-out",)),
    Row("echo-to-another-topic", ("echo",), ("echo-copy",), order="none"),
    Row("forward", ("forward",), ("forward-out",), inner=("forward-mid",)),
    Row("filter", ("filter",), ("filter-out",)),
    Row("take_events", ("take",), ("take-out",)),
    Row("take", ("take-values",), ("take-values-out",), order="key", tables=("taken",)),
    Row("take_with_timestamp", ("take-timestamp",), ("take-timestamp-out",)),
    Row("noack_take", ("noack-take",), ("noack-take-out",)),
    Row("noack", ("noack",), ("noack-out",)),
    Row("noack-acked-later", ("noack-late",), ("noack-late-out",)),
    Row("concurrency", ("concurrency",), ("concurrency-out",), order="none"),
    Row("take-concurrency", ("take-many",), ("take-many-out",), order="none"),
    Row("isolated_partitions", ("isolated",), ("isolated-out",)),
    Row("several-agents-on-one-topic", ("shared",), ("shared-one-out", "shared-two-out")),
    Row("one-agent-on-several-topics", ("multi-a", "multi-b"), ("multi-out",), order="none"),
    Row("agent-that-raises", ("raising",), ("raising-out",)),
    Row("stream-outside-agents", ("outside",), ("outside-out",)),
]
SECONDS = 6.0
COUNT = 180


def _records(count: int) -> Sequence[tuple[str, bytes, int | None]]:
    return [
        (f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 11}", "last": n >= count - 30}).encode(), None)
        for n in range(count)
    ]


VARIANTS: dict[str, dict[str, str]] = {
    "cython": {},
    "pure-python": {"NO_CYTHON": "1", "FEATURES_INSTALL": "late"},
    "cython-optimizations": {"FEATURES_CYTHON_OPTIMIZATIONS": "1"},
}


@pytest.fixture(
    scope="module",
    params=["cython", *(pytest.param(name, marks=pytest.mark.long) for name in VARIANTS if name != "cython")],
)
def judge(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("streams"),
        "tests.features.apps.streams",
        inputs=sorted({name for row in ROWS for name in row.inputs}),
        outputs=[
            *(name for row in ROWS for name in row.outputs),
            *(name for row in ROWS for name in row.inner if "<" not in name),
        ],
        changelogs=["taken"],
        env=VARIANTS[request.param],
    ) as pair:
        pair.load({name: _records(COUNT) for row in ROWS for name in row.inputs}, seconds=SECONDS)
        expected = {name: COUNT * len(row.inputs) for row in ROWS for name in row.outputs}
        pair.wait_for(expected | {"filter-out": len(range(0, COUNT, 3))})
        pair.finish()
        yield Judge(pair)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 4, "one before, two under load, and the last"
    assert judge.in_flight(), "nothing was on its way in any snapshot: the test shows nothing"
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
