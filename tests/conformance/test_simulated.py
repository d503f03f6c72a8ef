"""The scenarios on the simulator: whatever the order of steps, each snapshot is what its verdict says."""

from __future__ import annotations

from collections import Counter

import pytest

from snapkafka.sim import run
from tests.conformance.scenarios import SCENARIOS, Scenario

SEEDS = 30


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda found: found.name)
def test_each_scenario_holds_on_the_simulator(scenario: Scenario) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        found = run(seed, scenario.plan())
        assert not found.violations, (seed, found.violations)
        counts += found.counts
    assert counts["VERIFIED"] >= SEEDS and counts[scenario.shows] >= SEEDS, counts
