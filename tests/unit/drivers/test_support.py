"""The seams of Faust that are looked up before snapkafka is sewn to them: each is missed if it is not there."""

from __future__ import annotations

import functools
import inspect
import sys
from importlib import import_module
from typing import Any

import faust
import pytest

from snapkafka.drivers.faust import install
from snapkafka.drivers.faust.support import EXPECTED, not_as_expected, refusal

CONSUMER = "faust.transport.drivers.aiokafka:Consumer"
SEAMS = [(owner, seam.partition("(")[0]) for owner, seams in EXPECTED.items() for seam in seams]
CALLED = [(owner, seam) for owner, seams in EXPECTED.items() for seam in seams if "(" in seam]


def class_of(owner: str) -> type:
    module, _, name = owner.partition(":")
    found = getattr(import_module(module), name)
    assert isinstance(found, type)
    return found


def hide(monkeypatch: pytest.MonkeyPatch, cls: type, attribute: str) -> None:
    """As in a release that has it under another name."""

    def nothing(self: Any) -> None:
        """In place of an `__init__` that sets it."""

    for base in cls.__mro__:
        if attribute in vars(base):
            monkeypatch.delattr(base, attribute)
        if attribute in (annotations := vars(base).get("__annotations__", {})):
            monkeypatch.delitem(annotations, attribute)
        made = vars(base).get("__init__")
        if inspect.isfunction(made) and attribute in made.__code__.co_names:
            monkeypatch.setattr(base, "__init__", nothing)


def test_this_faust_is_as_expected() -> None:
    assert not_as_expected() == []


@pytest.mark.parametrize(("owner", "attribute"), SEAMS)
def test_r15_a_seam_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, owner: str, attribute: str
) -> None:
    hide(monkeypatch, class_of(owner), attribute)
    found = not_as_expected()
    monkeypatch.undo()
    assert f"{owner}.{attribute} is not there" in found


@pytest.mark.parametrize(("owner", "seam"), CALLED)
def test_r15_a_seam_that_is_called_with_something_more_is_named(
    monkeypatch: pytest.MonkeyPatch, owner: str, seam: str
) -> None:
    attribute, _, arguments = seam.rstrip(")").partition("(")
    scope: dict[str, Any] = {}
    exec(f"def later(self, more, {arguments}): pass", scope)
    monkeypatch.setattr(class_of(owner), attribute, scope["later"])
    more = f"more, {arguments}" if arguments else "more"
    found = not_as_expected()
    monkeypatch.undo()
    assert found == [f"{owner}.{attribute} takes ({more}), not ({arguments})"]


def test_r15_a_class_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("faust.channels.Channel")
    assert "faust.channels:Channel is not there" in not_as_expected()


def test_a_wrapper_of_somebody_elses_is_as_good_as_what_is_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer's, say."""
    cls = class_of(CONSUMER)

    def traced(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(cls, "ack", traced(vars(import_module("faust.transport.consumer").Consumer)["ack"]))
    fetch = inspect.getattr_static(cls, "_getmany")
    monkeypatch.setattr(cls, "_getmany", functools.wraps(fetch)(traced(fetch)))
    assert not_as_expected() == []


async def test_r15_a_driver_that_cannot_be_loaded_leaves_the_app_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with an aiokafka that has moved one of its modules."""
    monkeypatch.setitem(sys.modules, "snapkafka.drivers.faust.driver", None)
    started: list[str] = []

    class App:
        async def on_start(self) -> None:
            started.append("the app's own")

    app: Any = App()
    assert install(app, namespace="n") is None
    assert caplog.messages == []
    await app.on_start()
    assert started == ["the app's own"]
    (said,) = caplog.messages
    assert said.startswith("snapkafka: its driver cannot be loaded here (")
    assert said.endswith("this worker runs without snapshots")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    "setting",
    [
        *({name: "confluent://127.0.0.1:1"} for name in ("broker", "broker_consumer", "broker_producer")),
        {"stream_publish_on_commit": True},
        {"producer_threaded": True},
    ],
    ids=str,
)
def test_r15_a_setting_that_cannot_take_part_is_named_before_the_worker_joins(
    caplog: pytest.LogCaptureFixture, setting: dict[str, Any], late: bool
) -> None:
    app = faust.App("elsewhere", **({"broker": "kafka://"} | setting))
    if late:
        app.finalize()
    driver = install(app, namespace="n")
    app.finalize()
    assert not driver.started
    assert refusal(app)
    assert caplog.text.count(refusal(app)) == 1


def test_the_client_library_of_faust_is_no_other_one() -> None:
    for scheme in ("kafka", "aiokafka"):
        app = faust.App("here", broker=f"{scheme}://127.0.0.1:1;127.0.0.1:2")
        app.finalize()
        assert refusal(app) == ""
