"""A straight line through measured points, with its confidence interval beyond them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

#: Quantiles of Student's t by degrees of freedom from 1 on: 95 % and 99.9 % of it lie within.
T_95: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
T_999: Final = (636.62, 31.599, 12.924, 8.610, 6.869, 5.959, 5.408, 5.041, 4.781, 4.587)


class Point(NamedTuple):
    """A measured point: the bytes that arrive at a node while its markers are late, and the bytes that the node held.
    `what`: the run."""

    x: float
    y: float
    what: str


@dataclass(frozen=True, slots=True)
class Line:
    """The line y = intercept + slope * x, by least squares.

    A count over a time varies by the root of the count, so a point's weight is one over its x: otherwise the largest
    point alone would determine the line. `weight`, `mean_x`, `spread` are of the weighted points.
    """

    intercept: float
    slope: float
    residual: float
    weight: float
    mean_x: float
    spread: float
    points: tuple[Point, ...]

    def at(self, x: float) -> float:
        return self.intercept + self.slope * x

    def interval(self, x: float, quantiles: Sequence[float] = T_95) -> tuple[float, float]:
        """Return the interval of the line at `x`, with the confidence of the quantiles."""
        count = len(self.points)
        error = self.residual * math.sqrt(1 / self.weight + (x - self.mean_x) ** 2 / self.spread)
        half = quantiles[min(count - 2, len(quantiles)) - 1] * error
        return self.at(x) - half, self.at(x) + half


def fit(points: Sequence[Point]) -> Line:
    """Fit a line through at least three points."""
    count = len(points)
    assert count >= 3, "two points are always on a line"
    weights = [1 / point.x for point in points]
    weight = sum(weights)
    mean_x = count / weight
    mean_y = sum(w * point.y for w, point in zip(weights, points, strict=True)) / weight
    spread = sum(w * (point.x - mean_x) ** 2 for w, point in zip(weights, points, strict=True))
    slope = sum(w * (p.x - mean_x) * (p.y - mean_y) for w, p in zip(weights, points, strict=True)) / spread
    intercept = mean_y - slope * mean_x
    squares = sum(w * (p.y - intercept - slope * p.x) ** 2 for w, p in zip(weights, points, strict=True))
    return Line(intercept, slope, math.sqrt(squares / (count - 2)), weight, mean_x, spread, tuple(points))
