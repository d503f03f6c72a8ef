"""`make demo ARGS=--keep`: a worker that is killed is named and started again; each line that is printed is typed."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapkafka.errors import TimedOutError
from snapkafka.until import blocking_until
from tests.marked import marked, with_ctrl_c

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1_800)]

#: A killed worker is in its group until its session ends (20 s), and a new one has to recover its tables.
AGAIN_S = 240.0


@contextlib.contextmanager
def relevant(said: Path) -> Iterator[None]:
    """What was said until then, where a wait is in vain."""
    try:
        yield
    except TimedOutError as error:
        raise TimedOutError(f"{error}; until then it said:\n{said.read_text()}") from error


class Terminal:
    """The demo in one terminal, and a shell in another."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output, self.asked = folder, folder / "output.txt", 0
        with self.output.open("wb") as out:
            self.demo = subprocess.Popen(
                [*with_ctrl_c("snapkafka"), "demo", "--keep", "--storage", str(folder / "snaps")],
                env={**os.environ, "MARK": str(folder)},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def text(self) -> str:
        return self.output.read_text()

    def see(self, what: str, *, timeout_s: float, since: int = 0) -> int:
        """Wait until the demo has printed it; return the length of what it had printed."""
        with relevant(self.output):
            blocking_until(
                lambda: re.search(what, self.text()[since:]) or self.demo.poll() is not None, timeout_s, what
            )
        assert self.demo.poll() is None, self.text()
        return len(self.text())

    def press_enter(self, what: str, since: int) -> None:
        """Press Enter until the demo prints it: a worker may still be about to end."""
        keys = self.demo.stdin
        assert keys is not None

        def started() -> bool:
            keys.write(b"\n")
            keys.flush()
            return re.search(what, self.text()[since:]) is not None

        with relevant(self.output):
            blocking_until(started, 60, what, every_s=1.0)

    def lines(self, title: str) -> list[str]:
        """The commands that are printed below a title."""
        (block,) = re.findall(rf"^{title}.*\n((?:  .+\n)+)", self.text(), re.MULTILINE)
        return [line.strip() for line in block.splitlines()]

    def type(self, *lines: str) -> subprocess.CompletedProcess[str]:
        export, *_ = self.lines("In another terminal")
        return subprocess.run(
            ["bash", "-e", "-c", "\n".join([export, *lines])], capture_output=True, text=True, timeout=300
        )

    @contextlib.contextmanager
    def running(self, line: str) -> Iterator[None]:
        """Run a command that does not end by itself; it is ended as by `kill`."""
        export, *_ = self.lines("In another terminal")
        with (self.folder / "worker.txt").open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"{export}\nexec env {line}"],
                env={**os.environ, "MARK": str(self.folder)},
                stdout=out,
                stderr=out,
            )
        try:
            yield
        finally:
            process.terminate()
            process.wait(60)

    def wait_for_a_worker(self, namespace: str) -> None:
        doctor = f"{self.snapkafka} doctor --json --namespace {namespace}"
        blocking_until(
            lambda: 'fork.staging.accounts": 1' in self.type(f"{doctor} || true").stdout,
            AGAIN_S,
            "a worker of the fork",
        )

    @property
    def snapkafka(self) -> str:
        """As the demo prints it."""
        return self.lines("In another terminal")[1].split()[0]

    def capture(self, trigger: str) -> int:
        """Ask for snapshots, numbered by `$N`, until one is captured; return its number."""
        answers: list[str] = []

        def captured() -> bool:
            self.asked += 1
            done = self.type(f"N={self.asked}", trigger)
            answers.append(done.stderr or done.stdout)
            return done.returncode == 0

        try:
            blocking_until(captured, AGAIN_S, "a snapshot", every_s=1.0)
        except TimedOutError as error:
            raise TimedOutError(f"{error}; the last: {answers[-1]}\n{self.text()}") from error
        return self.asked

    def run(self, *lines: str) -> str:
        done = self.type(*lines)
        assert done.returncode == 0, (lines, done.stdout, done.stderr)
        return done.stdout


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
            terminal.wait_for_a_worker("fork.staging.demo")
        terminal.run(drop)
        terminal.demo.send_signal(signal.SIGINT)
        assert terminal.demo.wait(120) in (0, 130)
        assert marked(tmp_path) == []
    finally:
        terminal.demo.kill()
        terminal.demo.wait()
        for left in marked(tmp_path):
            left.kill()
