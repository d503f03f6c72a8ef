"""R15: snapkafka never stops, crashes or delays its host; what goes wrong in it is logged, and the worker goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.demo import System, observing, wait_until
from snapkafka.errors import TriggerRefusedError
from snapkafka.ops import doctor
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker
from tests.driver.test_install import make_topics, produce, take

EVENTS = 100


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("connection_of", "failed to start"),
        ("hello_of", "failed to join"),
        ("committed", "failed to announce its inputs"),
        pytest.param("assignment_of", "failed to announce its inputs", marks=pytest.mark.nightly),
        ("watch_streams", "failed to patch Faust"),
        ("Recorder", "failed to create its recorder"),
        pytest.param(
            "OutgoingRecords", "failed to patch what Faust's _new_producer creates", marks=pytest.mark.nightly
        ),
        pytest.param(
            "IncomingRecords",
            "failed to patch what Faust's _new_conductor creates",
            marks=pytest.mark.nightly,
        ),
        ("resume_last", "failed to patch what Faust's _new_consumer creates"),
    ],
)
def test_r15_a_broken_seam_stops_nothing_but_us(
    kafka: Broker, namespace: str, tmp_path: Path, broken: str, said: str
) -> None:
    """Every event passes, one log line says why this worker does not take part. Where it cannot keep its word it has
    not joined, and no snapshot waits for it."""
    app = f"small-{namespace}"
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"SMALL_APP_ID": app, "SMALL_APP_INSTALL": "early", "SMALL_APP_BROKEN": broken}
            worker = system.start_worker(app, env, module="tests.driver.small_app")
            observer.call(produce(kafka.bootstrap, f"{app}-in", EVENTS))
            tps = [TopicPartition(f"{app}-out", partition) for partition in range(2)]
            wait_until(
                "all events to pass",
                lambda: sum(observer.call(observer.admin.log_ends(tps)).values()) >= EVENTS,
                timeout_s=90,
                system=system,
            )
            log = worker.log.read_text()
            assert log.count(f"snapkafka: {said}") == 1, worker.last_lines(40)
            assert "runs without snapshots" in log
            if broken in ("committed", "assignment_of"):  # it has joined: it withdraws, and says why
                with pytest.raises(
                    TriggerRefusedError, match=f"no process takes part.*{said}.*{broken} is broken"
                ):
                    take(observer, "s")
            else:
                assert not observer.state.processes
            system.check_alive()
    finally:
        system.stop()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("setting", ["stream_publish_on_commit", "producer_threaded", "confluent"])
def test_r15_a_worker_that_joins_and_cannot_take_part_withdraws(
    kafka: Broker, namespace: str, tmp_path: Path, setting: str
) -> None:
    """By the app's settings. Every event passes, and the ledger says why no snapshot is taken: before, each one
    failed by its time to live, and nobody knew why."""
    app = f"small-{namespace}"
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"SMALL_APP_ID": app, "SMALL_APP_INSTALL": "early"}
            other = setting == "confluent"
            env |= {"SMALL_APP_TRANSPORT": "confluent"} if other else {"SMALL_APP_SETTING": setting}
            worker = system.start_worker(app, env, module="tests.driver.small_app")
            wait_until(
                "it to withdraw",
                lambda: any(view.goes_on for view in observer.state.processes.values()),
                timeout_s=60,
                system=system,
            )
            log = worker.log.read_text()
            assert log.count("snapkafka: failed to join") == 1, log
            with pytest.raises(TriggerRefusedError, match=f"no process takes part.*{setting}"):
                take(observer, "s")
            found = observer.call(doctor(observer.connection, namespace)).found
            assert [setting in advice.what for advice in found if advice.code == "stood-down"] == [True]
            if not other:
                observer.call(produce(kafka.bootstrap, f"{app}-in", 20))
                tps = [TopicPartition(f"{app}-out", partition) for partition in range(2)]
                wait_until(
                    "all its events to pass",
                    lambda: sum(observer.call(observer.admin.log_ends(tps)).values()) >= 20,
                    timeout_s=60,
                    system=system,
                )
            system.check_alive()
    finally:
        system.stop()
