"""Tables that every worker has whole, or stands by for, two workers each, with snapkafka and without."""

from __future__ import annotations

import asyncio
import json
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from snapkafka import ops
from snapkafka.kafka.login.connection import Connection
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


@pytest.mark.long
@pytest.mark.spark
def test_what_runs_at_a_cut_and_what_is_torn_is_in_the_diagram(judge: Judge, tmp_path: Path) -> None:
    """Assembled by Spark from the broker, drawn from what was written: each such event by its name, at its process."""
    captured = next(
        captured
        for captured in judge.snapshots
        if any(cut.torn for cut in captured.processes) and any(cut.running for cut in captured.processes)
    )
    where = Connection(bootstrap=judge.pair.bootstrap)
    (found,) = asyncio.run(
        ops.assemble(
            where,
            ops.JobSpec(namespace=judge.pair.namespace, snapshots=(captured.id,), storage=str(tmp_path)),
        )
    )
    assert str(found.verdict).startswith("VERIFIED"), found
    drawn = ET.fromstring(asyncio.run(ops.draw(None, "", name=captured.id, storage=str(tmp_path))).svg)
    named = {
        (group.get("class"), int(group.get("data-process", -1))): "".join(group.itertext()).split("\n")[1:]
        for group in drawn.iter("{http://www.w3.org/2000/svg}g")
        if group.get("class") in ("running", "torn")
    }
    assert named == {
        (kind, cut.process): [f"{e.agent} at {e.topic}[{e.partition}] offset {e.offset}" for e in events]
        for cut in captured.processes
        for kind, events in (("running", cut.running), ("torn", cut.torn))
        if events
    }


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 4, "one before, two under load, and the last"
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
