"""A server that a test needs, in a JVM of its own on this machine, for the length of a `with` block.

It listens on a free port of 127.0.0.1, and ends with its owner, whatever ends that (see `watchdog`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from snapkafka.errors import DependencyMissingError, TimedOutError
from snapkafka.runtime import java
from snapkafka.runtime.environment import child_environment
from snapkafka.testing import free_ports, watchdog

if TYPE_CHECKING:
    from types import TracebackType

START_TIMEOUT_S: Final = 180.0
#: For a server that a few tests ask a few things: what it runs on starts quickly, and takes little.
JAVA: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


class Served(ABC):
    """One server. `folder` is its own, and is removed with it."""

    #: What messages call it.
    NAME: ClassVar[str]

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snapkafka-served-"))
        (self.port,) = free_ports(1)
        self._processes: list[subprocess.Popen[bytes]] = []

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the arguments of its JVM: memory, settings, and the program. Called once, before it starts."""

    @abstractmethod
    def answers(self) -> bool:
        """Return whether it answers, and is this server."""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._close()

    def _start(self) -> None:
        command = [str(java().executable), *JAVA, f"-Djava.io.tmpdir={self.folder}", *self.arguments()]
        with (self.folder / "output").open("ab") as output:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=child_environment(os.environ),
                start_new_session=True,
                cwd=self.folder,
            )
        self._processes.append(server)
        self._processes.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    watchdog.__file__,
                    str(os.getpid()),
                    str(server.pid),
                    str(self.folder),
                ],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if server.poll() is not None:
                raise DependencyMissingError(
                    f"{self.NAME} ended with status {server.returncode}: {self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"{self.NAME} did not answer in {START_TIMEOUT_S:g} s: {self._last_words()}",
                    hint="the machine may be overloaded; run it again",
                )
            time.sleep(0.1)

    def _last_words(self) -> str:
        said = (self.folder / name for name in ("output", "log"))
        return "\n".join(file.read_text("utf-8", errors="replace") for file in said if file.exists())[-1_000:]

    def _close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
