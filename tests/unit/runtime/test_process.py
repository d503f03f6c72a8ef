"""The command as a process: what it is given, and what becomes of what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from snapkafka.cli import running
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.runtime import exit_status
from tests.worlds.on_disk import in_state, write_snapshot
from tests.worlds.stores import LocalStore

pytestmark = pytest.mark.nightly

COMMAND = (sys.executable, "-m", "snapkafka")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A storage with a snapshot whose rows no pipe holds."""
    folder = tmp_path_factory.mktemp("many")
    write_snapshot(
        LocalStore(folder), "many", 1, state=[in_state(f"key{n:05}", "ü" * 40) for n in range(5_000)]
    )
    return str(folder)


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_who_has_read_enough_gets_nothing_more(many: str, form: str) -> None:
    """`| head -1`"""
    query = (*COMMAND, "query", "SELECT key, value FROM state", "--storage", many, form)
    process = subprocess.Popen(query, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.readline() in (b"key,value\n", b"{\n")
    process.stdout.close()
    assert process.wait(60) not in (0, EXIT_NOT_GOOD)
    assert process.stderr.read() == b""
    process.stderr.close()


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
    process = subprocess.Popen(
        (sys.executable, "-c", WORKS.format(ignored=ignored)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background, or by nohup, ignores it, and so would what is started here.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 -- no threads here
    )
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    process.send_signal(number)
    printed, notices = process.communicate(timeout=30)
    assert process.returncode == exit_status(number) == 128 + number
    assert notices.count(b"\n") == 1
    if code:
        assert notices.decode() == f"{code.capitalize()}. `snapkafka query` stopped.\n"
        assert json.loads(printed)["error"]["code"] == code


def test_a_user_without_a_name_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many a container."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert running.who().startswith(f"{os.getuid()}@")
