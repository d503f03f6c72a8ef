"""A bench of the running system: two services, two workers each, 4 partitions, no slow agents."""

from __future__ import annotations

import time
from typing import Final

from tests.bench.figures import Figure, figure, p99
from tests.e2e.parts import live

#: Of fewer than a hundred the p99 is the slowest.
SNAPSHOTS: Final = 300


def bench_capture() -> list[Figure]:
    """How long a capture takes (ledger time, trigger to completion)."""
    with live("bench-capture", slow_every=0) as system:
        views = []
        for number in range(SNAPSHOTS):
            views.append(system.take(f"s{number}"))
            time.sleep(0.1)
        times = system.observer.times
        captures = [float(times[view.captured_at or 0] - times[view.epoch - 1]) for view in views]
    return [
        figure("capture_ms_p99", captures, "ms", of=p99, bar=250),
        figure("capture_ms_p50", captures, "ms"),
    ]
