"""Errors as problem+json (RFC 9457), and those that only a server has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from starlette.responses import Response

from snapkafka.errors import BadInputError, SnapkafkaError

PROBLEM_JSON: Final = "application/problem+json"
#: What only a server refuses: code -> its statuses over HTTP and gRPC.
REFUSALS: Final[Mapping[str, tuple[int, str]]] = {
    "bad-input": (BadInputError.http, BadInputError.grpc),
    "unauthorized": (401, "UNAUTHENTICATED"),
    "forbidden": (403, "PERMISSION_DENIED"),
    "not-found": (404, "NOT_FOUND"),
    "method-not-allowed": (405, "UNIMPLEMENTED"),
    "too-large": (413, "RESOURCE_EXHAUSTED"),
    "unsupported-media-type": (415, "INVALID_ARGUMENT"),
    "busy": (503, "RESOURCE_EXHAUSTED"),
}


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error (RFC 9457). `field`: the field or parameter that is wrong."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    field: str = ""


class RefusedError(SnapkafkaError):
    """The server refuses a request, whatever the snapshot.

    Args:
        code: of `REFUSALS`.
        field: the field or parameter that is wrong.
        headers: of the answer.
    """

    def __init__(
        self,
        code: str,
        problem: str,
        hint: str = "",
        *,
        field: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(problem, hint=hint, field=field)
        self.code, (self.http, self.grpc), self.headers = code, REFUSALS[code], headers or {}

    @property
    def message(self) -> str:
        return self.problem


def problem(error: SnapkafkaError) -> Response:
    """Create the response for an error."""
    headers = dict(getattr(error, "headers", {}))
    if error.http == 503:
        headers.setdefault("Retry-After", "1")
    if error.http == 413:  # the rest of the body may still come
        headers["Connection"] = "close"
    found = Problem(
        type=f"urn:snapkafka:problem:{error.code}",
        title=error.code.replace("-", " "),
        status=error.http,
        detail=error.message,
        code=error.code,
        hint=error.hint,
        field=error.field.replace("-", "_"),
    )
    return Response(msgspec.json.encode(found), error.http, headers, media_type=PROBLEM_JSON)
