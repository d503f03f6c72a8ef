"""A client of `schemas/snapshot.proto`, as a compiler would generate it."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from google.protobuf.message_factory import GetMessageClass

from snapkafka.service.grpc_api import messages as pb


class Stub:
    """The calls of the service as methods, with this metadata."""

    def __init__(self, channel: Any, metadata: Sequence[tuple[str, str]] = ()) -> None:
        service = pb.DESCRIPTOR.services_by_name["SnapshotService"]
        for method in service.methods:
            make = channel.unary_stream if method.server_streaming else channel.unary_unary
            call = make(
                f"/{service.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            setattr(self, method.name, partial(call, metadata=metadata))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)
