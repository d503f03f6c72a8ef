"""R10: of which events a table may hold effects, by what its store held before anything of its changelog was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from snapkafka.drivers.faust.tables import Tables
from snapkafka.protocol.records import TopicPartition

INPUTS = [TopicPartition("in", 0), TopicPartition("in", 1)]
CHANGELOG = TopicPartition("counts-changelog", 0)


class Table:
    """As far as `Tables` knows it. `held`: what its store says when it is asked how far it has got."""

    def __init__(self) -> None:
        self.held: int | None = None
        self.data = None

    def persisted_offset(self, tp: Any) -> int | None:
        return self.held

    async def on_changelog_event(self, event: Any) -> None: ...


@pytest.fixture
def table() -> Table:
    return Table()


@pytest.fixture
def tables(table: Table) -> Tables:
    app = SimpleNamespace(tables={"counts": table})
    made = Tables(SimpleNamespace(app=app, sensor=None))  # type: ignore[arg-type]
    made.attach()
    return made


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
