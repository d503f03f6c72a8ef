"""#212, #283 (docs/explanation/known-pains.md): the copies of a global table in two workers, and the table of a
snapshot."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from functools import partial

import pytest

from snapkafka.checks import CutView
from snapkafka.demo.system import wait_until
from snapkafka.testing import Broker

from .harness import Pair, Side, produce, read_topics, running
from .judging import Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = [
    Row("by-one", ("by-one",), ("by-one-out",), order="key", tables=("by-one",)),
    Row("by-all", ("by-all",), ("by-all-out",), order="key", tables=("by-all",)),
]
OTHERS = "by-others"  # a table that another app writes
COUNT = 150
KEYS = 5


def records(*, keys: int) -> Sequence[tuple[str, bytes, int | None]]:
    return [
        (f"k{n % keys}", json.dumps({"n": n, "key": f"k{n % KEYS}"}).encode(), None) for n in range(COUNT)
    ]


@pytest.fixture(scope="module")
def quiet(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both runs, when everything is written and every copy has it."""
    with running(
        kafka.bootstrap,
        f"t{uuid.uuid4().hex[:8]}",
        tmp_path_factory.mktemp("copies"),
        "tests.features.apps.copies",
        inputs=[row.name for row in ROWS],
        outputs=[f"{row.name}-out" for row in ROWS],
        small_changelogs=[*(row.name for row in ROWS), OTHERS],
        workers=2,
    ) as pair:
        pair.load({"by-one": records(keys=1), "by-all": records(keys=11)}, seconds=5)
        pair.wait_for({f"{row.name}-out": COUNT for row in ROWS})
        for side in pair.sides:
            wait_until(
                f"both copies of each table of {side.id} to be as its changelog",
                partial(all_equal, pair, side),
                timeout_s=30,
                system=side.system,
            )
        yield pair


@pytest.fixture(scope="module")
def found(quiet: Pair) -> dict[tuple[str, str], list[dict[str, int]]]:
    """The copies of each table, by run."""
    return {(side.id, row.name): copies(side, row.name) for side in quiet.sides for row in ROWS}


@pytest.fixture(scope="module")
def written_by_others(quiet: Pair) -> dict[str, list[dict[str, int]]]:
    """The copies of the table that another app has written to, twice two records, when one of them has them all."""
    for side in quiet.sides:
        for key in ("first", "second"):
            more = [(f'"{key}-{n}"', b"1", None) for n in range(2)]  # Faust takes them in by twos
            produce(quiet.bootstrap, f"{side.id}-{OTHERS}-changelog", more)
            wait_until(f"a copy of {side.id} to have the {key}", partial(has, side, f"{key}-1"), timeout_s=30)
    return {side.id: copies(side, OTHERS) for side in quiet.sides}


@pytest.fixture(scope="module")
def judge(quiet: Pair, found: object, written_by_others: object) -> Judge:
    quiet.finish()
    return Judge(quiet)


def copies(side: Side, table: str) -> list[dict[str, int]]:
    """What each worker has of a table."""
    paths = (side.system.folder / worker.name / "copies.json" for worker in side.system.workers)
    return [json.loads(path.read_text())[table] for path in paths]


def has(side: Side, key: str) -> bool:
    return any(key in copy for copy in copies(side, OTHERS))


def all_equal(pair: Pair, side: Side) -> bool:
    return all(copies(side, row.name) == [in_the_log(pair, side, row.name)] * 2 for row in ROWS)


def in_the_log(pair: Pair, side: Side, table: str) -> dict[str, int]:
    records = read_topics(pair.bootstrap, f"{side.id}-{table}-changelog")[""]
    return {json.loads(r.key or b""): json.loads(r.value) for r in records if r.value is not None}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_212_all_copies_are_the_table_of_the_snapshot(
    judge: Judge, found: dict[tuple[str, str], list[dict[str, int]]], row: Row
) -> None:
    """At a quiet moment: recorded once, and each worker has the same, with snapkafka or without."""
    view, side = CutView(judge.snapshots[-1]), judge.pair.ours
    topic = f"{side.id}-{row.name}-changelog"
    (cut,) = (cut for cut in judge.snapshots[-1].changelogs if cut.topic == topic)
    stamps = [stamp for stamp in judge.log if stamp.topic == topic and stamp.offset < cut.end]
    white = {stamp.offset for stamp in stamps if not stamp.marker and view.white_stamped(stamp)}
    table = {
        json.loads(record.key or b""): json.loads(record.value or b"null")
        for record in side.records[f"{row.name}-changelog"]
        if record.offset in white
    }
    assert len(table) == {"by-one": KEYS, "by-all": 2 * KEYS}[row.name]
    for whose in judge.pair.sides:
        assert found[whose.id, row.name] == [table] * 2


def test_212_plain_faust_passes_over_what_others_write_where_a_global_table_is_active(
    written_by_others: dict[str, list[dict[str, int]]],
) -> None:
    """One worker has the partition as active only, and reads it no further; the copies stay unequal, with snapkafka or
    without. With `use_partitioner` each worker is a standby too, and with `recovery_buffer_size=1` it reads on."""
    for side, both in written_by_others.items():
        assert [len(copy) for copy in sorted(both, key=len)] == [0, 4], side


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
