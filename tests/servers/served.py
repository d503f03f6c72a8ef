"""A server that a test needs, in a JVM of its own on this machine, for the length of a `with` block.

It listens on a free port of 127.0.0.1, and ends with its owner, whatever ends that (`runtime.child`).
"""

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from snapkafka.runtime import Child, java, java_environment
from snapkafka.testing import free_ports
from snapkafka.until import blocking_until

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
        command = [str(java().executable), *JAVA, f"-Djava.io.tmpdir={self.folder}", *self.arguments()]
        with (self.folder / "output").open("ab") as output:
            of: Any = {"output": output, "cwd": self.folder, "folders": [self.folder]}
            child = self._child = Child(command, env=java_environment(), **of)
        try:
            blocking_until(lambda: self.answers() or child.status is not None, START_TIMEOUT_S, self.NAME)
            assert child.status is None, f"{self.NAME} has ended"
        except BaseException:
            said = (self.folder / name for name in ("output", "log"))
            print(*(file.read_text("utf-8", errors="replace")[-1_000:] for file in said if file.exists()))
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
