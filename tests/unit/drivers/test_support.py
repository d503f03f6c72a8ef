"""Releases and settings that snapkafka was not written for: each is named, and the app runs on."""

from __future__ import annotations

import sys
from typing import Any

import faust
import pytest

from snapkafka.drivers.faust import install, support
from snapkafka.drivers.faust.support import KNOWN, not_as_expected, refusal


def test_this_faust_is_as_expected() -> None:
    assert not_as_expected() == []


@pytest.mark.parametrize("name", [*KNOWN, "not-installed"])
def test_r15_another_release_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(support, "KNOWN", {**KNOWN, name: ("0.0.1",)})
    (found,) = not_as_expected()
    assert found.startswith(f"{name} ") and "0.0.1" in found


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
    assert len(caplog.messages) == 1


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
