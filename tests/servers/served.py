"""A server that a test needs, in a JVM of its own on this machine, for the length of a `with` block.

It listens on a free port of 127.0.0.1, and ends with its owner, whatever ends that (`runtime.child`).
"""

from __future__ import annotations

import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Self

from snapkafka.errors import DependencyMissingError, TimedOutError
from snapkafka.runtime import Child, java, java_environment
from snapkafka.testing import free_ports

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
        self._child: Child | None = None

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
            self._child = Child(
                command, env=java_environment(), output=output, cwd=self.folder, folders=[self.folder]
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.answers():
            if self._child.status is not None:
                raise DependencyMissingError(
                    f"{self.NAME} ended with status {self._child.status}: {self._last_words()}"
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
        if self._child is not None:
            self._child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
