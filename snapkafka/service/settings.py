"""The settings of the service: one value, checked as a whole before a socket is opened."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.runtime.browsers import is_loopback
from snapkafka.store.uri import canonical

from .access import FileTokens, Tokens

#: No request of the contract is larger; a query is a page of SQL at most.
MAX_BODY_BYTES: Final = 64 * 1024
PORTS: Final = range(65_536)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of the service.

    Args:
        host: the address to listen on. Any other than this machine's own needs TLS, tokens and at least one storage
            root.
        port: 0: any that is free.
        certificate, key: PEM files, read again when they change.
        tokens: roles by token; none: on this machine, anyone who reaches the port may do anything.
        roots: URIs below which tables and manifests may lie; no request names or reads any other.
        host_names: names by which clients reach it, besides those of this machine (others are refused, so that no
            foreign page can send requests on behalf of its reader).
        body_bytes_max: bytes of a request's body.
        header_s: seconds for the head of a request, and as many again for its body.
        write_s: a client that reads nothing for so many seconds is disconnected.
        connections_max: connections at once, half of them of one client; those above are answered with 503.
        streams_max: live streams at once.
        reads_per_s, triggers_per_s: limits per client, on average; bursts may have ten times as many.
        query_s, query_memory_mb, query_rows_max: of one query: seconds, megabytes, rows of the answer.
        queries_max: queries at once.
        jobs_max: assemblies at once; as many again wait.
        grpc_port: of gRPC, 0: any that is free, None: gRPC is off.
        foreign_topics: those to which processes without Kafka may send, by gRPC.
        foreign_inputs: those from which such processes may receive, by gRPC.
        foreign_max: the limit of such processes.
    """

    host: str = "127.0.0.1"
    port: int = 8023
    certificate: str = ""
    key: str = ""
    tokens: Tokens | FileTokens = field(default_factory=Tokens)
    roots: tuple[str, ...] = ()
    host_names: tuple[str, ...] = ()
    body_bytes_max: int = MAX_BODY_BYTES
    header_s: float = 10.0
    write_s: float = 20.0
    connections_max: int = 1_000
    streams_max: int = 200
    reads_per_s: float = 300.0
    triggers_per_s: float = 5.0
    query_s: float = 10.0
    query_memory_mb: int = 512
    query_rows_max: int = 1_000
    queries_max: int = 2
    jobs_max: int = 1
    grpc_port: int | None = None
    foreign_topics: tuple[str, ...] = ()
    foreign_inputs: tuple[str, ...] = ()
    foreign_max: int = 100

    def problems(self) -> list[str]:
        """List all problems, one line each."""
        found = []
        if self.port not in PORTS:
            found.append(f"--port must be 0 to 65535, got {self.port}")
        if self.grpc_port is not None and self.grpc_port not in PORTS:
            found.append(f"--grpc-port must be 0 to 65535, got {self.grpc_port}")
        for option, topics in (
            ("--foreign-topic", self.foreign_topics),
            ("--foreign-input", self.foreign_inputs),
        ):
            if topics and self.grpc_port is None:
                found.append(f"{option} needs --grpc-port")
            found += [
                f"{option} {topic} is a topic of snapkafka itself"
                for topic in topics
                if topic.startswith("_snapkafka")
            ]
        if bool(self.certificate) != bool(self.key):
            found.append("--tls-certificate and --tls-key go together")
        for option, path in (("--tls-certificate", self.certificate), ("--tls-key", self.key)):
            if path and not Path(path).is_file():
                found.append(f"{option} {path} is not a file")
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
        bounds = {
            "body_bytes_max": self.body_bytes_max,
            "header_s": self.header_s,
            "write_s": self.write_s,
            "connections_max": self.connections_max,
            "streams_max": self.streams_max,
            "reads_per_s": self.reads_per_s,
            "triggers_per_s": self.triggers_per_s,
            "query_s": self.query_s,
            "query_memory_mb": self.query_memory_mb,
            "query_rows_max": self.query_rows_max,
            "queries_max": self.queries_max,
            "jobs_max": self.jobs_max,
            "foreign_max": self.foreign_max,
        }
        found += [f"{name} must be above 0, got {value}" for name, value in bounds.items() if not value > 0]
        return found

    def validate(self) -> None:
        """Refuse invalid settings, with all problems at once.

        Raises:
            BadInputError: there is a problem.
        """
        if problems := self.problems():
            raise BadInputError("; ".join(problems), hint="see docs/guide/service.md")
