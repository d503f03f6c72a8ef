"""An input that does not exist when a worker starts, which is how every newcomer begins: it is named until some worker
has it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from snapkafka.cli import verbs as commands
from snapkafka.testing import Broker, create_topics
from tests.driver.live import live

MODULE = "tests.driver.paying_app"


def test_a_topic_that_did_not_exist_at_the_start_is_named_until_a_restart(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """By the worker's log, `trigger`, `show` and `doctor`; what Faust creates by itself is not."""
    with live(kafka, namespace, tmp_path, topics=["orders"], tables=(), partitions=1) as run:
        topic = run.topic("to-pay")
        said = f"topic {topic} did not exist when {run.app} started: create it and restart {run.app}"
        unread = [said]

        def command(*arguments: str) -> tuple[int, Any, str]:
            """Status, JSON, and what it prints without `--json`."""
            where = ["--bootstrap", kafka.bootstrap, "--namespace", namespace]
            printed, data = (
                CliRunner().invoke(commands.app, [*arguments, *where, *more]) for more in ([], ["--json"])
            )
            assert printed.exit_code == data.exit_code, (printed.output, data.output)
            return data.exit_code, json.loads(data.stdout), printed.output

        worker = run.start(MODULE, PAYING_APP_ID=run.app)
        run.await_workers()
        warned = [line for line in worker.log.read_text().splitlines() if "to-pay did not exist when" in line]
        assert len(warned) == 1
        assert f"snapkafka: {said}" in warned[0]

        status, found, printed = command("trigger", "--wait", "--id", "one")
        assert (status, found["status"], found["unread_topics"]) == (0, "CAPTURED", unread)
        assert f"warning: {said}" in printed
        status, found, printed = command("show", "one")
        assert (status, found["unread_topics"]) == (0, unread)
        assert f"warning: {said}" in printed
        status, found, printed = command("doctor")
        assert status == 30
        (advice,) = [item for item in found["found"] if item["code"] == "topic-unread"]
        assert advice["weight"] == "problem"
        assert f"topic {run.app}-to-pay did not exist when {run.app} started" in printed

        create_topics(kafka.bootstrap, topic)
        assert f"restart {run.app}" in command("doctor")[2]
        run.system.interrupt(worker)
        worker = run.start(MODULE, PAYING_APP_ID=run.app)
        run.await_workers()
        assert "to-pay did not exist when" not in worker.log.read_text()
        status, found, printed = command("trigger", "--wait", "--id", "two")
        assert (status, found["status"], found["unread_topics"]) == (0, "CAPTURED", [])
        assert "to-pay did not exist when" not in printed + command("show", "two")[2] + command("doctor")[2]
        assert command("show", "one")[1]["unread_topics"] == unread, "it is what that one lacks"
