"""An app that reads slowly, a record at a time, while its broker deletes: its recovery stands still until the file
FEATURES_GATE is there. For each event it says which keys its table has."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from faust.tables.recovery import Recovery

from tests.features.apps.common import new_app, source, target

#: When Faust says that a recovery gets no records, and how often it looks; 30 s and 5 s by default.
Recovery.event_timeout_secs, Recovery.stats_interval = 2.0, 0.5

GATE, STANDS = Path(os.environ["FEATURES_GATE"]), Path(os.environ["FEATURES_STANDS"])

app = new_app(
    consumer_auto_offset_reset=os.environ["FEATURES_RESET"],
    consumer_max_fetch_size=1,  # the broker gives a batch at least
    stream_buffer_maxsize=1,
    broker_max_poll_records=1,
)


async def stand(event: Any) -> None:
    """At the first record that comes while the gate is shut."""
    while not GATE.exists():  # noqa: ASYNC240 -- a test opens it, from another process
        STANDS.touch()  # noqa: ASYNC240
        await asyncio.sleep(0.02)


kept = app.Table("kept", key_type=str, value_type=int, default=int, on_changelog_event=stand)
kept_out = target(app, "kept-out")


@app.agent(source(app, "kept"), name="kept")
async def reports(stream: Any) -> None:
    async for event in stream.events():
        await kept_out.send(key=event.key, value=sorted(kept), partition=event.message.partition)
