"""Requests as typed values, checked by msgspec and against what the service can answer; errors as problem+json (RFC
9457), and those that only a server has."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import Meta
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from snapkafka import ops
from snapkafka.assembly.invariant_files import ready_made
from snapkafka.checks.verdict import Verdict
from snapkafka.config import TTL_MS_RANGE
from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.protocol.ledger_state import SnapshotView, Status
from snapkafka.verbs import TEXT, Request, Text, Texts, Trigger

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


T = TypeVar("T", bound=msgspec.Struct)

#: No request of the contract is larger; a query is a page of SQL at most.
BODY_BYTES_MAX: Final = 64 * 1024
#: The last page that a list has; a cursor is an epoch.
PAGE_MAX: Final = 500
#: An upper bound instead of None, for which msgspec takes the text "null".
EPOCH_MAX: Final = 2**63 - 1
#: A difference names so many keys of each change of each table; a diagram has so many messages.
KEYS_MAX: Final = 1_000
#: No answer to a query is larger.
ANSWER_BYTES_MAX: Final = 8 * 1024 * 1024
#: What msgspec reports: the problem, and where it is.
_REPORT: Final = re.compile(r"(?s)(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?")

Sql = Annotated[str, Meta(max_length=20_000, pattern=TEXT)]
Kind = Literal["full", "incremental"]
Few = Annotated[int, Meta(ge=0, le=KEYS_MAX)]


class TriggerRequest(Trigger, frozen=True, kw_only=True):
    """The body of POST /v1/snapshots/trigger, which has to have the three fields of the contract. What takes another
    attempt is for those who wait."""

    who: Text
    type: Text
    storage: Text
    ttl_ms: Annotated[int, Meta(ge=TTL_MS_RANGE[0], le=TTL_MS_RANGE[1])] = 5_000
    align_timeout_ms: Literal[0] = 0


class AssemblyRequest(Request, frozen=True, kw_only=True, rename={"storage": "target_storage_uri"}):
    """The body of POST .../assemble, all of it optional."""

    storage: Text = ""
    invariants: Texts = ()
    parameters: Texts = ()
    sinks: Texts = ()
    sources: Texts = ()
    strict: bool = False


class VerifyRequest(Request, frozen=True, kw_only=True):
    """The body of POST .../verify, all of it optional."""

    invariants: Texts = ()
    parameters: Texts = ()
    tables: bool = False
    record: bool = False


class QueryRequest(Request, frozen=True, kw_only=True):
    """The body of POST .../query."""

    sql: Sql
    rows_max: int = 200


class ListRequest(Request, frozen=True, kw_only=True):
    """The query string of GET /v1/snapshots: filters, and a page. `before`: only epochs below it."""

    status: tuple[Status, ...] = ()
    type: Kind | Literal[""] = ""
    verdict: tuple[Verdict, ...] = ()
    initiated_by: Text = ""
    app: Text = ""
    id_prefix: Text = ""
    before: Annotated[int, Meta(ge=1, le=EPOCH_MAX)] = EPOCH_MAX
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] = 50


class DiffRequest(Request, frozen=True, kw_only=True):
    """The query string of GET .../diff."""

    against: Text
    keys: Few = 10
    values: bool = False


class DiagramRequest(Request, frozen=True, kw_only=True):
    """The query string of GET .../diagram.svg."""

    messages: Few = ops.MESSAGES_SHOWN


async def body_of(request: HttpRequest, kind: type[T]) -> T:
    """Read a JSON body.

    Raises:
        RefusedError: it is not declared as JSON: so no foreign page can send it without a CORS request. Or it is not
            JSON, lacks a field, has an unknown one, or one of another type.
    """
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = bytearray()
    async for piece in request.stream():  # Starlette's own bound would answer without a problem
        raw += piece
        if len(raw) > BODY_BYTES_MAX:
            raise RefusedError("too-large", f"the body has more than {BODY_BYTES_MAX:,} bytes")
    if declared != "application/json":
        raise RefusedError(
            "unsupported-media-type",
            "the body must be JSON" if raw or declared else "a body is expected",
            "send Content-Type: application/json, and {} at least",
        )
    try:
        given = msgspec.json.decode(raw or b"{}")
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise _invalid(f"the body is not JSON: {' '.join(str(error).split())[:200]}") from None
    if not isinstance(given, dict):
        raise _invalid("the body must be a JSON object")
    return _converted(given, kind, strict=True)


async def query_of(request: HttpRequest, kind: type[T]) -> T:
    """Read a query string. A parameter that is a list may be repeated, or have several values with commas between.

    Raises:
        RefusedError: a parameter is unknown or invalid.
    """
    defaults = zip(kind.__struct_fields__[::-1], kind.__struct_defaults__[::-1], strict=False)
    lists = {name for name, default in defaults if isinstance(default, tuple)}
    query = request.query_params
    given: dict[str, Any] = {
        name: [one for text in query.getlist(name) for one in text.split(",") if one]
        if name in lists
        else query[name]
        for name in query
    }
    return _converted(given, kind, strict=False)


def _converted(given: dict[str, Any], kind: type[T], *, strict: bool) -> T:
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        report = _REPORT.fullmatch(str(error))
        assert report is not None, "it matches any text"
        problem, field = report[1], report[2] or ""
    if named := re.fullmatch(r"(?s)Object (?:missing required|contains unknown) field `(.*)`", problem):
        field = named[1][:40]
    raise _invalid(problem[:200], field)


def _invalid(problem: str, field: str = "") -> RefusedError:
    return RefusedError(
        "bad-input", f"{field}: {problem}" if field else problem, "see /openapi.json", field=field
    )


# -- checks, and answers --------------------------------------------------------------------------------------


def fits(view: SnapshotView, asked: ListRequest) -> bool:
    """Return whether a snapshot passes the filters."""
    trigger = view.trigger
    return (
        view.epoch < asked.before
        and (not asked.status or view.status in asked.status)
        and (not asked.type or trigger.type == asked.type)
        and (not asked.verdict or (view.verdict is not None and view.verdict.verdict in asked.verdict))
        and (not asked.initiated_by or trigger.who == asked.initiated_by)
        and (not asked.app or not trigger.apps or asked.app in trigger.apps)
        and trigger.id.startswith(asked.id_prefix)
    )


def require_ready_made(names: tuple[str, ...]) -> None:
    """Refuse paths: files on the machine of the service do not concern its clients."""
    if unknown := [name for name in names if name not in ready_made()]:
        raise BadInputError(
            f"invariant {unknown[0][:40]!r} is unknown", hint=f"it can be {', '.join(ready_made())}"
        )


async def bounded(answer: Any) -> Response:
    """Format an answer whose size its request decides."""
    found = await asyncio.to_thread(json_answer, answer)
    if len(found.body) > ANSWER_BYTES_MAX:
        raise BadInputError(
            f"the result has more than {ANSWER_BYTES_MAX:,} bytes",
            hint="ask for fewer rows, or shorter values",
        )
    return found


def json_answer(found: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(found), status, headers, media_type="application/json")
