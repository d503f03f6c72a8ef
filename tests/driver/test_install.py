"""`snapkafka.install(app)`: early or late, with a real worker on a real broker; what is refused; what it imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import faust
import pytest

import snapkafka
from snapkafka.errors import InstallError
from snapkafka.testing import Broker
from tests.driver.live import live


@pytest.mark.parametrize(("where", "optimize"), [("early", ""), ("late", ""), ("late", "2")])
def test_install_early_or_late(
    kafka: Broker, namespace: str, tmp_path: Path, where: str, optimize: str
) -> None:
    """`install` right after `faust.App` or at the end of the module, after the settings were read: same snapshots. The
    worker needs neither asserts nor docstrings for that."""
    with live(kafka, namespace, tmp_path) as run:
        run.start(SMALL_APP_INSTALL=where, PYTHONOPTIMIZE=optimize)
        run.await_workers()
        run.produce(100)
        run.until("100 records to pass", lambda: run.count("out") >= 100)
        for snapshot in (run.take("one"), run.take("two")):
            assert snapshot.failure is None, snapshot.failure
            captured = run.observer.state.captured(snapshot.epoch)
            read, sent = run.topic("in"), run.topic("out")
            agents = {(p.agent, source.topic) for source in captured.inputs for p in source.agents}
            assert agents == {("count", read), ("mute", read), ("back", sent)}
            assert {c.table for c in captured.changelogs} == {"counts"}
            assert sum(c.end for c in captured.changelogs) == 100
            assert sum(s.white_end for s in captured.senders if s.topic == sent) >= 100
            assert sum(source.position for source in captured.inputs if source.topic == read) == 100
        assert any(s.marker >= 0 for s in captured.senders if s.topic == sent), "markers were sent"
        run.system.check_alive()
        assert "Traceback" not in run.system.workers[0].log.read_text()


def test_twice_is_an_error_that_says_so() -> None:
    app = faust.App("twice", broker="kafka://127.0.0.1:1")
    snapkafka.install(app, namespace="n")
    with pytest.raises(InstallError, match="already installed on this app") as caught:
        snapkafka.install(app, namespace="n")
    assert caught.value.exit_status == InstallError.exit_status
    assert "once per faust.App" in caught.value.hint


@pytest.mark.parametrize(
    ("switch", "settings", "named"),
    [
        ("", {"evry": 60, "zeal": 5, "ttl_ms": 0}, ["evry", "zeal", "ttl_ms"]),
        ("", {"web": "no"}, ["web"]),
        ("", {"namespace": "no spaces"}, ["no spaces"]),
        ("sometimes", {"mode": "on"}, ["mode", "sometimes", "SNAPKAFKA=sometimes"]),
    ],
)
def test_settings_that_make_no_sense_are_named(
    monkeypatch: pytest.MonkeyPatch, switch: str, settings: dict[str, Any], named: list[str]
) -> None:
    """Unknown names, together with a value that cannot be, or one of another type."""
    install: Any = snapkafka.install
    app = faust.App("bad", broker="kafka://127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA", switch)
    with pytest.raises(InstallError) as caught:
        install(app, **{"namespace": "n"} | settings)
    assert [name for name in named if name not in caught.value.message + caught.value.hint] == []
    assert getattr(app, "snapkafka", None) is None, "a failed install leaves no trace"


def test_without_a_namespace_that_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def installed(**options: Any) -> str:
        app = faust.App("named", broker="kafka://127.0.0.1:1")
        return str(snapkafka.install(app, **options).config.namespace)

    monkeypatch.delenv("SNAPKAFKA_NAMESPACE", raising=False)
    with pytest.raises(InstallError, match="no namespace is given") as caught:
        installed()
    assert 'snapkafka.install(app, namespace="shop"), or set SNAPKAFKA_NAMESPACE' in caught.value.hint
    monkeypatch.setenv("SNAPKAFKA_NAMESPACE", "found")
    assert installed() == "found"
    assert installed(namespace="told") == "told"
    with pytest.raises(InstallError, match="no namespace is given"):
        installed(namespace="")  # a variable of theirs that nobody has set


@pytest.mark.parametrize("how", ["setting", "environment"])
def test_switched_off_it_leaves_the_app_as_it_is(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    app = faust.App("off", broker="kafka://127.0.0.1:1")
    before = (dict(vars(app)), dict(vars(app.sensors)), set(app.sensors))
    if how == "environment":
        monkeypatch.setenv("SNAPKAFKA", "off")
    assert snapkafka.install(app, namespace="n", mode="off" if how == "setting" else "on") is None
    started = vars(app).pop("on_start")  # looks whether the app was restored, and starts it
    assert started.__module__.startswith("snapkafka.drivers.faust")
    assert (dict(vars(app)), dict(vars(app.sensors)), set(app.sensors)) == before


def test_the_environment_goes_before_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    app = faust.App("modes", broker="kafka://127.0.0.1:1")
    monkeypatch.setenv("SNAPKAFKA", "stamp")
    assert snapkafka.install(app, namespace="n", mode="off").config.mode == "stamp"


def test_install_right_after_the_app_does_not_finalise_it() -> None:
    app = faust.App("raw", broker="kafka://127.0.0.1:1")
    snapkafka.install(app, namespace="n")
    assert not app.configured
    assert not app.finalized


IMPORT_TIME = """
import sys, time

def spent():
    global before
    before, now = time.process_time(), before
    return (before - now) * 1000

before = time.process_time()
import faust, faust.cli.faust, aiokafka.admin  # the host has these in any case
from faust.transport.drivers import aiokafka as driver
app = faust.App("timed", broker="kafka://127.0.0.1:1")
app.sensors, app.on_partitions_revoked, app.assignor, app.tables  # a worker has them by its start
host = spent()
import snapkafka
snapkafka.install(app, namespace="n")
never = ("pyspark", "confluent_kafka", "typer", "rich", "duckdb", "pandas", "numpy", "avro")
print(spent(), host, *[name for name in never if name in sys.modules])
"""


def test_a_service_imports_no_heavy_library_and_is_quick(tmp_path: Path) -> None:
    """`snapkafka[faust]` imports in under 100 ms, without pyspark, confluent-kafka, typer.

    CPU time, modules compiled before, as in any second start of an installed package; the least of up to 20 runs,
    as whatever else the machine does only adds to it. Where Faust itself takes more than half a second, the bar is a
    fifth of that: such a machine is slower than any that a promise in milliseconds can be meant for.
    """
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(tmp_path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ours, hosts = [], []
    for _ in range(20):  # the first one compiles
        done = subprocess.run(
            [sys.executable, "-c", IMPORT_TIME], capture_output=True, text=True, check=True, env=environment
        )
        took, host, *heavy = done.stdout.split()
        assert heavy == []
        ours.append(float(took))
        hosts.append(float(host))
        if min(ours) < max(100, min(hosts) / 5):
            break
    assert min(ours) < max(100, min(hosts) / 5), f"{ours} ms; Faust itself {hosts} ms"
