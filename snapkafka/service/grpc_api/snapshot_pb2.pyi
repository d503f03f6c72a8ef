from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Position(_message.Message):
    __slots__ = ("topic", "partition", "offset")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class MarkerRequest(_message.Message):
    __slots__ = ("snapshot_id", "sender_node_id", "timestamp_ns", "positions")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SENDER_NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    sender_node_id: str
    timestamp_ns: int
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, snapshot_id: _Optional[str] = ..., sender_node_id: _Optional[str] = ..., timestamp_ns: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class MarkerResponse(_message.Message):
    __slots__ = ("accepted",)
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    def __init__(self, accepted: _Optional[bool] = ...) -> None: ...

class FlushRequest(_message.Message):
    __slots__ = ("snapshot_id", "node_id", "channel_id", "state_data", "chunk")
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_DATA_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: str
    node_id: str
    channel_id: str
    state_data: bytes
    chunk: int
    def __init__(self, snapshot_id: _Optional[str] = ..., node_id: _Optional[str] = ..., channel_id: _Optional[str] = ..., state_data: _Optional[bytes] = ..., chunk: _Optional[int] = ...) -> None: ...

class FlushResponse(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: str
    def __init__(self, status: _Optional[str] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("node_id", "codec", "session", "inputs")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    CODEC_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    codec: str
    session: str
    inputs: _containers.RepeatedCompositeFieldContainer[Input]
    def __init__(self, node_id: _Optional[str] = ..., codec: _Optional[str] = ..., session: _Optional[str] = ..., inputs: _Optional[_Iterable[_Union[Input, _Mapping]]] = ...) -> None: ...

class Input(_message.Message):
    __slots__ = ("topic", "positions", "key_codec", "value_codec")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    KEY_CODEC_FIELD_NUMBER: _ClassVar[int]
    VALUE_CODEC_FIELD_NUMBER: _ClassVar[int]
    topic: str
    positions: _containers.RepeatedCompositeFieldContainer[Start]
    key_codec: str
    value_codec: str
    def __init__(self, topic: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Start, _Mapping]]] = ..., key_codec: _Optional[str] = ..., value_codec: _Optional[str] = ...) -> None: ...

class Start(_message.Message):
    __slots__ = ("partition", "offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("joined", "marker", "left", "added")
    JOINED_FIELD_NUMBER: _ClassVar[int]
    MARKER_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    joined: Joined
    marker: MarkerRequest
    left: Left
    added: Added
    def __init__(self, joined: _Optional[_Union[Joined, _Mapping]] = ..., marker: _Optional[_Union[MarkerRequest, _Mapping]] = ..., left: _Optional[_Union[Left, _Mapping]] = ..., added: _Optional[_Union[Added, _Mapping]] = ...) -> None: ...

class Joined(_message.Message):
    __slots__ = ("process", "session", "positions")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    process: int
    session: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, process: _Optional[int] = ..., session: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class Left(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Added(_message.Message):
    __slots__ = ("positions",)
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("node_id", "topic", "key", "value", "partition", "cause")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    topic: str
    key: bytes
    value: bytes
    partition: int
    cause: Position
    def __init__(self, node_id: _Optional[str] = ..., topic: _Optional[str] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., partition: _Optional[int] = ..., cause: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class SendResponse(_message.Message):
    __slots__ = ("partition", "offset")
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    partition: int
    offset: int
    def __init__(self, partition: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class ReceiveRequest(_message.Message):
    __slots__ = ("node_id",)
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    def __init__(self, node_id: _Optional[str] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("topic", "partition", "offset", "key", "value", "timestamp_ms")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    timestamp_ms: int
    def __init__(self, topic: _Optional[str] = ..., partition: _Optional[int] = ..., offset: _Optional[int] = ..., key: _Optional[bytes] = ..., value: _Optional[bytes] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class ProcessedRequest(_message.Message):
    __slots__ = ("node_id", "positions")
    NODE_ID_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    node_id: str
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    def __init__(self, node_id: _Optional[str] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ...) -> None: ...

class ProcessedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
