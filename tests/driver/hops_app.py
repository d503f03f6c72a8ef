"""A Faust app that traces its own worker: the functions of snapkafka that one record passes from fetch to commit.

Agents: `read` does nothing with a record, `write` writes a table twice, in one batch of the producer. The first records
warm up; the last one is traced. The functions, in the order of their first calls, and how often each was called, go to
the file HOPS_FILE.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from faust.types.tuples import TP

import snapkafka
from snapkafka.until import until
from snapkafka.wire import headers as wire
from tests.features.apps.common import ID, new_app

BOOTSTRAP: Final = os.environ["SNAPKAFKA_BOOTSTRAP"]
PACKAGE: Final = str(Path(snapkafka.__file__).parent) + os.sep
KINDS: Final = ("read", "write")
RECORDS: Final = 5
#: What runs all the time, whether a record is under way or not: tasks of the ledger, and Faust's fetches.
BACKGROUND: Final = (
    "drivers/ledger.py",
    "protocol/exact.py",
    "drivers/faust/inbound/resume.py",
    "kafka/",
    "logs.py",
    "until.py",
)
#: They are calls up to Python 3.11, and no hops.
COMPREHENSIONS: Final = ("<genexpr>", "<listcomp>", "<dictcomp>", "<setcomp>")

tracing = threading.Event()
passed = Counter[str]()


def trace(frame: FrameType, what: str, _: Any) -> None:
    code = frame.f_code
    if what != "call" or not tracing.is_set() or not code.co_filename.startswith(PACKAGE):
        return
    path = code.co_filename.removeprefix(PACKAGE)
    if code.co_name not in COMPREHENSIONS and not path.startswith(BACKGROUND):
        passed[f"{path} {code.co_qualname}"] += 1


threading.setprofile(trace)  # Faust's consumer has a thread of its own

app: Any = new_app(topic_partitions=1, broker_commit_interval=0.2)
driver: Any = app.snapkafka
topics = {kind: app.topic(f"{ID}-{kind}", key_serializer="raw", value_serializer="raw") for kind in KINDS}
counts = app.Table("counts", default=int, partitions=1)


@app.agent(topics["read"], name="read")
async def read(stream: Any) -> None:
    async for _ in stream:
        pass


@app.agent(topics["write"], name="write")
async def write(stream: Any) -> None:
    async for event in stream.events():
        counts[event.key.decode()] = counts["another"] = 1


def done(tp: TP, offset: int) -> bool:
    unacked = any(tally.unacked for tally in driver.machine.colours.tallies.values())
    return app.consumer._committed_offset.get(tp) == offset + 1 and not unacked


@app.task
async def run() -> None:
    """Send the records one by one: each is committed, and what it sent acknowledged, before the next one comes."""
    found: dict[str, dict[str, int]] = {}
    await until(lambda: driver.participating and len(app.consumer.assignment()) > len(KINDS), 60, "to join")
    async with AIOKafkaProducer(bootstrap_servers=BOOTSTRAP) as producer:
        for kind in KINDS:
            tp = TP(f"{ID}-{kind}", 0)
            sys.setprofile(trace)
            for offset in range(RECORDS):
                passed.clear()
                process, check = driver.machine.process, wire.tp_check(*tp)
                stamp = wire.stamp_with_cause(driver.ledger_id, check, 0, process, offset, 1, 0, offset)
                if offset == RECORDS - 1:
                    tracing.set()
                await producer.send(tp.topic, b"value", b"key", 0, headers=[(wire.HEADER, stamp)])
                await until(lambda: done(tp, offset), 60, "its commit", every_s=0.01)  # noqa: B023
            tracing.clear()
            sys.setprofile(None)
            found[kind] = dict(passed)
    write_out(found)


def write_out(found: dict[str, dict[str, int]]) -> None:
    """Write the file: whoever waits for it finds all of it."""
    file = Path(os.environ["HOPS_FILE"])
    whole = file.with_suffix(".new")
    whole.write_text(json.dumps(found), "utf-8")
    whole.rename(file)
