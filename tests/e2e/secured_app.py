"""A Faust app that logs in by the settings that snapkafka reads; its only table counts by key."""

import os
from typing import Any

import faust

from snapkafka.kafka import Security
from tests.worlds.app import new_app

SETTINGS = Security.from_environment(os.environ)
CONTEXT = SETTINGS.ssl_context()
if SETTINGS.mechanism:
    credentials: Any = faust.SASLCredentials(
        username=SETTINGS.values["sasl.username"],
        password=SETTINGS.values["sasl.password"],
        mechanism=SETTINGS.mechanism,
        ssl_context=CONTEXT,
    )
else:
    credentials = faust.SSLCredentials(CONTEXT)

app = new_app(os.environ["SECURED_ID"], broker_credentials=credentials)
counts = app.Table("counts", default=int)


@app.agent(app.topic(f"{os.environ['SECURED_ID']}-in", key_type=str, value_type=int))
async def count(stream: Any) -> None:
    async for key, value in stream.items():
        counts[key] += value
