"""A child process that leaves nothing behind: it ends with us, and everything that it has started ends with it.

The child leads a session, and so a process group, of its own: Ctrl-C in a terminal reaches us alone, and its group can
be ended as a whole. It is ended by TERM to the child, which cleans up; then TERM to its group (a JVM removes its
temporary files); then KILL. We wait only for processes, never for the end of a pipe, which any other process may hold.

A parent that was killed can do none of this: a `watchdog` beside each child does it then.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, Self, TypeVar

from snapkafka.runtime import watchdog
from snapkafka.until import Tries

T = TypeVar("T")

#: A child has so long to put things away, and its group so long after that. A busy machine needs the rest of 5 s.
GRACE_S: Final = 2.0
GROUP_GRACE_S: Final = 0.7
#: Where it ended by itself: a JVM may have gigabytes of temporary files to remove.
LEAVING_S: Final = 30.0
#: A process that was killed is gone within this time, and what it wrote is read.
GONE_S: Final = 0.3
PERIOD_S: Final = 0.03


class Child:
    """A child process in a group of its own; use it in a `with` block, at whose end the whole group is ended.

    Args:
        output: for standard output and error, both; `subprocess.PIPE`: to `output`; None: as ours.
        folders: are removed if this process is killed.
        grace_s: the time for its clean-up.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        output: int | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
        cwd: Path | None = None,
        folders: Sequence[Path] = (),
        grace_s: float = GRACE_S,
    ) -> None:
        self._grace_s = grace_s
        self._process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=None if output is None else subprocess.STDOUT,
            pass_fds=pass_fds,
            cwd=cwd,
            start_new_session=True,
        )
        self._watchdog = _start_watchdog(self._process.pid, *folders, grace_s=grace_s)
        self.pid, self.output = self._process.pid, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def status(self) -> int | None:
        """Its exit status, negative for the signal that killed it; None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float = math.inf) -> int | None:
        """Wait until it ends or the time is over; return its exit status, None if it still runs."""
        _await(lambda: self.status is not None, timeout_s)
        return self.status

    def send(self, *numbers: int) -> None:
        """Send signals to the child alone, if it still runs."""
        for number in numbers:
            self._process.send_signal(number)

    def kill(self) -> None:
        """End it and its group at once."""
        _signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._end_watchdog()

    def end(self) -> None:
        """End it and its group, gently first; within 5 s (of the usual grace) if it runs."""
        if self.status is None:
            self._process.terminate()
            _await(lambda: self.status is not None, self._grace_s)
        else:
            _await(self._is_alone, LEAVING_S)
        if not self._is_alone():
            _signal_group(self._process.pid, signal.SIGTERM)
            _await(self._is_alone, GROUP_GRACE_S)
            _signal_group(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _await(self._is_alone, GONE_S)
        self._end_watchdog()

    def _end_watchdog(self) -> None:
        self._watchdog.kill()
        self._watchdog.wait()

    def _is_alone(self) -> bool:
        """Return whether it and all of its group have ended."""
        if self.status is None:
            return False
        with contextlib.suppress(ChildProcessError):
            # In a container we may be the first process, to which orphans fall.
            while os.waitpid(-self._process.pid, os.WNOHANG) != (0, 0):
                pass
        return not _signal_group(self._process.pid, 0)


def _await(condition: Callable[[], bool], timeout_s: float) -> None:
    for _ in Tries(timeout_s, PERIOD_S):
        if condition():
            return


def _start_watchdog(process: int, *folders: Path, grace_s: float) -> subprocess.Popen[bytes]:
    """Start what ends the group of a process, and removes folders, if this process is killed."""
    words = (os.getpid(), process, grace_s, *folders)
    return subprocess.Popen(
        [sys.executable, "-I", "-S", watchdog.__file__, *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def run_child(
    command: Sequence[str],
    heard: Callable[[str], None],
    *,
    env: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    grace_s: float = GRACE_S,
) -> int:
    """Run a child until it ends; return its exit status, negative for the signal that killed it. If this task is
    cancelled, the child is ended first.

    Args:
        heard: called in another thread with each line that it prints until then.
        grace_s: the time for its clean-up.
    """
    ended = threading.Event()

    def read(output: IO[bytes]) -> None:
        with output:
            for line in output:
                if not ended.is_set():
                    heard(line.decode(errors="replace").strip())

    child = Child(command, env=env, output=subprocess.PIPE, pass_fds=pass_fds, grace_s=grace_s)
    reader = threading.Thread(target=read, args=(child.output,), daemon=True)
    reader.start()
    try:
        await asyncio.to_thread(child.wait)
    except asyncio.CancelledError:
        ended.set()
        raise
    finally:
        await to_its_end(asyncio.to_thread(child.end))
        await asyncio.to_thread(reader.join, GONE_S)  # another process may still hold the other end
        ended.set()
    assert child.status is not None, "a child that was ended has a status"
    return child.status


def _signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False: no process is left in it (macOS refuses if all are dead)."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must not be left half-done, also if this task is cancelled meanwhile; the cancellation is raised
    afterwards."""
    task = asyncio.ensure_future(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:
            break
    result = task.result()
    if cancelled:
        raise asyncio.CancelledError
    return result
