"""A real schema registry on this machine (Apicurio), in one JVM, for as long as a test needs it.

It keeps schemas in memory and answers as Confluent's does below `url`. Like the embedded broker it listens on a free
port of 127.0.0.1, and is gone with its owner, whatever ends that (see `watchdog`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from snapkafka.errors import DependencyMissingError, TimedOutError
from snapkafka.runtime import jars, java
from snapkafka.testing.embedded import HOST, free_ports
from snapkafka.testing.toolchain import REGISTRY_JARS

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["EmbeddedRegistry"]

#: It starts in 10-25 s here.
START_TIMEOUT_S: Final = 180.0


class EmbeddedRegistry:
    """One server, started by `with`."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="snapkafka-registry-"))
        (self.port,) = free_ports(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}/apis/ccompat/v7"

    def register(
        self,
        subject: str,
        schema: Any,
        *,
        kind: str = "AVRO",
        references: Sequence[tuple[str, str, int]] = (),
    ) -> int:
        """Register a version of a subject; its number.

        Args:
            schema: as text, or what is to be written as JSON.
            references: names that it uses, each with the subject and the version that has it.
        """
        body = {
            "schema": schema if isinstance(schema, str) else json.dumps(schema),
            "schemaType": kind,
            "references": [
                {"name": name, "subject": of, "version": version} for name, of, version in references
            ],
        }
        request = urllib.request.Request(
            f"{self.url}/subjects/{subject}/versions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        with _OPENER.open(request, timeout=30) as response:
            return int(json.load(response)["id"])

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
        (program,) = jars(REGISTRY_JARS)
        command = [
            str(java().executable),
            *("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData"),
            f"-Djava.io.tmpdir={self.folder}",
            f"-Dquarkus.http.host={HOST}",
            f"-Dquarkus.http.port={self.port}",
            *("-jar", str(program)),
        ]
        with (self.folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                cwd=self.folder,
            )
        watchdog = [sys.executable, "-I", str(Path(__file__).with_name("watchdog.py"))]
        self._watchdog = subprocess.Popen(
            [*watchdog, str(os.getpid()), str(self._process.pid), str(self.folder)],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None:
                raise DependencyMissingError(
                    f"the schema registry ended with status {self._process.returncode}: {self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise TimedOutError(
                    f"the schema registry did not answer in {START_TIMEOUT_S:g} s: {self._last_words()}",
                    hint="the machine may be overloaded; run it again",
                )
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            with _OPENER.open(f"{self.url}/subjects", timeout=5) as response:
                return bool(json.load(response) == [])
        except (OSError, ValueError):
            return False

    def _last_words(self) -> str:
        return (self.folder / "output").read_text("utf-8", errors="replace")[-1_000:]

    def _close(self) -> None:
        for process in (self._process, self._watchdog):
            if process is not None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


#: Whatever proxy the environment names: this is here.
_OPENER: Final = urllib.request.build_opener(urllib.request.ProxyHandler({}))
