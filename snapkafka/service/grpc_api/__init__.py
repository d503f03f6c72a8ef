"""The messages of `schemas/snapshot.proto`, made by `protoc`: `test_grpc` says how. Clients generate their own."""

from typing import Any

from . import snapshot_pb2

#: Typed as Any: its classes are made when it is imported.
messages: Any = snapshot_pb2
