"""`stream_publish_on_commit`, `producer_threaded` and autodiscovery, with snapkafka and without."""

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
    Row("stream_publish_on_commit", ("attached",), ("attached-out",), inner=("attached-mid",)),
    Row("sent-at-once-all-the-same", ("forced",), ("forced-out",)),
    Row("producer_threaded", ("threaded",), ("threaded-out",), tables=("threaded",)),
    Row("producer_threaded-both-ways", ("both",), ("both-out",), order="none"),
    Row("autodiscover", ("found",), ("found-out",)),
]
SECONDS = 7.0
COUNT = 250
RECORDS: Sequence[tuple[str, bytes, int | None]] = [
    (f"k{n % 11}", json.dumps({"n": n}).encode(), None) for n in range(COUNT)
]


@pytest.fixture(scope="module")
def judge(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("leaving"),
        "tests.features.apps.leaving",
        inputs=[name for row in ROWS for name in row.inputs],
        outputs=[*(name for row in ROWS for name in row.outputs), "attached-mid"],
        changelogs=["threaded"],
    ) as pair:
        pair.load({name: RECORDS for row in ROWS for name in row.inputs}, seconds=SECONDS)
        pair.wait_for({name: COUNT for row in ROWS for name in row.outputs})
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
