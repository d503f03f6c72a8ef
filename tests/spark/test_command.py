"""`snapkafka assemble` with the real Spark job behind it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapkafka.kafka import Connection
from snapkafka.testing import create_topics
from tests.kafka.processes import process

if TYPE_CHECKING:
    from snapkafka.testing import Broker


async def test_from_trigger_to_a_verdict_by_commands_alone(
    kafka: Broker, namespace: str, topic_prefix: str, tmp_path: Path
) -> None:
    connection, topic = Connection(bootstrap=kafka.bootstrap), f"{topic_prefix}orders"
    environment = os.environ | {"SNAPKAFKA_BOOTSTRAP": kafka.bootstrap, "SNAPKAFKA_NAMESPACE": namespace}

    async def answer(*arguments: str) -> tuple[int | None, Any]:
        command = (sys.executable, "-m", "snapkafka", *arguments, "--json")
        done = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
        printed, _ = await asyncio.wait_for(done.communicate(), 240)
        return done.returncode, json.loads(printed)

    await asyncio.to_thread(create_topics, kafka.bootstrap, topic)
    async with process(connection, namespace, topic):
        status, _ = await answer("trigger", "--wait", "--id", "mine", "--storage", str(tmp_path))
        assert status == 0
    status, refused = await answer("assemble", "mine", "yours")
    assert (status, refused["error"]["code"]) == (5, "unknown-snapshot")
    status, _ = await answer("assemble", "mine", "--engine", "spark")
    assert status == 0
    manifest = json.loads((tmp_path / "mine.json").read_text())
    assert (manifest["engine"], manifest["restorable"]["how"]) == ("spark", "always")
    (described,) = manifest["topics"]
    assert (described["name"], described["partitions"], len(described["topic_id"])) == (topic, 1, 32)
    _, listed = await answer("list")
    (one,) = listed["snapshots"]
    assert (one["status"], one["verdict"]) == ("COMPLETED", "VERIFIED")
    assert one["checkpoint_manifest_uri"] == str(tmp_path / "mine.json")
