"""An app under steady load while the ledger is away: `quick` counts and sends, `slow` says when it starts and ends, and
is busy with its event for some seconds.

While the file FEATURES_HOLD is there, a report of a cut is not sent: beside it there is a file `.held` then.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from snapkafka.kafka import KafkaLedger
from snapkafka.protocol import LedgerRecord, Report
from tests.features.apps.common import new_app, saw, source, target

app = new_app(broker_commit_interval=0.5, broker_session_timeout=6.0, broker_heartbeat_interval=1.0)

quick_out, slow_out = target(app, "quick-out"), target(app, "slow-out")
quick = app.Table("quick", key_type=str, value_type=int, default=int)


@app.agent(source(app, "quick"), name="quick")
async def count(stream: Any) -> None:
    async for event in stream.events():
        quick[event.key] += 1
        await quick_out.send(**saw("quick", event))


@app.agent(source(app, "slow"), name="slow")
async def linger(stream: Any) -> None:
    async for event in stream.events():
        await slow_out.send(**saw("slow", event))
        await asyncio.sleep(8.0)
        await slow_out.send(**saw("slow", event))


HOLD = Path(os.environ.get("FEATURES_HOLD", os.devnull))
append = KafkaLedger.append


async def append_when_let(self: KafkaLedger, record: LedgerRecord) -> int:
    """As slow as a network may be, in the moment in which a test wants it so."""
    while isinstance(record, Report) and HOLD.is_file():  # noqa: ASYNC240 -- the test takes it away
        HOLD.with_suffix(".held").touch()
        await asyncio.sleep(0.01)
    return await append(self, record)


KafkaLedger.append = append_when_let  # type: ignore[method-assign]
