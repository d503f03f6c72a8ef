"""The settings of the service: one value, checked as a whole before a socket is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import msgspec

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.options import option
from snapkafka.store.uri import canonical

from .access import Tokens, is_loopback

#: How the names of bounds end.
BOUNDS: Final = ("_max", "_s", "_mb")
PORTS: Final = range(65_536)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the service; those with an option are of the command `serve`."""

    host: Annotated[str, option("--host ADDRESS", "Address to listen on. Others need TLS and tokens.")] = (
        "127.0.0.1"
    )
    port: Annotated[int, option("--port PORT", "Port to listen on; 0: any free port.")] = 8023
    certificate: Annotated[str, option("--tls-certificate FILE", "Certificate with its chain, as PEM.")] = ""
    key: Annotated[str, option("--tls-key FILE", "Private key, as PEM.")] = ""
    tokens: Annotated[Tokens, option("", "Roles by token; none: who reaches the port may do anything.")] = (
        Tokens()
    )
    roots: Annotated[
        tuple[str, ...],
        option("--storage-root URI", "Allow tables and manifests below this URI. Repeatable."),
    ] = ()
    host_names: Annotated[
        tuple[str, ...],
        option("--host-name NAME", "Host name by which clients reach the service. Repeatable."),
    ] = ()
    header_s: Annotated[float, option("", "Seconds in which a request has to come, head and body.")] = 10.0
    streams_max: Annotated[int, option("", "Live streams at once.")] = 200
    triggers_max: Annotated[int, option("", "Triggers at once.")] = 8
    query_s: Annotated[float, option("", "Seconds of one query.")] = 10.0
    query_memory_mb: Annotated[int, option("", "Megabytes of one query.")] = 512
    query_rows_max: Annotated[int, option("", "Rows of an answer.")] = 1_000
    queries_max: Annotated[int, option("", "Queries at once.")] = 2
    jobs_max: Annotated[int, option("", "Assemblies at once; as many again wait.")] = 1
    grpc_port: Annotated[
        int | None, option("--grpc-port PORT", "Also serve gRPC on this port; 0: any free port.")
    ] = None
    remote_topics: Annotated[
        tuple[str, ...], option("--remote-topic NAME", "Topic that gRPC processes may send to. Repeatable.")
    ] = ()
    remote_inputs: Annotated[
        tuple[str, ...], option("--remote-input NAME", "Topic that gRPC processes may read. Repeatable.")
    ] = ()
    remote_max: Annotated[int, option("", "Processes without Kafka at once.")] = 100

    def problems(self) -> list[str]:
        """List all problems, one line each."""
        found = []
        if self.port not in PORTS:
            found.append(f"--port must be 0 to 65535, got {self.port}")
        if self.grpc_port is not None and self.grpc_port not in PORTS:
            found.append(f"--grpc-port must be 0 to 65535, got {self.grpc_port}")
        for flag, topics in (
            ("--remote-topic", self.remote_topics),
            ("--remote-input", self.remote_inputs),
        ):
            if topics and self.grpc_port is None:
                found.append(f"{flag} needs --grpc-port")
            found += [
                f"{flag} {topic} is a topic of snapkafka itself"
                for topic in topics
                if topic.startswith("_snapkafka")
            ]
        if bool(self.certificate) != bool(self.key):
            found.append("--tls-certificate and --tls-key go together")
        for flag, path in (("--tls-certificate", self.certificate), ("--tls-key", self.key)):
            if path and not Path(path).is_file():
                found.append(f"{flag} {path} is not a file")
        for root in self.roots:
            try:
                canonical(root)
            except SnapkafkaError as error:
                found.append(f"--storage-root: {error}")
        if not is_loopback(self.host):
            beyond = f"--host {self.host} is reached from other machines, which needs"
            if not self.certificate:
                found.append(f"{beyond} --tls-certificate and --tls-key")
            if not self.tokens:
                found.append(f"{beyond} --tokens")
            if not self.roots:
                found.append(f"{beyond} --storage-root")
        bounds = {name: getattr(self, name) for name in self.__struct_fields__ if name.endswith(BOUNDS)}
        found += [f"{name} must be above 0, got {value}" for name, value in bounds.items() if not value > 0]
        return found

    def validate(self) -> None:
        """Refuse invalid settings, with all problems at once.

        Raises:
            BadInputError: there is a problem.
        """
        if problems := self.problems():
            raise BadInputError("; ".join(problems), hint="see docs/guide/service.md")
