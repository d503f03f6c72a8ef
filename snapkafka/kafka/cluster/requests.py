"""Kafka's messages that aiokafka lacks, a line for each direction.

A form lists fields, `name:type`; `[...]` is a list, of a type or of fields, `(...)` a struct. Kafka's own description
of its messages (`clients/src/main/resources/common/message`) has the same fields in the same order. Answers are read
by name.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Sequence
from io import BytesIO
from typing import Any, Final

from aiokafka.protocol.api import RequestStruct, Response
from aiokafka.protocol.types import (
    Array,
    Boolean,
    Bytes,
    CompactArray,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    String,
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
    "bool": Boolean, "i8": Int8, "i16": Int16, "i32": Int32, "i64": Int64, "uuid": _Uuid, "bytes": Bytes,
    "str": String("utf-8"),
}  # fmt: skip


class Form(Schema):  # type: ignore[misc]  # aiokafka is not looked into
    """Fields in a row, read as a named tuple. In its exact size: the ledger's topic is described every few seconds, and
    Python keeps two thousand shrunk tuples of each size (`protocol.exact`).

    Args:
        words: of the form, the next one last; those of this form are taken.
        flexible: each struct has room for tags, strings and lists are compact (KIP-482).
    """

    def __init__(self, words: list[str], *, flexible: bool) -> None:
        fields = []
        while words and (word := words.pop()) not in ("]", ")"):
            fields.append((word.removesuffix(":"), _take_type(words, flexible)))
        super().__init__(*fields)
        self._flexible = flexible
        self._kind = namedtuple("Answer", self.names)  # type: ignore[misc]

    def encode(self, item: Sequence[Any]) -> bytes:
        encoded: bytes = super().encode(item)
        return encoded + b"\0" if self._flexible else encoded

    def decode(self, data: BytesIO) -> Any:
        values = [field.decode(data) for field in self.fields]
        if self._flexible:
            TaggedFields.decode(data)
        return self._kind(*values)


def _take_type(words: list[str], flexible: bool) -> Any:
    word = words.pop()
    if word == "(":
        return Form(words, flexible=flexible)
    if word != "[":
        return CompactString("utf-8") if flexible and word == "str" else _TYPES[word]
    listing = CompactArray if flexible else Array
    if words[-1].endswith(":"):
        return listing(Form(words, flexible=flexible))
    of = _take_type(words, flexible)
    words.pop()  # ]
    return listing(of)


def form(text: str, *, flexible: bool = False) -> Form:
    """Read a form."""
    return Form(re.findall(r"\w+:?|[\[\]()]", text)[::-1], flexible=flexible)


class OwnRequest(RequestStruct):  # type: ignore[misc]  # aiokafka is not looked into
    """A request that the client library lacks: sent in one version."""

    API_KEY, API_VERSION, RESPONSE_TYPE = -1, -1, Response  # a subclass names its own

    def prepare(self, versions: dict[int, tuple[int, int]]) -> OwnRequest:
        """Check that the broker has this version: the client library asks."""
        low, high = versions.get(self.API_KEY, (0, -1))
        if not low <= self.API_VERSION <= high:
            raise LedgerUnusableError(
                f"this broker is too old: it does not know request {self.API_KEY} in version {self.API_VERSION}",
                hint="use Kafka 3.0 or later",
            )
        return self


def _request(
    name: str, key: int, version: int, asks: str, answers: str, *, flexible: bool = False
) -> type[OwnRequest]:
    """Create the class of a request.

    Args:
        name: as Kafka has it.
        asks, answers: the forms of the request and of its response.
    """
    both = {"API_KEY": key, "API_VERSION": version}
    response = type(f"{name}Response", (Response,), {**both, "SCHEMA": form(answers, flexible=flexible)})
    own = {"SCHEMA": form(asks, flexible=flexible), "RESPONSE_TYPE": response, "FLEXIBLE_VERSION": flexible}
    return type(f"{name}Request", (OwnRequest,), {**both, **own})


#: With topic ids, which distinguish a recreated topic from its predecessor. It creates no topic, as the client's may.
Metadata: Final = _request(
    "Metadata", 3, 12,
    "topics:[id:uuid name:str] create:bool rights:bool",
    "throttle_ms:i32 brokers:[node:i32 host:str port:i32 rack:str] cluster:str controller:i32"
    " topics:[error:i16 name:str id:uuid internal:bool partitions:[error:i16 number:i32 leader:i32 epoch:i32"
    " replicas:[i32] isr:[i32] offline:[i32]] rights:i32]",
    flexible=True,
)  # fmt: skip
#: With our rights: without the right to see every consumer group, a list of groups proves nothing.
DescribeCluster: Final = _request(
    "DescribeCluster", 60, 0,
    "rights:bool",
    "throttle_ms:i32 error:i16 why:str cluster:str controller:i32 brokers:[node:i32 host:str port:i32 rack:str]"
    " rights:i32",
    flexible=True,
)  # fmt: skip
#: Of the new consumer protocol (KIP-848).
_ASSIGNED: Final = "(partitions:[id:uuid topic:str numbers:[i32]])"
ConsumerGroupDescribe: Final = _request(
    "ConsumerGroupDescribe", 69, 0,
    "groups:[str] rights:bool",
    "throttle_ms:i32 groups:[error:i16 why:str name:str state:str epoch:i32 assigned_epoch:i32 assignor:str"
    " members:[member:str instance:str rack:str epoch:i32 client:str host:str topics:[str] pattern:str"
    f" assigned:{_ASSIGNED} target:{_ASSIGNED}] rights:i32]",
    flexible=True,
)  # fmt: skip
#: The first version whose response states a reason; Kafka 2.7 has it.
DeleteTopics: Final = _request(
    "DeleteTopics", 20, 5,
    "topics:[str] timeout_ms:i32", "throttle_ms:i32 topics:[name:str error:i16 why:str]", flexible=True,
)  # fmt: skip

# Those of a member of a group, in versions that every broker from Kafka 0.11 to 4 has.

JoinGroup: Final = _request(
    "JoinGroup", 11, 2,
    "group:str session_ms:i32 rebalance_ms:i32 member:str kind:str protocols:[protocol_name:str metadata:bytes]",
    "throttle_ms:i32 error:i16 generation:i32 protocol:str leader:str member:str"
    " members:[member:str metadata:bytes]",
)  # fmt: skip
SyncGroup: Final = _request(
    "SyncGroup", 14, 1,
    "group:str generation:i32 member:str assignments:[member:str metadata:bytes]",
    "throttle_ms:i32 error:i16 assignment:bytes",
)  # fmt: skip
Heartbeat: Final = _request(
    "Heartbeat", 12, 1, "group:str generation:i32 member:str", "throttle_ms:i32 error:i16"
)
LeaveGroup: Final = _request("LeaveGroup", 13, 1, "group:str member:str", "throttle_ms:i32 error:i16")
OffsetCommit: Final = _request(
    "OffsetCommit", 8, 2,
    "consumer_group:str generation:i32 member:str retention_ms:i64"
    " topics:[name:str partitions:[number:i32 offset:i64 note:str]]",
    "topics:[name:str partitions:[number:i32 error:i16]]",
)  # fmt: skip
