"""A real Kafka 4.4 on this machine, in one JVM, for as long as a test needs it.

KRaft, broker and controller in one process, on free ports of 127.0.0.1, with its data in a temporary folder. It is
ready when its own log says so: an open port may belong to another broker. Nothing is left behind, neither on Ctrl-C nor
when its owner is killed (`runtime.child`).
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Final, Protocol, Self

from snapkafka.errors import BadInputError, BrokerUnavailableError, TimedOutError
from snapkafka.runtime.child import Child
from snapkafka.runtime.jdk import archive_options, java, java_environment
from snapkafka.runtime.maven import locked_jars
from snapkafka.runtime.signals import Interrupted
from snapkafka.until import Tries

HOST: Final = "127.0.0.1"
#: Below the ephemeral ports of Linux (32768) and macOS (49152): between stop() and start() no client's own connection
#: can be given our port.
PORTS: Final = range(20000, 32000)
#: Starting takes 2-4 s here; a loaded machine of a CI gets far more.
START_TIMEOUT_S: Final = 60.0
#: A clean stop takes half a second. After this it is killed: the log is recovered on the next start.
STOP_TIMEOUT_S: Final = 15.0
LOG_LINES_SHOWN: Final = 15
CONFIG: Final = "server.properties"
#: A broker that can be used says so in its log.
STARTED: Final = b"Kafka Server started"

#: One broker has no replicas; internal topics stay small; groups do not wait for members that may still come. It is its
#: own controller.
PROPERTIES: Final = {
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "process.roles": "broker,controller",
    "node.id": "1",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
    # After kill() the controller refuses the broker until its old session (9 s by default) has run out.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class EmbeddedKafka:
    """One broker, started by `with` or `start()`, which can be stopped and started again on its data and its ports.

    Args:
        properties: broker settings on top of `PROPERTIES`, by their Kafka names.
        port: for its clients; 0: any free one.
    """

    def __init__(self, *, properties: Mapping[str, str] | None = None, port: int = 0) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snapkafka-broker-"))
        self.cluster_id = f"s{secrets.token_urlsafe(16)[:21]}"  # with a dash first it would be an option
        free, self.controller_port = free_ports(2)
        self.port = port or free
        self._logged = 0  # so much of the log is of earlier starts
        self.properties = dict(properties or {})
        self._command: list[str] = []
        self._process: Child | None = None

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def voters(self) -> str:
        """Its `controller.quorum.voters`: a broker with these joins its cluster."""
        return f"1@{HOST}:{self.controller_port}"

    @property
    def pid(self) -> int | None:
        """The broker's process id; None while it is stopped."""
        return None if self._process is None else self._process.pid

    @property
    def log_file(self) -> Path:
        return self.folder / "broker.log"

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None and issubclass(kind, Interrupted):
            self.kill()  # nobody waits for it, and its data goes
        self.close()

    def start(self) -> None:
        """Start the broker and wait until it can be used; do nothing if it runs already.

        Raises:
            BrokerUnavailableError: it ended; with its last log lines.
            TimedOutError: it did not start in time; with its last log lines.
            DependencyMissingError: Java or the jars are missing and cannot be fetched.
        """
        if self._process is not None and self._process.status is None:
            return
        self.kill()
        self._command = self._java()  # Java and jars may have to be fetched
        self._write_config()
        if not (self.folder / "data" / "meta.properties").exists():
            self._format()
        try:
            self._launch()
            self._await_ready()
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it cleanly, as an operator would; its data and its ports stay for the next `start()`."""
        if self._process is not None:
            self._process.send(signal.SIGTERM, signal.SIGCONT)
            self._process.wait(STOP_TIMEOUT_S)
        self.kill()

    def kill(self) -> None:
        """Stop it as a power cut would: without notice to its clients."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def close(self) -> None:
        """Stop it for good and remove its data."""
        try:
            self.stop()
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def last_log_lines(self) -> str:
        """Return the end of the broker's log, indented, for error messages: its warnings and errors if it has any. The
        first of them is what Java says of an exception."""
        try:
            lines = self.log_file.read_bytes()[self._logged :].decode("utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        relevant = [line for line in lines if " INFO " not in line and not line.startswith("\t")]
        shown = relevant[:1] + relevant[1:][-LOG_LINES_SHOWN:] if relevant else lines[-LOG_LINES_SHOWN:]
        return "\n".join(f"    {line[:300]}" for line in shown) or "    (its log is empty)"

    def _write_config(self) -> None:
        (self.folder / "tmp").mkdir(exist_ok=True)
        settings = PROPERTIES | {
            "controller.quorum.voters": self.voters,
            "listeners": f"CLIENT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"CLIENT://{self.bootstrap}",
            "log.dirs": "data",  # in the folder of the process, whose name may have a comma
        }
        # Java escapes as JSON does.
        lines = (f"{key}={json.dumps(value)[1:-1]}\n" for key, value in (settings | self.properties).items())
        (self.folder / CONFIG).write_text("".join(lines), encoding="ascii")

    def _format(self) -> None:
        tool = ("kafka.tools.StorageTool", "format", "-t", self.cluster_id, "-c", CONFIG)
        command = [*self._java(record=False), *tool]
        with self.log_file.open("ab") as log:
            try:
                done = subprocess.run(
                    command,
                    stdout=log,
                    stderr=log,
                    env=java_environment(),
                    timeout=START_TIMEOUT_S,
                    cwd=self.folder,
                )
            except subprocess.TimeoutExpired:
                raise TimedOutError(f"Kafka did not format its folder in {START_TIMEOUT_S:g} s") from None
        if done.returncode != 0:
            said = self.last_log_lines()
            what = f"Kafka could not format its folder:\n{said}"
            raise BrokerUnavailableError(what, hint="check the given settings", log=said)

    def _launch(self) -> None:
        command = [*self._command, "kafka.Kafka", CONFIG]
        with self.log_file.open("ab") as log:
            self._logged = log.tell()
            self._process = Child(
                command, env=java_environment(), output=log, cwd=self.folder, folders=[self.folder], grace_s=0
            )

    def _await_ready(self) -> None:
        assert self._process is not None
        for _ in Tries(START_TIMEOUT_S):
            status = self._process.status
            if status is not None:
                raise BrokerUnavailableError(
                    f"Kafka ended with status {status} while starting on port {self.port}; its last words:\n"
                    + (said := self.last_log_lines()),
                    hint="take another port if theirs is in use; if Java crashed, remove `classes` in the cache",
                    log=said,
                )
            with self.log_file.open("rb") as log:
                log.seek(self._logged)
                if STARTED in log.read():
                    return
        raise TimedOutError(
            f"waited {START_TIMEOUT_S:g} s for Kafka (process {self._process.pid}) to start on {self.bootstrap}; its"
            f" last words:\n{self.last_log_lines()}",
            hint="the machine may be overloaded; run it again",
        )

    def _java(self, *, record: bool = True) -> list[str]:
        runtime, jars = java(), locked_jars("kafka")
        return [
            str(runtime.executable),
            *archive_options(jars, record=record),
            # It runs for minutes: with one compiler and one collector it starts in two thirds of the CPU time.
            *("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            "-XX:-UsePerfData",  # else it leaves a file behind, outside of its folder, when killed
            "-Djava.io.tmpdir=tmp",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.config=warn",  # 300 lines of settings
            "-cp",
            os.pathsep.join(str(jar) for jar in jars),
        ]


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens now, at random, so that two concurrent callers rarely choose the same."""
    found: list[int] = []
    for port in random.SystemRandom().sample(PORTS, 200):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            found.append(port)
        if len(found) == count:
            return found
    raise BrokerUnavailableError(f"no {count} free ports among {PORTS.start}-{PORTS.stop} on {HOST}")


class Broker(Protocol):
    """The interface of every test broker. An embedded one has more: `stop()`, `start()`, `kill()`."""

    @property
    def bootstrap(self) -> str:
        """`host:port`, as clients take it."""


@contextlib.contextmanager
def kafka(*, properties: Mapping[str, str] | None = None) -> Iterator[Broker]:
    """Provide a Kafka broker for the length of the `with` block; see above for which.

    Args:
        properties: broker settings by their Kafka names; impossible with an existing broker.

    Raises:
        BadInputError: settings are asked for, and a broker is named.
        BrokerUnavailableError: it does not start; the message has its last log lines.
        DependencyMissingError: Java or jars are needed and unavailable.
        TimedOutError: it did not answer in time.
    """
    if given := os.environ.get("SNAPKAFKA_TEST_BOOTSTRAP"):
        if properties:
            raise BadInputError(
                "this test needs a broker with settings of its own, and SNAPKAFKA_TEST_BOOTSTRAP names a given one",
                hint="use EmbeddedKafka(properties=...) in the test, or unset SNAPKAFKA_TEST_BOOTSTRAP",
            )
        yield SimpleNamespace(bootstrap=given)
        return
    with EmbeddedKafka(properties=properties) as broker:
        yield broker


def create_topics(
    bootstrap: str, *names: str, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create topics and wait until the broker has them; those that exist stay as they are.

    Raises:
        BrokerUnavailableError, LedgerUnusableError: the broker did not answer in time, or refused.
    """
    from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
    from snapkafka.kafka.login.connection import Connection
    from snapkafka.testing.taken import await_work

    async def create() -> None:
        async with KafkaTopicAdmin(Connection(bootstrap=bootstrap)) as admin:
            for name in names:
                await admin.create_topic(name, partitions=partitions, replicas=1, settings=config)

    await_work(create())
