"""The command as a child ends with its parent, as after SIGTERM, also where the parent was killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from snapkafka.demo.system import wait_until

PARENT = (
    "import os, subprocess, sys\n"
    "words = [sys.executable, '-m', 'snapkafka.cli.tethered', str(os.getpid()), *sys.argv[2:]]\n"
    "child = subprocess.Popen(words, stderr=open(sys.argv[1], 'w'), start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "child.wait()\n"
)


@pytest.mark.long
def test_the_command_ends_as_by_term_when_its_parent_was_killed(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(60)
        words = ["list", "--namespace", "ns", "--bootstrap", f"127.0.0.1:{silent.getsockname()[1]}"]
        parent = subprocess.Popen(
            [sys.executable, "-c", PARENT, str(log), *words], stdout=subprocess.PIPE, text=True
        )
        with parent:
            assert parent.stdout is not None
            child = psutil.Process(int(parent.stdout.readline()))
            try:
                connection, _ = silent.accept()  # now it waits for an answer
                with connection:
                    os.kill(parent.pid, signal.SIGKILL)
                    wait_until("the command to end", lambda: not child.is_running(), timeout_s=8)
            finally:
                if child.is_running():
                    child.kill()
    assert "terminated" in log.read_text()
