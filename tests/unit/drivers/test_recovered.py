"""R10: of which events a table may hold effects, by what its store held before anything of its changelog was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import rocksdict

from snapkafka.drivers import AppliedRestores
from snapkafka.drivers.faust.tables.changelogs import Tables
from snapkafka.protocol import TopicPartition, WorkerProtocol
from snapkafka.wire import headers as wire
from snapkafka.wire.headers import Stamp

INPUTS = [TopicPartition("in", 0), TopicPartition("in", 1)]
CHANGELOG = TopicPartition("counts-changelog", 0)


class Table:
    """As far as `Tables` knows it. `held`: what its store says when it is asked how far it has got."""

    def __init__(self, folder: Path) -> None:
        self.held: int | None = None
        self.is_global = False
        self.data = SimpleNamespace(partition_path=lambda partition: folder / f"counts-{partition}.db")

    def persisted_offset(self, tp: Any) -> int | None:
        return self.held

    async def on_changelog_event(self, event: Any) -> None: ...

    def apply_changelog_batch(self, batch: Any) -> None: ...


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where Faust keeps tables."""
    made = tmp_path / "v1" / "tables"
    made.mkdir(parents=True)
    return made


@pytest.fixture
def table(folder: Path) -> Table:
    return Table(folder)


@pytest.fixture
def start(table: Table, folder: Path) -> Callable[[], Tables]:
    """A worker on this disk."""

    def start() -> Tables:
        app = SimpleNamespace(tables={"counts": table}, conf=SimpleNamespace(tabledir=folder))
        sensors: Any = SimpleNamespace(attach_table=lambda table: None)
        host: Any = SimpleNamespace(app=app, machine=WorkerProtocol())
        reads: Any = None
        made = Tables(host, reads, sensors, AppliedRestores(host, reads))
        made.attach()
        return made

    return start


@pytest.fixture
def tables(start: Callable[[], Tables]) -> Tables:
    return start()


def test_what_is_read_from_its_beginning_is_known(tables: Tables, table: Table) -> None:
    assert table.persisted_offset(CHANGELOG) is None
    table.held = 7  # what was read and written since
    assert table.persisted_offset(CHANGELOG) == 7, "after a rebalance"
    assert tables.to_bound(INPUTS) == []
    assert tables.effects_until(INPUTS[0]) == 0


def test_what_a_store_held_may_be_of_any_event_that_was_there(tables: Tables, table: Table) -> None:
    table.held = 7
    assert table.persisted_offset(CHANGELOG) == 7
    assert tables.to_bound(INPUTS[:1]) == INPUTS[:1]
    tables.bound({INPUTS[0]: 40})
    assert [tables.effects_until(tp) for tp in INPUTS] == [40, 0]
    assert tables.to_bound(INPUTS) == INPUTS[1:], "what is done since the first time is met"


# -- a note beside the tables ---------------------------------------------------------------------------------------

Open = Callable[[], rocksdict.Rdict]


@pytest.fixture
def opened(folder: Path) -> Open:
    return lambda: rocksdict.Rdict(str(folder / "counts-0.db"))


def met(tables: Tables, cause: tuple[int, int, int] | None) -> None:
    stamp = Stamp(0, 1, 0, cause=cause)
    tables.met(CHANGELOG, 0, stamp)


def cause(tp: TopicPartition, offset: int) -> tuple[int, int, int]:
    return (wire.topic_check(tp.topic), tp.partition, offset)


def noted(start: Callable[[], Tables], table: Table, opened: Open) -> None:
    """A worker has had the table, and stopped in order."""
    tables = start()
    store = opened()
    store["k"] = 1
    met(tables, cause(INPUTS[0], 6))
    store.close()
    tables.leave()
    table.held = 7


def known(tables: Tables, table: Table) -> list[int] | None:
    """Of which events the store holds effects; None: that is not known."""
    assert table.persisted_offset(CHANGELOG) == 7
    return None if tables.to_bound(INPUTS) else [tables.effects_until(tp) for tp in INPUTS]


def test_after_a_stop_in_order_it_is_known_what_the_disk_holds(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    noted(start, table, opened)
    tables = start()
    opened().close()
    assert known(tables, table) == [7, 0]


def test_what_the_worker_ran_itself_is_noted_too(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    tables = start()
    opened().close()
    tables.bound({INPUTS[1]: 4})
    tables._host.machine.positions.start("agent", INPUTS[0], 8)
    tables.leave()
    table.held = 7
    assert known(start(), table) == [9, 4]


@pytest.mark.parametrize("writes", [True, False])
def test_whoever_was_at_the_store_since_makes_the_note_worthless(
    start: Callable[[], Tables], table: Table, opened: Open, writes: bool
) -> None:
    """With snapkafka or without, and whether it wrote or not."""
    noted(start, table, opened)
    store = opened()
    if writes:
        store["k"] = 2
    store.close()
    assert known(start(), table) is None


def test_who_crashes_leaves_no_note_that_counts(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    noted(start, table, opened)
    start()
    store = opened()
    store["k"] = 2
    assert known(start(), table) is None, "the first one was killed: its store was never closed"
    store.close()


def test_effects_without_a_cause_leave_no_note(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    """Of an external producer, or with `cause` switched off: what they are of is not known."""
    for vague in (lambda tables: met(tables, None), lambda tables: tables.met(CHANGELOG, 0, None)):
        tables = start()
        opened().close()
        vague(tables)
        tables.leave()
        table.held = 7
        assert known(start(), table) is None
        table.held = None


def test_a_store_that_lies_elsewhere_is_not_in_the_note(
    start: Callable[[], Tables], table: Table, opened: Open, tmp_path: Path
) -> None:
    noted(start, table, opened)
    table.data = SimpleNamespace(partition_path=lambda partition: tmp_path / "elsewhere.db")
    assert known(start(), table) is None


def test_of_a_disk_that_was_not_known_only_bounded_inputs_are_noted(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    """After a crash any input may have had effects in the stores, also one that somebody else reads by now."""
    opened().close()
    table.held = 7
    tables = start()
    assert known(tables, table) is None
    tables.bound({INPUTS[0]: 40})
    tables.leave()
    tables = start()
    assert table.persisted_offset(CHANGELOG) == 7
    assert tables.to_bound(INPUTS) == INPUTS[1:]
    tables.bound({INPUTS[1]: 50})
    tables.leave()
    assert known(start(), table) == [40, 50], "now both are"


def test_a_store_that_nobody_has_opened_is_not_known_either(
    start: Callable[[], Tables], table: Table, opened: Open
) -> None:
    """A worker that stopped before it was given anything."""
    opened().close()
    start().leave()
    table.held = 7
    assert known(start(), table) is None


def test_who_shares_the_disk_leaves_no_note(
    start: Callable[[], Tables], table: Table, opened: Open, folder: Path
) -> None:
    """Each would vouch for what the other one did."""
    one = start()
    other = start()
    opened().close()
    one.leave()
    other.leave()
    assert list(folder.parent.iterdir()) == [folder]
    table.held = 7
    assert known(start(), table) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"version": 1}', '{"version": 2, "files": "", "effects": []}']
)
def test_a_note_that_is_none_counts_for_nothing(
    start: Callable[[], Tables], table: Table, opened: Open, folder: Path, text: str
) -> None:
    noted(start, table, opened)
    (folder.parent / "snapkafka-tables.json").write_text(text)
    assert known(start(), table) is None


def test_where_no_table_lies_on_the_disk_nothing_is_written(
    start: Callable[[], Tables], table: Table, folder: Path
) -> None:
    start().leave()
    assert list(folder.parent.iterdir()) == [folder]
    table.data = SimpleNamespace()  # in memory
    start()
    assert list(folder.parent.iterdir()) == [folder]
