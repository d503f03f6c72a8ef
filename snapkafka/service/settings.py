"""The settings of the service: one value, checked as a whole before a socket is opened."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.options import option
from snapkafka.store.uri import canonical

from .access import Tokens, is_loopback


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

    def validate(self) -> None:
        """Refuse invalid settings.

        Raises:
            BadInputError: there is a problem; the first one.
        """
        remote = (*self.remote_topics, *self.remote_inputs)
        pair = {"--tls-certificate": self.certificate, "--tls-key": self.key}
        missing = [f"{flag} {path}" for flag, path in pair.items() if path and not Path(path).is_file()]
        guarded = self.certificate and self.tokens and self.roots
        problems = {
            "--port and --grpc-port must be 0 to 65535": {self.port, self.grpc_port or 0} - {*range(65_536)},
            "--remote-topic and --remote-input need --grpc-port": remote and self.grpc_port is None,
            "a topic of snapkafka itself is no --remote-topic or --remote-input": any(
                topic.startswith("_snapkafka") for topic in remote
            ),
            "--tls-certificate and --tls-key go together": bool(self.certificate) != bool(self.key),
            f"{' and '.join(missing)} is not a file": missing,
            f"--host {self.host} is reached from other machines, which needs --tls-certificate and --tls-key, --tokens"
            " and --storage-root": not (guarded or is_loopback(self.host)),
        }
        for root in self.roots:
            try:
                canonical(root)
            except SnapkafkaError as error:
                problems[f"--storage-root: {error}"] = True
        for problem, there in problems.items():
            if there:
                raise BadInputError(problem, hint="see docs/guide/service.md")
