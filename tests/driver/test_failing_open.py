"""R15: snapkafka never stops, crashes or delays its host; what goes wrong in it is logged, and the worker goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from snapkafka.errors import TriggerRefusedError
from snapkafka.ops import doctor
from snapkafka.testing import Broker
from tests.driver.live import live

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
    with live(kafka, namespace, tmp_path) as run:
        worker = run.start(SMALL_APP_INSTALL="early", SMALL_APP_BROKEN=broken)
        run.produce(EVENTS)
        run.until("all events to pass", lambda: run.count("out") >= EVENTS, 90)
        log = worker.log.read_text()
        assert log.count(f"snapkafka: {said}") == 1
        assert "runs without snapshots" in log
        if broken in ("committed", "assignment_of"):  # it has joined: it withdraws, and says why
            with pytest.raises(
                TriggerRefusedError, match=f"no process takes part.*{said}.*{broken} is broken"
            ):
                run.take("s")
        else:
            assert not run.observer.state.processes
        run.system.check_alive()


@pytest.mark.timeout(200)
@pytest.mark.parametrize("setting", ["stream_publish_on_commit", "producer_threaded", "confluent"])
def test_r15_a_worker_that_joins_and_cannot_take_part_withdraws(
    kafka: Broker, namespace: str, tmp_path: Path, setting: str
) -> None:
    """By the app's settings. Every event passes, and the ledger says why no snapshot is taken: before, each one
    failed by its time to live, and nobody knew why."""
    with live(kafka, namespace, tmp_path) as run:
        observer, other = run.observer, setting == "confluent"
        env = {"SMALL_APP_TRANSPORT": "confluent"} if other else {"SMALL_APP_SETTING": setting}
        worker = run.start(SMALL_APP_INSTALL="early", **env)
        run.until("it to withdraw", lambda: any(view.goes_on for view in observer.state.processes.values()))
        assert worker.log.read_text().count("snapkafka: failed to join") == 1
        with pytest.raises(TriggerRefusedError, match=f"no process takes part.*{setting}"):
            run.take("s")
        found = observer.call(doctor(observer.connection, namespace)).found
        assert [setting in advice.what for advice in found if advice.code == "stood-down"] == [True]
        if not other:
            run.produce(20)
            run.until("all its events to pass", lambda: run.count("out") >= 20)
        run.system.check_alive()
