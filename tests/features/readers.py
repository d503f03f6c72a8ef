"""Readers that do not know snapkafka: Kafka's own console consumer, and Kafka Connect with a sink to a file.

Each is a JVM of its own. The Avro converter is Apicurio's, which is on Maven Central. It asks a registry for schemas by
their numbers; `registry` is one in memory, with one schema.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from snapkafka.runtime import java, start_watchdog
from tests.servers.jars import jars_with_dependencies

#: Fetched when first asked for, into the cache that all checkouts share.
READER_JARS: Final = (
    "org.apache.kafka:connect-runtime:4.1.0",
    "org.apache.kafka:connect-file:4.1.0",
    "org.apache.kafka:connect-json:4.1.0",
    "org.apache.kafka:kafka-tools:4.1.0",
    "org.slf4j:slf4j-simple:1.7.36",
)
#: A plugin of Connect's, in a folder of its own: its libraries are not those of Connect.
AVRO_JARS: Final = ("io.apicurio:apicurio-registry-utils-converter:2.6.13.Final",)

SCHEMA_ID: Final = 7
AVRO_SCHEMA: Final = '{"type": "record", "name": "Told", "fields": [{"name": "n", "type": "int"}]}'
#: What stands before an Avro value: a zero, and the number of its schema.
AVRO_PREFIX: Final = b"\0" + SCHEMA_ID.to_bytes(8, "big")
#: Where the registry answers, in its second version.
API: Final = "/apis/registry/v2"
CONVERTERS: Final = {
    "json": "org.apache.kafka.connect.json.JsonConverter",
    "avro": "io.apicurio.registry.utils.converter.AvroConverter",
}
COMPLAINTS: Final = ("ERROR", "FATAL", "Exception", "Error:")


@dataclass(frozen=True, slots=True)
class Reader:
    """A running JVM, what it prints and what it complains of."""

    process: subprocess.Popen[bytes]
    printed: Path
    log: Path

    def check_quiet(self) -> None:
        """It runs, and its log has no error and no exception."""
        log = self.log.read_text(errors="replace")
        assert self.process.poll() is None, log
        complaints = [line for line in log.splitlines() if any(sign in line for sign in COMPLAINTS)]
        assert not complaints, log


def console(bootstrap: str, folder: Path, topics: str, group: str) -> AbstractContextManager[Reader]:
    """`kafka-console-consumer` on all topics that match, from their beginnings."""
    shown = ("print.partition", "print.offset", "print.key")
    options = [part for name in shown for part in ("--property", f"{name}=true")]
    command = ["--bootstrap-server", bootstrap, "--include", topics, "--group", group, "--from-beginning"]
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    return _running(folder, "console", main, *command, *options)


def connect(bootstrap: str, folder: Path, port: int, *connectors: Path) -> AbstractContextManager[Reader]:
    """A standalone worker of Kafka Connect with these connectors."""
    plugins = folder / "plugins"
    (plugins / "avro").mkdir(parents=True)
    for jar in jars_with_dependencies(*AVRO_JARS):
        if not jar.name.startswith(("connect-", "kafka-clients-")):  # Connect has its own
            (plugins / "avro" / jar.name).symlink_to(jar)
    with ZipFile(
        plugins / "avro" / "named.jar", "w"
    ) as named:  # else Connect looks into every class there is
        named.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", CONVERTERS["avro"])
    settings = {
        "bootstrap.servers": bootstrap,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.path": str(plugins),
        "plugin.discovery": "service_load",
        "offset.storage.file.filename": str(folder / "connect.offsets"),
        "offset.flush.interval.ms": "500",  # the file of a sink is written then
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    return standalone(folder, settings, *connectors)


def standalone(
    folder: Path, settings: Mapping[str, str], *connectors: Path
) -> AbstractContextManager[Reader]:
    """A standalone worker of Kafka Connect with these settings and connectors."""
    worker = _properties(folder / "worker.properties", settings)
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    return _running(folder, "connect", main, str(worker), *map(str, connectors))


def sink(folder: Path, name: str, topics: list[str], kind: str, registry_url: str) -> tuple[Path, Path]:
    """A connector that writes each value as a line into a file; what Connect is given, and the file."""
    file = folder / f"{name}.txt"
    file.touch()
    settings = {
        "name": name,
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": ",".join(topics),
        "file": str(file),
        "value.converter": CONVERTERS[kind],
        "value.converter.schemas.enable": "false",
        "value.converter.apicurio.registry.url": registry_url,
    }
    return _properties(folder / f"{name}.properties", settings), file


@contextlib.contextmanager
def registry() -> Iterator[str]:
    """A schema registry that knows one schema; its address."""
    place = f"{API}/ids/globalIds/{SCHEMA_ID}"
    answers = {place: AVRO_SCHEMA, f"{place}/references": "[]"}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = answers.get(self.path.partition("?")[0])
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write((body or "{}").encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}{API}"
        server.shutdown()


def _properties(file: Path, settings: Mapping[str, str]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return file


@contextlib.contextmanager
def _running(folder: Path, name: str, *main: str) -> Iterator[Reader]:
    """A JVM that ends with the block, or with us."""
    flags = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    class_path = os.pathsep.join(str(jar) for jar in jars_with_dependencies(*READER_JARS))
    command = [str(java().executable), *flags, logging, "-cp", class_path, *main]
    printed, log = folder / f"{name}.out", folder / f"{name}.log"
    with printed.open("wb") as out, log.open("wb") as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True
        )
    guard = start_watchdog(process.pid)
    try:
        yield Reader(process, printed, log)
    finally:
        process.kill()
        process.wait()
        guard.kill()
        guard.wait()
