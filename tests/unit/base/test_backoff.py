"""R1: a retry is the next attempt, a fresh epoch; nothing of the failed one stands in its way."""

from __future__ import annotations

import itertools

import pytest

from snapkafka.until import pause_after


def test_pauses_grow_twofold_up_to_a_bound() -> None:
    assert [pause_after(n, 1, first=1, most=10) for n in (1, 2, 3, 4, 5, 6)] == [1, 2, 4, 8, 10, 10]
    assert pause_after(10**6, 1, first=1, most=10) == 10


@pytest.mark.parametrize("attempt", [1, 3, 9])
def test_half_of_a_pause_is_random(attempt: int) -> None:
    """So those who failed together do not come back together."""
    pauses = [pause_after(attempt, share / 10, first=1, most=10) for share in range(11)]
    assert pauses[0] == pauses[-1] / 2
    assert all(a < b for a, b in itertools.pairwise(pauses))
