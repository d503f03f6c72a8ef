"""V5 in Spark: the offsets of an input that may have been run in two workers."""

from __future__ import annotations

import pytest

from snapkafka.assembly.spark.verify.v5_cause import Span, shared


@pytest.mark.parametrize(
    ("spans", "expected"),
    [
        ([], None),
        ([(1, 0, 9)], None),
        ([(1, 0, 4), (2, 5, 9)], None),
        ([(1, 0, 4), (2, 4, 9)], (4, 4)),
        ([(1, 0, 9), (2, 3, 5)], (3, 5)),
        ([(1, 0, 2), (2, 1, 1), (3, 2, 9), (4, 8, 20)], (1, 9)),
        ([(1, 5, 9), (2, 0, 6), (3, 20, 30)], (5, 6)),
    ],
)
def test_only_offsets_that_two_workers_have_effects_of_are_looked_at(
    spans: list[tuple[int, int, int]], expected: tuple[int, int] | None
) -> None:
    assert shared(Span(*span) for span in spans) == expected
