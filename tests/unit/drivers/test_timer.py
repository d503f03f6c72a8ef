"""`install(app, every=...)`: when a snapshot is due, what it is called, and when the timer slows down."""

from __future__ import annotations

import pytest

from snapkafka.drivers.faust.timer import failures_in_a_row, moment_after, moment_id, slower
from snapkafka.protocol import Abort, Hello, InputTopic, LedgerState, Trigger


def test_all_workers_mean_the_same_moments() -> None:
    assert [moment_after(now, 60.0) for now in (119.9, 120.0, 120.1, 179.9)] == [120, 180, 180, 180]
    assert moment_id(180, 60.0) == "every-60s-19700101T000300"
    assert moment_id(180, 60.0) != moment_id(180, 90.0), "each period counts for itself"
    assert len({moment_id(moment_after(n / 2, 1.5), 1.5) for n in range(0, 30, 3)}) == 10


@pytest.mark.parametrize(
    ("failures", "periods"), [(0, 1), (3, 1), (4, 2), (5, 4), (6, 8), (9, 32), (500, 32)]
)
def test_after_more_failures_than_are_tolerated_it_slows_down(failures: int, periods: int) -> None:
    assert slower(failures, 3) == periods


def test_failures_in_a_row_are_those_of_this_timer_since_its_last_good_one() -> None:
    state = LedgerState()
    state.apply(0, Hello(n=1, app="shop", inputs=(InputTopic(topic="orders", partitions=1),)))

    def take(name: str, *, fails: bool) -> None:
        at = state.end
        state.apply(at, Trigger(n=at, id=name))
        if fails:
            state.apply(at + 1, Abort(n=at + 1, epoch=at + 1, code="ttl", reason="slow"))
        else:
            state.snapshots[at + 1].captured_at = at
            state.open.pop(at + 1)

    assert failures_in_a_row(state, 60) == 0
    take("every-60s-1", fails=True)
    take("every-60s-2", fails=False)
    take("every-60s-3", fails=True)
    take("mine", fails=False)
    take("every-90s-3", fails=False)
    take("every-60s-4", fails=True)
    assert failures_in_a_row(state, 60) == 2
    state.apply(state.end, Trigger(n=77, id="every-60s-5"))
    assert failures_in_a_row(state, 60) == 2, "one that is under way has not failed"
