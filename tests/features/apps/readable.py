"""What strangers read: JSON and Avro that the app reads itself, its output and its changelog."""

from __future__ import annotations

import io
from typing import Any

from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse

from tests.features.apps.common import new_app, source, target
from tests.features.readers import AVRO_PREFIX, AVRO_SCHEMA

app = new_app()

mid, out = target(app, "mid"), target(app, "out")
told = app.topic(target(app, "told").get_topic_name(), key_type=str, value_serializer="raw")
counts = app.Table("counts", default=int, partitions=2)
written = DatumWriter(parse(AVRO_SCHEMA))


def as_avro(n: int) -> bytes:
    body = io.BytesIO()
    written.write({"n": n}, BinaryEncoder(body))
    return AVRO_PREFIX + body.getvalue()


@app.agent(source(app, "going"), name="going")
async def going(stream: Any) -> None:
    async for event in stream.events():
        n, partition = event.value["n"], event.message.partition
        await mid.send(key=event.key, value=f"mid {n}", partition=partition)
        await told.send(key=event.key, value=as_avro(n), partition=partition)


@app.agent(mid, name="counting")
async def counting(stream: Any) -> None:
    async for event in stream.events():
        counts[event.key] += 1
        await out.send(key=event.key, value=f"out of {event.value}", partition=event.message.partition)


@app.agent(told, name="hearing")
async def hearing(stream: Any) -> None:
    async for event in stream.events():
        assert event.value.startswith(AVRO_PREFIX)
