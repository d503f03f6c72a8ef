"""Two requests that aiokafka lacks, built of its own protocol types.

Metadata, version 12, shows topic ids: they distinguish a recreated topic from its predecessor. DescribeCluster shows
our rights: without the right to see every consumer group, a list of groups proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import Boolean, CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from snapkafka.errors import LedgerUnusableError
from snapkafka.protocol.exact import exact

#: The bit of `authorized_operations` that stands for the right DESCRIBE, in Kafka's numbering of operations, ...
DESCRIBE_BIT: Final = 8
#: ... and those of the rights that matter to a topic.
RIGHT_BITS: Final = {
    3: "Read",
    4: "Write",
    DESCRIBE_BIT: "Describe",
    10: "DescribeConfigs",
    11: "AlterConfigs",
}
#: What a broker answers that was not asked for rights, or does not tell them.
RIGHTS_UNKNOWN: Final = -(2**31)
NO_ID: Final = bytes(16)


class OwnRequest(RequestStruct):  # type: ignore[misc]  # aiokafka is not looked into
    """A request that the client library lacks: sent in one version. `ANSWER`: the form of its response."""

    API_KEY, API_VERSION, RESPONSE_TYPE = -1, -1, Response  # a subclass names its own
    ANSWER = Schema()

    def __init_subclass__(cls) -> None:
        form = {"API_KEY": cls.API_KEY, "API_VERSION": cls.API_VERSION, "SCHEMA": cls.ANSWER}
        cls.RESPONSE_TYPE = type(f"{cls.__name__}Response", (Response,), form)
        super().__init_subclass__()

    def prepare(self, versions: dict[int, tuple[int, int]]) -> OwnRequest:
        """Check that the broker has this version: the client library asks."""
        low, high = versions.get(self.API_KEY, (0, -1))
        if not low <= self.API_VERSION <= high:
            raise LedgerUnusableError(
                f"this broker is too old: it does not know request {self.API_KEY} in version {self.API_VERSION}",
                hint="use Kafka 3.0 or later",
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicDescription:
    """A topic as the cluster has it. `topic_id`: Kafka's own, 32 hex digits. `replicas`: of the partition with the
    fewest. `leader_epoch`: of the first partition, which only loses records when it has a new one (-1: unknown)."""

    topic: str
    partitions: int
    topic_id: str
    internal: bool = False
    replicas: int = 0
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicAccess:
    """The access to a topic. `rights`: ours, by Kafka's names; None: the broker does not show them. `in_sync`: the
    number of replicas in sync of the partition that has the fewest; 0 if one has no leader."""

    rights: frozenset[str] | None
    in_sync: int


class _Uuid:
    """A UUID of 16 raw bytes."""

    @staticmethod
    def encode(value: bytes) -> bytes:
        return value

    @staticmethod
    def decode(data: BytesIO) -> bytes:
        return data.read(16)

    @staticmethod
    def repr(value: bytes) -> str:
        return value.hex()


uuid_type: Final = _Uuid


class _Exact(Schema):  # type: ignore[misc]  # aiokafka is not looked into
    """A response in tuples that are allocated in their exact size. The ledger's topic is described every few seconds,
    and Python keeps two thousand shrunk tuples of each size (`protocol.exact`)."""

    def decode(self, data: BytesIO) -> tuple[Any, ...]:
        return exact(field.decode(data) for field in self.fields)


class MetadataRequestV12(OwnRequest):
    """The request to describe some topics, or all; it creates none (the client's own request may, on brokers that
    allow it).

    Args:
        topics: their names; None for all.
        rights: also ask for our rights to each.
    """

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 3, 12
    SCHEMA = Schema(
        (
            "topics",
            CompactArray(("topic_id", _Uuid), ("topic", CompactString("utf-8")), ("tags", TaggedFields)),
        ),
        ("allow_auto_topic_creation", Boolean),
        ("include_topic_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                _Exact(
                    ("node_id", Int32),
                    ("host", CompactString("utf-8")),
                    ("port", Int32),
                    ("rack", CompactString("utf-8")),
                    ("tags", TaggedFields),
                )
            ),
        ),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                _Exact(
                    ("error_code", Int16),
                    ("topic", CompactString("utf-8")),
                    ("topic_id", _Uuid),
                    ("is_internal", Boolean),
                    (
                        "partitions",
                        CompactArray(
                            _Exact(
                                ("error_code", Int16),
                                ("partition", Int32),
                                ("leader", Int32),
                                ("leader_epoch", Int32),
                                ("replicas", CompactArray(Int32)),
                                ("isr", CompactArray(Int32)),
                                ("offline_replicas", CompactArray(Int32)),
                                ("tags", TaggedFields),
                            )
                        ),
                    ),
                    ("authorized_operations", Int32),
                    ("tags", TaggedFields),
                )
            ),
        ),
        ("tags", TaggedFields),
    )

    def __init__(self, topics: list[str] | None, *, rights: bool = False) -> None:
        no_tags: dict[int, bytes] = {}
        wanted = None if topics is None else [(NO_ID, topic, no_tags) for topic in topics]
        super().__init__(wanted, False, rights, no_tags)


class DescribeClusterRequest(OwnRequest):
    """The request for our rights to the cluster as a whole."""

    FLEXIBLE_VERSION = True
    API_KEY, API_VERSION = 60, 0
    SCHEMA = Schema(("include_authorized_operations", Boolean), ("tags", TaggedFields))
    ANSWER = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", CompactString("utf-8")),
        ("cluster_id", CompactString("utf-8")),
        ("controller_id", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32),
                ("host", CompactString("utf-8")),
                ("port", Int32),
                ("rack", CompactString("utf-8")),
                ("tags", TaggedFields),
            ),
        ),
        ("authorized_operations", Int32),
        ("tags", TaggedFields),
    )

    def __init__(self) -> None:
        super().__init__(True, {})


def may_describe_cluster(response: Any) -> bool:
    """Return whether the response shows that we see everything, every consumer group above all."""
    return not response.error_code and bool(response.authorized_operations >> DESCRIBE_BIT & 1)


def descriptions(response: Any) -> tuple[dict[str, TopicDescription], dict[str, int]]:
    """Return the topics of a response, and the error codes of those that cannot be described."""
    found: dict[str, TopicDescription] = {}
    failed: dict[str, int] = {}
    for code, topic, topic_id, internal, partitions, *_ in response.topics:
        # Partitions without a leader (code 5) are counted all the same: they come back.
        if code:
            failed[topic] = code
        else:
            found[topic] = TopicDescription(
                topic=topic,
                partitions=len(partitions),
                topic_id=topic_id.hex(),
                internal=internal,
                replicas=min((len(replicas) for _, _, _, _, replicas, *_ in partitions), default=0),
                leader_epoch=next((epoch for _, number, _, epoch, *_ in partitions if number == 0), -1),
            )
    return found, failed


def access(topic: Any) -> TopicAccess:
    """Return the access to a topic from a response that was asked for rights."""
    _, _, _, _, partitions, bits, _ = topic
    in_sync = [0 if leader < 0 else len(isr) for _, _, leader, _, _, isr, *_ in partitions]
    return TopicAccess(
        rights=None
        if bits == RIGHTS_UNKNOWN
        else frozenset(name for bit, name in RIGHT_BITS.items() if bits >> bit & 1),
        in_sync=min(in_sync, default=0),
    )
