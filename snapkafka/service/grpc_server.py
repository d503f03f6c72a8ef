"""gRPC: `distributed.snapshot.SnapshotService`, health and reflection, with the bounds of REST.

Each call is translated into one of `drivers.remote.Participant`; nothing is decided here.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from snapkafka.drivers.remote.inputs import CODECS, Bounds, Input, Marker, require_node
from snapkafka.drivers.remote.participant import Participant, Place
from snapkafka.errors import BadInputError, SnapkafkaError, TriggerRefusedError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.kafka.login import clients
from snapkafka.kafka.records.read import KafkaConsumer
from snapkafka.protocol.records import TopicPartition

from .access import Role
from .grpc_api import messages as pb
from .problems import RefusedError
from .server import connections_max, server_context
from .settings import Settings

logger = logging.getLogger("snapkafka")

SESSION_BYTES: Final = 16
#: The metadata of a call that holds the session of its process.
SESSION_KEY: Final = "snapkafka-session"


class Doors:
    """The remote processes of this instance. A stream is a process: when it ends, the process leaves, and joins again
    as another one.

    Args:
        make: creates a participant for a node with a codec and a host, not joined yet.
        most: the limit of processes.
    """

    def __init__(self, make: Callable[[str, str, str], Participant], *, most: int) -> None:
        self._make, self._most = make, most
        self._sessions: dict[str, tuple[str, Participant]] = {}  # session -> its node
        self._leaving: set[asyncio.Task[None]] = set()

    async def join(
        self, node: str, codec: str, host: str, inputs: Sequence[Input] = ()
    ) -> tuple[str, Participant]:
        """Let a process take part, and return its session; an earlier one of its name leaves when it reads of it.

        Raises:
            RefusedError: the limit is reached.
            SnapkafkaError: it cannot take part.
        """
        require_node(node)
        if (codec or CODECS[0]) not in CODECS:
            raise BadInputError(f"codec {codec[:20]!r} is unknown", hint=f"use {' or '.join(CODECS)}")
        if len(self._sessions) >= self._most:
            raise RefusedError("busy", f"{self._most} remote processes take part", "try again later")
        session, participant = secrets.token_hex(SESSION_BYTES), self._make(node, codec or CODECS[0], host)
        self._sessions[session] = node, participant
        try:
            await participant.join(inputs)
        except BaseException:
            await self._end(session, "it could not join")
            raise
        logger.info("snapkafka: remote process %s joined as process %s", node, participant.process)
        return session, participant

    def of(self, node: str, session: str) -> Participant:
        """Return the participant of a process, if the caller knows its session.

        Raises:
            TriggerRefusedError: it has not joined, or has left, or the session is another one.
        """
        name, participant = self._sessions.get(session, ("", None))
        if participant is None or name != node:
            raise TriggerRefusedError(
                f"node {node[:40]!r} has no such session here",
                hint=f"call Join, keep its stream open, send its session as metadata {SESSION_KEY}",
            )
        return participant

    def stream_ended(self, session: str) -> None:
        """Let the process of a stream leave. Nothing is awaited: gRPC cancels what reads the stream."""
        if session in self._sessions:  # the service may stop
            task = asyncio.ensure_future(self._end(session, "its connection was lost"))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)

    def _end(self, session: str, reason: str) -> Coroutine[Any, Any, None]:
        """Forget a process at once, and return what lets it leave."""
        node, participant = self._sessions.pop(session)
        logger.info("snapkafka: remote process %s left: %s", node, participant.left or reason)
        return participant.leave(reason)

    async def close(self) -> None:
        """Let every process leave: the service stops."""
        ending = [self._end(session, "the service stops") for session in [*self._sessions]]
        await asyncio.gather(*ending, *self._leaving, return_exceptions=True)


T = TypeVar("T")

SERVICE: Final = "distributed.snapshot.SnapshotService"
#: A message is a chunk of state or a record, and a little more.
MESSAGE_BYTES_MAX: Final = 1024 * 1024
METADATA_BYTES_MAX: Final = 8 * 1024
#: A client that answers no ping within these is gone.
PING_MS, PONG_MS = 10_000, 5_000
#: A client may ping as often: Go's clients do so every ten seconds at most, and a clock is not exact.
CLIENT_PINGS_MS: Final = 9_000
STOP_WITHIN_S: Final = 3.0
SENDER: Final = "snapkafka"


class Servicer:
    """The calls of schemas/snapshot.proto; those that are no stream get the process that has joined, too.

    Args:
        settings: name the topics to which processes may send, those from which they may receive, and the tokens.
        call_s: the limit of each call, whatever its deadline.
    """

    def __init__(self, doors: Doors, settings: Settings, call_s: float) -> None:
        self._doors, self._settings, self._call_s = doors, settings, call_s

    async def SendMarker(self, process: Participant, request: Any) -> Any:  # noqa: N802 -- named by the contract
        """Cut the process, which has handed over its state."""
        accepted = await process.cut(request.snapshot_id, [*map(_place, request.positions)])
        return pb.MarkerResponse(accepted=accepted)

    async def FlushChannelState(self, process: Participant, request: Any) -> Any:  # noqa: N802
        """Store a piece of the state."""
        piece = request.channel_id, request.chunk, request.state_data
        stored = await process.flush(request.snapshot_id, *piece)
        return pb.FlushResponse(status="STORED" if stored else "NOT_AWAITED")

    async def Send(self, process: Participant, request: Any) -> Any:  # noqa: N802
        """Append a record of the process."""
        _require(request.topic, self._settings.remote_topics, "sent to", "remote topic")
        names = "key", "value", "partition", "cause"
        key, value, to, cause = (getattr(request, n) if request.HasField(n) else None for n in names)
        partition, offset = await process.send(request.topic, key, value, to, cause and _place(cause))
        return pb.SendResponse(partition=partition, offset=offset)

    async def Processed(self, process: Participant, request: Any) -> Any:  # noqa: N802
        """Note how far it has processed its inputs, and commit that."""
        await process.processed([*map(_place, request.positions)])
        return pb.ProcessedResponse()

    async def Join(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Take part as long as the stream is open."""

        async def join() -> tuple[str, Participant]:
            self._admit(context)
            for item in request.inputs:
                _require(item.topic, self._settings.remote_inputs, "received from", "remote input")
            host = context.peer().rpartition(":")[0]
            return await self._doors.join(
                request.node_id, request.codec, host, [*map(_input, request.inputs)]
            )

        session, participant = await self._bounded(context, join())
        try:
            positions = [
                pb.Position(topic=tp.topic, partition=tp.partition, offset=offset)
                for tp, offset in sorted(participant.positions.items())
            ]
            joined = pb.Joined(process=participant.process, session=session, positions=positions)
            yield pb.Notice(joined=joined)
            while isinstance(notice := await participant.notices.get(), Marker):
                marker = pb.MarkerRequest(
                    snapshot_id=notice.snapshot_id, sender_node_id=SENDER, timestamp_ns=notice.timestamp_ns
                )
                yield pb.Notice(marker=marker)
            yield pb.Notice(left=pb.Left(reason=notice.reason))
        finally:
            self._doors.stream_ended(session)

    async def Receive(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        """Stream the records of its inputs, each when gRPC has taken the one before (flow control)."""
        try:
            async for record in self._process(request.node_id, context).receive():
                names = "offset", "key", "value", "timestamp_ms"
                yield pb.Message(**record.tp._asdict(), **{name: getattr(record, name) for name in names})
        except SnapkafkaError as error:
            await _abort(context, error)

    def handler(self, name: str) -> Callable[[Any, Any], Any]:
        """Return the handler of a call."""
        call = getattr(self, name)
        if inspect.isasyncgenfunction(call):
            return call  # type: ignore[no-any-return]

        async def answer(request: Any, context: Any) -> Any:
            node = request.sender_node_id if name == "SendMarker" else request.node_id

            async def work() -> Any:
                return await call(self._process(node, context), request)

            return await self._bounded(context, work())

        return answer

    def _admit(self, context: Any) -> None:
        """Refuse a client without a token that has the role, as for triggers over REST."""
        tokens = self._settings.tokens
        role = tokens.bearer(_given(context, "authorization")) if tokens else Role.ADMIN
        if role is None:
            raise RefusedError("unauthorized", "a valid token is needed: Bearer TOKEN")
        if role < Role.TRIGGER:
            raise RefusedError("forbidden", f"this needs the role {Role.TRIGGER.name.lower()}")

    def _process(self, node: str, context: Any) -> Participant:
        """Return the process that a call names, for who may speak for it."""
        self._admit(context)
        return self._doors.of(node, _given(context, SESSION_KEY))

    async def _bounded(self, context: Any, work: Awaitable[T]) -> T:
        """Await a call's work within its deadline and ours; return errors by their status."""
        left = context.time_remaining()
        try:
            async with asyncio.timeout(self._call_s if left is None else min(left, self._call_s)):
                return await work
        except SnapkafkaError as error:
            await _abort(context, error)
        except TimeoutError:
            await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, f"not done within {self._call_s:g} s")
        raise AssertionError("abort raises")


def _given(context: Any, key: str) -> str:
    """Return a value of the metadata of a call; empty if there is none."""
    return next((str(value) for name, value in context.invocation_metadata() if name == key), "")


def _place(position: Any) -> Place:
    return TopicPartition(position.topic, position.partition), position.offset


def _input(item: Any) -> Input:
    at = {start.partition: start.offset for start in item.positions}
    return Input(topic=item.topic, positions=at, key_codec=item.key_codec, value_codec=item.value_codec)


def _require(topic: str, allowed: Collection[str], what: str, setting: str) -> None:
    if topic not in allowed:
        hint = f"the service has to be started with it as a {setting}"
        raise RefusedError("forbidden", f"topic {topic[:100]!r} may not be {what}", hint)


async def _abort(context: Any, error: SnapkafkaError) -> None:
    detail = f"{error.message}; {error.hint}" if error.hint else error.message
    await context.abort(grpc.StatusCode[error.grpc], detail, (("snapkafka-code", error.code),))


def serving_grpc(
    connection: Connection, namespace: str, settings: Settings, bounds: Bounds | None = None
) -> AbstractAsyncContextManager[str]:
    """Serve gRPC on a real Kafka for the length of a block; provide its address.

    Raises:
        BadInputError: the address is unavailable, or the certificate is unusable.
    """
    limits = bounds or Bounds()

    def producer() -> Any:
        idempotent = clients.producer(connection, acks="all", enable_idempotence=True, linger_ms=0)
        return clients.started(idempotent)

    def make(node: str, codec: str, host: str) -> Participant:
        return Participant(
            connection,
            namespace=namespace,
            node=node,
            ledger=KafkaLedger(connection, namespace),
            admin=KafkaTopicAdmin(connection),
            producer=producer,
            consumer=KafkaConsumer(connection, node, bytes_max=limits.ahead_bytes_max),
            codec=codec,
            host=host,
            bounds=limits,
        )

    return serving(make, settings, limits)


def handlers(servicer: Servicer) -> grpc.GenericRpcHandler:
    """Return the handlers of the calls that the contract names."""
    found = {}
    for method in pb.DESCRIPTOR.services_by_name[SERVICE.rpartition(".")[2]].methods:
        request, answer = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        kind = "unary_stream" if method.server_streaming else "unary_unary"
        found[method.name] = getattr(grpc, f"{kind}_rpc_method_handler")(
            servicer.handler(method.name),
            request_deserializer=request.FromString,
            response_serializer=answer.SerializeToString,
        )
    return grpc.method_handlers_generic_handler(SERVICE, found)


@contextlib.asynccontextmanager
async def serving(
    make: Callable[[str, str, str], Participant], settings: Settings, bounds: Bounds
) -> AsyncIterator[str]:
    """Serve gRPC for the length of a block; provide its address.

    Args:
        make: creates a participant for a node with a codec and a host, not joined yet.
    """
    doors = Doors(make, most=settings.remote_max)
    connections = connections_max()
    server = grpc.aio.server(
        maximum_concurrent_rpcs=connections,
        options=[
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_metadata_size", METADATA_BYTES_MAX),
            ("grpc.keepalive_time_ms", PING_MS),
            ("grpc.keepalive_timeout_ms", PONG_MS),
            ("grpc.max_allowed_incoming_connections", connections),
            ("grpc.server_handshake_timeout_ms", round(settings.header_s * 1_000)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.min_ping_interval_without_data_ms", CLIENT_PINGS_MS),
            ("grpc.so_reuseport", 0),
        ],
    )
    server.add_generic_rpc_handlers((handlers(Servicer(doors, settings, bounds.call_s)),))
    alive = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(alive, server)
    for name in ("", SERVICE):
        await alive.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    address = _listen(server, settings)
    await server.start()
    try:
        yield address
    finally:
        await alive.enter_graceful_shutdown()
        await doors.close()
        await server.stop(STOP_WITHIN_S)


def _listen(server: Any, settings: Settings) -> str:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    wanted = f"{host}:{settings.grpc_port}"
    try:
        if server_context(settings) is None:  # on the loopback alone, by `Settings.validate`
            port = server.add_insecure_port(wanted)
        else:
            pair = Path(settings.key).read_bytes(), Path(settings.certificate).read_bytes()
            port = server.add_secure_port(wanted, grpc.ssl_server_credentials([pair]))
    except (RuntimeError, OSError) as error:
        raise BadInputError(
            f"--host {settings.host} --grpc-port {settings.grpc_port} cannot be listened on: {error}",
            hint="choose another port; check the certificate",
        ) from error
    return f"{host}:{port}"
