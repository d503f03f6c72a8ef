"""An input that does not exist when a worker starts, which is how every newcomer begins: it is named, with real workers
on real brokers, until some worker has it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from snapkafka.cli import verbs as commands
from snapkafka.demo import Observer, System, observing, wait_until
from snapkafka.protocol import Status
from snapkafka.testing import Broker, EmbeddedKafka, create_topics
from tests.driver.live import produce, take

MODULE = "tests.driver.paying_app"


class Payments:
    """The workers of the paying app, and the command."""

    def __init__(self, system: System, observer: Observer) -> None:
        self.system, self.observer = system, observer
        self.app = f"payments-{system.namespace}"
        self.said = (
            f"topic {self.app}-to-pay did not exist when {self.app} started: create it and restart {self.app}"
        )
        self.unread = [{"app": self.app, "topic": f"{self.app}-to-pay"}]

    def start(self, **env: str) -> Any:
        worker = self.system.start_worker(self.app, {"PAYING_APP_ID": self.app} | env, module=MODULE)
        self.observer.wait_for_workers(self.system)
        return worker

    def command(self, *arguments: str) -> tuple[int, Any, str]:
        """Status, JSON, and what it prints without `--json`."""
        where = ["--bootstrap", self.system.bootstrap, "--namespace", self.system.namespace]
        printed, data = (
            CliRunner().invoke(commands.app, [*arguments, *where, *more]) for more in ([], ["--json"])
        )
        assert printed.exit_code == data.exit_code, (printed.output, data.output)
        return data.exit_code, json.loads(data.stdout), printed.output

    def create(self, *names: str) -> None:
        create_topics(self.system.bootstrap, *(f"{self.app}-{name}" for name in names))


@pytest.fixture
def payments(request: pytest.FixtureRequest, namespace: str, tmp_path: Path) -> Iterator[Payments]:
    """On the broker of all tests, which creates topics that somebody asks for, or on one that does not ("off")."""
    with contextlib.ExitStack() as stack:
        if request.param == "off":
            kafka: Broker = stack.enter_context(
                EmbeddedKafka(properties={"auto.create.topics.enable": "false"})
            )
        else:
            kafka = request.getfixturevalue("kafka")
        system = System(bootstrap=kafka.bootstrap, namespace=namespace, folder=tmp_path)
        stack.callback(system.stop)
        yield Payments(system, stack.enter_context(observing(kafka.bootstrap, namespace)))


@pytest.mark.parametrize("payments", ["on", pytest.param("off", marks=pytest.mark.nightly)], indirect=True)
def test_a_topic_that_did_not_exist_at_the_start_is_named_until_a_restart(payments: Payments) -> None:
    """By the worker's log, `trigger`, `show` and `doctor`; what Faust creates by itself is not."""
    payments.create("orders")
    worker = payments.start()
    warned = [line for line in worker.log.read_text().splitlines() if "to-pay did not exist when" in line]
    assert len(warned) == 1
    assert f"snapkafka: {payments.said}" in warned[0]

    status, found, printed = payments.command("trigger", "--wait", "--id", "one")
    assert (status, found["status"], found["unread"]) == (0, "CAPTURED", payments.unread)
    assert f"warning: {payments.said}" in printed
    status, found, printed = payments.command("show", "one")
    assert (status, found["captured"]["unread"]) == (0, payments.unread)
    assert f"warning: {payments.said}" in printed
    status, found, printed = payments.command("doctor")
    assert status == 30
    (advice,) = [item for item in found["found"] if item["code"] == "topic-unread"]
    assert advice["weight"] == "problem"
    assert f"topic {payments.app}-to-pay did not exist when {payments.app} started" in printed

    payments.create("to-pay")
    assert f"it exists now: restart {payments.app}" in payments.command("doctor")[2]
    payments.system.interrupt(worker)
    worker = payments.start()
    again = payments.system.folder / f"{payments.app}-2.txt"
    assert worker.log == again
    assert "to-pay did not exist when" not in again.read_text()
    status, found, printed = payments.command("trigger", "--wait", "--id", "two")
    assert (status, found["status"], found["unread"]) == (0, "CAPTURED", [])
    assert (
        "to-pay did not exist when"
        not in printed + payments.command("show", "two")[2] + payments.command("doctor")[2]
    )
    assert payments.command("show", "one")[1]["summary"]["unread"] == payments.unread, (
        "it is what that one lacks"
    )


@pytest.mark.nightly
@pytest.mark.parametrize("payments", ["off"], indirect=True)
def test_a_topic_that_faust_takes_up_later_is_an_input_like_any_other(payments: Payments) -> None:
    """Faust looks for it again every `consumer_metadata_max_age_ms`; then it is named no more, and in snapshots."""
    payments.create("orders")
    payments.start(PAYING_APP_LOOKS_AGAIN_MS="1000")
    observer, topic = payments.observer, f"{payments.app}-to-pay"
    assert [item.topic for item in observer.state.unread()] == [topic]
    payments.create("to-pay")
    wait_until(
        "the worker to be assigned the topic",
        lambda: not observer.state.unread(),
        timeout_s=60,
        system=payments.system,
    )
    observer.call(produce(payments.system.bootstrap, topic, 20))
    snapshot = take(observer, "one")
    assert snapshot.status is Status.CAPTURED, snapshot.failure
    assert snapshot.unread == ()
    assert topic in snapshot.apps[payments.app]
    assert topic in {source.topic for source in observer.state.captured(snapshot.epoch).inputs}
