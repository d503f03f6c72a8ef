"""What a bench yields: a value, an interval, a bar; and the statistics it needs. The worse end counts."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, pairwise
from typing import Any, Final

RESAMPLES: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of `build/bench.json`. `low`, `high`: a 95 % interval. `bar`: what must be reached, None: none.

    `surely`: the worse end of the interval has to reach the bar; else any of it.
    """

    name: str
    value: float
    low: float
    high: float
    unit: str
    bar: float | None = None
    at_most: bool = True
    surely: bool = True

    @property
    def ok(self) -> bool | None:
        if self.bar is None:
            return None
        low, high = (self.low, self.high) if self.surely else (self.high, self.low)
        return high <= self.bar if self.at_most else low >= self.bar

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self)
        del fields["at_most"], fields["surely"]
        return {key: round(v, 4) if isinstance(v, float) else v for key, v in fields.items()} | {
            "ok": self.ok
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of all do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-int(share * 1000) * len(ordered) // 1000) - 1))]


def interval(values: Sequence[float], of: Callable[[Sequence[float]], float]) -> tuple[float, float]:
    """A 95 % interval of a statistic, by the bootstrap; the same for the same values."""
    source = random.Random(1985)
    drawn = sorted(of(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def typical(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the mean that values scatter around evenly, few as they may be; the same for the same values.

    The means of subsets are as often above what is sought as below, whatever the values are spread like (J. Hartigan,
    "Using subsample values as typical values", 1969), so it takes six that are above 0, and none below, to tell that
    there is more than none. The bootstrap is content with four, which chance yields once in sixteen times.
    """
    source = random.Random(1969)
    drawn: list[float] = []
    while len(drawn) < RESAMPLES:
        if some := [value for value in values if source.getrandbits(1)]:
            drawn.append(statistics.fmean(some))
    drawn.sort()
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def growth(samples: Sequence[tuple[float, float]], sections: int) -> tuple[float, float, float]:
    """By how much something grows at each step, and the interval of that.

    Memory grows by pages that are touched for the first time, here and there, and stay: so a look is as high as the one
    before, and looks around a line tell nothing of how far the line itself may be led astray. What has grown from one
    section of the looks to the next does: that is by chance each time.

    Args:
        samples: the step, and what was seen then.
        sections: so many, each long enough that one does not tell what the next will bring.
    """
    assert len(samples) >= sections > 1, f"{len(samples)} looks are no {sections} sections"
    # Levels are means of a few looks where sections meet, lest what comes and goes counts; with many more one section
    # would tell of the next.
    few = max(1, len(samples) // sections // 4)
    starts = [(len(samples) - few) * n // sections for n in range(sections + 1)]
    parts = [samples[start : start + few] for start in starts]
    levels = [tuple(statistics.fmean(axis) for axis in zip(*part, strict=True)) for part in parts]
    slopes = [(y - was) / (x - before) for (before, was), (x, y) in pairwise(levels)]
    return statistics.fmean(slopes), *typical(slopes)


def trend(samples: Sequence[tuple[float, float]], sections: int) -> tuple[float, float, float]:
    """By how much something that goes up and down at each look, now and then far up, rises with each step; and the 95 %
    interval of that.

    The median of the slopes between the medians of any two sections, and those of its neighbours that lie as far off as
    Kendall's rank correlation goes by chance (P. Sen, "Estimates of the regression coefficient based on Kendall's tau",
    1968).

    Args:
        samples: the step, and what was seen then.
        sections: so many, each long enough that one does not tell what the next will bring.
    """
    assert len(samples) >= sections > 2, f"{len(samples)} looks are no {sections} sections"
    starts = [len(samples) * n // sections for n in range(sections + 1)]
    levels = [
        tuple(statistics.median(axis) for axis in zip(*samples[start:end], strict=True))
        for start, end in pairwise(starts)
    ]
    slopes = sorted((y - was) / (x - before) for (before, was), (x, y) in combinations(levels, 2))
    by_chance = 1.96 * math.sqrt(sections * (sections - 1) * (2 * sections + 5) / 18)
    first = max(0, int((len(slopes) - by_chance) / 2))
    return statistics.median(slopes), slopes[first], slopes[-1 - first]


def figure(
    name: str,
    values: Sequence[float],
    unit: str,
    *,
    of: Callable[[Sequence[float]], float] = statistics.median,
    bar: float | None = None,
    at_most: bool = True,
) -> Figure:
    """A statistic of measured values, with its interval."""
    low, high = interval(values, of)
    return Figure(name=name, value=of(values), low=low, high=high, unit=unit, bar=bar, at_most=at_most)


def p99(values: Sequence[float]) -> float:
    return percentile(values, 0.99)
