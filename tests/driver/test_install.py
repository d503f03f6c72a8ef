"""`snapkafka.install(app)`: what is refused, and what it imports. And R15, with real workers on a real broker: it never
stops, crashes or delays its host, and names what it cannot do."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import faust
import pytest

import snapkafka
from snapkafka import ops
from snapkafka.errors import InstallError, TriggerRefusedError
from snapkafka.kafka.cluster.group_hold import GroupHold
from snapkafka.protocol import Restore
from tests.driver.live import Live
from tests.observing import Place


def new_app() -> faust.App:
    return faust.App("new", broker="kafka://127.0.0.1:1")


def test_install_right_after_the_app_does_not_finalise_it_and_comes_once() -> None:
    app = new_app()
    snapkafka.install(app, namespace="n")
    assert not app.configured and not app.finalized
    with pytest.raises(InstallError):
        snapkafka.install(app, namespace="n")


@pytest.mark.parametrize(
    ("switch", "settings", "named"),
    [
        ("", {"evry": 60, "zeal": 5}, ["evry", "zeal", "every"]),
        ("", {"ttl_ms": 0}, ["ttl_ms"]),
        ("sometimes", {"mode": "on"}, ["mode", "sometimes", "SNAPKAFKA "]),
    ],
)
def test_settings_that_make_no_sense_are_named(
    monkeypatch: pytest.MonkeyPatch, switch: str, settings: dict[str, Any], named: list[str]
) -> None:
    """All unknown names, with those that there are, or a value that cannot be."""
    install: Any = snapkafka.install
    app = new_app()
    monkeypatch.setenv("SNAPKAFKA", switch)
    with pytest.raises(InstallError) as caught:
        install(app, namespace="n", **settings)
    assert [name for name in named if name not in caught.value.message + caught.value.hint] == []
    assert getattr(app, "snapkafka", None) is None, "a failed install leaves no trace"


def test_the_namespace_and_the_mode_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(**options: Any) -> Any:
        return snapkafka.install(new_app(), **options).config

    monkeypatch.delenv("SNAPKAFKA_NAMESPACE", raising=False)
    with pytest.raises(InstallError):
        installed()
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "found")
    monkeypatch.setenv("SNAPKAFKA", "stamp")
    assert installed(mode="off").namespace == "found"
    told = installed(namespace="told", mode="off")
    assert (told.namespace, told.mode) == ("told", "stamp")
    with pytest.raises(InstallError):
        installed(namespace="")  # a variable of theirs that nobody has set


@pytest.mark.parametrize("how", ["setting", "environment"])
def test_switched_off_it_leaves_the_app_as_it_is(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = new_app()
    before = (dict(vars(app)), dict(vars(app.sensors)), set(app.sensors))
    if how == "environment":
        monkeypatch.setenv("SNAPKAFKA", "off")
    assert snapkafka.install(app, namespace="n", mode="off" if how == "setting" else "on") is None
    started = vars(app).pop("on_start")  # looks whether the app was restored, and starts it
    assert started.__module__.startswith("snapkafka.drivers.faust")
    assert (dict(vars(app)), dict(vars(app.sensors)), set(app.sensors)) == before


IMPORTS = """
import sys, faust, snapkafka
snapkafka.install(faust.App("new", broker="kafka://127.0.0.1:1"), namespace="n")
never = ("pyspark", "confluent_kafka", "typer", "rich", "duckdb", "pandas", "numpy", "avro")
print(*[name for name in never if name in sys.modules])
"""


def test_a_service_imports_no_heavy_library() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


EVENTS = 100
NIGHTLY = pytest.mark.nightly


@pytest.mark.timeout(200)
@pytest.mark.parametrize(
    ("kind", "value", "said", "joins"),
    [
        ("BROKEN", "connection_of", "failed to start", False),
        ("BROKEN", "hello_of", "failed to join", False),
        ("BROKEN", "in_consumer", "failed to announce its inputs", True),
        pytest.param("BROKEN", "assignment_of", "failed to announce its inputs", True, marks=NIGHTLY),
        ("BROKEN", "watch_streams", "failed to patch Faust", False),
        ("BROKEN", "Recorder", "failed to patch what Faust has created", False),
        pytest.param("BROKEN", "OutgoingRecords", "failed to patch its producer", False, marks=NIGHTLY),
        *(
            pytest.param("BROKEN", seam, "failed to patch what Faust has created", False, marks=marks)
            for seam, marks in (("IncomingRecords", NIGHTLY), ("resume_last", ()))
        ),
        ("SETTING", "stream_publish_on_commit", "failed to join", True),
        ("SETTING", "producer_threaded", "failed to join", True),
        ("TRANSPORT", "confluent", "failed to join", True),
    ],
)
def test_r15_a_broken_seam_stops_only_us(place: Place, kind: str, value: str, said: str, joins: bool) -> None:
    """Every event passes, one log line says why this worker does not take part. Where it cannot keep its word it has
    not joined, and no snapshot waits for it; or it withdraws, and the ledger says why no snapshot is taken."""
    with Live.running(place) as run:
        observer = run.observer
        worker = run.start(**{f"FEATURES_{kind}": value})
        if kind != "TRANSPORT":
            run.produce(EVENTS)
            run.until("all events to pass", lambda: run.count("out") >= EVENTS, 90)
        processes = observer.state.processes
        if joins:
            run.until("it to withdraw", lambda: any(view.goes_on for view in processes.values()))
            with pytest.raises(TriggerRefusedError) as refused:
                run.take("s")
            assert refused.value.facts["reason"] == "withdrawn" and value in refused.value.message
            assert kind != "BROKEN" or said in refused.value.message
            found = observer.call(ops.doctor(observer.connection, place.namespace)).found
            assert [value in advice.what for advice in found if advice.code == "stood-down"] == [True]
        else:
            assert not processes
        log = worker.log.read_text()
        assert log.count(f"snapkafka: {said}") == 1
        assert "runs without snapshots" in log
        run.system.check_alive()


def test_a_worker_waits_until_a_restore_lets_go_of_its_group(place: Place) -> None:
    """One that asks in the instants between the commit point of a restore and the end of its hold would be refused."""
    with Live.running(place) as run:
        call, hold = run.observer.call, GroupHold(run.observer.connection, run.app)
        call(run.observer.ledger.append(Restore(n=1, plan="p", stage="begun", apps=(run.app,))))
        worker = run.start()
        call(hold.acquire())
        call(run.observer.ledger.append(Restore(n=2, plan="p", stage="aborted")))
        run.until("it to wait", lambda: "has not let go of its group" in worker.log.read_text())
        call(hold.release())
        run.produce(EVENTS)
        run.until("all events to pass", lambda: run.count("out") >= EVENTS)
