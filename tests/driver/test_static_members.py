"""Static members: one of two workers stops in order, and Kafka keeps its inputs until its session is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.demo import System, observing, wait_until
from snapkafka.testing import Broker
from tests.driver.test_install import make_topics, take

pytestmark = pytest.mark.timeout(300)


def test_a_static_member_that_left_is_named_as_what_it_is(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    app = f"small-{namespace}"
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            for number in range(2):
                env = {"SMALL_APP_ID": app, "SMALL_APP_STATIC": f"{app}-{number}"}
                system.start_worker(app, env, module="tests.driver.small_app")
            observer.wait_for_workers(system)
            system.interrupt(system.workers[-1])
            processes = observer.state.processes
            wait_until(
                "the Bye of the second worker",
                lambda: any(view.left is not None for view in processes.values()),
                timeout_s=20,
            )
            (left,) = [view for view in processes.values() if view.left is not None]
            assert left.hello.static_ms == 60_000, "Faust's session time-out"
            failure = observer.state.snapshots[take(observer, "one", ttl_ms=2_000)].failure
            assert failure is not None
            assert failure.code == "ttl"
            assert f"which process {left.process} of app {app} has left: as a static member" in failure.reason
    finally:
        system.stop()
