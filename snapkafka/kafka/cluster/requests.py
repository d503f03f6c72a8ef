"""Kafka's messages that aiokafka lacks, a line for each direction, and those that it has in another version.

A form lists fields, `name:type`; `[...]` is a list, of a type or of fields, `(...)` a struct. All are flexible: each
struct has room for tags, strings and lists are compact (KIP-482). Kafka's own description of its messages
(`clients/src/main/resources/common/message`) has the same fields in the same order. Answers are read by name.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Sequence
from io import BytesIO
from typing import Any, ClassVar, Final

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.commit import OffsetCommitRequest_v2
from aiokafka.protocol.group import (
    HeartbeatRequest_v1,
    JoinGroupRequest_v2,
    LeaveGroupRequest_v1,
    SyncGroupRequest_v1,
)
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from snapkafka.errors import LedgerUnusableError


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


_TYPES: Final = {
    "bool": Boolean, "i8": Int8, "i16": Int16, "i32": Int32, "i64": Int64,
    "uuid": _Uuid, "str": CompactString("utf-8"),
}  # fmt: skip


class Form(Schema):  # type: ignore[misc]  # aiokafka is not looked into
    """Fields in a row, read as a named tuple. In its exact size: the ledger's topic is described every few seconds, and
    Python keeps two thousand shrunk tuples of each size (`protocol.exact`).

    Args:
        words: of the form, the next one last; those of this form are taken.
    """

    def __init__(self, words: list[str]) -> None:
        fields = []
        while words and (word := words.pop()) not in ("]", ")"):
            fields.append((word.removesuffix(":"), _take_type(words)))
        super().__init__(*fields)
        self._kind = namedtuple("Answer", self.names)  # type: ignore[misc]

    def encode(self, item: Sequence[Any]) -> bytes:
        encoded: bytes = super().encode(item)
        return encoded + b"\0"

    def decode(self, data: BytesIO) -> Any:
        values = [field.decode(data) for field in self.fields]
        TaggedFields.decode(data)
        return self._kind(*values)


def _take_type(words: list[str]) -> Any:
    word = words.pop()
    if word == "(":
        return Form(words)
    if word != "[":
        return _TYPES[word]
    if words[-1].endswith(":"):
        return CompactArray(Form(words))
    of = _take_type(words)
    words.pop()  # ]
    return CompactArray(of)


class OwnRequest:
    """A request that is sent in one version."""

    API_KEY: ClassVar[int]
    API_VERSION: ClassVar[int]

    def prepare(self, versions: dict[int, tuple[int, int]]) -> OwnRequest:
        """Check that the broker has this version: the client library asks."""
        low, high = versions.get(self.API_KEY, (0, -1))
        if not low <= self.API_VERSION <= high:
            raise LedgerUnusableError(
                f"this broker is too old: it does not know request {self.API_KEY} in version {self.API_VERSION}",
                hint="use Kafka 3.0 or later",
            )
        return self


def _request(name: str, key: int, version: int, asks: str, answers: str) -> Any:
    """Create the class of a request.

    Args:
        name: as Kafka has it.
        asks, answers: the forms of the request and of its response.
    """
    both = {"API_KEY": key, "API_VERSION": version}
    fields, answered = (Form(re.findall(r"\w+:?|[\[\]()]", text)[::-1]) for text in (asks, answers))
    response = type(f"{name}Response", (Response,), {**both, "SCHEMA": answered})
    own = {"SCHEMA": fields, "RESPONSE_TYPE": response, "FLEXIBLE_VERSION": True}
    return type(f"{name}Request", (OwnRequest, RequestStruct), {**both, **own})


#: With topic ids, which distinguish a recreated topic from its predecessor, and with our rights on the cluster: without
#: the right to see every consumer group, a list of groups proves nothing. It creates no topic, as the client's may.
Metadata: Final = _request(
    "Metadata", 3, 10,
    "topics:[id:uuid name:str] create:bool rights:bool topic_rights:bool",
    "throttle_ms:i32 brokers:[node:i32 host:str port:i32 rack:str] cluster:str controller:i32"
    " topics:[error:i16 name:str id:uuid internal:bool partitions:[error:i16 number:i32 leader:i32 epoch:i32"
    " replicas:[i32] isr:[i32] offline:[i32]] topic_rights:i32] rights:i32",
)  # fmt: skip
#: `END` and `START` stand for times. By this version no new leader gives out an end below that of the last (KIP-207).
ListOffsets: Final = _request(
    "ListOffsets", 2, 6,
    "replica:i32 committed:i8 topics:[name:str partitions:[number:i32 epoch:i32 time:i64]]",
    "throttle_ms:i32 topics:[name:str partitions:[number:i32 error:i16 time:i64 offset:i64 epoch:i32]]",
)  # fmt: skip
END: Final = -1
START: Final = -2
#: Of the new consumer protocol (KIP-848).
_ASSIGNED: Final = "(partitions:[id:uuid topic:str numbers:[i32]])"
ConsumerGroupDescribe: Final = _request(
    "ConsumerGroupDescribe", 69, 0,
    "groups:[str] rights:bool",
    "throttle_ms:i32 groups:[error:i16 why:str name:str state:str epoch:i32 assigned_epoch:i32 assignor:str"
    " members:[member:str instance:str rack:str epoch:i32 client:str host:str topics:[str] pattern:str"
    f" assigned:{_ASSIGNED} target:{_ASSIGNED}] rights:i32]",
)  # fmt: skip
#: The first version whose response states a reason; Kafka 2.7 has it.
DeleteTopics: Final = _request(
    "DeleteTopics", 20, 5,
    "topics:[str] timeout_ms:i32", "throttle_ms:i32 topics:[name:str error:i16 why:str]",
)  # fmt: skip

#: Those of a member of a group, in versions that every broker from Kafka 0.11 to 4 has.
JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit = (
    type(base.__name__, (OwnRequest, base), {})
    for base in (
        *(JoinGroupRequest_v2, SyncGroupRequest_v1, HeartbeatRequest_v1, LeaveGroupRequest_v1),
        OffsetCommitRequest_v2,
    )
)


#: The bit of the rights in an answer that stands for DESCRIBE, in Kafka's numbering of operations.
DESCRIBE_BIT: Final = 8
