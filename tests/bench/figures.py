"""What a bench yields: a value, an interval, a bar; and the statistics it needs. The worse end counts."""

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

RESAMPLES: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of `build/bench.json`. `low`, `high`: a 95 % interval. `bar`: what its worse end has to reach."""

    name: str
    value: float
    low: float
    high: float
    unit: str
    bar: float | None = None
    at_most: bool = True

    @property
    def ok(self) -> bool | None:
        if self.bar is None:
            return None
        return self.high <= self.bar if self.at_most else self.low >= self.bar

    def as_json(self) -> dict[str, Any]:
        fields = asdict(self) | {"ok": self.ok}
        del fields["at_most"]
        return {key: round(v, 4) if isinstance(v, float) else v for key, v in fields.items()}


def interval(values: Sequence[Any], of: Callable[[Sequence[Any]], float]) -> tuple[float, float]:
    """A 95 % interval of a statistic, by the bootstrap; the same for the same values."""
    source = random.Random(1985)
    drawn = sorted(of(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return drawn[int(0.025 * RESAMPLES)], drawn[int(0.975 * RESAMPLES)]


def figure(
    name: str,
    values: Sequence[Any],
    unit: str,
    *,
    of: Callable[[Sequence[Any]], float] = statistics.median,
    bar: float | None = None,
    at_most: bool = True,
) -> Figure:
    """A statistic of measured values, with its interval."""
    low, high = interval(values, of)
    return Figure(name=name, value=of(values), low=low, high=high, unit=unit, bar=bar, at_most=at_most)


def p99(values: Sequence[float]) -> float:
    """The smallest value that at least 99 % of all do not exceed."""
    return sorted(values)[-(-99 * len(values) // 100) - 1]
