"""Loops whose inputs move: a second member joins, one is killed; not a coin is missing or made."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.errors import SnapshotFailedError
from snapkafka.testing import Broker
from snapkafka.testing.taken import Taken
from snapkafka.until import blocking_until
from tests.conformance.running import Running, money_of, running

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]


def require_conserved(run: Running, taken: Taken) -> None:
    assert taken.assert_consistent().verdict == "VERIFIED"
    money = money_of(run, taken)
    assert sum(coins for *_, coins in money) == 0, money


def captured(run: Running) -> Taken:
    """The first snapshot that is captured: one that waits for a killed process fails by name, and the next does not."""

    def take() -> Taken | None:
        try:
            return run.snapshot(ttl_ms=8_000)
        except SnapshotFailedError:
            return None

    taken: Taken = blocking_until(take, 120, "a snapshot to be captured")
    return taken


@pytest.mark.parametrize("kind", ["confluent", pytest.param("aiokafka", marks=pytest.mark.long)])
def test_a_member_joins_and_one_is_killed(kafka: Broker, namespace: str, tmp_path: Path, kind: str) -> None:
    with running(kafka, namespace, tmp_path) as run:
        run.start(kind, "spender")
        run.start(kind, "keeper")
        run.await_ready()
        require_conserved(run, captured(run))
        second = run.start(kind, "keeper")
        run.await_ready()
        owners = {
            view.process
            for view in run.observer.state.living()
            if view.inputs and view.hello.app.endswith("keeper")
        }
        assert len(owners) == 2
        require_conserved(run, captured(run))
        second.kill()
        second.wait()
        require_conserved(run, captured(run))
        run.start(kind, "keeper")
        so_far = run.ticked
        blocking_until(lambda: run.ticked > so_far + 300, 60, "300 more ticks")
        require_conserved(run, captured(run))
