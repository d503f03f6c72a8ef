"""An app that counts its events, sends what it saw, and waits FEATURES_SLEEP s after each. Where FEATURES_COMMIT is
long, a crash leaves effects of events that it will run again.

Without FEATURES_ALONE there is an agent `slow`: it says when it starts and ends, and is busy with its event for some
seconds. While the file FEATURES_HOLD is there, a report of a cut is not sent: beside it there is a file `.held` then.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from faust.tables.recovery import Recovery

from snapkafka.kafka import KafkaLedger
from snapkafka.protocol.records import LedgerRecord, Report
from tests.features.apps.common import each, new_app, saw, source, target

app = new_app(
    processing_guarantee=os.environ.get("FEATURES_GUARANTEE", "at_least_once"),
    broker_commit_interval=float(os.environ.get("FEATURES_COMMIT", "0.5")),
    broker_session_timeout=6.0,
    broker_heartbeat_interval=1.0,
    consumer_auto_offset_reset=os.environ.get("FEATURES_RESET", "earliest"),
)
SLEEP = float(os.environ.get("FEATURES_SLEEP", "0"))
counted_out = target(app, "counted-out")
counted = app.Table("counted", key_type=str, value_type=int, default=int)


@app.agent(source(app, "counted"), name="counted")
async def count(stream: Any) -> None:
    async for event in stream.events():
        counted[event.key] += 1
        await counted_out.send(**saw("counted", event))
        await asyncio.sleep(SLEEP)


if "FEATURES_ALONE" not in os.environ:
    slow_out = target(app, "slow-out")

    @each(app, "slow", out=slow_out)
    async def linger(event: Any) -> dict[str, Any]:
        await slow_out.send(**saw("slow", event))
        await asyncio.sleep(8.0)
        return {}


HOLD = Path(os.environ.get("FEATURES_HOLD", os.devnull))
append = KafkaLedger.append


async def append_when_let(self: KafkaLedger, record: LedgerRecord) -> int:
    """As slow as a network may be, in the moment in which a test wants it so."""
    while isinstance(record, Report) and HOLD.is_file():  # noqa: ASYNC240 -- the test takes it away
        HOLD.with_suffix(".held").touch()
        await asyncio.sleep(0.01)
    return await append(self, record)


KafkaLedger.append = append_when_let  # type: ignore[method-assign]

#: Recovery goes on so much later than what it awaits has ended, as where the loop has that much else to do.
LINGERS = float(os.environ.get("FEATURES_LINGERS", "0"))
wait = Recovery._wait


async def wait_and_linger(self: Any, *args: Any, **kwargs: Any) -> None:
    await wait(self, *args, **kwargs)
    if LINGERS:
        await asyncio.sleep(LINGERS)


Recovery._wait = wait_and_linger
