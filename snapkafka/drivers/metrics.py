"""The metrics of a worker: counts since its start, in the format of Prometheus.

Counts are plain numbers, as the app waits for them. The Prometheus client is imported at the first scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from typing import Any, Final

from snapkafka.protocol import WHY_UNREAD, SnapshotView
from snapkafka.protocol.records import CONTAMINATING, LEDGER_CUT_SHORT, RESTORING, RETRYABLE

OUTCOMES: Final = (
    *("captured", "aborted", "paused", LEDGER_CUT_SHORT, RESTORING),
    *sorted(RETRYABLE | CONTAMINATING),
)
#: By name: the label, its values that are exported from the start, with 0 (what is first seen with a 1 is no increase
#: for Prometheus), and the help text.
COUNTERS: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "snapshots": (
        "outcome",
        OUTCOMES,
        "Snapshots since this worker joined, by how they ended; every worker counts all",
    ),
    "ignored": (
        "reason",
        ("foreign-header", "no-such-trigger", "before-a-restore", "ledger-garbage"),
        "Records without a header that counts",
    ),
    "never_read": ("reason", (*WHY_UNREAD,), "Records of its inputs that this worker passed without reading"),
    "requests": (
        "api",
        ("Fetch", "ListOffsets", "Metadata", "Produce"),
        "Requests of snapkafka's own clients in this worker to Kafka; those of the app are not among them",
    ),
    "cuts": ("", ("",), "Cuts of this worker"),
    "bare": ("", ("",), "Records sent without our header, because it would have broken a size limit"),
    "ledger_cut_short": (
        "",
        ("",),
        "How often the ledger had lost acknowledged records that this worker had read",
    ),
    "markers": ("", ("",), "Markers that this worker read"),
}
CLOSING_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
#: By name: the help text, and upper bounds in seconds. A cut takes microseconds, a capture tenths of a second.
HISTOGRAMS: Final = {
    "cut": (
        "Duration of the cut in this worker",
        (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0),
    ),
    "closing": ("From the cut until this worker has reported", CLOSING_S),
    "capture": (
        "From the trigger until captured, by the ledger's clock",
        (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
    ),
    "alignment": ("How long an input of this worker was held back for an aligned snapshot", CLOSING_S),
}


class Metrics:
    """Counts since the start of the worker. Snapshots are counted that were triggered since it joined, as it reads of
    them in the ledger."""

    def __init__(self) -> None:
        #: By the value of the label; the numbers between the bounds, and the sum.
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in COUNTERS}
        self.seconds = {name: ([0] * (len(bounds) + 1), [0.0]) for name, (_, bounds) in HISTOGRAMS.items()}
        self.triggered_ms: dict[int, int] = {}  # of snapshots that are under way, by the ledger's clock

    def count(self, name: str, label: str = "", number: int = 1) -> None:
        self.counts[name][label] += number

    def observe(self, name: str, seconds: float) -> None:
        """Count a duration for the least bound that is not below it."""
        counts, total = self.seconds[name]
        counts[bisect_left(HISTOGRAMS[name][1], seconds)] += 1
        total[0] += seconds

    def decided(self, view: SnapshotView, at_ms: int) -> None:
        """Count a snapshot as captured or failed."""
        since = self.triggered_ms.pop(view.epoch, None)
        if since is None:
            return
        self.count("snapshots", "captured" if view.failure is None else view.failure.code)
        if view.failure is None:
            self.observe("capture", max(0, at_ms - since) / 1000)


def families(metrics: Metrics, *, participating: bool, ledger_lag: int | None) -> Iterator[Any]:
    """Yield the counts as the Prometheus client has them. `ledger_lag`: records of the ledger not read yet; None:
    unknown."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    for name, (label, known, what) in COUNTERS.items():
        family = CounterMetricFamily(f"snapkafka_{name}", what, labels=[label] if label else [])
        for value, count in sorted({**dict.fromkeys(known, 0), **metrics.counts[name]}.items()):
            family.add_metric([value] if label else [], count)
        yield family
    for name, (what, bounds) in HISTOGRAMS.items():
        counts, (total,) = metrics.seconds[name]
        buckets = list(zip((*map(repr, bounds), "+Inf"), accumulate(counts), strict=True))
        yield HistogramMetricFamily(f"snapkafka_{name}_seconds", what, buckets, total)
    takes_part = "1: this worker takes part in snapshots; 0: it is disabled or absent"
    yield GaugeMetricFamily("snapkafka_participating", takes_part, float(participating))
    if ledger_lag is not None:
        yield GaugeMetricFamily("snapkafka_ledger_lag", "Ledger records not read yet", ledger_lag)


def rendered(metrics: Metrics, **more: Any) -> tuple[bytes, str]:
    """Return the metrics as text for Prometheus, and its content type; see `families`."""
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    class Collector:  # the client's own counters would write files where the app has several processes
        collect = staticmethod(partial(families, metrics, **more))

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collector())
    return generate_latest(registry), CONTENT_TYPE_LATEST
