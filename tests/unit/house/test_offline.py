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
from snapkafka.errors import EXIT_NOT_GOOD, BadInputError
from tests.golden.calls import call

MODULE = "tests.worlds.coverage"
TABLES = {
    "whole": {"stock": ("Table", 0)},
    "partly": dict.fromkeys(("for_ever", "odd", "odder", "placed"), ("Table", 0))
    | {"windows": ("Table", 60_000), "groups": ("SetTable", 0)}
    | {"everywhere": ("GlobalTable", 0), "sets_everywhere": ("SetGlobalTable", 0)},
}

pytestmark = pytest.mark.filterwarnings("ignore:(?s)Setting new value")  # of an app, late


@pytest.fixture(autouse=True)
def apps(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the apps, as a new process imports it."""
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    return importlib.import_module(MODULE)


@pytest.mark.parametrize(
    ("app", "codes"),
    [
        ("whole", []),
        ("partly", ["not-captured"]),
        ("bare", ["not-installed", "nothing-to-cut", "transactions"]),
        ("whole, of an unknown Faust", ["faust-not-as-expected"]),
        ("whole, of an unknown client", ["setting-refused"]),
    ],
)
def test_what_is_found_in_an_app(
    app: str, codes: list[str], apps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if app.endswith("Faust"):
        monkeypatch.setattr(support, "KNOWN", {"faust-streaming": ("0.0.1",)})
    elif app.endswith("client"):
        apps.whole.conf.broker = "confluent://127.0.0.1:1"
    elif app == "partly":
        del sys.modules[MODULE]
    status, out, err = call(["doctor", "--offline", f"{MODULE}:{app.partition(',')[0]}", "--json"])
    assert status == (EXIT_NOT_GOOD if codes else 0), err
    assert ("an app that talks" in err) is (app == "partly"), "what an app prints is no part of the result"
    found = json.loads(out)
    assert [advice["code"] for advice in found["found"]] == codes
    tables = {table["name"]: (table["kind"], table["expires_ms"]) for table in found["tables"]}
    assert tables == TABLES.get(app, tables)
    agents = [(agent["name"], agent["topics"]) for agent in found["agents"]]  # and not our own
    assert app != "whole" or agents == [("count", ["orders"])]


@pytest.mark.parametrize(
    ("app", "named"), [("tests.no:app", "ModuleNotFound"), (f"{MODULE}:no_app", "no no_app")]
)
def test_what_is_no_app_is_one_line_and_status_2(app: str, named: str) -> None:
    status, _, err = call(["doctor", "--offline", app])
    assert status == BadInputError.exit_status
    (line,) = [line for line in err.splitlines() if line.startswith("error:")]
    assert named in line


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
    assert shown[:2] == [("windows", 60_000, False, True), ("groups", 0, True, False)]
    assert shown[2] == ("for_ever", 0, False, True)
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
