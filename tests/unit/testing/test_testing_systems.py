"""What `snapkafka.testing.system` refuses, and what an inconsistent snapshot shows."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import faust
import pytest

import snapkafka
from snapkafka.assembly import JobResult
from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.kafka import Connection
from snapkafka.manifest import CheckEntry, WitnessEntry
from snapkafka.testing import RunningSystem, Taken, system
from snapkafka.testing.run_worker import redirect
from snapkafka.testing.systems import _topics_of
from snapkafka.testing.taken import IDLE
from snapkafka.testing.workers import Worker
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.stores import LocalStore

PRODUCTION = "kafka://production.invalid:9092"
APP = faust.App("systems-unit", broker=PRODUCTION, topic_partitions=3)
BARE, OTHER = (faust.App(f"systems-{name}", broker=PRODUCTION) for name in ("bare", "other"))
READ = APP.topic("systems-read", "systems-too", value_type=int)
snapkafka.install(APP, namespace="shop")
snapkafka.install(OTHER, namespace="bank")


@APP.agent(READ)
async def read(stream: Any) -> None:
    async for _ in stream:
        pass


WITNESS = WitnessEntry(topic="orders", partition=1, offset=42, what="it is red")
SPLIT = WitnessEntry(topic="totals", partition=1, offset=3, what="1 key lies in several", kind="state-split")
TWICE = WitnessEntry(topic="orders", partition=0, offset=1, what="twice", kind="duplicate")
RED = CheckEntry(name="V5 causes", run=True, status="fail", found=1, witnesses=(WITNESS,))
NOTED = CheckEntry(name="V3", run=True, status="passed", noted=2, notes=(TWICE, SPLIT))


def taken(**found: Any) -> Taken:
    """A snapshot that is assembled."""
    snapshot = Taken(Connection(bootstrap="127.0.0.1:1"), "shop", Path("/nowhere"), "test-1", 7)
    result: dict[str, Any] = {"verdict": "V", "good": True, "manifest": "", "checks": ()}
    snapshot.__dict__["assembled"] = JobResult(id="test-1", epoch=7, **result | found)
    return snapshot


@pytest.mark.parametrize(
    ("found", "shown", "allowed"),
    [
        ({"good": False, "checks": (RED,)}, ["V5 causes: 1", "  orders[1] offset 42: it is red"], None),
        # An agent that fails at each record receives nothing: every check passes.
        ({"idle": True}, [IDLE], {"allow_idle": True}),
        ({"checks": (NOTED,)}, ["  totals[1] offset 3: 1 key lies in several"], {"allow_split_keys": {"totals"}}),
        ({}, [], {}),
    ],
)  # fmt: skip
def test_bad_snapshots_fail(found: dict[str, Any], shown: list[str], allowed: dict[str, Any] | None) -> None:
    """With what is wrong, unless it is allowed."""
    snapshot = taken(**found)
    if shown:
        with pytest.raises(AssertionError) as reported:
            snapshot.assert_consistent()
        assert str(reported.value).splitlines() == ["snapshot test-1 is V", *shown]
    if allowed is not None:
        assert snapshot.assert_consistent(**allowed) is snapshot.assembled


def test_a_table_that_a_snapshot_has_not_is_named(tmp_path: Path) -> None:
    write_snapshot(LocalStore(tmp_path), "s", 1, state=[in_state("ann", "1")])
    snapshot = taken(manifest=str(tmp_path / "s.json"))
    assert snapshot.tables("state")["key"].to_pylist() == ["ann"]
    with pytest.raises(BadInputError, match="sate"):
        snapshot.tables("sate")


@pytest.mark.parametrize(
    ("apps", "named"),
    [
        ((), r"system\(\)"),
        ((faust.App("systems-nowhere"),), "App"),
        (("no.such.module:app",), r"no\.such\.module"),
        ((BARE,), "BARE"),
        ((APP, OTHER), "namespaces"),
    ],
)
def test_apps_that_cannot_run_are_refused_before_a_broker_starts(apps: tuple[Any, ...], named: str) -> None:
    with pytest.raises(BadInputError, match=named), system(*apps):
        pass


def test_a_worker_meets_no_broker_but_the_one_of_the_test(tmp_path: Path) -> None:
    """That has the topics of its agents."""
    assert _topics_of(APP) == {"systems-read": 3, "systems-too": 3}
    credentials = faust.SASLCredentials(username="a", password="b")
    app = faust.App("systems-redirected", broker=PRODUCTION, broker_credentials=credentials)
    app.topic("x")
    assert "production" in str(app.transport.url)
    redirect(app, "127.0.0.1:1", str(tmp_path))
    urls = *app.conf.broker, *app.conf.broker_consumer, *app.conf.broker_producer
    assert {*map(str, (*urls, *app.transport.url, *app.producer_transport.url))} == {"kafka://127.0.0.1:1"}
    assert app.conf.broker_credentials is None
    assert str(app.conf.datadir) == str(tmp_path)


def test_a_worker_that_ended_is_named_with_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "shop-0.txt"
    log.write_text("ImportError: no shop\n")
    ended = Worker.__new__(Worker)
    ended.app, ended.log, ended.child = "shop:app", log, SimpleNamespace(status=1)  # type: ignore[assignment]
    running = RunningSystem("127.0.0.1:1", "shop", tmp_path, [ended])
    with pytest.raises(TimedOutError, match=r"(?s)shop:app.*\b1\b.*ImportError"):
        running.snapshot()
