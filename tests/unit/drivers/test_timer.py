"""`install(app, every=...)`: when a snapshot is due, and what it is called."""

from __future__ import annotations

from snapkafka.drivers.faust.timer import moment_after, moment_id


def test_all_workers_mean_the_same_moments() -> None:
    assert [moment_after(now, 60.0) for now in (119.9, 120.0, 120.1, 179.9)] == [120, 180, 180, 180]
    assert moment_id(180, 60.0) == "every-60s-19700101T000300"
    assert moment_id(180, 60.0) != moment_id(180, 90.0), "each period counts for itself"
    assert len({moment_id(moment_after(n / 2, 1.5), 1.5) for n in range(0, 30, 3)}) == 10
