"""Commands of a drill that misbehave: none of them reaches a broker but through an installed fork."""

import asyncio
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka.ops.drilling.workers import AppEndedError, Workers
from snapkafka.runtime import locked as locking
from snapkafka.runtime.door import Door, connect, knock
from snapkafka.runtime.locked import locked
from snapkafka.testing import wait_until

FORK = "drill-1"

SOCKET = """
import socket
try:
    socket.create_connection(("{host}", {port}), 5).sendall(b"hello")
except OSError as error:
    print("refused:", error, flush=True)
"""


class Broker:
    """A port that counts who connects to it."""

    def __init__(self, family: int = socket.AF_INET, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_server((host, 0), family=family)
        self.port: int = self._socket.getsockname()[1]
        self.connected = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                one, _ = self._socket.accept()
            except OSError:
                return
            self.connected += 1
            one.close()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.close()


@pytest.fixture
def door() -> Iterator[Door]:
    with tempfile.TemporaryDirectory() as short, Door(Path(short, "door"), FORK) as found:
        yield found


def python(folder: Path, text: str, *options: str) -> list[str]:
    script = folder / f"app{len(list(folder.glob('*.py')))}.py"
    script.write_text(text)
    return [sys.executable, *options, str(script)]


async def run(folder: Path, words: list[str]) -> str:
    """What a command prints until it ends."""
    workers = Workers(folder)
    try:
        workers.start([words], FORK)
        log = folder / "app-1.txt"
        status = workers._running[0].child.wait
        assert status(60) is not None, f"it has not ended: {log.read_text()}"
        return log.read_text()
    finally:
        await workers.end()


async def test_a_command_that_misbehaves_reaches_no_broker(tmp_path: Path, broker: Broker) -> None:
    """Its child neither, in a session and an environment of its own."""
    text = shlex.join(python(tmp_path, SOCKET.format(host="127.0.0.1", port=broker.port), "-I", "-S"))
    printed = await run(tmp_path, ["env", "-i", "sh", "-c", f"{text}; setsid {text}; true"])
    assert (printed.count("refused:"), broker.connected) == (2, 0), printed


INSTALLED = """
import asyncio, faust, snapkafka
from aiokafka import AIOKafkaProducer
app = faust.App("shop", broker="kafka://127.0.0.1:{port}")
snapkafka.install(app, namespace="ns")
async def connect():
    try:
        await AIOKafkaProducer(bootstrap_servers="127.0.0.1:{port}").start()
    except Exception as error:
        print("came to:", error, flush=True)
asyncio.run(connect())
"""


MECHANISMS = ("landlock", "namespace")
#: Locks itself by one mechanism, and becomes the rest.
LOCKS = """
import os, sys
from snapkafka.runtime import locked
getattr(locked, "lock_by_" + sys.argv[1])([int(port) for port in sys.argv[2].split(",") if port])
os.execvp(sys.argv[3], sys.argv[3:])
"""


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_each_mechanism_keeps_a_process_and_its_children_from_connecting(
    mechanism: str, family: int, host: str, tmp_path: Path
) -> None:
    broker = Broker(family, host)
    try:
        free = python(tmp_path, SOCKET.format(host=host, port=broker.port))
        assert subprocess.run(free, capture_output=True, check=True).stdout == b"", "nobody is locked yet"
        wait_until("the connection", lambda: broker.connected == 1, timeout_s=10)
        child = ["sh", "-c", f"{shlex.join(free)} & wait"]
        done = subprocess.run([sys.executable, "-c", LOCKS, mechanism, "", *child], capture_output=True)
        assert done.stdout.startswith(b"refused:"), done
        assert broker.connected == 1
    finally:
        broker.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_locked_fork_connects_through_its_door_by_each_mechanism(
    mechanism: str, tmp_path: Path, broker: Broker, door: Door
) -> None:
    app = python(tmp_path, INSTALLED.format(port=broker.port))
    command = [sys.executable, "-c", LOCKS, mechanism, "", *app]
    env = os.environ | {"SNAPKAFKA_FORK": FORK, "SNAPKAFKA_FORK_DOOR": str(door.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert (door.joined.is_set(), broker.connected) == (True, 1), done


def test_allowed_ports_are_open_and_others_are_not(tmp_path: Path, broker: Broker) -> None:
    other = Broker()
    for port in (broker.port, other.port):
        subprocess.run(
            locked(python(tmp_path, SOCKET.format(host="127.0.0.1", port=port)), [broker.port]), check=True
        )
    wait_until("the connection", lambda: broker.connected == 1, timeout_s=10)
    assert other.connected == 0
    other.close()


def test_where_no_mechanism_is_there_the_command_does_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert locking.main(["touch", str(tmp_path / "ran")]) == 126
    assert "darwin has no Landlock; darwin has no network namespaces" in capsys.readouterr().err
    assert not (tmp_path / "ran").exists()


# -- the door -----------------------------------------------------------------------------------------------------


def test_a_door_opens_for_its_fork_alone_and_as_long_as_it_is_there(door: Door) -> None:
    with pytest.raises(OSError, match=r"drill-1.*drill-2"):
        knock(str(door.path), "drill-2")
    assert not door.joined.is_set()
    knock(str(door.path), FORK)
    assert door.joined.is_set()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(OSError, match="refused"):
        connect(str(door.path), FORK, "127.0.0.1", port)
    door.server_close()
    with pytest.raises(FileNotFoundError):
        knock(str(door.path), FORK)


@pytest.mark.parametrize("request_", [b"", b"\n", b"[]\n", b'{"fork": "drill-1", "host": 7}\n', b"x" * 9_000])
def test_who_does_not_know_how_to_knock_gets_no_socket(door: Door, request_: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(door.path))
        asking.sendall(request_)
        asking.shutdown(socket.SHUT_WR)
        answer, descriptors, _, _ = socket.recv_fds(asking, 4_096, 1)
    assert answer.startswith(b"-") and not descriptors


async def test_a_command_that_does_not_join_in_time_is_named_and_ended(tmp_path: Path) -> None:
    workers = Workers(tmp_path, joins_within_s=0.5)
    try:
        workers.start(
            [[sys.executable, "-c", "import time; print('works', flush=True); time.sleep(600)"]], FORK
        )
        wait_until("it to work", lambda: "works" in (tmp_path / "app-1.txt").read_text(), timeout_s=30)
        child = workers._running[0].child
        await asyncio.sleep(0.5)
        with pytest.raises(AppEndedError, match=r"(?s)has not joined the fork within 0\.5 s.*works"):
            workers.require_running()
    finally:
        await workers.end()
    assert child.status is not None
