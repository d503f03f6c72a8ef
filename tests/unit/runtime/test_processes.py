"""Processes: a child leaves nothing behind, neither itself nor its group, whatever it ignored; and the command, what it
prints and how it ends."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from snapkafka.cli import running
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.runtime import child as children
from snapkafka.runtime import exit_status
from snapkafka.runtime.child import run_child
from snapkafka.runtime.signals import CODES, Interrupted
from snapkafka.testing import wait_until
from tests.marked import marked
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

#: Starts a process that holds its output and ignores what is polite, as a JVM that is starting up may.
STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); '"
    " 'signal.signal(signal.SIGINT, signal.SIG_IGN); print(\"ready\", flush=True); time.sleep(600)'\n"
    "subprocess.Popen([sys.executable, '-c', code])\n"
)
WAITS = STUBBORN + "time.sleep(600)\n"
IGNORES = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + WAITS


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


@pytest.mark.parametrize("leaves", [False, True])
async def test_what_a_child_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leaves: bool) -> None:
    """The child is dead, and what it started holds the other end of the pipe. What `leaves` its group, as Python
    workers of Spark do, is not ended."""
    monkeypatch.setattr(children, "LEAVING_S", 0.2)
    started = STUBBORN.replace("code])", "code], start_new_session=True)") if leaves else STUBBORN
    code = started + "time.sleep(1)\nsys.exit(3)\n"
    async with asyncio.timeout(20):
        assert await run_child(python(code), print, env={**os.environ, "MARK": str(tmp_path)}) == 3
    left = marked(tmp_path)
    for each in left:
        each.kill()
    assert bool(left) is leaves


@pytest.mark.parametrize("code", [WAITS, IGNORES], ids=["waits", "ignores"])
async def test_whoever_is_cancelled_twice_leaves_nothing_of_a_child(tmp_path: Path, code: str) -> None:
    """Whatever of it ignores TERM is killed."""
    started, began = threading.Event(), time.monotonic()
    environment = {**os.environ, "MARK": str(tmp_path)}
    work = asyncio.ensure_future(run_child(python(code), lambda line: started.set(), env=environment))
    assert await asyncio.to_thread(started.wait, 60)
    for _ in range(2):
        work.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await work
    await asyncio.to_thread(wait_until, "its end", lambda: not marked(tmp_path), timeout_s=10)
    assert time.monotonic() - began < 5.0 + 10.0, "with the start of two Pythons on a busy machine"


OWNER = (
    "import os, pathlib, sys\n"
    "from snapkafka.runtime.child import Child\n"
    "_, code, folder, grace_s = sys.argv\n"
    "with Child([sys.executable, '-c', code], folders=[pathlib.Path(folder)], grace_s=float(grace_s)):\n"
    "    sys.stdin.read()\n"
)
#: Leaves in order at TERM, which takes a moment; what it has started ignores that.
LEAVES = (
    "import pathlib, os, signal, sys, time\n"
    "def leave(*_):\n"
    "    time.sleep(0.5)\n"
    "    pathlib.Path(os.environ['MARK'], 'left').touch()\n"
    "    sys.exit(143)\n"
    "signal.signal(signal.SIGTERM, leave)\n"
) + WAITS


@pytest.mark.parametrize("grace_s", [20, 0])
def test_a_child_whose_owner_is_killed_ends_with_group_and_folder(tmp_path: Path, grace_s: int) -> None:
    environment = {**os.environ, "MARK": str(tmp_path)}
    folder = tmp_path / "data"
    folder.mkdir()
    command = [*python(OWNER), LEAVES, str(folder), str(grace_s)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe) as owner:
        assert owner.stdout is not None and owner.stdout.readline() == b"ready\n"
        assert len(marked(tmp_path)) == 4, "owner, child, what that has started, and the watchdog"
        owner.kill()
    wait_until("its end", lambda: not marked(tmp_path), timeout_s=15)
    assert not folder.exists()
    assert (tmp_path / "left").exists() == (grace_s > 0)


def ended(code: str, number: int, before: str = "SIG_DFL") -> tuple[int, bytes, bytes]:
    """How a program ends by a signal: its status, and what it printed after its first line."""
    code = f"import signal\nsignal.signal({int(number)}, signal.{before})\n{code}"
    with subprocess.Popen(python(code), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        printed, notices = process.communicate(timeout=30)
    return process.returncode, printed, notices


SLEEPS = """
import time
from snapkafka.runtime.signals import raise_on_ending_signals
raise_on_ending_signals()
print("ready", flush=True)
time.sleep({seconds})
"""


@pytest.mark.parametrize("number", list(CODES))
@pytest.mark.parametrize(("before", "seconds"), [("SIG_DFL", 60), ("SIG_IGN", 0.5)])
def test_an_exit_status_says_which_signal_it_was(number: signal.Signals, before: str, seconds: float) -> None:
    """And a signal that was ignored by whoever started it (`nohup`) stays ignored."""
    status = exit_status(number) if before == "SIG_DFL" else 0
    assert ended(SLEEPS.format(seconds=seconds), number, before) == (status, b"", b"")
    assert Interrupted(number).code == exit_status(number) == 128 + number


#: A signal arrives while a task of a client runs, which nobody awaits.
IN_A_TASK = """
import asyncio, os, signal
from snapkafka.runtime.signals import raise_on_ending_signals
async def client():
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()
async def main():
    running = asyncio.ensure_future(client())
    await asyncio.Event().wait()
raise_on_ending_signals()
asyncio.run(main())
"""


def test_a_signal_within_a_task_is_no_traceback() -> None:
    done = subprocess.run(python(IN_A_TASK), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (exit_status(signal.SIGTERM), b"")


COMMAND = (sys.executable, "-m", "snapkafka")


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_who_has_read_enough_gets_nothing_more(tmp_path: Path, form: str) -> None:
    """`| head -1`, of more rows than a pipe holds."""
    rows = [in_state(f"key{n:05}", "ü" * 40) for n in range(5_000)]
    write_snapshot(LocalStore(tmp_path), "many", 1, state=rows)
    query = (*COMMAND, "query", "SELECT key, value FROM state", "--storage", str(tmp_path), form)
    with subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() in (b"key,value\n", b"{\n")
        process.stdout.close()
        assert process.wait(60) not in (0, EXIT_NOT_GOOD)
        assert process.stderr.read() == b""


WORKS = """
import asyncio, contextlib, sys, typer
from snapkafka.cli import running
async def work():
    print("ready", flush=True)
    while True:
        with contextlib.suppress({ignored}):
            await asyncio.sleep(60)
running.console.begin("query", as_json=True)
try:
    running.run(work, ends_within_s=0.2)
except typer.Exit as ended:
    sys.exit(ended.exit_code)
"""


@pytest.mark.parametrize(
    ("ignored", "number", "code"),
    [
        ("ZeroDivisionError", signal.SIGINT, "interrupted"),
        ("ZeroDivisionError", signal.SIGHUP, "hangup"),
        ("asyncio.CancelledError", signal.SIGTERM, ""),  # a client whose broker does not answer, for instance
    ],
)
def test_a_signal_ends_a_command_in_one_line(ignored: str, number: signal.Signals, code: str) -> None:
    status, printed, notices = ended(WORKS.format(ignored=ignored), number)
    assert status == exit_status(number)
    assert notices.count(b"\n") == 1
    if code:
        assert notices.decode() == f"{code.capitalize()}. `snapkafka query` stopped.\n"
        assert json.loads(printed)["error"]["code"] == code


def test_a_user_without_a_name_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many a container."""
    monkeypatch.setattr("getpass.getuser", Mock(side_effect=KeyError("uid not found: 4711")))
    assert running.who().startswith(f"{os.getuid()}@")
