"""Figures of `make bench`: when one has reached its bar, and what tells growth from steps that come by chance."""

from __future__ import annotations

import random

import pytest

from tests.bench.figures import Figure, growth, trend, typical

PAGE = 4096
#: As in `bench_memory`: a look every fifty of 7,500 snapshots, 15 sections.
EVERY, SNAPSHOTS, SECTIONS = 50, 7_500, 15
#: One of two workers touches a page or two more of its memory about so often, whether snapshots are taken or not.
TOUCHED = 50 / 1_000


@pytest.mark.parametrize(
    ("low", "high", "surely", "ok"),
    [
        (-2.0, -1.0, True, True),
        (-1.0, 1.0, True, False),
        (-2.0, -1.0, False, True),
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


@pytest.mark.parametrize(("above", "more"), [(4, False), (8, True)])
def test_a_few_values_above_nothing_are_chance_and_many_are_not(above: int, more: bool) -> None:
    low, high = typical([1.0] * above + [0.0] * (20 - above))
    assert (low > 0) is more
    assert low <= above / 20 < high


@pytest.mark.parametrize(
    ("leak", "found_at_least", "found_at_most"), [(0, 0, 8), (20, 95, 100), (100, 100, 100)]
)
def test_a_leak_is_found_among_pages_that_two_workers_touch_by_chance(
    leak: float, found_at_least: int, found_at_most: int
) -> None:
    """Of a hundred runs; at 95 % both ways, two or three of those without a leak should be taken for one, and no more
    than a few are; the bootstrap of a line's looks took more than half."""
    found = sum(growth(_samples(seed, leak), SECTIONS)[1] > 0 for seed in range(100))
    assert found_at_least <= found <= found_at_most


def test_a_leak_is_as_large_as_it_is_said_to_be() -> None:
    held = 0
    for seed in range(100):
        value, low, high = growth(_samples(seed, 100), SECTIONS)
        held += low <= 100 <= high
        assert abs(value - 100) < 20
    assert held >= 88


def test_what_shrinks_is_no_growth() -> None:
    _, low, high = growth([(x, -y) for x, y in _samples(1, 100)], SECTIONS)
    assert low < high < 0


@pytest.mark.parametrize(
    ("leak", "found_at_least", "found_at_most"), [(0, 0, 8), (5, 90, 100), (10, 100, 100)]
)
def test_a_leak_is_found_in_what_goes_up_and_down_at_each_look(
    leak: float, found_at_least: int, found_at_most: int
) -> None:
    """As what two workers use does: by some 20 kB, and by a buffer more now and then."""
    found = held = 0
    for seed in range(100):
        chance = random.Random(seed)
        samples = [
            (float(n), leak * n + chance.gauss(0, 20_000) + 270_000 * (chance.random() < 0.05))
            for n in range(0, SNAPSHOTS, EVERY)
        ]
        value, low, high = trend(samples, SECTIONS)
        assert abs(value - leak) < 8
        found += low > 0
        held += low <= leak <= high
    assert found_at_least <= found <= found_at_most
    assert held >= 88


def _samples(seed: int, leak: float) -> list[tuple[float, float]]:
    """How much more memory a worker has than the one beside it, if it keeps so many bytes for each snapshot."""
    chance = random.Random(seed)
    kept = chance.uniform(0, PAGE)
    steps, samples = 0, []
    for number in range(0, SNAPSHOTS, EVERY):
        for worker in (1, -1):
            steps += worker * chance.choice((1, 2)) * (chance.random() < TOUCHED)
        kept += leak * EVERY
        samples.append((float(number), float(PAGE * (steps + kept // PAGE))))
    return samples
