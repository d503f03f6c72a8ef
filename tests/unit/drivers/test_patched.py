"""The table of patches is all that is replaced of Faust and aiokafka."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType, MethodType
from typing import Any

import faust
import pytest

import snapkafka
from snapkafka.drivers.faust.hooks import PATCHED

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
    name = type(owner).__name__
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
    owners = [
        app,
        app.sensors,
        app.consumer,
        app.producer,
        app.producer.buffer,
        made,
        made._message_accumulator,
    ]
    late = app.stream(app.topic("in"))
    owners += [app.topics, app.tables.recovery, app._reply_consumer, late, app.web]
    driver.tables.attach()
    driver.events.watch_replies(app._reply_consumer)
    assert {*replaced(early)} == {*replaced(late)}, "one from before is watched as well"
    found = {it for owner in [*owners, windowed, windowed.data, sets.data] for it in replaced(owner)}
    of_transactions = {
        it for it in PATCHED if it.startswith("AIOKafkaProducer.") and not it.endswith(".send")
    }
    absent = {"App.maybe_start_producer"} if guarantee == "exactly_once" else of_transactions
    of_streams = {it.replace("Stream._on_", "SensorDelegate.on_") for it in found}
    assert of_streams == PATCHED.keys() - OF_CONSUMERS - absent
    assert len(PATCHED) <= 39
