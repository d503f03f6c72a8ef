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
from tests.driver.test_operators import free_port, get, metric
from tests.features.other_faust import another_release

EVENTS = 100
#: What nobody calls while everything leaves the short way.
LONG_WAY = ("send_entered", "send_appended")


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
@pytest.mark.parametrize(
    "method",
    [
        "event_started",
        "send_at_once",
        *(pytest.param(name, marks=pytest.mark.nightly) for name in ("event_ended", *LONG_WAY, "send_acked")),
    ],
)
def test_r15_a_bug_of_ours_in_a_running_worker_stops_nothing_but_us(
    kafka: Broker, namespace: str, tmp_path: Path, method: str
) -> None:
    """From its twentieth call on (acknowledgements, which come by the batch: from the second) a method of the machine
    raises, in the midst of the app's own work. Every event passes once, and no snapshot is captured that counts on this
    worker: another one says so."""
    app = f"small-{namespace}"
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        with observing(kafka.bootstrap, namespace) as observer:
            env = {"SMALL_APP_ID": app, "SMALL_APP_INSTALL": "early", "SMALL_APP_BUG": method}
            if method in LONG_WAY:
                env["SMALL_APP_LISTENS"] = "yes"
            if method == "send_acked":
                env["SMALL_APP_BUG_AT"] = "1"
            worker = system.start_worker(app, env, module="tests.driver.small_app")
            system.start_worker(app, env | {"SMALL_APP_BUG": ""}, module="tests.driver.small_app")
            observer.wait_for_workers(system)
            observer.call(produce(kafka.bootstrap, f"{app}-in", EVENTS))
            tps = [TopicPartition(f"{app}-out", partition) for partition in range(2)]

            def written() -> int:
                return sum(observer.call(observer.admin.log_ends(tps)).values())

            wait_until("all events to pass", lambda: written() >= EVENTS, timeout_s=90, system=system)
            assert written() == EVENTS, "none was sent twice"
            failure = observer.state.snapshots[take(observer, "s")].failure
            log = worker.log.read_text()
            assert "a bug of ours" in log, "it was not met"
            assert failure is not None
            assert failure.code == "app-runs-without"  # R10: who stands down says so, and why
            assert "a bug of ours" in failure.reason
            assert log.count("snapkafka: failed") == 1, worker.last_lines(40)
            assert "Crashed" not in log
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


@pytest.mark.timeout(200)
def test_r15_who_stands_aside_says_so(kafka: Broker, namespace: str, tmp_path: Path) -> None:
    """On another release of Faust: a line in the log, and a metric."""
    app, port = f"small-{namespace}", free_port()
    make_topics(kafka, app)
    system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
    try:
        env = {
            "SMALL_APP_ID": app,
            "SMALL_APP_INSTALL": "early",
            "SMALL_APP_WEB_PORT": str(port),
        }
        other = another_release(tmp_path / "other")
        worker = system.start_worker(app, env | other, module="tests.driver.small_app", options=())
        page = f"http://127.0.0.1:{port}/snapkafka"
        wait_until("the web server", lambda: answers(page), timeout_s=60, system=system)
        why = get(f"{page}/")["absent"]
        assert "faust-streaming" in why
        assert metric(page, "snapkafka_participating") == 0
        log = worker.log.read_text()
        assert log.count("snapkafka: ") == 1, log
        assert "faust-streaming" in log
        system.check_alive()
    finally:
        system.stop()


def answers(page: str) -> bool:
    try:
        return get(f"{page}/")["participating"] is False
    except OSError:
        return False
