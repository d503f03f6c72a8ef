"""The workers of a fork: the apps' own commands, started, watched, and ended by their process groups.

Their isolation does not depend on them: the kernel lets none of them open a TCP connection (`runtime.locked`), and
only an installed fork knows the door through which it gets one (`runtime.door`). A command that has not connected
there in time does not belong to the fork.

They end with the drill, also if that is killed: no other process would end them.
"""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError
from snapkafka.runtime.child import Child
from snapkafka.runtime.door import DOOR, Door
from snapkafka.runtime.locked import locked

#: In the environment of a worker: it belongs to this fork.
FORK: Final = "SNAPKAFKA_FORK"
#: A worker leaves its consumer group in order within this time; one that was killed stays a member for a minute.
LEAVES_WITHIN_S: Final = 20.0
LAST_LINES: Final = 15
#: A worker imports its app, and installs snapkafka, within this time; on a busy machine too.
JOINS_WITHIN_S: Final = 60.0
#: Why a command may not have joined.
UNJOINED: Final = "it reaches no broker before it calls snapkafka.install"
#: Sequences that control a terminal.
CONTROL: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class AppEndedError(RuntimeError):
    """A worker of the fork that has ended by itself, or has never joined: a reason not to trust the backup, and not an
    error of the drill."""


def parsed(commands: Sequence[str]) -> list[list[str]]:
    """Split commands as a shell would, without running a shell."""
    if not commands:
        raise BadInputError(
            "no app is named", hint="add --app 'python -m faust -A shop worker', once for each"
        )
    found = []
    for command in commands:
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise BadInputError(f"invalid --app {command!r}: {error}", hint="check its quotes") from None
        if not words:
            raise BadInputError("--app is empty", hint="write the command that starts a worker")
        found.append(words)
    return found


@dataclass(slots=True)
class _Running:
    command: str
    child: Child
    log: Path
    door: Door
    since: float


class Workers:
    """The worker processes. `start` starts them; `end` ends all of them, and may be called repeatedly.

    Args:
        folder: for their output.
        lock: forbid them to open TCP connections by themselves.
        allow: ports to which they may connect all the same.
        joins_within_s: the time within which each must be an installed fork.
    """

    def __init__(
        self,
        folder: Path,
        *,
        lock: bool = True,
        allow: Collection[int] = (),
        joins_within_s: float = JOINS_WITHIN_S,
    ) -> None:
        self._folder, self._lock, self._allow = folder, lock, allow
        self._joins_within_s = joins_within_s
        self._running: list[_Running] = []
        self._files = ExitStack()

    def start(
        self, commands: Sequence[Sequence[str]], fork: str, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Start a process for each command, in an environment that makes it a part of the fork.

        Raises:
            BadInputError: a command cannot be run.
        """
        for number, words in enumerate(commands, start=1):
            log = self._folder / f"app-{number}.txt"
            out = self._files.enter_context(log.open("wb"))
            if shutil.which(words[0], path=environ.get("PATH")) is None:
                raise BadInputError(
                    f"--app {shlex.join(words)!r} cannot be started: no program {words[0]}",
                    hint="check the command",
                )
            door = self._files.enter_context(Door(self._folder / f"door-{number}", fork))
            child = Child(
                locked(words, self._allow) if self._lock else words,
                env={**environ, FORK: fork, DOOR: str(door.path)},
                output=out,
                grace_s=LEAVES_WITHIN_S,
            )
            self._running.append(_Running(shlex.join(words), child, log, door, time.monotonic()))

    def require_running(self) -> bool:
        """Check that none has ended by itself; return whether each has joined the fork, which it has to do in time.

        Raises:
            AppEndedError: one has ended, or has not joined; its last line is named.
        """
        for one in self._running:
            joined, problem = one.door.joined.is_set(), ""
            if one.child.status is not None:
                outside = "" if joined else f", and had not joined the fork ({UNJOINED})"
                problem = f"ended with status {one.child.status}{outside}"
            elif not joined and time.monotonic() - one.since > self._joins_within_s:
                problem = f"has not joined the fork within {self._joins_within_s:g} s ({UNJOINED})"
            if problem:
                raise AppEndedError(f"`{one.command}` {problem}: {_last_line(one.log)}")
        return all(one.door.joined.is_set() for one in self._running)

    def last_lines(self) -> dict[str, str]:
        """Return the last lines of each command that printed any."""
        found = {one.command: _last_lines(one.log) for one in self._running}
        return {command: lines for command, lines in found.items() if lines}

    async def end(self) -> None:
        """End all of them: by TERM, with some time to leave their groups; then by killing each process group."""
        await asyncio.gather(*(asyncio.to_thread(one.child.end) for one in self._running))
        self._files.close()


def _last_lines(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-LAST_LINES:])


def _last_line(log: Path) -> str:
    lines = (CONTROL.sub("", line).strip() for line in _last_lines(log).splitlines())
    return ([line for line in lines if line] or ["it printed nothing"])[-1]
