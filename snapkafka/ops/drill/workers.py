"""The workers of a fork: the apps' own commands, started, watched, and ended by their process groups.

They end with the drill, also where that is killed: nobody else would end them.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError
from snapkafka.runtime.child import Child
from snapkafka.runtime.tethered import tethered

__all__ = ["FORK", "AppEndedError", "Workers", "parsed"]

#: In the environment of a worker: it belongs to this fork.
FORK: Final = "SNAPKAFKA_FORK"
#: A worker leaves its consumer group in order within this time; one that was killed stays a member for a minute.
LEAVES_WITHIN_S: Final = 20.0
LAST_LINES: Final = 15


class AppEndedError(RuntimeError):
    """A worker of the fork has ended by itself: a reason not to trust the backup, and not an error of the drill."""


def parsed(commands: Sequence[str]) -> list[list[str]]:
    """Split commands as a shell would; none is run by one.

    Raises:
        BadInputError: none is given, or one is invalid.
    """
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


class Workers:
    """Started by `start`; `end` ends all of them, however often it is called.

    Args:
        folder: where what they print goes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
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
            child = Child(tethered(words, grace_s=LEAVES_WITHIN_S), env={**environ, FORK: fork}, output=out)
            self._running.append(_Running(shlex.join(words), child, log))

    def require_running(self) -> None:
        """Check that none has ended by itself.

        Raises:
            AppEndedError: one has; its last line is named.
        """
        for one in self._running:
            if (status := one.child.status) is not None:
                last = (_last_lines(one.log) or "it printed nothing").splitlines()[-1]
                raise AppEndedError(f"`{one.command}` ended with status {status}: {last}")

    def last_lines(self) -> dict[str, str]:
        """The last lines of each that printed any, by command."""
        found = {one.command: _last_lines(one.log) for one in self._running}
        return {command: lines for command, lines in found.items() if lines}

    async def end(self) -> None:
        """End all of them: TERM, and some time to leave their groups; then each with its process group."""
        for one in self._running:
            one.child.terminate()
        deadline = asyncio.get_running_loop().time() + LEAVES_WITHIN_S
        while any(one.child.status is None for one in self._running):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.1)
        await asyncio.gather(*(asyncio.to_thread(one.child.end) for one in self._running))
        self._files.close()


def _last_lines(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-LAST_LINES:])
