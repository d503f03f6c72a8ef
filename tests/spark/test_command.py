"""`snapkafka assemble` with the real Spark job behind it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snapkafka.kafka import Connection, KafkaTopicAdmin
from tests.kafka.processes import process

if TYPE_CHECKING:
    from snapkafka.testing import Broker


async def command(environment: dict[str, str], *arguments: str) -> tuple[int, Any, str]:
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "snapkafka.cli", *arguments, stdout=pipe, stderr=pipe, env=environment
    )
    out, err = await asyncio.wait_for(done.communicate(), 240)
    assert done.returncode is not None
    return done.returncode, out.decode(), err.decode()


async def test_from_trigger_to_a_verdict_by_commands_alone(
    kafka: Broker, namespace: str, topic_prefix: str, tmp_path: Path
) -> None:
    connection = Connection(bootstrap=kafka.bootstrap)
    environment = os.environ | {"SNAPKAFKA_BOOTSTRAP": kafka.bootstrap, "SNAPKAFKA_NAMESPACE": namespace}
    admin = KafkaTopicAdmin(connection)
    await admin.create_topic(f"{topic_prefix}orders")
    await admin.close()
    async with process(connection, namespace, f"{topic_prefix}orders"):
        status, out, err = await command(
            environment, "trigger", "--wait", "--id", "mine", "--storage", str(tmp_path)
        )
        assert status == 0, err
    status, out, err = await command(environment, "assemble", "mine", "yours", "--json")
    assert (status, json.loads(out)["error"]["code"]) == (5, "unknown-snapshot"), err
    status, out, err = await command(environment, "assemble", "mine", "--engine", "spark")
    assert status == 0, out + err
    assert "VERIFIED" in out
    assert str(tmp_path / "mine.json") in out
    assert "restorable as long as its topics exist" in out  # nothing was unread, and there is no table
    assert json.loads((tmp_path / "mine.json").read_text())["restorable"]["how"] == "always"
    (described,) = json.loads((tmp_path / "mine.json").read_text())["topics"]
    assert (described["name"], described["partitions"]) == (f"{topic_prefix}orders", 1)
    assert len(described["topic_id"]) == 32
    status, out, err = await command(environment, "list", "--json")
    (listed,) = json.loads(out)["snapshots"]
    assert (listed["status"], listed["verdict"]) == ("COMPLETED", "VERIFIED")
    assert listed["checkpoint_manifest_uri"] == str(tmp_path / "mine.json")
