"""Errors as problem+json (RFC 9457): the status of each code, and the fields and routes that stand for options and
verbs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from snapkafka.errors import SnapkafkaError

PROBLEM_JSON: Final = "application/problem+json"

#: Code of a `SnapkafkaError` -> HTTP status. Exit statuses and gRPC go by the same codes.
HTTP_STATUS: Final[Mapping[str, int]] = {
    "bad-input": 400,
    "broker-unavailable": 503,
    "ledger-unusable": 503,
    "unknown-snapshot": 404,
    "trigger-refused": 409,
    "snapshot-failed": 409,
    "storage": 502,
    "offsets-gone": 410,
    "timed-out": 504,
    "install": 500,
    "dependency-missing": 501,
    "output": 500,
    "restore-refused": 409,
    "restore-failed": 500,
    "fork-refused": 409,
    "plan-changed": 409,
    "overtaken": 409,
    "fork-failed": 500,
    "fork-isolation": 500,
    "authentication-failed": 503,
    "wrong-mechanism": 503,
    "certificate": 503,
    "internal": 500,
}
#: What only a server refuses: code -> HTTP status.
REFUSALS: Final[Mapping[str, int]] = {
    "unauthorized": 401,
    "forbidden": 403,
    "not-found": 404,
    "method-not-allowed": 405,
    "too-large": 413,
    "unsupported-media-type": 415,
    "busy": 503,
}

#: Option -> its field or parameter in a request, where that has another name.
FIELDS: Final[Mapping[str, str]] = {
    "align-timeout": "align_timeout_ms",
    "id": "snapshot_id",
    "parent": "parent_snapshot_id",
    "set": "parameters",
    "sink": "sinks",
    "source": "sources",
    "storage": "target_storage_uri",
    "ttl": "ttl_ms",
    "type": "snapshot_type",
}


class RefusedError(Exception):
    """The server refuses a request, whatever the snapshot: a `code` of `REFUSALS`, or of invalid input; a message,
    what to do, and the field or parameter that is wrong."""

    def __init__(
        self,
        code: str,
        message: str,
        hint: str = "",
        *,
        field: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.field = code, message, hint, field
        self.status = REFUSALS.get(code) or HTTP_STATUS[code]
        self.headers = dict(headers or {})


def problem_body(code: str, status: int, detail: str, hint: str, field: str = "") -> bytes:
    """Format a problem as JSON.

    Args:
        field: the one field or parameter that is wrong.
    """
    found: dict[str, Any] = {
        "type": f"urn:snapkafka:problem:{code}",
        "title": code.replace("-", " "),
        "status": status,
        "detail": detail,
        "code": code,
        "hint": hint,
    }
    return json.dumps({**found, "field": field} if field else found).encode()


def problem(error: SnapkafkaError | RefusedError) -> Response:
    """Create the response for an error."""
    if isinstance(error, RefusedError):
        status, detail, hint, headers = error.status, error.message, error.hint, error.headers
        field = error.field
    else:
        status, headers = HTTP_STATUS[error.code], {}
        detail, hint = error.message, error.advice
        field = FIELDS.get(error.field, error.field.replace("-", "_"))
    if status == 503:
        headers.setdefault("Retry-After", "1")
    if status == 413:  # the rest of the body may still come
        headers["Connection"] = "close"
    body = problem_body(error.code, status, detail, hint, field)
    return Response(body, status, headers, media_type=PROBLEM_JSON)
