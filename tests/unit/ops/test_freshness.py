"""`freshness`: ages of the newest captured and the newest good snapshot, and how long the latter is restorable."""

from __future__ import annotations

from math import inf

import pytest

from snapkafka import ops
from snapkafka.manifest_entries import RestorableEntry
from snapkafka.protocol import Verdict
from tests.worlds.fakes import FakeCluster, Worker


async def test_the_newest_good_one_counts_and_not_the_newest() -> None:
    cluster = FakeCluster()
    Worker(cluster.the_ledger, "shop", "orders")
    nothing = await ops.freshness(cluster, "ns")
    assert (nothing.captured_age_s, nothing.verified_age_s, nothing.restorable_s) == (None, None, None)
    ledger, epochs = cluster.the_ledger, {}
    for name in ("good", "bad", "unverified"):
        epochs[name] = (await ops.trigger(cluster, "ns", snapshot_id=name, wait=True)).epoch
    ledger.put(Verdict(n=1, epoch=epochs["good"], verdict="VERIFIED_OPEN"))
    ledger.put(Verdict(n=2, epoch=epochs["bad"], verdict="INCONSISTENT"))
    now_ms = ledger.clock_ms + 5_000
    found = await ops.freshness(cluster, "ns", clock=lambda: now_ms)
    triggered = {name: ledger.entries[epoch - 1].timestamp_ms for name, epoch in epochs.items()}
    assert found.verified_id == "good"
    assert found.verified_age_s == (now_ms - triggered["good"]) / 1_000
    assert found.captured_age_s == (now_ms - triggered["unverified"]) / 1_000
    assert found.verdicts == {"VERIFIED_OPEN": 1, "INCONSISTENT": 1}
    assert found.restorable is not None


@pytest.mark.parametrize(
    ("how", "until", "seconds"),
    [
        ("until", "1970-01-01T00:01:00.000+00:00", 50.0),
        ("until", "1970-01-01T00:00:01.000+00:00", 0.0),
        ("gone", "", 0.0),
        ("always", "", inf),
        ("unknown", "", None),
    ],
)
def test_seconds_until_it_is_no_longer_restorable(how: str, until: str, seconds: float | None) -> None:
    entry = RestorableEntry(how=how, until=until, topic="t", partition=0, why="")
    found = ops.Freshness(now_ms=10_000, verdicts={}, restorable=entry)
    assert found.restorable_s == seconds
