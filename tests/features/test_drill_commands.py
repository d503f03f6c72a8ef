"""Commands of a drill that are no part of its fork, beside a real broker: production stays as it was."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import uuid
from pathlib import Path

import pytest

from snapkafka.demo import wait_until
from snapkafka.ops.drill.workers import AppEndedError, Workers
from snapkafka.testing import Broker

from .harness import read_topics
from .production import RECORDS, fingerprint, set_up

pytestmark = pytest.mark.timeout(300)

FORK = "drill-1"
SEND = """
import asyncio, faust, os, snapkafka
from aiokafka import AIOKafkaProducer
app = faust.App("shop", broker="kafka://" + os.environ["FEATURES_BROKER"])
async def send():
    try:
        async with AIOKafkaProducer(bootstrap_servers=os.environ["FEATURES_BROKER"]) as producer:
            await producer.send_and_wait(os.environ["FEATURES_PREFIX"] + "out", b"early")
    except Exception as error:
        print("refused:", error, flush=True)
    else:
        print("sent", flush=True)
asyncio.run(send())
snapkafka.install(app, namespace="ns")
print("installed", flush=True)
"""
PRODUCE = """
import os
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": os.environ["FEATURES_BROKER"], "log_level": 0})
producer.produce(os.environ["FEATURES_PREFIX"] + "out", b"native")
print("refused: nothing was delivered" if producer.flush(5) else "sent", flush=True)
"""
FAUST = [sys.executable, "-m", "faust", "-A", "tests.features.apps.uninstalled", "worker", "--without-web"]


class Commands:
    """Misbehaving commands of a drill on a production of their own."""

    def __init__(self, bootstrap: str, folder: Path, *, lock: bool) -> None:
        self.prefix = f"p{uuid.uuid4().hex[:8]}-"
        self.bootstrap, self.folder, self.lock = bootstrap, folder, lock
        folder.mkdir()
        (folder / "app").mkdir()
        set_up(bootstrap, self.prefix)
        self.before = fingerprint(bootstrap, self.prefix)

    def run(self, *commands: list[str], until: str) -> list[str]:
        """Start them, wait until each has printed that, end them; what each has printed."""
        environ = os.environ | {
            "FEATURES_BROKER": self.bootstrap,
            "FEATURES_PREFIX": self.prefix,
            "FEATURES_DATA": str(self.folder / "data"),
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        }
        workers = Workers(self.folder, lock=self.lock, joins_within_s=5.0)
        logs = [self.folder / f"app-{number}.txt" for number in range(1, len(commands) + 1)]
        try:
            workers.start(commands, FORK, environ)
            wait_until(
                f"all to print {until}",
                lambda: all(until in log.read_text() for log in logs),
                timeout_s=90,
            )
            if until == "refused:":  # those that work on are named
                wait_until("them to be named", lambda: bool(_problem(workers)), timeout_s=60)
        finally:
            asyncio.run(workers.end())
        return [log.read_text() for log in logs]

    def script(self, text: str, *options: str) -> list[str]:
        path = self.folder / "app" / f"s{len(list((self.folder / 'app').iterdir()))}.py"
        path.write_text(text)
        return [sys.executable, *options, str(path)]


def _problem(workers: Workers) -> str:
    try:
        workers.require_running()
    except AppEndedError as error:
        return str(error)
    return ""


def misbehaving(commands: Commands) -> list[list[str]]:
    site = f"import sys; sys.path += {sys.path!r}\n"
    return [
        commands.script(SEND),
        commands.script(site + PRODUCE, "-I"),
        ["sh", "-c", f"exec {shlex.join(commands.script(PRODUCE))}"],
    ]


@pytest.mark.nightly
def test_commands_that_are_no_fork_leave_production_as_it_was(kafka: Broker, tmp_path: Path) -> None:
    free = Commands(kafka.bootstrap, tmp_path / "free", lock=False)
    for printed in free.run(*misbehaving(free), until="sent"):
        assert "refused" not in printed
    values = {it.value for it in read_topics(kafka.bootstrap, free.prefix)["out"]}
    assert values == {b"early", b"native"}, "unlocked they write to production: this shows something"

    held = Commands(kafka.bootstrap, tmp_path / "held", lock=True)
    held.run(*misbehaving(held), until="refused:")
    assert fingerprint(kafka.bootstrap, held.prefix) == held.before


@pytest.mark.nightly
def test_an_app_that_never_installs_is_no_worker_of_production(kafka: Broker, tmp_path: Path) -> None:
    free = Commands(kafka.bootstrap, tmp_path / "free", lock=False)
    workers = Workers(free.folder, lock=False)
    environ = {"FEATURES_BROKER": free.bootstrap, "FEATURES_PREFIX": free.prefix}
    environ = os.environ | environ | {"FEATURES_DATA": str(free.folder / "data")}
    try:
        workers.start([FAUST], FORK, environ)
        wait_until(
            "it to work on production",
            lambda: len(read_topics(kafka.bootstrap, free.prefix).get("out", ())) == RECORDS // 2,
            timeout_s=90,
        )
    finally:
        asyncio.run(workers.end())
    assert fingerprint(kafka.bootstrap, free.prefix)["commits"] != free.before["commits"]

    held = Commands(kafka.bootstrap, tmp_path / "held", lock=True)
    workers = Workers(held.folder)
    try:
        workers.start([FAUST], FORK, environ | {"FEATURES_PREFIX": held.prefix})
        wait_until("it to be named", lambda: bool(_problem(workers)), timeout_s=60)
        log = (held.folder / "app-1.txt").read_text()
        assert "and had not joined the fork" in _problem(workers), log
        assert "Unable to bootstrap" in _problem(workers), log
    finally:
        asyncio.run(workers.end())
    assert fingerprint(kafka.bootstrap, held.prefix) == held.before
