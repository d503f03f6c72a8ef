"""Twenty histories of the simulator, for whoever needs an answer in two seconds: `make mutation` runs them against
every mutant. The long campaigns are elsewhere."""

from __future__ import annotations

from collections import Counter

import pytest

from snapkafka.sim import run

SEEDS = 20


@pytest.mark.parametrize("start", range(0, SEEDS, 5))
def test_no_snapshot_of_these_histories_is_inconsistent(start: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(start, start + 5):
        outcome = run(seed)
        assert not outcome.violations, f"seed {seed}"
        assert not outcome.condemned, f"seed {seed}"
        seen += outcome.counts
    assert seen["captured"], "a history without a snapshot shows nothing"
