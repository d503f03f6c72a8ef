"""Figures of `make bench`: when one has reached its bar."""

from __future__ import annotations

import pytest

from tests.bench.figures import Figure


@pytest.mark.parametrize(
    ("low", "high", "surely", "ok"),
    [
        (-2.0, -1.0, True, True),
        (-1.0, 1.0, True, False),
        (-1.0, 1.0, False, True),
        (1.0, 2.0, False, False),
    ],
)
def test_the_worse_end_counts_unless_any_of_it_will_do(
    low: float, high: float, surely: bool, ok: bool
) -> None:
    at_most = Figure(name="x", value=0.0, low=low, high=high, unit="s", bar=0.0, surely=surely)
    assert at_most.ok is ok
    at_least = Figure(
        name="x", value=0.0, low=-high, high=-low, unit="s", bar=0.0, surely=surely, at_most=False
    )
    assert at_least.ok is ok
