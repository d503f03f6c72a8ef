"""What a service logs about a snapshot carries its id and its epoch as fields, whatever formatter the service has."""

import ast
import logging
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from snapkafka.config import Config
from snapkafka.drivers import FaustDriver
from snapkafka.logs import about
from snapkafka.ports import Entry
from snapkafka.protocol import Hello, InputTopic
from snapkafka.protocol.events import Joined
from snapkafka.protocol.records import Abort, Trigger

ROOT = Path(__file__).parents[3] / "snapkafka"
#: All that runs inside a service.
IN_SERVICES = sorted([*(ROOT / "drivers").rglob("*.py"), *(ROOT / "kafka").glob("*.py")])


@pytest.fixture
def driver(caplog: pytest.LogCaptureFixture) -> FaustDriver:
    """One that has read the trigger of snapshot `friday`, epoch 4."""
    caplog.set_level(logging.DEBUG, "snapkafka")
    made = FaustDriver(Mock(), Config(namespace="ns"))
    calls = dict.fromkeys(("call_later", "call_soon_threadsafe"), lambda *_: None)
    made.loop = SimpleNamespace(**calls, time=lambda: 0.0)
    made.recorder = SimpleNamespace(take=lambda item: None)  # type: ignore[assignment]
    hello = Hello(n=7, app="shop", inputs=(InputTopic(topic="orders", partitions=1),))
    made.follower.take(Entry(0, 1, Trigger(n=1, id="long ago")))
    made.follower.take(Entry(1, 2, Abort(n=2, epoch=1, code="ttl", reason="others have told")))
    made.feed(Joined(hello=hello))
    made.follower.take(Entry(2, 3, hello))
    made.follower.take(Entry(3, 4, Trigger(n=3, id="friday")))
    return made


def test_what_became_of_a_snapshot(driver: FaustDriver, caplog: pytest.LogCaptureFixture) -> None:
    """Both fields are always there."""
    assert about() == {"snapkafka_snapshot": "", "snapkafka_epoch": None}
    driver.follower.take(Entry(4, 5, Abort(n=4, epoch=4, code="ttl", reason="too late")))
    (red,) = (vars(it) for it in caplog.get_records("setup") if it.name == "snapkafka")
    (line,) = (vars(it) for it in caplog.records if it.name == "snapkafka")
    assert (red["snapkafka_snapshot"], red["snapkafka_epoch"]) == ("friday", 4)
    assert line["message"] == "snapkafka: snapshot friday failed (ttl): too late"
    assert {name: value for name, value in line.items() if name.startswith("snapkafka_")} == {
        "snapkafka_snapshot": "friday",
        "snapkafka_epoch": 4,
        "snapkafka_namespace": "ns",
        "snapkafka_process": 2,
    }


def calls_without_fields(source: str) -> list[int]:
    """Lines of a module that log without `extra=`."""
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    logs = [node for node in calls if ast.unparse(node.func).startswith("logger.")]
    return [node.lineno for node in logs if "extra" not in {keyword.arg for keyword in node.keywords}]


def test_no_line_of_a_service_goes_without() -> None:
    assert len(IN_SERVICES) > 20
    found = {path.name: calls_without_fields(path.read_text()) for path in IN_SERVICES}
    assert {name: lines for name, lines in found.items() if lines} == {}
    assert calls_without_fields("import logging\nlogger.info('forgot')\nlogger.info('x', extra={})") == [2]
