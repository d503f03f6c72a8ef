"""Errors as problem+json (RFC 9457): the status of each code, and the fields and routes that stand for options and
verbs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from snapkafka.errors import Option, SnapkafkaError, Verb, Words

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
#: Options of the service itself, which no request has.
OF_SERVICE: Final = frozenset({"bootstrap", "namespace"})
#: Verb -> its route. The other verbs are for operators.
ROUTE_OF: Final[Mapping[str, str]] = {
    "assemble": "POST /v1/snapshots/{id}/assemble",
    "diff": "GET /v1/snapshots/{id}/diff",
    "doctor": "GET /v1/doctor",
    "draw": "GET /v1/snapshots/{id}/diagram.svg",
    "fork list": "GET /v1/forks",
    "invariants": "GET /v1/invariants",
    "list": "GET /v1/snapshots",
    "query": "POST /v1/snapshots/{id}/query",
    "show": "GET /v1/snapshots/{id}",
    "trigger": "POST /v1/snapshots/trigger",
    "verify": "POST /v1/snapshots/{id}/verify",
}
#: Options of verbs that their routes lack.
WITHOUT_ROUTE: Final = frozenset({"offline"})


class ClientWords(Words):
    """The words of a client: fields for options, routes for verbs.

    Args:
        document: the description of the interface.
    """

    def __init__(self, document: str) -> None:
        self._document = document

    def option(self, option: Option) -> str:
        """Render an option as a field, with its value as JSON."""
        if option.name == "help":
            return self._document
        if option.name in OF_SERVICE:
            return f"the service's {option.name}"
        name = self.field(option.name)
        if not option.value:
            return name
        return f'"{name}": {option.value if option.value.isdigit() else json.dumps(option.value)}'

    def field(self, name: str) -> str:
        """Return the field that stands for an option."""
        return FIELDS.get(name, name.replace("-", "_"))

    def verb(self, verb: Verb) -> str:
        """Render a verb as a route."""
        if verb.name not in ROUTE_OF or not WITHOUT_ROUTE.isdisjoint(verb.options):
            return f"`snapkafka {verb.name}` (for operators)"
        route, more = ROUTE_OF[verb.name], ""
        if len(verb.of) > 1:
            more = f" for each of {', '.join(verb.of)}"
        elif verb.of not in ((), ("ID",)) and "/" not in verb.of[0]:  # one with a slash is named by its epoch
            route = route.replace("{id}", quote(verb.of[0]))
        fields = " and ".join(f'"{self.field(name)}": true' for name in verb.options)
        return f"`{route}`{more}" + (f" with {fields}" if fields else "")


#: The words of a client of REST.
REST: Final = ClientWords("/openapi.yaml")


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
        detail, hint, field = REST.message(error), REST.advice(error), REST.field(error.field)
    if status in (429, 503):
        headers.setdefault("Retry-After", "1")
    body = problem_body(error.code, status, detail, hint, field)
    return Response(body, status, headers, media_type=PROBLEM_JSON)
