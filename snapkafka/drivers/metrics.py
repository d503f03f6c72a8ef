"""The metrics of a worker: counts since its start, in the format of Prometheus.

`Metrics` only counts, in plain numbers, as every record passes it. The Prometheus client is imported at the first
scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from snapkafka.protocol.captured_snapshot import WHY_UNREAD

if TYPE_CHECKING:
    from snapkafka.protocol.ledger_state import SnapshotView

#: Upper bounds, in seconds. A cut takes microseconds, a capture tenths of a second, a failing one its time to live.
CUT_S: Final = (0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 1.0)
CLOSING_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
CAPTURE_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: Exported from the start, with 0: what is first seen with a 1 is no increase for Prometheus.
OUTCOMES: Final = (
    "captured",
    "aborted",
    "alignment-cycle",
    "app-runs-without",
    "app-stopped",
    "contaminated",
    "input-moved",
    "ledger-cut-short",
    "marker-failed",
    "mixed",
    "out-of-order",
    "paused",
    "process-lost",
    "restoring",
    "send-failed",
    "send-unsettled",
    "sent-bare",
    "state-not-given",
    "ttl",
)
#: What a worker asks a broker again and again; exported from the start, too.
APIS: Final = ("Fetch", "ListOffsets", "Metadata", "Produce")


class Histogram:
    """A histogram: each value counts for the least bound that is not below it."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return pairs (bound, number of values not above it), as Prometheus defines them."""
        found, total = [], 0
        for bound, count in zip((*map(repr, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            found.append((bound, float(total)))
        return found


@dataclass(slots=True)
class Metrics:
    """Counts since the start of the worker. Snapshots are counted that were triggered since it joined, as it reads of
    them in the ledger."""

    cuts: int = 0
    markers: int = 0
    bare: int = 0  # records that left without a header
    foreign_headers: int = 0
    disbelieved: int = 0
    void_records: int = 0  # of processes of before a restore, taken out
    stores_removed: int = 0  # which were of before a restore
    ledger_garbage: int = 0
    ledger_cut_short: int = 0
    never_read: Counter[str] = field(default_factory=Counter)  # records of inputs, by why
    outcomes: Counter[str] = field(default_factory=Counter)  # "captured", or the code of the failure
    requests: Counter[str] = field(default_factory=Counter)  # of our own clients, by API
    cut_s: Histogram = field(default_factory=lambda: Histogram(CUT_S))
    closing_s: Histogram = field(default_factory=lambda: Histogram(CLOSING_S))
    capture_s: Histogram = field(default_factory=lambda: Histogram(CAPTURE_S))
    held_s: Histogram = field(default_factory=lambda: Histogram(CLOSING_S))
    _triggered_ms: dict[int, int] = field(default_factory=dict)  # of snapshots that are under way

    def triggered(self, view: SnapshotView, at_ms: int) -> None:
        """Count a snapshot as in progress since `at_ms`, by the ledger's clock."""
        self._triggered_ms[view.epoch] = at_ms

    def forget_open(self) -> None:
        """Forget the open snapshots: the ledger is another one, and its epochs begin again."""
        self._triggered_ms.clear()

    def decided(self, view: SnapshotView, at_ms: int) -> None:
        """Count a snapshot as captured or failed."""
        since = self._triggered_ms.pop(view.epoch, None)
        if since is None:
            return
        self.outcomes["captured" if view.failure is None else view.failure.code] += 1
        if view.failure is None:
            self.capture_s.add(max(0, at_ms - since) / 1000)


def rendered(metrics: Metrics, *, participating: bool, ledger_lag: int | None) -> tuple[bytes, str]:
    """Return the metrics as text for Prometheus, and its content type.

    Args:
        ledger_lag: records of the ledger not read yet; None: unknown.
    """
    from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

    class Collected:
        def collect(self) -> Iterator[Any]:
            return families(metrics, participating=participating, ledger_lag=ledger_lag)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Collected())
    return generate_latest(registry), CONTENT_TYPE_LATEST


def families(metrics: Metrics, *, participating: bool, ledger_lag: int | None) -> Iterator[Any]:
    """Yield the families of the Prometheus client; arguments as for `rendered`."""
    from prometheus_client.core import GaugeMetricFamily

    yield from _counters(metrics)
    yield from _histograms(metrics)
    what = "1: this worker takes part in snapshots; 0: it is disabled or absent"
    yield GaugeMetricFamily("snapkafka_participating", what, value=float(participating))
    if ledger_lag is not None:
        yield GaugeMetricFamily("snapkafka_ledger_lag", "Ledger records not read yet", value=ledger_lag)


def _counters(m: Metrics) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily

    ignored = {
        "foreign-header": m.foreign_headers,
        "no-such-trigger": m.disbelieved,
        "before-a-restore": m.void_records,
        "ledger-garbage": m.ledger_garbage,
    }
    counters: tuple[tuple[str, str, str, dict[str, int]], ...] = (
        (
            "snapshots",
            "outcome",
            "Snapshots since this worker joined: captured, or the code of the failure; every worker counts all of them",
            dict.fromkeys(OUTCOMES, 0) | m.outcomes,
        ),
        ("ignored", "reason", "Records without a header that counts", ignored),
        (
            "never_read",
            "reason",
            "Records of its inputs that this worker passed without reading",
            {why: m.never_read[why] for why in WHY_UNREAD},
        ),
        (
            "requests",
            "api",
            "Requests of snapkafka's own clients in this worker to Kafka; those of the app are not among them",
            dict.fromkeys(APIS, 0) | m.requests,
        ),
        ("cuts", "", "Cuts of this worker", {"": m.cuts}),
        (
            "bare",
            "",
            "Records sent without our header, because it would have broken a size limit",
            {"": m.bare},
        ),
        (
            "ledger_cut_short",
            "",
            "How often the ledger had lost acknowledged records that this worker had read",
            {"": m.ledger_cut_short},
        ),
        ("markers", "", "Markers that this worker read", {"": m.markers}),
    )
    for name, label, what, counts in counters:
        family = CounterMetricFamily(f"snapkafka_{name}", what, labels=[label] if label else [])
        for value, count in sorted(counts.items()):
            family.add_metric([value] if label else [], count)
        yield family


def _histograms(m: Metrics) -> Iterator[Any]:
    from prometheus_client.core import HistogramMetricFamily

    for name, what, found in (
        ("cut", "Duration of the cut in this worker", m.cut_s),
        ("closing", "From the cut until this worker has closed", m.closing_s),
        ("capture", "From the trigger until captured, by the ledger's clock", m.capture_s),
        ("alignment", "How long an input of this worker was held back for an aligned snapshot", m.held_s),
    ):
        yield HistogramMetricFamily(
            f"snapkafka_{name}_seconds", what, buckets=found.buckets(), sum_value=found.sum
        )
