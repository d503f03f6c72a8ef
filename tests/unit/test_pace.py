"""R15: a service whose ledger is long has half of its loop for itself while it reads it."""

from __future__ import annotations

import pytest

from snapkafka.kafka.ledger.reader import Pace


def test_who_reads_live_rests_as_long_as_it_was_busy() -> None:
    pace = Pace(live=True)
    assert pace.rest() == 0
    for _ in range(8):
        pace.took(0.001)
    assert pace.rest() == pytest.approx(0.008)
    assert pace.rest() == 0, "once"


def test_nothing_rests_where_records_are_waited_for() -> None:
    """A trigger is heard of at once."""
    pace = Pace(live=True)
    pace.took(0.001)
    pace.took(0.2)
    assert pace.rest() == 0


def test_a_tool_reads_to_the_end() -> None:
    pace = Pace(live=False)
    pace.took(0.001)
    assert pace.rest() == 0
