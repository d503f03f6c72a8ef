"""Agents that raise with a batch in hand: their supervisor starts them anew, and what becomes of the batch and of what
comes after it is Faust's."""

from __future__ import annotations

from typing import Any

from tests.features.apps.common import new_app, of_value, saw, source, target

app = new_app(broker_commit_interval=0.3)
SIZE = 5
PATIENCE_S = 1.0

begun_out = target(app, "begun-out")


def fail_on_signal(batch: list[dict[str, Any]]) -> None:
    """Where the batch began is a matter of when its records came."""
    if any(value["raise"] for value in batch):
        raise ValueError("as it was told to")


values_out = target(app, "values-out")


@app.agent(source(app, "values"), name="values")
async def values(stream: Any) -> None:
    await begun_out.send(key="values")
    async for batch in stream.take(SIZE, within=PATIENCE_S):
        for value in batch:
            await values_out.send(**of_value("values", value))
        fail_on_signal(batch)


events_out = target(app, "events-out")


@app.agent(source(app, "events"), name="events")
async def events(stream: Any) -> None:
    await begun_out.send(key="events")
    async for batch in stream.take_events(SIZE, within=PATIENCE_S):
        for event in batch:
            await events_out.send(**saw("events", event, n=event.value["n"]))
        fail_on_signal([event.value for event in batch])
