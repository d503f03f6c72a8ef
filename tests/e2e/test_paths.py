"""Three users on a terminal of 80 columns: a Faust developer, an analyst and an operator, with a real broker.

What each of their commands prints lies in `paths/`, with `N` for numbers and `T` for times. After a change that is
meant: `pytest tests/e2e/test_paths.py --rewrite`.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from rich.cells import cell_len

from snapkafka.demo import System, observing, wait_until
from snapkafka.testing import EmbeddedKafka, create_topics

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

GOLDEN: Final = Path(__file__).parent / "paths"
WIDTH: Final = 80
#: A broker of a busy machine may not answer a command in time.
TRIES: Final = 5
NAMESPACE: Final = "paths"
ORDERS: Final = {"ann": (5, 7), "bob": (11,), "cid": (1, 2, 3)}

DEVELOPER: Final = (
    "doctor --offline tests.e2e.path_shop:app",
    "doctor",
    "trigger --wait --id first",
    "list",
    "show first",
    "show nobody",
)
ANALYST: Final = (
    "assemble first --storage snapshots --engine embedded",
    "verify first --offline --storage snapshots",
    "query 'SELECT key FROM orders' --storage snapshots",
    "query 'SELECT table_name, key, value FROM state ORDER BY ALL' --storage snapshots",
    "draw first --storage snapshots -o cut.svg",
)
ANALYST_LATER: Final = (
    "trigger --wait --id second",
    "assemble second --storage snapshots --engine embedded",
    "diff first second --keys 5 --storage snapshots",
)
OPERATOR: Final = (
    "doctor -v",
    "doctor",
    "pause",
    "trigger --wait",
    "resume",
    "prune --storage snapshots --keep-last 1 --offline --dry-run",
    "fork create staging --from first --dry-run",
    "restore first --storage snapshots --dry-run",
)
OPERATOR_LATER: Final = ("trigger --wait --id lost --ttl 2s", "list", "show lost")

NUMBER: Final = r"(?<![\w.=-])\d[\d,.]*(?<!\.)"
#: What differs from run to run, and what stands for it.
CHANGING: Final = (
    (r"triggered [-\d]+ [\d:]+ by \S+?,\s+[\d.]+ \w+\s+ago; full", "triggered WHEN by WHO, T ago; full"),
    (r"(?m)^(\w+): read [^;]*;[^;]*;\s+checked[^;]*;\s+[\d.]+ \w+$", r"\1: read, wrote and checked"),
    (r"(?<=epoch )\d+", "N"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?Z?", "WHEN"),
    (r"\b\d[\d.,]*\s(?:ms|us|s|min|h|days)\b", "T"),
    (r"\b\d[\d.,]*\s(?:B|kB|MB)\b", "SIZE"),
    (NUMBER, "N"),
    (r"─+", "───"),
    (r"(?<=\S) {2,}", "  "),
)


@dataclass
class Shop:
    """The running service, with its orders so far."""

    system: System
    folder: Path
    bootstrap: str
    events: int = 0

    def order(self) -> None:
        """Send every order, and wait until each is paid."""
        producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})
        for name, amounts in ORDERS.items():
            for amount in amounts:
                producer.produce("orders", key=f'"{name}"'.encode(), value=str(amount).encode())
                self.events += 1
        assert producer.flush(30) == 0
        wait_until(
            "all orders to be paid, and their offsets committed",
            lambda: (
                self._records("shop-paid-changelog") >= self.events
                and all(self._committed(topic) >= self.events for topic in ("orders", "payments"))
            ),
            timeout_s=120,
            system=self.system,
        )

    def _committed(self, topic: str) -> int:
        """Return the number of records of a topic that the service has committed."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "shop"})
        try:
            found = consumer.committed([KafkaPartition(topic, n) for n in range(2)], timeout=10)
            return sum(max(0, it.offset) for it in found)
        finally:
            consumer.close()

    def _records(self, topic: str) -> int:
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "paths-test"})
        try:
            ends = [consumer.get_watermark_offsets(KafkaPartition(topic, n), timeout=10) for n in range(2)]
            return sum(high - low for low, high in ends)
        finally:
            consumer.close()

    def typed(self, commands: Sequence[str]) -> str:
        """Return what a person sees who types these commands."""
        return "\n".join(f"$ snapkafka {command}\n{self._stable(command)}" for command in commands)

    def _stable(self, command: str) -> str:
        for _ in range(TRIES):
            shown = on_a_terminal(f"snapkafka {command}", self.folder, self.bootstrap)
            if "no Kafka broker answers" not in shown:
                break
        too_wide = [line for line in shown.splitlines() if cell_len(line) > WIDTH and len(line.split()) > 1]
        assert too_wide == [], (command, too_wide)
        for found, name in (
            (str(self.folder), "FOLDER"),
            (self.bootstrap, "BROKER"),
            (getpass.getuser() + "@" + socket.gethostname(), "WHO"),
            (socket.gethostname(), "HOST"),
        ):
            shown = shown.replace(found, name)
        for pattern, name in CHANGING:
            if pattern != NUMBER or not command.startswith("query"):  # its rows are the orders
                shown = re.sub(pattern, name, shown)
        return "".join(f"{line.rstrip()}\n" for line in shown.splitlines())


def on_a_terminal(command: str, folder: Path, bootstrap: str) -> str:
    """Run a command on a terminal of its own; return its lines as they stand there in the end, without colours."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    process = subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        env=os.environ
        | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[2]),
            "SNAPKAFKA_BOOTSTRAP": bootstrap,
            "SNAPKAFKA_NAMESPACE": NAMESPACE,
            "TERM": "xterm",
            "NO_COLOR": "1",
        },
    )
    os.close(theirs)
    shown = b""
    try:
        while chunk := _read(ours):
            shown += chunk
    finally:
        os.close(ours)
        process.kill()
        process.wait()
    lines = (line.rpartition("\r\x1b[2K")[2] for line in shown.decode().replace("\r\n", "\n").split("\n"))
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", "\n".join(lines))


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nobody has its other end any more
        return b""


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    with tempfile.TemporaryDirectory(prefix="paths-", dir="/tmp") as folder, EmbeddedKafka() as broker:
        create_topics(broker.bootstrap, "orders", "payments", partitions=2)
        system = System(bootstrap=broker.bootstrap, namespace=NAMESPACE, folder=Path(folder))
        try:
            with observing(broker.bootstrap, NAMESPACE) as observer:
                system.start_worker("shop", module="tests.e2e.path_shop")
                observer.wait_for_workers(system)
            yield Shop(system, Path(folder), broker.bootstrap)
        finally:
            system.stop()


def test_what_three_users_see_at_80_columns(shop: Shop, pytestconfig: pytest.Config) -> None:
    shop.order()
    seen = {"developer": shop.typed(DEVELOPER), "analyst": shop.typed(ANALYST)}
    shop.order()
    seen["analyst"] += "\n" + shop.typed(ANALYST_LATER)
    seen["operator"] = shop.typed(OPERATOR)
    (worker,) = shop.system.workers
    worker.process.kill()
    worker.process.wait()
    seen["operator"] += "\n" + shop.typed(OPERATOR_LATER)
    for user, text in seen.items():
        path = GOLDEN / f"{user}.txt"
        if pytestconfig.getoption("--rewrite"):
            path.write_text(text, encoding="utf-8")
    assert seen == {user: (GOLDEN / f"{user}.txt").read_text("utf-8") for user in seen}
