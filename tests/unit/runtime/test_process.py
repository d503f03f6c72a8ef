"""The command as a process: what it is given, and what becomes of what it says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from snapkafka.cli import running
from snapkafka.errors import EXIT_NOT_GOOD
from snapkafka.runtime import exit_status
from snapkafka.testing import wait_until
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


@pytest.mark.parametrize(
    ("form", "number", "code"),
    [("--json", signal.SIGINT, "interrupted"), ("--csv", signal.SIGHUP, "hangup")],
)
def test_a_signal_ends_a_long_query_in_one_line(
    many: str, form: str, number: signal.Signals, code: str
) -> None:
    sql = "SELECT count(*) FROM state AS a, state AS b, state AS c WHERE a.key || b.key > c.key"
    query = (*COMMAND, "query", sql, "--storage", many, form)
    process = subprocess.Popen(
        query,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Whoever runs the tests in the background, or by nohup, ignores it, and so would what is started here.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509 -- no threads here
    )
    busy = Path(f"/proc/{process.pid}/stat")

    def cpu_ticks() -> int:
        return int(busy.read_text().rpartition(")")[2].split()[11])

    wait_until("the query to run", lambda: cpu_ticks() > 3 * os.sysconf("SC_CLK_TCK"), timeout_s=60)
    process.send_signal(number)
    said, notices = process.communicate(timeout=30)
    assert process.returncode == exit_status(number) == 128 + number
    assert notices.decode() == f"{code.capitalize()}. `snapkafka query` stopped.\n"
    if form == "--json":
        assert json.loads(said)["error"]["code"] == code


def test_what_does_not_let_itself_be_cancelled_is_ended_all_the_same() -> None:
    """A client whose broker does not answer, for instance."""
    code = (
        "import asyncio, contextlib\n"
        "from snapkafka.cli import running\n"
        "async def stubborn():\n"
        "    print('ready', flush=True)\n"
        "    while True:\n"
        "        with contextlib.suppress(asyncio.CancelledError):\n"
        "            await asyncio.sleep(60)\n"
        "running.run_until_signalled(stubborn, ends_within_s=0.2)\n"
    )
    with subprocess.Popen(
        (sys.executable, "-c", code), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as asked:
        assert asked.stdout is not None
        assert asked.stderr is not None
        assert asked.stdout.readline() == b"ready\n"
        asked.send_signal(signal.SIGTERM)
        assert asked.wait(30) == exit_status(signal.SIGTERM)
        assert len(asked.stderr.read().splitlines()) == 1


def test_a_user_without_a_name_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in many a container."""

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", nobody)
    assert running.who().startswith(f"{os.getuid()}@")
