"""A child process that leaves nothing behind: itself, its group, and whatever it was that it ignored."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from snapkafka.runtime import child as children
from snapkafka.runtime import exit_status
from snapkafka.runtime.child import run_child
from snapkafka.runtime.signals import CODES, Interrupted
from snapkafka.testing import wait_until
from tests.marked import marked

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


async def test_what_a_child_has_left_is_ended_and_nobody_waits_for_its_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The child is dead, and what it started holds the other end of the pipe."""
    monkeypatch.setattr(children, "LEAVING_S", 0.2)
    code = STUBBORN + "time.sleep(1)\nsys.exit(3)\n"
    assert await run_child(python(code), print, env={**os.environ, "MARK": str(tmp_path)}) == 3
    assert marked(tmp_path) == []


async def test_a_pipe_that_another_process_holds_is_not_waited_for(tmp_path: Path) -> None:
    """One that has left the group, as Spark's Python workers do."""
    code = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'], start_new_session=True)\n"
        "print(left.pid, flush=True)\n"
    )
    lines: list[str] = []
    assert await run_child(python(code), lines.append) == 0
    os.kill(int(lines[0]), signal.SIGKILL)


@pytest.mark.parametrize("code", [WAITS, IGNORES], ids=["waits", "ignores"])
async def test_whoever_is_cancelled_twice_leaves_no_child_and_nothing_of_its_group(
    tmp_path: Path, code: str
) -> None:
    """Whatever of it ignores TERM is killed."""
    started, began = threading.Event(), time.monotonic()
    work = asyncio.ensure_future(
        run_child(python(code), lambda line: started.set(), env={**os.environ, "MARK": str(tmp_path)})
    )
    assert await asyncio.to_thread(started.wait, 60)
    work.cancel()
    await asyncio.sleep(0)
    work.cancel()
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
def test_a_child_whose_owner_was_killed_ends_with_its_group_and_its_folder(
    tmp_path: Path, grace_s: int
) -> None:
    environment = {**os.environ, "MARK": str(tmp_path)}
    folder = tmp_path / "data"
    folder.mkdir()
    command = [*python(OWNER), LEAVES, str(folder), str(grace_s)]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert owner.stdin is not None and owner.stdout is not None
    try:
        assert owner.stdout.readline() == b"ready\n"
        assert len(marked(tmp_path)) == 4, "owner, child, what that has started, and the watchdog"
        owner.kill()
        owner.wait()
        wait_until("its end", lambda: not marked(tmp_path), timeout_s=15)
        assert not folder.exists()
        assert (tmp_path / "left").exists() == (grace_s > 0)
    finally:
        for left in marked(tmp_path):
            left.kill()
        owner.stdin.close()
        owner.stdout.close()


@pytest.mark.parametrize("number", list(CODES))
def test_an_exit_status_says_which_signal_it_was(number: signal.Signals) -> None:
    """And a signal that was ignored by whoever started it (`nohup`) stays ignored."""
    code = (
        "import signal, sys, time\n"
        "from snapkafka.runtime.signals import raise_on_ending_signals\n"
        "raise_on_ending_signals()\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen(
        python(f"import signal\nsignal.signal({int(number)}, signal.SIG_DFL)\n{code}"), stdout=-1
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(30) == exit_status(number) == Interrupted(number).code
    ignored = f"import signal\nsignal.signal({int(number)}, signal.SIG_IGN)\n{code}".replace("60", "0.5")
    with subprocess.Popen(python(ignored), stdout=-1) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(number)
        assert process.wait(30) == 0
