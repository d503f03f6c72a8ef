"""`doctor --offline module:app`: what an app is made of, and what of it no snapshot holds. No broker runs here."""

import importlib
import json
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from snapkafka.drivers.faust import support
from snapkafka.drivers.faust.hello import hello_of
from tests.golden.calls import Printed, call

MODULE = "tests.worlds.coverage"

pytestmark = pytest.mark.filterwarnings("ignore:(?s)Setting new value")  # of an app, late


@pytest.fixture(autouse=True)
def apps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the apps, as a new process imports it."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return importlib.import_module(MODULE)


def look(app: str, *arguments: str) -> Printed:
    return call(["doctor", "--offline", app, *arguments])


def test_an_app_that_snapshots_hold_as_a_whole() -> None:
    status, out, _ = look(f"{MODULE}:whole")
    assert status == 0, out
    assert "Snapshots hold all of this app." in out
    for words in ({"app", "whole"}, {"count", "orders"}, {"stock", "Table", "whole-stock-changelog"}):
        assert any(words <= {*line.split()} for line in out.splitlines()), words
    assert "recorder" not in out, "our own agent is no agent of the app"


def test_what_no_snapshot_holds_is_named() -> None:
    del sys.modules[MODULE]
    status, out, err = look(f"{MODULE}:partly", "--json")
    assert "an app that talks" in err, "what an app prints is no part of the result"
    found = json.loads(out)
    assert status == 30
    said = {advice["code"]: advice["what"] for advice in found["found"]}
    assert set(said) == {"not-captured"}
    assert said["not-captured"].startswith("agent in-memory reads an in-memory channel")
    tables = {table["name"]: (table["kind"], table["expires_ms"]) for table in found["tables"]}
    plain = dict.fromkeys(("for_ever", "odd", "odder", "placed"), ("Table", 0))
    assert tables == plain | {
        "windows": ("Table", 60_000),
        "groups": ("SetTable", 0),
        "everywhere": ("GlobalTable", 0),
        "sets_everywhere": ("SetGlobalTable", 0),
    }


@pytest.mark.parametrize(
    ("app", "said"),
    [
        ("tests.unit.no_such:app", "cannot be imported: ModuleNotFoundError"),
        (f"{MODULE}:no_app", "has no no_app"),
    ],
)
def test_what_is_no_app_is_one_line_and_status_2(app: str, said: str) -> None:
    status, _, err = look(app)
    assert status == 2
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert said in line
    assert "write module:app" in err


async def test_a_worker_reports_the_same_to_the_ledger(apps: Any) -> None:
    """`Hello` names what no snapshot holds, how long windows live, and what reads its tables: nobody needs the app."""
    apps.partly.finalize()
    driver, known = apps.partly.snapkafka, SimpleNamespace(partitions=1, topic_id="")
    kept = {"cleanup.policy": "compact", "min.compaction.lag.ms": "5", "delete.retention.ms": "7"}
    described = AsyncMock(side_effect=lambda topics: dict.fromkeys(topics, known))
    driver.admin = SimpleNamespace(
        describe_topics=described, topic_settings=AsyncMock(return_value=(kept, {}))
    )
    hello = await hello_of(driver, ["clicks", "views"])
    tables = {table.name: table for table in hello.tables}
    shown = [(it.name, it.expires_ms, it.sets, it.windowed) for it in hello.tables]
    windows, groups, for_ever = (
        ("windows", 60_000, False, True),
        ("groups", 0, True, False),
        ("for_ever", 0, False, True),
    )
    assert shown[:3] == [windows, groups, for_ever]
    apart = {name for name, it in tables.items() if not it.copartitioned}
    assert apart == {"everywhere", "placed", "sets_everywhere"}
    assert {name for name, it in tables.items() if it.keyed} == {"odd", "odder"}
    assert {it.topic for it in hello.retention} == {it.changelog for it in hello.tables}
    assert {(it.uncompacted_ms, it.tombstones_ms, it.retained_ms) for it in hello.retention} == {(5, 7, -1)}
    inputs = {it.topic: (it.key_codec, it.value_codec) for it in hello.inputs}
    assert inputs == {"clicks": ("raw", "json"), "views": ("", "reversed")}
    codecs = {name: (it.key_codec, it.value_codec) for name, it in tables.items()}
    assert codecs["groups"] == ("json", "json")
    assert (codecs["odd"], codecs["odder"]) == (("raw", "json|reversed"), ("json", "foreign"))
    assert any(it.startswith("agent in-memory reads an in-memory channel") for it in hello.uncaptured)
    apps.partly.conf.producer_partitioner = lambda *_: 0
    assert not any(table.keyed for table in (await hello_of(driver, [])).tables)


@pytest.mark.parametrize(
    ("app", "codes"),
    [
        ("bare", ["not-installed", "nothing-to-cut", "transactions"]),
        ("of an unknown Faust", ["faust-not-as-expected"]),
        ("of an unknown client", ["setting-refused"]),
    ],
)
def test_an_app_that_takes_no_part(
    app: str, codes: list[str], apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if app == "of an unknown Faust":
        monkeypatch.setattr(support, "KNOWN", {"faust-streaming": ("0.0.1",)})
    elif app == "of an unknown client":
        apps.whole.conf.broker = "confluent://127.0.0.1:1"
    status, out, err = look(f"{MODULE}:{'bare' if app == 'bare' else 'whole'}", "--json")
    assert status == 30, err
    assert [advice["code"] for advice in json.loads(out)["found"]] == codes
