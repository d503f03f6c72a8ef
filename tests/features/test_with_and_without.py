"""Every row of docs/reference/features.md, with snapkafka and without: each app of `compared` runs twice on the same
input, and what it writes, raises and leaves in its tables is the same."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from snapkafka.testing import Broker
from tests.observing import Place

from .compared import APPS, EXACTLY_ONCE, IN_TRANSACTIONS, LOOKED_AT, TORN, WRITTEN
from .harness import Side, running
from .judging import Inputs, Judge, Row

pytestmark = pytest.mark.timeout(600)
#: Each waits for its records much of its time. With more of them on two cores, some have too few snapshots under load.
AT_ONCE: Final = 3


@pytest.fixture(scope="module")
def judges(
    request: pytest.FixtureRequest, kafka: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Future[Judge]]]:
    """All apps that the tests of this session ask for have run twice, a few of them at a time."""

    def both(name: str, folder: Path) -> Judge:
        app = APPS[name]
        module = f"tests.features.apps.{app.module}"
        namespace = f"t{uuid.uuid4().hex[:8]}"
        with running(Place(kafka.bootstrap, namespace, folder), module, **app.topics, env=app.env) as pair:
            app.drive(pair)
            pair.finish()
            return Judge(pair)

    wanted = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    names = {call.params["judge"] for call in wanted if call is not None}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: pool.submit(both, name, tmp_path_factory.mktemp(name)) for name in APPS if name in names}


@pytest.fixture
def judge(request: pytest.FixtureRequest, judges: Mapping[str, Future[Judge]]) -> Judge:
    return judges[request.param].result()


def _param(name: str, *more: Any) -> Any:
    values, ids = [name, *more], [name, *map(str, more)]
    return pytest.param(*values, id="-".join(ids), marks=[pytest.mark.nightly] if APPS[name].long else [])


def of(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("judge", [_param(name) for name in names], indirect=True)


@pytest.mark.parametrize(
    ("judge", "row"),
    [_param(name, row) for name, app in APPS.items() for row in app.rows],
    indirect=["judge"],
)
def test_row(judge: Judge, row: Row) -> None:
    judge.same(row)
    judge.captured(row)


@of(*APPS)
def test_consistent_snapshots_and_the_same_errors(request: pytest.FixtureRequest, judge: Judge) -> None:
    app = APPS[request.node.callspec.params["judge"]]
    assert len(judge.snapshots) >= app.snapshots, "too few under load"
    assert judge.in_flight() or not app.in_flight, "nothing was on its way in any snapshot: it shows nothing"
    judge.consistent()
    judge.same_errors()


# -- calls ------------------------------------------------------------------------------------------------------------


@of("calls")
def test_a_red_reply_tears_the_event_that_asked(judge: Judge) -> None:
    """R6: what was asked in white and answered in red: the event goes on in red, and counts as not processed."""
    torn = [torn for captured in judge.snapshots for cut in captured.processes for torn in cut.torn]
    assert {event.table for event in torn} == {""}
    assert {event.agent for event in torn} <= set(TORN)


@of("calls")
def test_a_channel_in_memory_is_reported_by_name(judge: Judge) -> None:
    assert "agent in-memory reads an in-memory channel" in judge.pair.ours.log


# -- transactions -----------------------------------------------------------------------------------------------------


@of("exactly-once")
def test_positions_and_ends_stand_across_control_records(judge: Judge) -> None:
    """The end of a transaction takes an offset that holds no record: ends are counted from records, not the other way
    round, and a process that has read everything stands behind the last one."""
    last = judge.snapshots[-1]
    for name, ends in (
        ("exact-mid", {it.partition: it.position for it in last.inputs if it.topic.endswith("exact-mid")}),
        (
            "exact-changelog",
            {cut.partition: cut.end for cut in last.changelogs if cut.topic.endswith("exact-changelog")},
        ),
    ):
        records = judge.pair.ours.records[name]
        offsets = [{r.offset for r in records if r.partition == partition} for partition in range(2)]
        assert {partition: max(offsets[partition]) + 1 for partition in range(2)} == ends
        gaps = [max(found) + 1 - len(found) for found in offsets]
        assert all(gap > 2 for gap in gaps), f"{name}: no control records between: the test shows nothing"


@of("exactly-once")
def test_the_same_leaves_in_transactions(judge: Judge) -> None:
    """Told by what ends them: it takes offsets of a partition, and they hold no record."""
    names = (*IN_TRANSACTIONS, *(f"{name}-changelog" for row in EXACTLY_ONCE for name in row.tables))
    ours, plain = ({name: _in_transactions(side, name) for name in names} for side in judge.pair.sides)
    assert ours == plain
    assert {True, False} <= set(plain.values()), "all in transactions, or none: the test shows nothing"


def _in_transactions(side: Side, name: str) -> bool:
    """Some of a topic: its offsets have gaps (its own records, and those of snapkafka, have none)."""
    places = [[it.offset for it in side.records[name] if it.partition == n] for n in range(2)]
    return any(max(offsets) + 1 > len(offsets) for offsets in places)


# -- global and standby tables ----------------------------------------------------------------------------------------


@of("shared")
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


# -- tables -----------------------------------------------------------------------------------------------------------


@of("tables")
def test_the_table_in_rocksdb_lies_on_the_disk(judge: Judge) -> None:
    for side in judge.pair.sides:
        found = {path.name for path in side.system.folder.glob(f"{side.id}-*/v*/tables/rocks-*.db")}
        assert found == {"rocks-0.db", "rocks-1.db"}, side.id


@of("tables")
def test_what_reads_a_whole_table_takes_in_what_any_red_event_wrote(judge: Judge) -> None:
    """R6: it began in white and others have begun in red since, so it is torn. What another thread reads of tables
    counts for all events that run, so these tables tear others, too."""
    torn = [torn for captured in judge.snapshots for cut in captured.processes for torn in cut.torn]
    found = {(event.agent, event.table) for event in torn if event.table not in LOOKED_AT}
    assert found == {("summed", "summed")}


@of("tables")
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
    assert len(crossed) > 3, f"only these ways of twelve were met by a cut: {crossed}"
