"""Every request of aiokafka, and every client of confluent-kafka, in a process of a fork."""

import importlib
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, Final
from unittest.mock import Mock

import aiokafka.protocol
import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.protocol.api import Request, RequestStruct
from aiokafka.protocol.commit import OffsetFetchRequest_v3
from aiokafka.protocol.types import Array, Boolean, Bytes, Int8, Int16, Int32, Int64, Schema, String
from confluent_kafka.admin import AdminClient

import snapkafka.kafka
from snapkafka.drivers import Isolation
from snapkafka.errors import ForkIsolationError
from snapkafka.kafka.cluster.fork_requests import CHECKED, require_of_fork
from snapkafka.kafka.cluster.fork_requests import FREE as FREE_KEYS
from snapkafka.kafka.cluster.requests import ConsumerGroupDescribe, DeleteTopics, Metadata, OwnRequest

for module in pkgutil.iter_modules(aiokafka.protocol.__path__):
    importlib.import_module(f"aiokafka.protocol.{module.name}")

FORK, OURS, THEIRS = "staging", "fork.staging.orders", "orders"
#: Fields of requests that hold names of topics, groups and transactions.
NAME_FIELDS: Final = {
    "topic", "topics", "name", "group", "groups_names", "consumer_group", "group_id", "transactional_id",
    "resource_name",
}  # fmt: skip
#: Requests that change nothing and read neither records nor positions: whatever they name passes.
FREE: Final = {
    "FindCoordinatorRequest", "DescribeGroupsRequest", "ListGroupsRequest", "SaslHandShakeRequest", "ApiVersionRequest",
    "DescribeAclsRequest", "SaslAuthenticateRequest", "ListPartitionReassignmentsRequest",
    "DescribeClientQuotasRequest",
}  # fmt: skip
#: Requests about the cluster: whatever they name is refused.
NEVER: Final = {"CreateAclsRequest", "DeleteAclsRequest", "AlterPartitionReassignmentsRequest"}
STRUCTS: Final = [it for request in Request.__subclasses__() for it in dict.fromkeys(request._CLASSES)]
#: Their values; of kinds of resources 2 is a topic.
PLAIN: Final = {Int8: 2, Int16: 2, Int32: 2, Int64: 2, Boolean: False, Bytes: b""}


def values(kind: Any, theirs: int, field: str, seen: list[str]) -> Any:
    """A value of a field; the text with this number holds a name of production, all others one of the fork."""
    if isinstance(kind, Schema):
        return tuple(values(of, theirs, name, seen) for name, of in zip(kind.names, kind.fields, strict=True))
    if isinstance(kind, Array):
        return [values(kind.array_of, theirs, field, seen)]
    if kind in PLAIN:
        return PLAIN[kind]
    if "String" in repr(kind) or "String" in type(kind).__name__:
        seen.append(field)
        return THEIRS if len(seen) - 1 == theirs else OURS
    return {}  # tagged fields


def built(struct: type[RequestStruct], theirs: int = -1) -> tuple[Any, list[str]]:
    """A request, and the fields of its texts in their order."""
    seen: list[str] = []
    return struct(*values(struct.SCHEMA, theirs, "", seen)), seen


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_request_passes_only_where_every_name_in_it_is_of_the_fork(struct: type[RequestStruct]) -> None:
    kind = struct.__name__.partition("_v")[0]
    names = {number for number, field in enumerate(built(struct)[1]) if field in NAME_FIELDS}
    assert names or kind in FREE | NEVER, "a request without names is stated to be free"
    named: dict[str, str] = {} if kind in NEVER else {"name": THEIRS}
    for number in {-1, *names}:
        request, _ = built(struct, number)
        request.encode()  # it is one that a broker would take
        passes = kind in FREE or (number < 0 and kind not in NEVER)
        refused = pytest.raises(ForkIsolationError, check=lambda error: error.facts == named)
        with nullcontext() if passes else refused:
            require_of_fork(FORK, request)


def test_every_request_of_our_own_has_its_place() -> None:
    for module in pkgutil.walk_packages(snapkafka.kafka.__path__, "snapkafka.kafka."):
        importlib.import_module(module.name)
    ours = set(OwnRequest.__subclasses__())
    assert {Metadata, DeleteTopics} < ours
    assert {it.API_KEY for it in ours} <= CHECKED | FREE_KEYS
    assert len(STRUCTS) > 60, "aiokafka has its requests elsewhere: this shows nothing"


class Elect(RequestStruct):
    API_KEY, API_VERSION, RESPONSE_TYPE, SCHEMA = 43, 0, None, Schema()


class Moved(OffsetFetchRequest_v3):
    def __init__(self) -> None:
        """Its fields are elsewhere."""


class Grown(RequestStruct):
    API_KEY, API_VERSION, RESPONSE_TYPE = 20, 99, None
    SCHEMA = Schema(("topics", Array(String("utf-8"))), ("destination", String("utf-8")))


def config(kind: str, resource: int) -> Any:
    """A request for settings; kind of resource 2 is a topic."""
    (struct,) = [it for it in STRUCTS if it.__name__ == f"{kind}ConfigsRequest_v1"]
    request, _ = built(struct)
    request.resources = [(resource, *item[1:]) for item in request.resources]
    return request


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (Metadata([(b"", "orders")], False, False, False), "orders"),
        (Metadata([(b"", OURS), (b"", "_snapkafka.fork.staging.ns")], False, False, False), ""),
        (Metadata([(b"", "_snapkafka.ns")], False, False, False), "_snapkafka.ns"),
        (Metadata(None, False, False, False), ""),
        (DeleteTopics(["orders"], 9), "orders"),
        (DeleteTopics([OURS], 9), ""),
        (ConsumerGroupDescribe(["shop"], False), ""),
        # Settings of brokers are read, and not changed.
        *((config("Describe", resource), "") for resource in (0, 4, 8)),
        *((config("Alter", resource), "AlterConfigs") for resource in (0, 4, 8)),
        # What is not known: a kind, where the fields are, a text in a field.
        (Elect(), "Elect"),
        (Moved(), "Moved"),
        (Grown([OURS], THEIRS), THEIRS),
    ],
    ids=lambda it: type(it).__name__,
)
def test_requests_of_our_own_those_about_brokers_and_unknown_ones(request_: Any, refused: str) -> None:
    with pytest.raises(ForkIsolationError, match=refused) if refused else nullcontext():
        require_of_fork(FORK, request_)


AS_THEY_WERE: Final = AIOKafkaConnection.send, AIOKafkaConnection.connect, AIOKafkaClient.add_topic


@pytest.fixture
def isolation() -> Iterator[Isolation]:
    found = Isolation.of(FORK)
    yield found
    found.remove()


@pytest.mark.parametrize("theirs", [-1, 0])
async def test_what_is_refused_writes_nothing(isolation: Isolation, theirs: int) -> None:
    connection, writer = AIOKafkaConnection("127.0.0.1", 1), Mock()
    connection._writer = writer
    # What is checked is what is sent: it is prepared once.
    sent = Mock(prepare=Mock(side_effect=[built(OffsetFetchRequest_v3, theirs)[0]]))
    with nullcontext() if theirs < 0 else pytest.raises(ForkIsolationError):
        connection.send(sent).close()
    assert writer.write.called == (theirs < 0)


async def test_a_client_that_is_to_ask_about_a_topic_is_refused_at_once(isolation: Isolation) -> None:
    """The request leaves in a task of the client, whose error nobody would see. Afterwards all is as it was."""
    client = AIOKafkaClient()
    for ask in (lambda: client.add_topic(THEIRS), lambda: client.set_topics([OURS, THEIRS])):
        with pytest.raises(ForkIsolationError, match="topic orders"):
            ask()
    with pytest.raises(ForkIsolationError, match="topic orders"):
        await client._wait_on_metadata(THEIRS)
    isolation.remove()
    patched = AIOKafkaConnection.send, AIOKafkaConnection.connect, AIOKafkaClient.add_topic
    assert patched == AS_THEY_WERE
    assert AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0}) is not None


CLIENTS = """
import asyncio, importlib.util
import confluent_kafka, confluent_kafka.admin
from confluent_kafka import *  # bound before, as a module of an app does
from confluent_kafka.admin import AdminClient
class Early(SerializingProducer): pass
import faust, snapkafka
from snapkafka.errors import ForkIsolationError
snapkafka.install(faust.App("shop", broker="kafka://127.0.0.1:1"), namespace="ns")
from confluent_kafka import Consumer, DeserializingConsumer, Producer, SerializingProducer, cimpl
class Late(confluent_kafka.Producer):
    def __init__(self, settings):
        super().__init__(settings)
settings = {"bootstrap.servers": "127.0.0.1:1", "group.id": "shop", "log_level": 0}
makers = [Producer, Consumer, AdminClient, SerializingProducer, DeserializingConsumer, cimpl.Producer, cimpl.Consumer,
    cimpl._AdminClientImpl, confluent_kafka.Consumer, confluent_kafka.admin.AdminClient, Early, Late]
if hasattr(confluent_kafka, "ShareConsumer"):  # releases that have it
    makers += [confluent_kafka.ShareConsumer, confluent_kafka.DeserializingShareConsumer]
if importlib.util.find_spec("confluent_kafka.aio"):
    from confluent_kafka.aio import AIOConsumer, AIOProducer
    async def native(kind):
        return kind(settings)
    makers += [lambda settings: asyncio.run(native(AIOProducer)), lambda settings: asyncio.run(native(AIOConsumer))]
for make in makers:
    try:
        make(settings)
    except ForkIsolationError:
        continue
    raise SystemExit(f"{make} was not refused")
print("refused all")
"""


def test_no_client_of_confluent_kafka_is_made() -> None:
    env = os.environ | {"SNAPKAFKA_FORK": FORK}
    done = subprocess.run([sys.executable, "-c", CLIENTS], capture_output=True, text=True, env=env)
    assert done.stdout == "refused all\n", done.stderr
