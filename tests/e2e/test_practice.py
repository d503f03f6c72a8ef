"""`make demo ARGS=--keep`: a worker that is killed is named and started again; each line that is printed is typed."""

import contextlib
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from snapkafka.errors import TimedOutError
from snapkafka.runtime import Child
from snapkafka.until import blocking_until
from tests.marked import marked, with_ctrl_c

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_800)]

#: A killed worker is in its group until its session ends (20 s), and a new one has to recover its tables.
AGAIN_S = 240.0


class Terminal:
    """The demo in one terminal, and a shell in another."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output, self.asked = folder, folder / "output.txt", 0
        with self.output.open("wb") as out:
            self.demo = subprocess.Popen(
                [*with_ctrl_c("snapkafka"), "demo", "--keep", "--storage", str(folder / "snaps")],
                env=os.environ | {"MARK": str(folder)},
                stdin=subprocess.PIPE, stdout=out, stderr=out, start_new_session=True,
            )  # fmt: skip

    def text(self) -> str:
        return self.output.read_text()

    def wait(self, holds: Callable[[], Any], what: str, *, timeout_s: float = AGAIN_S) -> None:
        try:
            blocking_until(lambda: holds() or self.demo.poll() is not None, timeout_s, what, every_s=1.0)
        except TimedOutError as error:
            raise TimedOutError(f"{error}; until then it said:\n{self.text()}") from error
        assert self.demo.poll() is None, self.text()

    def see(self, what: str, *, timeout_s: float, since: int = 0) -> None:
        """Wait until the demo has printed it."""
        self.wait(lambda: re.search(what, self.text()[since:]), what, timeout_s=timeout_s)

    def press_enter(self, what: str, since: int) -> None:
        """Press Enter until the demo prints it: a worker may still be about to end."""
        keys = self.demo.stdin
        assert keys is not None

        def started() -> bool:
            keys.write(b"\n")
            keys.flush()
            return re.search(what, self.text()[since:]) is not None

        self.wait(started, what, timeout_s=60)

    def lines(self, title: str) -> list[str]:
        """The commands that are printed below a title."""
        (block,) = re.findall(rf"^{title}.*\n((?:  .+\n)+)", self.text(), re.MULTILINE)
        return [line.strip() for line in block.splitlines()]

    def type(self, *lines: str) -> subprocess.CompletedProcess[str]:
        script = "\n".join([self.lines("In another terminal")[0], *lines])
        return subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=300)

    def run(self, *lines: str) -> str:
        done = self.type(*lines)
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        return done.stdout

    @contextlib.contextmanager
    def running(self, line: str) -> Iterator[None]:
        """Run a command that does not end by itself; it is ended as by `kill`."""
        script = f"{self.lines('In another terminal')[0]}\nexec env {line}"
        env: Any = os.environ | {"MARK": str(self.folder)}
        log = self.folder / "worker.txt"
        with log.open("wb") as out, Child(["bash", "-c", script], env=env, output=out, grace_s=60):
            yield

    def capture(self, trigger: str) -> int:
        """Ask for snapshots, numbered by `$N`, until one is captured; return its number."""

        def captured() -> bool:
            self.asked += 1
            done = self.type(f"N={self.asked}", trigger)
            print(done.stderr or done.stdout)
            return done.returncode == 0

        self.wait(captured, "a snapshot")
        return self.asked


def test_a_crash_and_a_restore_are_practised(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    try:
        terminal.see("Ctrl-C here stops everything", timeout_s=600)
        (address,) = re.findall(r"Page: (http://\S+)", terminal.text())
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert b"snapkafka" in answer.read()
        _, *commands = terminal.lines("In another terminal")
        printed = terminal.run(*commands)
        assert re.search(r"snapshot mine .*VERIFIED", printed), printed

        # A crash.
        since = len(terminal.text())
        terminal.run(*terminal.lines("A crash"))
        terminal.see(r"accounts-1 \(pid \d+\) has ended", timeout_s=30, since=since)
        terminal.press_enter(r"started accounts-1 is pid \d+", since)
        trigger, assemble, _ = (line.replace("mine", "after-$N") for line in commands)
        number = terminal.capture(trigger)
        printed = terminal.run(f"N={number}", assemble)
        assert re.search(rf"snapshot after-{number} .*VERIFIED", printed), printed

        # A restore.
        stop, restore = terminal.lines("A restore")
        since = len(terminal.text())
        terminal.run(stop)
        terminal.run(restore)
        terminal.press_enter(r"started (\S+ is pid \d+,? ?){4}", since)
        terminal.capture(trigger)

        # A fork.
        create, worker, drop = terminal.lines("A fork")
        terminal.run(create)
        with terminal.running(worker):
            doctor = f"{commands[0].split()[0]} doctor --json --namespace fork.staging.demo || true"
            terminal.wait(lambda: 'fork.staging.accounts": 1' in terminal.run(doctor), "a worker of the fork")
        terminal.run(drop)
        terminal.demo.send_signal(signal.SIGINT)
        assert terminal.demo.wait(120) in (0, 130)
        assert marked(tmp_path) == []
    finally:
        terminal.demo.kill()
        terminal.demo.wait()
        for left in marked(tmp_path):
            left.kill()
