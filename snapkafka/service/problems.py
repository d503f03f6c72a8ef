"""Errors as problem+json (RFC 9457): the one table from the stable code of an error to its HTTP status."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

from snapkafka.errors import SnapkafkaError

from . import wording

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
    "too-slow": 408,
    "too-large": 413,
    "unsupported-media-type": 415,
    "throttled": 429,
    "busy": 503,
}


class RefusedError(Exception):
    """The server refuses a request, whatever the snapshot: a `code` of `REFUSALS`, a message, what to do."""

    def __init__(
        self, code: str, message: str, hint: str = "", *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.hint = code, message, hint
        self.status = REFUSALS[code]
        self.headers = dict(headers or {})


def problem_body(code: str, status: int, detail: str, hint: str) -> bytes:
    """Format a problem as JSON."""
    return json.dumps(
        {
            "type": f"urn:snapkafka:problem:{code}",
            "title": code.replace("-", " "),
            "status": status,
            "detail": detail,
            "code": code,
            "hint": hint,
        }
    ).encode()


def problem(error: SnapkafkaError | RefusedError) -> Response:
    """Create the response for an error."""
    if isinstance(error, RefusedError):
        status, detail, hint, headers = error.status, error.message, error.hint, error.headers
    else:
        status, headers = HTTP_STATUS[error.code], {}
        detail, hint = wording.message(error), wording.hint(error)
    if status in (429, 503):
        headers.setdefault("Retry-After", "1")
    return Response(problem_body(error.code, status, detail, hint), status, headers, media_type=PROBLEM_JSON)
