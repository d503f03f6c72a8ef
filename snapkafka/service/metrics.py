"""The metrics of the service: requests, streams, and the snapshots of the namespace."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from snapkafka.errors import SnapkafkaError
from snapkafka.manifest import RestorableEntry
from snapkafka.ops import freshness_in, gauges

from .ledger_follower import LedgerFollower, Streams


def described() -> tuple[Any, ...]:
    """Create the metrics of the service, without values: requests, ledger followed, streams, snapshots."""
    kinds: tuple[tuple[Any, str, str, list[str]], ...] = (
        (CounterMetricFamily, "requests", "Requests by route and HTTP status", ["method", "route", "status"]),
        (GaugeMetricFamily, "ledger_followed", "1: the ledger is read to its end and followed", []),
        (GaugeMetricFamily, "streams", "Live streams", []),
        (GaugeMetricFamily, "snapshots", "Snapshots in the ledger by status", ["status"]),
    )
    return tuple(kind(f"snapkafka_service_{name}", text, labels=labels) for kind, name, text, labels in kinds)


class Metrics:
    """Counts since the start of the service, and gauges from the present fold."""

    def __init__(self, follower: LedgerFollower, streams: Streams) -> None:
        self._follower, self._streams = follower, streams
        self._kept: RestorableEntry | None = None
        self._registry = CollectorRegistry(auto_describe=False)
        self._requests: Counter[tuple[str, str, str]] = Counter()
        self._registry.register(self)

    def collect(self) -> Iterator[Any]:
        """Yield the gauges of the namespace (Prometheus calls this)."""
        follower = self._follower
        requests, followed, streams, snapshots = described()
        for labels, count in sorted(self._requests.items()):
            requests.add_metric(labels, count)
        followed.add_metric([], float(follower.followed))
        streams.add_metric([], float(self._streams.open))
        yield from (requests, followed, streams)
        if follower.version and follower.followed:
            views = follower.newest_first()
            for status, count in sorted(Counter(view.status.value for view in views).items()):
                snapshots.add_metric([status], count)
            yield snapshots
            fresh = replace(freshness_in(follower.reading, follower.clock()), restorable=self._kept)
            for gauge in gauges(fresh):
                names = ["namespace", gauge.label] if gauge.label else ["namespace"]
                family = GaugeMetricFamily(gauge.name, gauge.help, labels=names)
                for label, value in gauge.samples:
                    family.add_metric([follower.namespace, label][: len(names)], value)
                yield family

    async def rendered(self) -> bytes:
        """Return the metrics as text for Prometheus."""
        follower = self._follower
        good = follower.latest_good() if follower.version and follower.followed else None
        self._kept = None
        if good is not None:
            with contextlib.suppress(SnapkafkaError):  # the other metrics are still known
                self._kept = await follower.restorable(good)
        return generate_latest(self._registry)

    def count(self, method: str, route: str, status: int) -> None:
        """Count an answer."""
        self._requests[method, route, str(status)] += 1
