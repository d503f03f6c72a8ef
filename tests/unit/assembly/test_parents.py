"""What an incremental snapshot can build on, what is refused before any work starts, and the state of a chain."""

import dataclasses
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from snapkafka.assembly import base_or_whole, published, require_offsets
from snapkafka.assembly.base import Base, view_on
from snapkafka.assembly.manifest import logs_of
from snapkafka.checks import CutView, Keeping, LogBounds, ReadRange, reading_ranges
from snapkafka.checks.v3_state import StateFacts
from snapkafka.errors import BadInputError, OffsetsGoneError, StorageError, UnknownSnapshotError
from snapkafka.manifest import STATE, LogEntry, Manifest, state_table
from snapkafka.protocol import Captured, Retention, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, SenderEnd
from snapkafka.store import state_parents
from tests.unit.base.test_manifest import example
from tests.worlds.on_disk import flip, in_state, write_snapshot
from tests.worlds.stores import LocalStore

HERE = TopicPartition("c", 0)
ISOLATION = "read_committed"


def cut(end: int, **other: Any) -> ChangelogCut:
    of = ChangelogCut(app="one", table="t", topic="c", topic_id="cd", partition=0, end=end, process=2)
    return dataclasses.replace(of, **other)


def settled(offset: int) -> LogEntry:
    return LogEntry(topic="c", partition=0, topic_id="cd", start=0, end=9, settled=offset)


def captured(name: str, epoch: int, *changelogs: ChangelogCut, parent: str = "") -> Captured:
    of: dict[str, Any] = {"id": name, "epoch": epoch, "parent": parent, "changelogs": changelogs}
    of |= {"type": "incremental" if parent else "full", "inputs": (), "senders": ()}
    return dataclasses.replace(example().captured, **of)


TUESDAY = captured("tuesday", 2, cut(8), parent="monday")


def publish(store: LocalStore, of: Captured, parent: Manifest | None = None, **other: Any) -> Manifest:
    """An assembled snapshot; all below offset 3 of its changelog was white for it."""
    rows: dict[str, Any] = {"state" if parent is None else "state_delta": [in_state("k", of.id)]}
    made = write_snapshot(store, of.id, of.epoch, parent=parent, **rows)
    fields: dict[str, Any] = {"captured": of, "logs": (settled(3),), "isolation": ISOLATION} | other
    return store.publish(dataclasses.replace(made, **fields), of.id)


def decided(store: LocalStore, child: Captured) -> tuple[Base | None, str]:
    return base_or_whole(store, child, example().ledger, isolation=ISOLATION)


def find(store: LocalStore, child: Captured) -> Base | None:
    base, why = decided(store, child)
    assert not why
    return base


def test_a_chain_lists_all_that_it_builds_on(tmp_path: Path) -> None:
    """The delta begins where the parent says; a changelog that is new is read as a whole. A full one is on nothing."""
    store = LocalStore(tmp_path)
    assert find(store, captured("monday", 1, cut(5))) is None
    monday = publish(store, captured("monday", 1, cut(5)))
    base = find(store, TUESDAY)
    assert base is not None
    assert base.starts == {HERE: 3}
    publish(store, TUESDAY, monday)

    new = cut(4, topic="new", table="n")
    base = find(store, captured("wednesday", 3, cut(9), new, parent="tuesday"))
    assert base is not None
    assert [(entry.id, entry.path) for entry in base.entries()] == [
        ("monday", "monday/state"),
        ("tuesday", "tuesday/state_delta"),
    ]
    assert base.starts == {HERE: 3}, "nothing is said of the new one"

    shared = find(store, captured("thursday", 4, cut(9), cut(9, app="two"), parent="tuesday"))
    assert shared is not None
    assert shared.starts == {HERE: 0}, "for the other app none of it has been counted"
    with pytest.raises(BadInputError):
        state_table(dataclasses.replace(monday, tables=()))


@pytest.mark.parametrize(
    ("parent", "child", "said"),
    [
        ({"verdict": "INCONSISTENT"}, {}, "it is INCONSISTENT"),
        ({"verdict": "of a later release"}, {}, "it is of a later release"),
        ({"epoch": 7}, {}, "it is not older"),
        ({"isolation": "read_uncommitted"}, {}, "it was read with read_uncommitted, and not with read_comm"),
        ({}, {"changelogs": ()}, r"table t of app one \(changelog c\[0\]\) is not part of tuesday"),
        ({}, {"changelogs": (cut(8, topic_id="ef"),)}, "the topic was deleted and recreated"),
        ({}, {"changelogs": (cut(8, value_codec="raw"),)}, "has changed its codecs"),
        ({}, {"changelogs": (cut(4),)}, "ends at offset 4, and at 5 in the parent"),
        ({"logs": (settled(6),)}, {}, "ends at offset 5, and the delta begins only at 6"),
        ({"ledger": dataclasses.replace(example().ledger, topic_id="1" * 32)}, {}, "another ledger"),
    ],
)
def test_a_parent_that_does_not_fit_is_refused(
    tmp_path: Path, parent: dict[str, Any], child: dict[str, Any], said: str
) -> None:
    store = LocalStore(tmp_path)
    publish(store, captured("monday", 1, cut(5)), **parent)
    tuesday = dataclasses.replace(TUESDAY, **{"epoch": 7, **child})
    base, why = decided(store, tuesday)
    assert base is None and re.search(rf"tuesday.*{said}", why)


def test_the_seam_is_the_last_white_record_that_the_parent_counts(tmp_path: Path) -> None:
    """Of a living process, below the end; of a table of sets, which is read as a whole, there is none."""

    def sent(process: int, white_end: int, last_seq: int, **other: Any) -> SenderEnd:
        of = SenderEnd(process=process, topic="c", partition=0, white_end=white_end, last_seq=last_seq)
        return dataclasses.replace(of, **other)

    senders = (sent(2, 5, 7), sent(3, 4, 9), sent(4, 6, 9), sent(5, 0, -1), sent(6, 5, 1, topic="other"))
    store = LocalStore(tmp_path)
    monday = dataclasses.replace(captured("monday", 1, cut(5)), senders=senders)
    publish(store, monday, logs=(settled(5),))
    base = find(store, TUESDAY)
    assert base is not None
    assert (base.starts, base.seams) == ({HERE: 5}, {HERE: senders[0]})

    monday = dataclasses.replace(monday, changelogs=(cut(5, sets=True),))
    publish(store, monday, logs=(settled(5),))
    base = find(store, captured("tuesday", 2, cut(8, sets=True), parent="monday"))
    assert base is not None
    assert (base.starts, base.seams) == ({}, {})


def _other_rows(store: LocalStore) -> None:
    reported = json.loads(store.manifest_path("monday").read_text())
    reported["tables"][0]["digest"] = "77"
    store.manifest_path("monday").write_text(json.dumps(reported))


def _file(store: LocalStore, snapshot: str) -> Path:
    return next(store.root.glob(f"{snapshot}/state*/*.parquet"))


@pytest.mark.parametrize(
    ("broken", "error", "said"),
    [
        (lambda it: it.manifest_path("tuesday").unlink(), UnknownSnapshotError, "tuesday is not assembled"),
        (lambda it: it.manifest_path("tuesday").write_text("{"), BadInputError, "is not JSON"),
        (lambda it: _file(it, "tuesday").write_text("rows"), StorageError, "tuesday: file .* has 4 bytes"),
        (lambda it: it.manifest_path("monday").unlink(), StorageError, "tuesday builds on monday, which"),
        (lambda it: _file(it, "monday").unlink(), StorageError, "snapshot monday: file .* is missing"),
        (lambda it: flip(_file(it, "monday")), StorageError, "snapshot monday: file .*parquet"),
        (_other_rows, StorageError, "tuesday builds on monday, which has changed"),
    ],
)
def test_a_broken_or_deleted_parent_is_found(
    tmp_path: Path, broken: Callable[[LocalStore], object], error: type[Exception], said: str
) -> None:
    """Its own, and that of its parent."""
    store = LocalStore(tmp_path)
    monday = publish(store, captured("monday", 1, cut(5)))
    publish(store, TUESDAY, monday)
    wednesday = captured("wednesday", 3, cut(9), parent="tuesday")
    assert find(store, wednesday) is not None
    broken(store)
    base, why = decided(store, wednesday)
    assert base is None and re.search(said, why) and "\n" not in why
    publish(store, wednesday)
    with pytest.raises(error, match=said):  # others may build on its rows
        decided(store, wednesday)


# -- what is read of the log ---------------------------------------------------------------------------------


SEAM = SenderEnd(process=2, topic="c", partition=0, white_end=3, last_seq=7)


def bounds(start: int, **more: Any) -> dict[TopicPartition, LogBounds]:
    return {HERE: LogBounds(start=start, end=20, topic_id="cd", **more)}


def view(log_start: int, start: int = 3, seam: SenderEnd = SEAM) -> CutView:
    """An incremental snapshot whose delta begins at `start`."""
    return CutView(TUESDAY, bounds(log_start), {HERE: start}, {HERE: seam})


def test_the_seam_is_read_with_the_delta() -> None:
    """The record that the parent's state ends with; where the log has lost it, the delta all the same."""
    for log_start, begins in ((0, 2), (2, 2), (3, 3)):
        require_offsets(view(log_start))
        assert reading_ranges(view(log_start)) == [ReadRange("c", 0, begins, 20)]
    later = dataclasses.replace(SEAM, white_end=7)
    assert reading_ranges(view(0, seam=later)) == [ReadRange("c", 0, 3, 20)]


def test_a_log_that_begins_inside_the_delta_is_refused() -> None:
    for fits in (view(3), CutView(TUESDAY, bounds(5)), view(8, 8)):
        require_offsets(fits)
    with pytest.raises(OffsetsGoneError, match=r"c\[0\].*3"):
        require_offsets(view(4))


def test_what_was_kept_since_the_cut_of_the_parent_is_asked_where_it_stands_for_state() -> None:
    keeping = Keeping(age_ms=5, uncompacted_ms=30, tombstones_ms=60)
    log = bounds(0, keeping=keeping)

    def since(base: Base | None, triggered_ms: int) -> Keeping | None:
        found = view_on(base, CutView(TUESDAY, log), triggered_ms).keeping(HERE)
        assert found is not None
        return found.since_parent

    def base(then: tuple[Retention, ...]) -> Base:
        ledger = dataclasses.replace(example().ledger, triggered_ms=100)
        before = dataclasses.replace(captured("monday", 1, cut(3)), retention=then)
        parent = dataclasses.replace(example(), ledger=ledger, captured=before)
        return Base(parts=(parent,), starts={HERE: 3}, seams={})

    promised = base((Retention(topic="c", uncompacted_ms=40, tombstones_ms=50, retained_ms=-1),))
    assert since(None, 250) is None
    assert since(promised, 250) == Keeping(age_ms=155, uncompacted_ms=30, tombstones_ms=50)
    assert since(dataclasses.replace(promised, starts={}), 250) is None
    for unknown in (since(promised, 0), since(base(()), 250)):
        assert unknown == Keeping(age_ms=5), "nothing is promised by what nobody knows"
    assert log[HERE].keeping == keeping


def test_where_a_log_started_and_ended_is_recorded() -> None:
    full = CutView(captured("monday", 1, cut(8)), bounds(2))
    place: dict[str, Any] = {"topic": "c", "partition": 0, "topic_id": "cd"}
    assert logs_of(full, {}) == (LogEntry(**place, start=2, end=20, settled=8),)
    (log,) = logs_of(full, {HERE: StateFacts(first_later=5)})
    assert log.settled == 5
    assert logs_of(CutView(captured("monday", 1, cut(8))), {}) == (), "a simulator's log has no bounds"
    assert logs_of(CutView(captured("monday", 1, cut(21)), bounds(2)), {}) == (), "it is another log by now"


@pytest.mark.parametrize(
    ("recorded", "start", "settled", "expected"),
    [
        (0, 0, 3, 0),
        (0, 2, 3, 0),  # rows of the parent were deleted since: the log does not go back as far as they do
        (1, 2, 3, 1),
        (2, 2, 3, 2),
        (None, 2, 3, 0),  # the parent's was another log by the time it was read: nothing is known
        (0, 2, 0, 2),  # it is read as a whole, as a table of sets is
    ],
)
def test_of_an_incremental_snapshot_a_log_has_to_go_back_as_far_as_that_of_its_parent(
    recorded: int | None, start: int, settled: int, expected: int
) -> None:
    known = LogEntry(topic="c", partition=0, topic_id="cd", start=recorded or 0, end=9)
    parent = dataclasses.replace(example(), logs=() if recorded is None else (known,))
    (log,) = logs_of(view(start, settled), {}, parent)
    assert (log.start, log.end) == (expected, 20)


# -- the state of a chain, from its files ----------------------------------------------------------------------


DOCS: Final = Path(__file__).parents[3] / "docs" / "guide" / "assembly.md"
#: partition, key, value (None: deleted)
Row = tuple[int, bytes | None, str | None]
#: What each snapshot has: the first all of its state, the others what has changed since the one before.
CHAIN: Final[dict[str, list[Row]]] = {
    "monday": [(0, b"a", "1"), (1, b"a", "2"), (0, None, "3"), (0, b"b", "4"), (0, b"", "5"), (1, None, "6")],
    "tuesday": [(0, b"a", None), (1, b"a", "7"), (0, None, None), (0, b"c", "8"), (0, b"", None)],
    "wednesday": [(0, b"a", "9"), (0, b"c", None), (0, None, "10"), (1, b"a", "11")],
}
WHOLE: Final = {(1, b"a", "11"), (0, b"b", "4"), (1, None, "6"), (0, b"a", "9"), (0, None, "10")}


def rows_of(sql: str) -> list[Row]:
    with duckdb.connect() as db:
        found = db.sql(sql)
        assert "deleted" not in found.columns
        return list(found.select("partition, key_raw, value").fetchall())


def test_of_a_key_what_the_latest_snapshot_has_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By our own query, and by the one of the docs."""
    store, chain = LocalStore(tmp_path / "it's here"), list[Manifest]()
    table: dict[str, Any] = {"app": "shop", "table_name": "stock", "changelog_topic": "c"}
    for epoch, (name, of) in enumerate(CHAIN.items()):
        rows = [table | {"partition": at, "key_raw": key, "value": value} for at, key, value in of]
        if chain:
            rows = [row | {"deleted": row["value"] is None} for row in rows]
            chain.append(write_snapshot(store, name, epoch, parent=chain[-1], state_delta=rows))
        else:
            chain.append(write_snapshot(store, name, epoch, state=rows))
    assert [*state_parents(store, chain[-1])] == chain[:-1]
    (docs,) = re.findall(r"```sql\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    files = {it.id: str([file.path for file in state_table(it).files]) for it in chain}
    docs = re.sub(r"\['(\w+)/[^]]*\]", lambda list_: files[list_[1]], docs)
    monkeypatch.chdir(store.root)
    for sql in (published(store, chain[-1]).queries[STATE], docs):
        found = rows_of(sql)
        assert (len(found), {*found}) == (len(WHOLE), WHOLE), sql
