"""Tables of each kind, with snapkafka and without, and a snapshot about every second."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Sequence

import pytest

from snapkafka.testing import Broker

from .harness import running
from .judging import Inputs, Judge, Row

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

ROWS = [
    Row("plain", ("plain",), ("plain-out",), tables=("plain",)),
    Row("deleting", ("deleting",), ("deleting-out",), tables=("deleting",)),
    Row("rocksdb", ("rocks",), ("rocks-out",), tables=("rocks",)),
    Row("sets", ("sets",), ("sets-out",), sets=("sets",)),
    Row("awaiting", ("slow",), ("slow-out",), tables=("slow",)),
    Row("read-as-a-whole", ("summed",), ("summed-out",), order="none", tables=("summed",)),
    Row("tumbling-relative-to-stream", ("by-stream",), ("by-stream-out",), tables=("by_stream",)),
    Row("hopping-relative-to-field", ("by-field",), ("by-field-out",), tables=("by_field",)),
    Row("tumbling-relative-to-now", ("by-now",), ("by-now-out",), tables=("by_now",)),
    Row("expiring-windows", ("closing",), ("close-out",), tables=("closing",)),
]
#: Faust's own table of `key_index=True`.
KEY_INDEX = "by_stream-key_index"
#: The tables of versions, and Faust's own of one of them.
LOOKED_AT = ("versions", "lists", "records", "members", "slots", "slots-key_index")
#: Versions that are written, and events that look at them; in each of these ways.
WRITTEN = 300
LOOKS = 240
WAYS = 12
SECONDS = 8.0
COUNT = 400
SLOW = 120
#: Over windows of four seconds, and event times of six.
TIMED = 150


def _plain(count: int) -> Sequence[tuple[str, bytes, int | None]]:
    return [(f"k{n % 11}", json.dumps({"n": n}).encode(), None) for n in range(count)]


def _timed(count: int, base: float, keys: int = 5) -> Sequence[tuple[str, bytes, int | None]]:
    times = [base + 6 * n / count for n in range(count)]
    return [
        (f"k{n % keys}", json.dumps({"n": n, "at": at}).encode(), int(at * 1000))
        for n, at in enumerate(times)
    ]


@pytest.fixture(scope="module")
def judge(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    namespace = f"t{uuid.uuid4().hex[:8]}"
    with running(
        kafka.bootstrap,
        namespace,
        tmp_path_factory.mktemp("tables"),
        "tests.features.apps.tables",
        inputs=[*(name for row in ROWS for name in row.inputs), "clean", "written", "looks"],
        outputs=[*(name for row in ROWS for name in row.outputs), "closed-out", "looks-out"],
        changelogs=[*(name for row in ROWS for name in (*row.tables, *row.sets)), KEY_INDEX, *LOOKED_AT],
    ) as pair:
        windows = [row.inputs[0] for row in ROWS if "windows" in row.name or "relative" in row.name]
        slow = {"slow": _plain(SLOW)}
        waiting = {"summed": _plain(SLOW)}
        plain = {
            row.inputs[0]: _plain(COUNT) for row in ROWS if row.inputs[0] not in (*windows, *slow, *waiting)
        }
        base = float(int(time.time())) - SECONDS - 4  # over by the time that they are cleaned
        timed = {name: _timed(TIMED, base) for name in windows} | {"closing": _timed(TIMED, base, keys=1)}
        looks = {"written": _plain(WRITTEN), "looks": _plain(LOOKS)}
        # One begins as soon as another ends, and nobody looks yet: a cut tears some.
        pair.send(waiting, seconds=0)
        pair.load({**plain, **slow, **timed, **looks}, seconds=SECONDS)
        pair.wait_for({row.outputs[0]: len(pair.sent[row.inputs[0]]) for row in ROWS} | {"looks-out": LOOKS})
        pair.send({"clean": [("now", b"1", None)]}, seconds=0)
        pair.wait_for({"closed-out": len(_windows(base))})
        pair.finish()
        yield Judge(pair)


def _windows(base: float) -> set[float]:
    """The windows of four seconds that `_timed` comes to.

    Of one key: Faust tells of a window only if no other partition of the table has closed one as late before.
    """
    return {json.loads(value)["at"] // 4 for _, value, _ in _timed(TIMED, base)}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


def test_the_table_in_rocksdb_lies_on_the_disk(judge: Judge) -> None:
    for side in judge.pair.sides:
        found = {path.name for path in side.system.folder.glob(f"{side.id}-*/v*/tables/rocks-*.db")}
        assert found == {"rocks-0.db", "rocks-1.db"}, side.id


def test_what_reads_a_whole_table_takes_in_what_any_red_event_wrote(judge: Judge) -> None:
    """R6: it began in white and others have begun in red since, so it is torn. What another thread reads of tables
    counts for all events that run, so these tables tear others, too."""
    torn = [torn for captured in judge.snapshots for cut in captured.processes for torn in cut.torn]
    found = {(event.agent, event.table) for event in torn if event.table not in LOOKED_AT}
    assert found == {("summed", "summed")}


def test_what_an_event_has_seen_of_tables_is_there(judge: Judge) -> None:
    """R6, in every way to look at a table later than at first: views, iterators, copies, windows, sets, lists, records,
    threads. Told from positions alone: each version that an event of the snapshot has seen was written by another; in
    part by one that is torn."""
    crossed: set[str] = set()
    for captured in judge.snapshots:
        inputs = Inputs(captured)
        places = [("written", *judge.place("written", n)) for n in range(WRITTEN)]
        written = [inputs.taken(*place) or inputs.torn(*place) for place in places]
        for record in judge.messages("looks-out"):
            said = json.loads(record.value or b"")
            place = ("looks", *judge.place("looks", said["value"]["n"]))
            unwritten = [version for version in said["versions"] if not written[version]]
            if inputs.torn(*place):
                crossed.add(said["way"])
            elif inputs.taken(*place):
                assert not unwritten, f"snapshot {captured.id}: {place} has seen {unwritten} ({said['way']})"
    assert len(crossed) > WAYS / 4, f"only these were met by a cut: {crossed}"


def test_windows_close_alike(judge: Judge) -> None:
    judge.same(Row("closed windows", (), ("closed-out",), "none"))


def test_every_snapshot_is_consistent(judge: Judge) -> None:
    assert len(judge.snapshots) >= 3, "two under load, and the last one"
    judge.consistent()


def test_the_same_exceptions(judge: Judge) -> None:
    judge.same_errors()
