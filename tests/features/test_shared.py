"""Tables that every worker has whole, or stands by for, two workers each, with snapkafka and without."""

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
    Row("global-table", ("rates",), ("rates-out",), order="key", tables=("rates",)),
    Row("set-global-table", ("groups",), ("groups-out",), order="key", sets=("groups",)),
    Row("reads-a-global-table", ("orders",), ("orders-out",), order="none"),
    Row("reads-a-set-global-table", ("members",), ("members-out",), order="none"),
    Row("standby-tables", ("kept",), ("kept-out",), tables=("kept",)),
]
SECONDS = 8.0
COUNT = 300
READS = 80


def _records(name: str) -> Sequence[tuple[str, bytes, int | None]]:
    """Rates and groups are all of one partition: one worker writes them, the other one takes them in."""
    writes = name in ("rates", "groups")
    return [
        ("one" if writes else f"k{n % 11}", json.dumps({"n": n, "key": f"k{n % 5}"}).encode(), None)
        for n in range(COUNT if writes else READS)
    ]


@pytest.fixture(scope="module")
def judge(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("shared"),
        "tests.features.apps.shared",
        inputs=[name for row in ROWS for name in row.inputs],
        outputs=[name for row in ROWS for name in row.outputs],
        changelogs=["groups", "kept"],
        small_changelogs=["rates"],
        workers=2,
    ) as pair:
        pair.load({name: _records(name) for row in ROWS for name in row.inputs}, seconds=SECONDS)
        pair.wait_for({name: len(_records(row.inputs[0])) for row in ROWS for name in row.outputs})
        pair.finish()
        yield Judge(pair)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


@pytest.mark.parametrize("table", ["rates", "groups"])
def test_a_red_record_of_a_global_table_tears_who_reads_it(judge: Judge, table: str) -> None:
    """R6: an event that began in white, and reads what another worker wrote in red, goes on in red."""
    changelog = f"{judge.pair.ours.id}-{table}-changelog"
    writers = {record.process for record in judge.log if record.topic == changelog}
    assert len(writers) == 1, "only one worker writes, or the test shows nothing"
    torn = [
        event
        for captured in judge.snapshots
        for cut in captured.processes
        for event in cut.torn
        if event.table == table and cut.process not in writers
    ]
    assert torn


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 4, "one before, two under load, and the last"
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
