"""Agents that call agents, replies, sinks, and whatever sends outside any event."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import faust
from avro.io import BinaryDecoder, BinaryEncoder, DatumReader, DatumWriter
from avro.schema import parse

from tests.features.apps.common import ID, INPUT, both_ways, each, new_app, pass_on, saw, source, target, tell

app = new_app(
    reply_create_topic=True,
    reply_to=f"{ID}-replies",
    broker_commit_interval=0.5,
    autodiscover=["tests.features.apps.found"],
)

# -- RPC -----------------------------------------------------------------------------------------------------

square_topic = target(app, "square", value_type=None)
squares = app.Table("squares", key_type=str, value_type=int, default=int)


@app.agent(square_topic, name="square")
async def square(stream: Any) -> Any:
    """Answers; a little late, so that questions are on their way when a snapshot comes."""
    async for number in stream:
        await asyncio.sleep(0.01)
        yield number * number


@each(app, "ask")
async def asks(event: Any) -> dict[str, Any]:
    """Awaits another agent of its own app."""
    answer = await square.ask(event.value["n"], key=event.key)
    return {"answer": answer}


@each(app, "join")
async def joins(event: Any) -> dict[str, Any]:
    n = event.value["n"]
    answers = await square.join([n, n + 1, n + 2], key=None)
    return {"answers": answers}


@each(app, "map")
async def maps(event: Any) -> dict[str, Any]:
    n = event.value["n"]
    answers = sorted([answer async for answer in square.kvmap([("a", n), ("b", n + 1)])])
    return {"answers": answers}


reply_out = target(app, "reply-out", value_type=None)


@app.agent(source(app, "reply"), name="reply")
async def wants_the_reply_elsewhere(stream: Any) -> None:
    async for event in stream.events():
        await square.send(
            key=event.key, value=event.value["n"], reply_to=reply_out, correlation_id=str(event.value["n"])
        )


@app.agent(source(app, "cast"), name="cast")
async def casts(stream: Any) -> None:
    async for event in stream.events():
        await told.cast(event.value, key=event.key)


cast_out = target(app, "cast-out")


@app.agent(name="told")
async def told(stream: Any) -> None:
    """Reads a topic of its own, named after it."""
    async for event in stream.events():
        await cast_out.send(**saw("told", event))


# -- sinks, send_soon ----------------------------------------------------------------------------------------

sink_out = target(app, "sink-out")
called_out = target(app, "called-out")


async def called(value: Any) -> None:
    await called_out.send(key=value["key"], value=value)


sunk = tell(app, "sunk", of=target(app, "sunk"))


@app.agent(source(app, "sink"), name="sink", sink=[sink_out, sunk, called])
async def sinks(stream: Any) -> Any:
    async for value in stream:
        yield {**value, "sunk": True}


tell(app, "soon", soon=True)


# -- outside events ------------------------------------------------------------------------------------------

timer_out = target(app, "timer-out")
cron_out = target(app, "cron-out")
task_out = target(app, "task-out")
web_out = target(app, "web-out")
ticks = app.Table("ticks", key_type=str, value_type=int, default=int, use_partitioner=True)


@app.timer(0.2)
async def tick() -> None:
    """Writes a table outside any event, which one with a partitioner allows, and sends."""
    if ticks["timer"] < 40:
        ticks["timer"] += 1
        await timer_out.send(key="timer", value=ticks["timer"], partition=0)


minutes = iter(range(20))
faust.utils.cron.secs_for_next = lambda *args, **options: 0.3  # a minute is short here


@app.crontab("* * * * *")
async def cron() -> None:
    minute = next(minutes, None)
    if minute is not None:
        await cron_out.send(key="cron", value=minute, partition=0)


@app.task
async def sends() -> None:
    for n in range(100):
        await asyncio.sleep(0.05)
        await task_out.send(key="task", value=n, partition=0)


@app.page("/told/")
async def view(web: Any, request: Any) -> Any:
    n = int(request.query["n"])
    await web_out.send(key="web", value=n, partition=0)
    return web.json({"n": n})


spawned_out = target(app, "spawned-out")
pending: set[Any] = set()


@app.agent(source(app, "spawned"), name="spawned")
async def spawns(stream: Any) -> None:
    """Leaves behind a task that outlives its event."""
    async for event in stream.events():
        task = asyncio.ensure_future(_later(event.value["n"], event.message.partition))
        pending.add(task)
        task.add_done_callback(pending.discard)


async def _later(n: int, partition: int) -> None:
    await asyncio.sleep(0.1)
    await spawned_out.send(key="spawned", value=n, partition=partition)


# -- channels in memory --------------------------------------------------------------------------------------

inbox = app.channel(value_type=None)
channel_out = target(app, "channel-out")


pass_on(app, "channel", inbox, lambda event: {**event.value, "partition": event.message.partition})


@app.agent(inbox, name="in-memory")
async def from_channel(stream: Any) -> None:
    async for value in stream:
        await channel_out.send(key=value["key"], value=value, partition=value["partition"])


# -- codecs and schemas --------------------------------------------------------------------------------------


class Backwards(faust.Codec):
    """Turns the bytes round."""

    def _dumps(self, obj: Any) -> bytes:
        return bytes(reversed(faust.serializers.codecs.dumps("json", obj)))

    def _loads(self, s: bytes) -> Any:
        return faust.serializers.codecs.loads("json", bytes(reversed(s)))


faust.serializers.codecs.register("backwards", Backwards())


class Tagged(faust.Schema):
    """Writes a header of its own with everything that it serialises."""

    def dumps_value(self, app: Any, value: Any, *, serializer: Any = None, headers: Any) -> Any:
        payload, headers = super().dumps_value(app, value, serializer=serializer, headers=headers)
        headers["tagged"] = b"yes"
        return payload, headers


codec_mid = app.topic(f"{ID}-codec-mid", key_serializer="raw", value_serializer="backwards", key_type=bytes)
codec_out = target(app, "codec-out")


codec_in = app.topic(f"{INPUT}-codec", key_type=bytes, value_serializer="json")
pass_on(app, "codec", codec_mid, key=lambda event: event.key + b"\xff", of=codec_in)


@app.agent(codec_mid, name="decodes")
async def decodes(stream: Any) -> None:
    async for event in stream.events():
        arguments = saw("decodes", event)
        await codec_out.send(**arguments | {"key": event.key.hex()})


schema_mid = app.topic(f"{ID}-schema-mid", schema=Tagged(key_type=str, value_serializer="json"))
schema_out = target(app, "schema-out")


pass_on(app, "schema", schema_mid)
tell(app, "tagged", of=schema_mid, out=schema_out)


null_mid = app.topic(
    f"{ID}-null-mid", key_type=str, value_type=bytes, value_serializer="raw", allow_empty=True
)
null_out = target(app, "null-out")


# Tombstones look like markers less their header.
pass_on(app, "null", null_mid, lambda event: b"" if event.value["n"] % 2 else None)


@each(app, "nothing", of=null_mid, out=null_out)
async def nothing(event: Any) -> dict[str, Any]:
    return {"value": repr(event.value)}


class Shape(faust.Record, abstract=True, polymorphic_fields=True):  # type: ignore[call-arg]
    """What it is stands in the bytes, and is looked up there."""


class Circle(Shape):
    radius: int


class Square(Shape):
    side: int
    inner: list[Circle]


class Drawing(faust.Record):
    n: int
    shape: Shape


drawn_mid = app.topic(f"{ID}-drawn-mid", key_type=str, value_type=Drawing)
drawn_out = target(app, "drawn-out")
drawings = app.Table("drawings", key_type=str, value_type=Drawing)


def drawn(event: Any) -> Drawing:
    n = event.value["n"]
    return Drawing(n=n, shape=Square(side=n, inner=[Circle(radius=1)]) if n % 2 else Circle(radius=n))


pass_on(app, "drawn", drawn_mid, drawn)


@each(app, "drawing", of=drawn_mid, out=drawn_out)
async def looks_at_drawings(event: Any) -> dict[str, Any]:
    before = drawings.get(event.key)
    drawings[event.key] = event.value
    kinds = [type(drawing.shape).__name__ for drawing in (event.value, before) if drawing is not None]
    return {"kinds": kinds}


class Registered(faust.Schema):
    """Avro as a registry of schemas has it: a zero, the number of the schema, the bytes."""

    number = (17).to_bytes(4, "big")
    form = parse('{"type": "record", "name": "Order", "fields": [{"name": "n", "type": "long"}]}')

    def dumps_value(self, app: Any, value: Any, *, serializer: Any = None, headers: Any) -> Any:
        buffer = io.BytesIO()
        DatumWriter(self.form).write(value, BinaryEncoder(buffer))
        return b"\0" + self.number + buffer.getvalue(), headers

    def loads_value(self, app: Any, message: Any, *, loads: Any = None, serializer: Any = None) -> Any:
        assert message.value[:5] == b"\0" + self.number, "of another schema"
        return DatumReader(self.form).read(BinaryDecoder(io.BytesIO(message.value[5:])))


avro_mid = app.topic(f"{ID}-avro-mid", schema=Registered(key_type=str, value_serializer="raw"))
avro_out = target(app, "avro-out")


pass_on(app, "avro", avro_mid, lambda event: {"n": event.value["n"]})
tell(app, "reads-avro", of=avro_mid, out=avro_out)


# -- how messages leave: by `send`, by `send_soon`, and as the writes of a table ---------------------------------------

written = app.Table("written", key_type=str, value_type=int, default=int)


@each(app, "written", soon=True)
async def writes(event: Any) -> dict[str, Any]:
    written[event.key] += 1
    await asyncio.sleep(0.002)
    return {"count": written[event.key]}


both_ways(app, "both", target(app, "both-out"))
