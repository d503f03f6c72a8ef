"""R15: a service whose ledger is long has half of its loop for itself while it reads it."""

from __future__ import annotations

import pytest

from snapkafka.kafka.ledger.reader import SLICE_S, Pace

SOME_S = SLICE_S / 4


def test_who_reads_live_rests_as_long_as_it_was_busy() -> None:
    pace = Pace(live=True)
    for _ in range(3):
        pace.took(SOME_S)
    assert not pace.is_over(0)
    assert pace.is_over(SOME_S)
    assert pace.rest(SOME_S) == pytest.approx(4 * SOME_S)
    assert pace.rest(0) == 0, "once"


def test_nothing_rests_where_records_are_waited_for() -> None:
    """A trigger is heard of at once."""
    pace = Pace(live=True)
    pace.took(SOME_S)
    pace.waited(0.2)
    assert pace.rest(0) == 0


def test_a_tool_reads_to_the_end() -> None:
    pace = Pace(live=False)
    pace.took(SLICE_S)
    assert pace.is_over(0)
    assert pace.rest(0) == 0
