"""Flink's side: a MiniCluster in a JVM of its own, with the two jobs of `TwoStages.java`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.jdk import java
from snapkafka.until import blocking_until

from .settings import LIMIT_S, Taken

HERE: Final = Path(__file__).parent
#: The two jobs.
MODES: Final = ("aligned", "unaligned")
#: Flink 2 needs these of Java 17 (its own `config.yaml` has more of them).
OPENED: Final = ("java.base/java.lang", "java.base/java.util", "java.base/java.time", "java.base/java.nio")
HEAP: Final = "-Xmx2g"


def require_tools() -> None:
    """Check for Maven and a JDK.

    Raises:
        DependencyMissingError: names what is missing.
    """
    for tool, what in (("mvn", "Maven"), ("javac", "a JDK, 17 or later")):
        if shutil.which(tool) is None:
            raise DependencyMissingError(f"the comparison needs {what}", hint=f"put {tool} on the path")


@contextmanager
def running(bootstrap: str, folder: Path) -> Iterator[list[Job]]:
    """Build and start Flink; it ends with the block. Its two jobs come out."""
    classes = _built(folder)
    log = (folder / "flink.txt").open("wb")
    command = [
        *(str(java().executable), HEAP, *(f"--add-opens={it}=ALL-UNNAMED" for it in OPENED)),
        *("-cp", classes, "TwoStages", bootstrap, str(folder / "checkpoints")),
    ]
    with log, subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f"Flink did not start: {(folder / 'flink.txt').read_text()[-2_000:]}")
            found = json.loads(line)
            yield [Job(mode, found["rest"], found[mode]) for mode in MODES]
        finally:
            process.stdin.close()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _built(folder: Path) -> str:
    """Compile with Maven; return the class path."""
    target, jars = folder / "target", folder / "jars"
    done = subprocess.run(
        [
            *("mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml"), "compile"),
            *("dependency:copy-dependencies", f"-DoutputDirectory={jars}", f"-Dbuilt={target}"),
        ],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        first = next(iter(done.stdout.splitlines()), f"status {done.returncode}")
        raise DependencyMissingError(f"Maven could not build it: {first}", hint="it needs a JDK 17 or later")
    return f"{target / 'classes'}{os.pathsep}{jars / '*'}"


class Job:
    """A job of the MiniCluster, whose checkpoints are triggered by REST."""

    def __init__(self, name: str, rest: str, id_: str) -> None:
        self.name = name
        self._url = f"{rest}/jobs/{id_}"
        self._began_ms, self._asked = 0.0, 0

    def await_running(self) -> None:
        """Wait until all its tasks run."""

        def runs() -> bool:
            vertices = self._get("")["vertices"]
            return all(vertex["status"] == "RUNNING" for vertex in vertices)

        blocking_until(runs, LIMIT_S, f"the job {self.name} to run", every_s=0.2)

    def begin(self) -> None:
        """Begin a turn."""
        self._began_ms, self._asked = time.time() * 1_000, 0

    def trigger(self) -> None:
        """Ask for a checkpoint."""
        self._asked += 1
        request = urllib.request.Request(
            f"{self._url}/checkpoints",
            data=b'{"checkpointType": "CONFIGURED"}',
            headers={"Content-Type": "application/json"},
            method="POST",
        )
        urllib.request.urlopen(request, timeout=LIMIT_S).close()

    def taken(self) -> Taken:
        """Wait for the checkpoints of this turn."""
        blocking_until(
            lambda: len(self._of_turn()) >= self._asked,
            LIMIT_S,
            f"{self._asked} checkpoints of {self.name}",
            every_s=0.1,
        )
        done = self._of_turn()
        failed = [it for it in done if it["status"] != "COMPLETED"]
        assert not failed, failed[0]
        sizes = [it["checkpointed_size"] for it in done]
        return Taken([float(it["end_to_end_duration"]) for it in done], sum(sizes) / max(1, len(sizes)))

    def _of_turn(self) -> list[dict[str, Any]]:
        history = self._get("/checkpoints")["history"]
        return [
            it
            for it in history
            if it["trigger_timestamp"] >= self._began_ms and it["status"] != "IN_PROGRESS"
        ]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self._url}{path}", timeout=LIMIT_S) as answer:
            return json.load(answer)
