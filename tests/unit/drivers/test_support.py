"""`install`: releases and settings that snapkafka was not written for are named, and the app runs on; what is replaced
of Faust and aiokafka stands in the table of patches; and its settings are typed."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Collection, Iterator
from importlib.resources import files
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, cast, get_type_hints
from unittest.mock import AsyncMock

import faust
import pytest
from faust.utils.terminal import Spinner, SpinnerHandler
from mode.utils.futures import StampedeWrapper

import snapkafka
from snapkafka.config import Config, Mode, Settings
from snapkafka.drivers.faust import install, support
from snapkafka.drivers.faust.hooks import PATCHED
from snapkafka.drivers.faust.outbound.producer import skip_producer_guard
from snapkafka.drivers.faust.support import KNOWN, not_as_expected, refusal


@pytest.mark.parametrize("name", [*KNOWN, "not-installed"])
def test_r15_another_release_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert not_as_expected() == []
    monkeypatch.setattr(support, "KNOWN", {**KNOWN, name: ("0.0.1",)})
    (found,) = not_as_expected()
    assert found.startswith(f"{name} ") and "0.0.1" in found


async def test_r15_a_driver_that_cannot_be_loaded_leaves_the_app_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As with an aiokafka that has moved one of its modules."""
    monkeypatch.setitem(sys.modules, "snapkafka.drivers.faust.driver", None)
    own = AsyncMock()
    app: Any = SimpleNamespace(on_start=own)
    assert install(app, namespace="n") is None
    assert caplog.messages == []
    await app.on_start()
    own.assert_awaited_once_with()
    assert len(caplog.messages) == 1


BROKERS = ("broker", "broker_consumer", "broker_producer")


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("setting", "refused"),
    [
        *(({name: "confluent://127.0.0.1:1"}, True) for name in BROKERS),
        *(({name: True}, True) for name in support.REFUSED),
        *(({"broker": f"{scheme}://127.0.0.1:1;127.0.0.1:2"}, False) for scheme in support.TRANSPORTS),
    ],
    ids=str,
)
def test_r15_a_setting_that_cannot_take_part_is_known_before_the_worker_starts(
    setting: dict[str, Any], refused: bool, late: bool
) -> None:
    app = faust.App("elsewhere", **({"broker": "kafka://"} | setting))
    if late:
        app.finalize()
    driver = install(app, namespace="n")
    app.finalize()
    assert not driver.started
    assert bool(refusal(app)) == refused
    producer = app.producer  # Faust's own then, whoever sends by it
    assert (driver.outgoing is None) == refused == ("put" not in vars(producer.buffer))


def test_the_typed_settings_are_those_of_the_config() -> None:
    typed, config = get_type_hints(Settings), get_type_hints(Config)
    del config["namespace"]
    assert (typed.pop("mode"), config.pop("mode")) == (str, Mode)
    assert typed.pop("sources") == Collection[str], "any collection of topics"
    assert config.pop("sources") == tuple[str, ...], "what these become"
    assert typed == config
    assert (files("snapkafka") / "py.typed").is_file(), "a user's type checker reads them"
    assert snapkafka.install.__annotations__["config"] == "Unpack[Settings]"


#: Of objects that need a broker; features run with all of them.
OF_CONSUMERS = {
    "AIOKafkaConsumer.commit",
    "SubscriptionState.assign_from_subscribed",
    "Fetcher.request_offset_reset",
}


def is_ours(value: Any) -> bool:
    owner = type(value.__self__) if isinstance(value, MethodType) else value
    return isinstance(owner, type | FunctionType) and owner.__module__.startswith("snapkafka")


def replaced(owner: Any) -> Iterator[str]:
    """What of an object is ours, by the name of its class."""
    name = next(it.__name__ for it in type(owner).__mro__ if not is_ours(it))
    yield from (f"{name}.{it}" for it, value in vars(owner).items() if is_ours(value))
    if any(map(is_ours, vars(type(owner)).values())):
        yield f"{name}.__class__"


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
async def test_whatever_is_replaced_stands_in_the_table(guarantee: str) -> None:
    """With one for each guarantee: in transactions there are more ends of a send, and no guard to skip."""
    app: Any = faust.App("a", broker="kafka://127.0.0.1:1", store="memory://", processing_guarantee=guarantee)
    windowed = app.Table("windowed", default=int).tumbling(10, expires=20).table
    sets = app.SetTable("sets")
    early = app.stream(app.topic("in"))
    driver = snapkafka.install(app, namespace="n")
    app.finalize()
    made = app.producer._new_producer(transactional_id="t" if guarantee == "exactly_once" else None)
    owners = [app, app.sensors, app.consumer, app.producer, app.producer.buffer]
    late = app.stream(app.topic("in"))
    owners += [
        made,
        made._message_accumulator,
        made._txn_manager or made,
        app.topics,
        app.tables.recovery,
        app._reply_consumer,
        late,
    ]
    driver.attach()
    driver.tables.attach()
    assert {*replaced(early)} == {*replaced(late)}, "one from before is watched as well"
    found = {it for owner in [*owners, windowed, windowed.data, sets.data] for it in replaced(owner)}
    absent = {"App.maybe_start_producer" if guarantee == "exactly_once" else "TransactionManager.__class__"}
    assert found == PATCHED.keys() - OF_CONSUMERS - absent
    assert len(PATCHED) <= 28


def unguarded(**own: Any) -> Any:
    app: Any = faust.App("a", broker="kafka://127.0.0.1:1", store="memory://", web_enabled=False)
    app.finalize()
    vars(app).update(own)
    skip_producer_guard(cast(Any, SimpleNamespace(app=app)))
    return app


async def test_a_producer_that_is_not_started_is_started_once() -> None:
    """By Faust, and all who ask meanwhile wait for that; by the app, if it starts its producer itself."""
    own = AsyncMock()
    assert unguarded(maybe_start_producer=own).maybe_start_producer is own
    app, begun = unguarded(), []

    async def start() -> None:
        begun.append("start")
        await asyncio.sleep(0.01)
        app.producer._started.set()

    app.producer.start = start
    assert not isinstance(app.maybe_start_producer, StampedeWrapper), "not Faust's own"
    given = await asyncio.gather(*(app.maybe_start_producer() for _ in range(5)))
    assert (begun, given) == (["start"], [app.producer] * 5)
    turns: list[int] = []
    asyncio.get_running_loop().call_soon(turns.append, 1)
    await app.maybe_start_producer()
    assert turns, "a task that only sends would starve the others"


def test_the_root_logger_has_the_level_of_its_handlers_again(monkeypatch: pytest.MonkeyPatch) -> None:
    root, handler = logging.Logger("root", logging.DEBUG), logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    root.addHandler(handler)
    monkeypatch.setattr(logging, "getLogger", lambda *_: root)
    support.restore_log_level()
    assert root.level == logging.DEBUG, "somebody has chosen it"
    root.addHandler(SpinnerHandler(Spinner(), level=logging.DEBUG))  # as `faust.Worker` does
    support.restore_log_level()
    assert root.level == logging.WARNING
