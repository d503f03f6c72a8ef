"""A reader that does not know snapkafka: a standalone worker of Kafka Connect, a JVM of its own."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from snapkafka.runtime import Child, java
from tests.servers.jars import jars_with_dependencies

#: Fetched when first asked for, into the cache that all checkouts share.
READER_JARS: Final = (
    "org.apache.kafka:connect-runtime:4.1.0",
    "org.apache.kafka:connect-file:4.1.0",
    "org.apache.kafka:connect-json:4.1.0",
    "org.apache.kafka:kafka-tools:4.1.0",
    "org.slf4j:slf4j-simple:1.7.36",
)
COMPLAINTS: Final = ("ERROR", "FATAL", "Exception", "Error:")


@dataclass(frozen=True, slots=True)
class Reader:
    """A running JVM, and what it prints."""

    process: Child
    log: Path

    def check_quiet(self) -> None:
        """It runs, and its log has no error and no exception."""
        log = self.log.read_text(errors="replace")
        assert self.process.status is None, log
        complaints = [line for line in log.splitlines() if any(sign in line for sign in COMPLAINTS)]
        assert not complaints, log


def properties(file: Path, settings: Mapping[str, str]) -> Path:
    """Write a file of settings."""
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return file


@contextlib.contextmanager
def standalone(folder: Path, settings: Mapping[str, str], *connectors: Path) -> Iterator[Reader]:
    """A standalone worker of Kafka Connect with these settings and connectors; it is killed at the end of the block."""
    worker = properties(folder / "worker.properties", settings)
    main = ("org.apache.kafka.connect.cli.ConnectStandalone", str(worker), *map(str, connectors))
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    class_path = os.pathsep.join(str(jar) for jar in jars_with_dependencies(*READER_JARS))
    log = folder / "connect.log"
    with log.open("wb") as output:
        process = Child([str(java().executable), *flags, logging, "-cp", class_path, *main], output=output)
    try:
        yield Reader(process, log)
    finally:
        process.kill()
