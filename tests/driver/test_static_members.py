"""Static members: one of two workers stops in order, and Kafka keeps its inputs until its session is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.testing import Broker
from tests.driver.live import live

pytestmark = pytest.mark.timeout(300)


def test_a_static_member_that_left_is_named_as_what_it_is(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    with live(kafka, namespace, tmp_path) as run:
        for number in range(2):
            run.start(SMALL_APP_STATIC=f"{run.app}-{number}")
        run.await_workers()
        run.system.interrupt(run.system.workers[-1])
        processes = run.observer.state.processes
        run.until("the Bye of the second worker", lambda: any(v.left is not None for v in processes.values()))
        (left,) = [view for view in processes.values() if view.left is not None]
        assert left.hello.static_ms == 60_000, "Faust's session time-out"
        failure = run.take("one", ttl_ms=2_000).failure
        assert failure is not None
        assert failure.code == "ttl"
        assert f"which process {left.process} of app {run.app} has left: as a static member" in failure.reason
