"""R16 in plain loops and mixed systems: an aligned snapshot has no message in flight; none is lost or runs twice."""

from __future__ import annotations

import pytest

from snapkafka.store import read_manifest
from snapkafka.testing import Taken
from snapkafka.until import blocking_until
from tests.conformance.running import Running, coins_of, money_of, running
from tests.conformance.scenarios import ALIGNED
from tests.observing import Place

pytestmark = pytest.mark.timeout(400)


def in_flight(taken: Taken) -> int:
    return len(taken.query("SELECT topic FROM messages"))


def aligned_one(run: Running) -> Taken:
    """One in which a loop goes back to what is committed fails, and the next attempt follows."""
    run.await_ticks(50)
    taken = run.captured(align=True)
    found = read_manifest(taken.assembled.manifest)[1].captured.alignment
    assert found is not None and found.aligned
    return taken


@pytest.mark.parametrize(("spender", "keeper"), ALIGNED)
def test_r16_an_aligned_snapshot_has_nothing_in_flight(place: Place, spender: str, keeper: str) -> None:
    """A keeper without threads is slower than the ticks come, so a snapshot that is not aligned has some."""
    with running(place, spender, keeper, one_way=True) as run:
        aligned = [aligned_one(run) for _ in range(3)]
        if keeper != "confluent threads":  # these keep up
            blocking_until(lambda: in_flight(run.captured()), 120, "a snapshot with messages in flight")
        run.stop_ticks()
        sent = sum(map(coins_of, range(run.ticked)))
        for taken in aligned:
            taken.assert_consistent()
            assert in_flight(taken) == 0
            money = money_of(run, taken)
            assert money and sum(coins for *_, coins in money) == 0, money

        def kept() -> int:
            return sum(coins for _, name, _, coins in money_of(run, run.captured()) if name == "purses")

        blocking_until(lambda: kept() >= sent, 60, "the keeper to have all coins")
        assert kept() == sent
