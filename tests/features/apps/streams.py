"""What can be done with a stream: derived ones, batches, acknowledgements, several readers, agents that raise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from tests.features.apps.common import ID, each, end_of_module, new_app, of_value, saw, source, target, tell

app = new_app(cython_optimizations=os.environ.get("FEATURES_CYTHON_OPTIMIZATIONS") == "1")

group_out = target(app, "group-out")

# The topic in between is named after the agent and the input.
tell(
    app,
    f"{ID}-group",
    of=source(app, "group"),
    out=group_out,
    derived=lambda stream: stream.group_by(lambda value: value["key"].upper(), name="by-key"),
)

through_mid = target(app, "through-mid")
tell(app, "through", derived=lambda stream: stream.through(through_mid))

echo_copy = target(app, "echo-copy")
tell(app, "echo", derived=lambda stream: stream.echo(echo_copy))

forward_mid = target(app, "forward-mid")
forward_out = target(app, "forward-out")


@app.agent(source(app, "forward"), name="forward")
async def forward(stream: Any) -> None:
    async for event in stream.events():
        await event.forward(forward_mid, partition=event.message.partition)


@app.agent(forward_mid, name="forwarded")
async def forwarded(stream: Any) -> None:
    async for event in stream.events():
        await event.send(forward_out, **saw("forwarded", event))


tell(app, "filter", derived=lambda stream: stream.filter(lambda value: value["n"] % 3 == 0))


def take(
    name: str,
    batches: Callable[[Any], Any],
    pause_s: Callable[[Any], float] = lambda batch: 0.005,
    *,
    acks: bool = False,
    **options: Any,
) -> None:
    """An agent that takes batches, which `batches` makes of its stream, and pauses before each event.

    Nothing of a batch may have happened before it is handed over, and all of it has one colour. `acks`: the agent
    acknowledges, itself, when it is through with all of them.
    """
    out = target(app, f"{name}-out")

    @app.agent(source(app, name), name=name, **options)
    async def works(stream: Any) -> None:
        async for batch in batches(stream):
            for event in batch:
                await asyncio.sleep(pause_s(batch))
                await out.send(**saw(name, event))
            for event in batch if acks else ():
                event.ack()


take("take", lambda stream: stream.take_events(7, within=0.4))
take("noack-take", lambda stream: stream.noack_take(5, within=0.3), acks=True)
# Each of the three collects for itself: what waits in one lies between what another has begun.
take(
    "take-many",
    lambda stream: stream.take_events(5, within=0.3),
    lambda batch: 0.002 * (batch[0].value["n"] % 7),
    concurrency=3,
)


values_out = target(app, "take-values-out")
taken = app.Table("taken", key_type=str, value_type=int, default=int, use_partitioner=True)


@app.agent(source(app, "take-values"), name="take-values")
async def batches_of_values(stream: Any) -> None:
    """`take` gives values only; outside any event of Faust's, as a table with a partitioner may be written there."""
    async for batch in stream.take(5, within=0.3):
        for value in batch:
            taken[value["key"]] += 1
        await asyncio.sleep(0.02)
        for value in batch:
            await values_out.send(**of_value("take-values", value))


timestamp_out = target(app, "take-timestamp-out")


@app.agent(source(app, "take-timestamp"), name="take-timestamp")
async def batches_with_times(stream: Any) -> None:
    async for batch in stream.take_with_timestamp(5, within=0.3, timestamp_field_name="time"):
        for value in batch:
            await timestamp_out.send(**of_value("take-timestamp", value, "time"))


noack_out = target(app, "noack-out")


@app.agent(source(app, "noack"), name="noack")
async def acked_by_hand(stream: Any) -> None:
    async for event in stream.noack().events():
        await asyncio.sleep(0.005)
        await noack_out.send(**saw("noack", event))
        event.ack()


noack_late_out = target(app, "noack-late-out")


@app.agent(source(app, "noack-late"), name="noack-late")
async def worked_off_later(stream: Any) -> None:
    """Collects by hand and works off five at a time: an event runs until it is acknowledged."""
    waiting: list[Any] = []
    async for event in stream.noack().events():
        waiting.append(event)
        if len(waiting) == 5 or event.value.get("last"):
            for each in waiting:
                await noack_late_out.send(**saw("noack-late", each))
            for each in waiting:
                await stream.ack(each)
            waiting.clear()


@each(app, "concurrency", concurrency=4)
async def at_once(event: Any) -> dict[str, Any]:
    await asyncio.sleep(0.01 * (event.value["n"] % 7))
    return {}


tell(app, "isolated", isolated_partitions=True)

shared = source(app, "shared")
tell(app, "shared-one", of=shared)


@each(app, "shared-two", of=shared)
async def shared_two(event: Any) -> dict[str, Any]:
    """Stays behind the other one."""
    await asyncio.sleep(0.02)
    return {}


multi_out = target(app, "multi-out")


@app.agent(
    app.topic(source(app, "multi-a").get_topic_name(), source(app, "multi-b").get_topic_name(), key_type=str),
    name="multi",
)
async def several_topics(stream: Any) -> None:
    async for event in stream.events():
        await multi_out.send(**saw("multi", event, topic=event.message.topic[-1]))


raising_out = target(app, "raising-out")


@app.agent(source(app, "raising"), name="raising")
async def raising(stream: Any) -> None:
    """Sends, and raises then and again: its supervisor starts it anew."""
    async for event in stream.events():
        await raising_out.send(**saw("raising", event))
        if event.value["n"] % 40 == 39:
            raise ValueError(f"as it was told to, at {event.value['n']}")


outside_out = target(app, "outside-out")


outside = source(app, "outside").stream()  # before the worker joins: Faust reads no topic that comes later


@app.task
async def outside_agents() -> None:
    """A stream in a task, without any agent. Faust's monitor has to know the task that reads it."""
    outside.task_owner = asyncio.current_task()
    async for event in outside.events():
        await outside_out.send(**saw("stream", event))


end_of_module(app)
