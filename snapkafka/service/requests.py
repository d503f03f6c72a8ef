"""JSON bodies and query strings as typed values; all their problems are reported at once."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, Final, TypeVar, get_type_hints

from starlette.requests import Request

from snapkafka import ops
from snapkafka.errors import BadInputError

from .problems import RefusedError

T = TypeVar("T")

#: The last page that a list has; a cursor is an epoch.
PAGE_MAX: Final = 500
PAGE: Final = 50
STATUSES: Final = ("INITIATED", "CAPTURING", "CAPTURED", "COMPLETED", "FAILED")
TYPES: Final = ("full", "incremental")
NAMES: Final = {str: "a text", int: "an integer", bool: "true or false", tuple[str, ...]: "a list of texts"}
TEXT_CHARS_MAX: Final = 2_000
SQL_CHARS_MAX: Final = 20_000
ITEMS_MAX: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRequest:
    """The body of POST /v1/snapshots/trigger: the three fields of the contract, and arguments of `ops.trigger`."""

    initiated_by_node_id: str
    snapshot_type: str
    target_storage_uri: str
    snapshot_id: str = ""
    parent_snapshot_id: str = ""
    apps: tuple[str, ...] = ()
    ttl_ms: int = 5_000
    knows_markers: tuple[str, ...] = ()
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssemblyRequest:
    """The body of POST .../assemble, all of it optional."""

    target_storage_uri: str = ""
    invariants: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    strict: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyRequest:
    """The body of POST .../verify, all of it optional."""

    invariants: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    tables: bool = False
    record: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryRequest:
    """The body of POST .../query."""

    sql: str
    rows_max: int = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRequest:
    """The query string of GET /v1/snapshots: filters, and a page. `before`: only epochs below it."""

    statuses: tuple[str, ...] = ()
    type: str = ""
    verdicts: tuple[str, ...] = ()
    who: str = ""
    app: str = ""
    id_prefix: str = ""
    before: int | None = None
    limit: int = PAGE


async def body_of(request: Request, kind: type[T]) -> T:
    """Read a JSON body.

    Raises:
        RefusedError: it is not declared as JSON: so no foreign page can send it without a CORS request.
        BadInputError: it is not JSON, lacks a field, has an unknown one, or one of another type.
    """
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    raw = await request.body()
    if declared != "application/json" and (raw or declared):
        raise RefusedError(
            "unsupported-media-type", "the body must be JSON", "send Content-Type: application/json"
        )
    if not raw and declared != "application/json":
        raise RefusedError(
            "unsupported-media-type",
            "a body is expected",
            "send Content-Type: application/json and {} at least",
        )
    try:
        given = json.loads(raw or b"{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"the body is not JSON: {_short(error)}", hint="see /openapi.yaml") from None
    if not isinstance(given, dict):
        raise BadInputError("the body must be a JSON object", hint="see /openapi.yaml")
    return _typed(kind, given)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _typed(kind: type[T], given: Mapping[str, Any]) -> T:
    hints = get_type_hints(kind)
    found: dict[str, Any] = {}
    wrong = [f"unknown field {name[:40]!r}" for name in sorted(given.keys() - hints.keys())]
    for item in fields(kind):  # type: ignore[arg-type]  # only called with dataclasses
        name, hint = item.name, hints[item.name]
        if name not in given:
            if item.default is MISSING:
                wrong.append(f"{name} is missing")
            continue
        value = given[name]
        if hint == tuple[str, ...] and isinstance(value, list) and all(isinstance(one, str) for one in value):
            value = tuple(value)
        elif hint is int and isinstance(value, float) and value.is_integer():
            value = int(value)  # JSON has one kind of number: 1.0 is an integer there
        elif type(value) is not hint:
            wrong.append(f"{name} must be {NAMES[hint]}")
            continue
        if problem := _unfit(value, SQL_CHARS_MAX if name == "sql" else TEXT_CHARS_MAX):
            wrong.append(f"{name} {problem}")
        found[name] = value
    if wrong:
        raise BadInputError("; ".join(wrong), hint="see /openapi.yaml")
    return kind(**found)


def _unfit(value: Any, chars_max: int) -> str | None:
    texts = value if isinstance(value, tuple) else (value,)
    if len(texts) > ITEMS_MAX:
        return f"has more than {ITEMS_MAX} items"
    for text in texts:
        if not isinstance(text, str):
            continue
        if len(text) > chars_max:
            return f"has more than {chars_max:,} characters"
        if re.search(r"[\ud800-\udfff\x00]", text):
            return "holds characters that are no text"
    return None


def list_request(request: Request) -> ListRequest:
    """Read the filters and the page of a list.

    Raises:
        BadInputError: one is unknown or invalid; all such are named.
    """
    given = request.query_params
    known = {"status", "type", "verdict", "initiated_by", "app", "id_prefix", "before", "limit"}
    wrong = [f"unknown parameter {name[:40]!r}" for name in sorted(set(given) - known)]
    statuses = tuple(one for text in given.getlist("status") for one in text.split(",") if one)
    wrong += [f"status {one[:40]!r} is unknown" for one in statuses if one not in STATUSES]
    if (kind := given.get("type", "")) not in ("", *TYPES):
        wrong.append(f"type {kind[:40]!r} is unknown")
    numbers: dict[str, int] = {}
    for name, most in (("before", 2**63 - 1), ("limit", PAGE_MAX)):
        text = given.get(name)
        if text is not None and not (re.fullmatch(r"[0-9]{1,19}", text) and 1 <= int(text) <= most):
            wrong.append(f"{name} must be 1 to {most}")
        elif text is not None:
            numbers[name] = int(text)
    if wrong:
        raise BadInputError("; ".join(wrong), hint="see /openapi.yaml")
    return ListRequest(
        statuses=statuses,
        type=kind,
        verdicts=tuple(one for text in given.getlist("verdict") for one in text.split(",") if one),
        who=given.get("initiated_by", ""),
        app=given.get("app", ""),
        id_prefix=given.get("id_prefix", ""),
        before=numbers.get("before"),
        limit=numbers.get("limit", PAGE),
    )


def instant_in(request: Request) -> ops.Instant | None:
    """Read a wall-clock cut from the query string; None: none is requested.

    Raises:
        BadInputError: a parameter is invalid.
    """
    wall_clock = request.query_params.get("wall_clock", "false")
    if wall_clock not in ("true", "false"):
        raise BadInputError(
            f"wall_clock must be true or false, got {wall_clock[:40]!r}", hint="see /openapi.yaml"
        )
    at, sum_of = (request.query_params.get(name, "") for name in ("at", "sum"))
    if len(at) > TEXT_CHARS_MAX or len(sum_of) > TEXT_CHARS_MAX:
        raise BadInputError(f"at and sum must have at most {TEXT_CHARS_MAX:,} characters")
    return ops.Instant(at=at, sum_of=sum_of) if wall_clock == "true" or at or sum_of else None


def number_in(request: Request, name: str, *, default: int, most: int) -> int:
    """Read a whole number from the query string.

    Raises:
        BadInputError: it is not a whole number, or out of range.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) > most:
        raise BadInputError(f"{name} must be 0 to {most}", hint="see /openapi.yaml")
    return int(text)
