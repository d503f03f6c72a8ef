"""gRPC: the contract of schemas/snapshot.proto, and the bounds and errors around it."""

import asyncio
import contextlib
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from snapkafka.drivers import Bounds, Participant
from snapkafka.ports import Topic
from snapkafka.protocol import TopicPartition
from snapkafka.service import Settings, Tokens
from snapkafka.service.grpc_api import messages as pb
from snapkafka.service.grpc_server import SERVICE, SESSION_KEY, serving
from tests.kafka.secured import make_certificates
from tests.worlds.fakes import FakeCluster, Worker
from tests.worlds.grpc_stub import Stub
from tests.worlds.remote_world import FakeConsumer, RemoteBroker, participant, trigger, until, view

ROOT, FOLDER = Path(__file__).parents[3], "snapkafka/service/grpc_api"
SECONDS = 60.0
CHANGE = TopicPartition("change", 0)
Status = grpc.StatusCode


class Door:
    """The service, a bank that reads `deposits`, and a channel. `stub`: its calls have the session of the last join."""

    address: str
    channel: Any
    stub: Stub

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.cluster, self.broker = bounds, FakeCluster(), RemoteBroker()
        self.broker.admin.topics["change"] = Topic(1)
        self.consumer = FakeConsumer(self.broker)
        Worker(self.cluster.the_ledger, "bank", "deposits")

    def make(self, node: str, codec: str, host: str) -> Participant:
        more: Any = {"node": node, "codec": codec, "bounds": self.bounds, "consumer": self.consumer}
        return participant(self.cluster, self.broker, **more)

    async def join(self, node: str = "till", inputs: Sequence[Any] = ()) -> tuple[Any, Any]:
        """A stream, and the first notice on it."""
        stream = Stub(self.channel).Join(pb.JoinRequest(node_id=node, inputs=inputs))
        first = await heard(stream)
        self.stub = Stub(self.channel, ((SESSION_KEY, first.joined.session),))
        return stream, first

    @property
    def alive(self) -> int:
        return len(list(view(self.cluster).living()))


async def heard(stream: Any) -> Any:
    """The next notice of a stream."""
    return await asyncio.wait_for(stream.read(), SECONDS)


@contextlib.asynccontextmanager
async def door(bounds: Bounds | None = None, **settings: Any) -> AsyncIterator[Door]:
    here = Door(bounds or Bounds())
    chosen = Settings(grpc_port=0, remote_topics=("deposits",), remote_inputs=("change",), **settings)
    async with (
        serving(here.make, chosen, here.bounds) as here.address,
        grpc.aio.insecure_channel(here.address) as here.channel,
    ):
        here.stub = Stub(here.channel)
        yield here


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), str(raised.value.details())


CHANGE_INPUT = pb.Input(topic="change")
SEND = pb.SendRequest(node_id="till", topic="deposits", value=b"1")
#: The fields of the contract, with their numbers; ours may be more.
CONTRACT = {
    "MarkerRequest": {"snapshot_id": 1, "sender_node_id": 2, "timestamp_ns": 3},
    "MarkerResponse": {"accepted": 1},
    "FlushRequest": {"snapshot_id": 1, "node_id": 2, "channel_id": 3, "state_data": 4},
    "FlushResponse": {"status": 1},
}


def test_messages_calls_and_stubs_are_those_of_the_contract(tmp_path: Path) -> None:
    for name, fields in CONTRACT.items():
        descriptor = getattr(pb, name).DESCRIPTOR
        assert fields.items() <= {field.name: field.number for field in descriptor.fields}.items()
    service = pb.DESCRIPTOR.services_by_name["SnapshotService"]
    assert service.full_name == SERVICE == "distributed.snapshot.SnapshotService"
    calls = {m.name: (m.input_type.name, m.output_type.name) for m in service.methods}
    assert calls["SendMarker"] == ("MarkerRequest", "MarkerResponse")
    assert calls["FlushChannelState"] == ("FlushRequest", "FlushResponse")
    command = f"-m grpc_tools.protoc -I{FOLDER}=schemas --python_out={tmp_path} {FOLDER}/snapshot.proto"
    subprocess.run([sys.executable, *command.split()], cwd=ROOT, check=True)
    made, committed = ((folder / FOLDER / "snapshot_pb2.py").read_text() for folder in (tmp_path, ROOT))
    assert made == committed, f"run: python {command.replace(str(tmp_path), '.')}"


async def test_a_process_with_nothing_but_the_contract_is_part_of_a_snapshot() -> None:
    async with door() as here:
        stream, first = await here.join()
        epoch = trigger(here.cluster, "one")
        marker = (await heard(stream)).marker
        assert (marker.snapshot_id, marker.sender_node_id) == ("one", "snapkafka")
        flush = pb.FlushRequest(snapshot_id="one", node_id="till", channel_id="peer", state_data=b"7")
        assert (await here.stub.FlushChannelState(flush)).status == "STORED"
        done = pb.MarkerRequest(snapshot_id="one", sender_node_id="till", timestamp_ns=1)
        assert (await here.stub.SendMarker(done)).accepted is True
        await until(lambda: view(here.cluster).snapshots[epoch].captured_at is not None, "the capture")
        assert first.joined.process in view(here.cluster).snapshots[epoch].reports
        assert list(here.broker.state(epoch).values()) == [b"7"]
        assert (await here.stub.SendMarker(done)).accepted is False
        assert (await here.stub.FlushChannelState(flush)).status == "NOT_AWAITED"


@pytest.mark.parametrize("session", ["", "0" * 32, "???"])
async def test_a_call_in_the_name_of_another_process_is_refused(session: str) -> None:
    async with door() as here:
        here.consumer.white(CHANGE, b"1")
        stream, first = await here.join(inputs=[CHANGE_INPUT])
        epoch = trigger(here.cluster, "one")
        await heard(stream)
        other: Any = Stub(here.channel, ((SESSION_KEY, session),))
        place = pb.Position(topic="change", partition=0, offset=1)
        for call in (
            other.Send(SEND),
            other.Processed(pb.ProcessedRequest(node_id="till", positions=[place])),
            other.Receive(pb.ReceiveRequest(node_id="till")).read(),
            other.FlushChannelState(pb.FlushRequest(snapshot_id="one", node_id="till", state_data=b"7")),
            other.SendMarker(pb.MarkerRequest(snapshot_id="one", sender_node_id="till")),
        ):
            code, why = await refused(call)
            assert code is Status.FAILED_PRECONDITION
            assert first.joined.session not in why
        assert here.broker.state(epoch) == {}
        assert first.joined.process not in view(here.cluster).snapshots[epoch].reports


async def test_silent_connections_are_closed() -> None:
    async with door(header_s=1.0) as here, asyncio.timeout(SECONDS):
        host, _, port = here.address.rpartition(":")
        silent = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
        for reader, _ in silent:  # they have a second for their handshake
            with contextlib.suppress(ConnectionError):
                await reader.read()
        await here.join()
        for _, writer in silent:
            writer.close()


async def test_a_process_ends_with_its_stream_or_by_a_later_one_which_goes_on_where_it_stood() -> None:
    """Also if the stream breaks before its first notice was read: each snapshot would wait for it."""
    async with door() as here:
        for number in range(4):
            here.consumer.white(CHANGE, b"%d" % number)
        older, first = await here.join(inputs=[CHANGE_INPUT])
        await heard(here.stub.Receive(pb.ReceiveRequest(node_id="till")))
        place = pb.Position(topic="change", partition=0, offset=1)
        await here.stub.Processed(pb.ProcessedRequest(node_id="till", positions=[place]))
        stub = here.stub
        later, second = await here.join(inputs=[CHANGE_INPUT])
        assert (await heard(older)).left.reason == "another process joined by its node_id"
        assert await heard(older) is grpc.aio.EOF
        assert (await refused(stub.Send(SEND)))[0] is Status.FAILED_PRECONDITION
        await here.stub.Send(SEND)
        await until(lambda: not view(here.cluster).is_alive(first.joined.process), "its Bye")
        assert view(here.cluster).owner(("till", CHANGE)) == second.joined.process > first.joined.process
        assert [p.offset for p in second.joined.positions] == [1]
        unread = here.stub.Join(pb.JoinRequest(node_id="other"))
        await until(lambda: here.alive == 3, "its Hello")
        for left, stream in ((2, unread), (1, later)):
            stream.cancel()
            await until(lambda left=left: here.alive == left, "its Bye")  # type: ignore[misc]


async def test_what_is_wrong_has_a_status_and_a_reason() -> None:
    async with door(Bounds(chunk_bytes_max=4), remote_max=1) as here:
        assert (await refused(here.stub.Send(SEND)))[0] is Status.FAILED_PRECONDITION
        _stream = await here.join()
        send = pb.SendRequest(node_id="till", topic="_snapkafka.ns", value=b"1")
        assert (await refused(here.stub.Send(send)))[0] is Status.PERMISSION_DENIED
        flush = pb.FlushRequest(snapshot_id="one", node_id="till", state_data=b"12345")
        assert (await refused(here.stub.FlushChannelState(flush)))[0] is Status.INVALID_ARGUMENT
        marker = pb.MarkerRequest(snapshot_id="one")
        assert (await refused(here.stub.SendMarker(marker)))[0] is Status.FAILED_PRECONDITION
        not_ours = [pb.Input(topic="deposits")]
        for join, status in (
            (pb.JoinRequest(node_id="a/b"), Status.INVALID_ARGUMENT),
            (pb.JoinRequest(node_id="more"), Status.RESOURCE_EXHAUSTED),
            (pb.JoinRequest(node_id="more", inputs=not_ours), Status.PERMISSION_DENIED),
        ):
            assert (await refused(here.stub.Join(join).read()))[0] is status
        receive = here.stub.Receive(pb.ReceiveRequest(node_id="other"))
        assert (await refused(receive.read()))[0] is Status.FAILED_PRECONDITION
        large = pb.FlushRequest(node_id="till", state_data=b"x" * 2_000_000)
        assert (await refused(here.stub.FlushChannelState(large)))[0] is Status.RESOURCE_EXHAUSTED
        here.broker.answers.clear()
        assert (await refused(here.stub.Send(SEND, timeout=0.2)))[0] is Status.DEADLINE_EXCEEDED
        here.broker.answers.set()


async def test_what_is_received_and_its_causes_and_positions_are_fields_of_messages() -> None:
    async with door() as here:
        for number in range(4):
            here.consumer.white(CHANGE, b"%d" % number)
        here.consumer.put(CHANGE, None, None)
        stream, first = await here.join(inputs=[CHANGE_INPUT])
        assert [(p.topic, p.partition, p.offset) for p in first.joined.positions] == [("change", 0, 0)]
        messages = here.stub.Receive(pb.ReceiveRequest(node_id="till"))
        found = [await heard(messages) for _ in range(5)]
        assert [m.HasField("value") for m in found] == [True] * 4 + [False]
        last = found[3]
        assert (last.topic, last.partition, last.offset, last.value) == (*CHANGE, 3, b"3")
        assert (last.key, last.timestamp_ms) == (b"k", 1003)
        cause = pb.Position(topic="change", partition=0, offset=2)
        await here.stub.Send(pb.SendRequest(node_id="till", topic="deposits", value=b"1", cause=cause))
        epoch = trigger(here.cluster, "one")
        await heard(stream)
        done = pb.MarkerRequest(snapshot_id="one", sender_node_id="till")
        await here.stub.FlushChannelState(pb.FlushRequest(snapshot_id="one", node_id="till", state_data=b"7"))
        code, why = await refused(here.stub.SendMarker(done))
        assert code is Status.INVALID_ARGUMENT and "leaves out 2, the cause of a send" in why
        done.positions.add(topic="change", partition=0, offset=3)
        assert (await here.stub.SendMarker(done)).accepted
        await until(lambda: view(here.cluster).snapshots[epoch].captured_at is not None, "the capture")
        (cut,) = [cut for cut in view(here.cluster).captured(epoch).inputs if cut.app == "till"]
        assert (cut.topic, cut.position) == ("change", 3)
        stream.cancel()
        code, why = await refused(heard(messages))
        assert code is Status.FAILED_PRECONDITION and "its connection was lost" in why


async def test_tokens_are_those_of_rest_and_anyone_may_ask_for_its_health_and_its_calls() -> None:
    tokens = Tokens.parse("read:" + "r" * 20 + "\ntrigger:" + "t" * 20, "a test")
    async with door(tokens=tokens) as here:
        for token, status in (
            ("", Status.UNAUTHENTICATED),
            ("x" * 20, Status.UNAUTHENTICATED),
            ("r" * 20, Status.PERMISSION_DENIED),
            ("t" * 20, Status.FAILED_PRECONDITION),
        ):
            found, why = await refused(here.stub.Send(SEND, metadata=(("authorization", f"Bearer {token}"),)))
            assert found is status, why
            assert not token or token not in why
        stream = here.stub.Join(pb.JoinRequest(node_id="till"))
        assert (await refused(stream.read()))[0] is Status.UNAUTHENTICATED
        alive = health_pb2_grpc.HealthStub(here.channel)
        health = await alive.Check(health_pb2.HealthCheckRequest(service=SERVICE))
        assert health.status == health_pb2.HealthCheckResponse.SERVING
        call = reflection_pb2_grpc.ServerReflectionStub(here.channel).ServerReflectionInfo()
        await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
        services = (await heard(call)).list_services_response.service
        assert {SERVICE, "grpc.health.v1.Health"} <= {found.name for found in services}
        call.cancel()


async def test_it_presents_the_certificate_of_the_service(tmp_path: Path) -> None:
    await asyncio.to_thread(make_certificates, tmp_path)
    text = (tmp_path / "server.pem").read_text()
    async with door(certificate=f"{tmp_path}/server.pem", key=f"{tmp_path}/server_key.pem") as here:
        address = "127.0.0.1", int(here.address.rpartition(":")[2])
        assert await asyncio.to_thread(ssl.get_server_certificate, address) in text
