"""The routes of REST as values, and the OpenAPI document that is made from them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from snapkafka.ops import Details, Difference, InvariantDetails, SnapshotInfo

from .access import Role
from .jobs import Job
from .requests import (
    AssemblyRequest,
    DiagramRequest,
    DiffRequest,
    ListRequest,
    QueryRequest,
    TriggerRequest,
    VerifyRequest,
)
from .views import (
    Access,
    Findings,
    Forks,
    Invariants,
    Page,
    Problem,
    Processes,
    Restores,
    Rows,
    Triggered,
)

EVENTS: Final = "text/event-stream"
SVG: Final = "image/svg+xml"


class Api(NamedTuple):
    """A route: the name of its handler, the role that it needs, what it answers (a struct, or a media type), and what
    it takes: the query string of a GET, else the body. `fresh`: whether it waits for the ledger's end first: what a
    trigger or a stream answers is new by itself."""

    name: str
    role: Role
    summary: str
    answer: Any
    asked: Any = None
    status: int = 200
    fresh: bool = True


SNAPSHOT: Final = "/v1/snapshots/{snapshot_id}"
ROUTES: Final[dict[tuple[str, str], Api]] = {
    ("POST", "/v1/snapshots/trigger"): Api(
        "trigger",
        Role.TRIGGER,
        "Ask for a snapshot; the same snapshot_id again answers with the same snapshot.",
        Triggered,
        TriggerRequest,
        202,
        fresh=False,
    ),
    ("GET", "/v1/snapshots"): Api(
        "list", Role.READ, "List snapshots, newest first, in pages.", Page, ListRequest
    ),
    ("GET", SNAPSHOT): Api("show", Role.READ, "All about one snapshot.", Details),
    ("GET", f"{SNAPSHOT}/events"): Api(
        "follow", Role.READ, "Events `snapshot` at each change, at last `end`.", EVENTS
    ),
    ("GET", f"{SNAPSHOT}/diff"): Api(
        "diff", Role.READ, "List what changed from this snapshot to another.", Difference, DiffRequest
    ),
    ("GET", f"{SNAPSHOT}/diagram.svg"): Api(
        "diagram", Role.READ, "Draw the cut as a space-time diagram.", SVG, DiagramRequest
    ),
    ("POST", f"{SNAPSHOT}/query"): Api(
        "query", Role.READ, "Query an assembled snapshot with SQL (DuckDB).", Rows, QueryRequest
    ),
    ("POST", f"{SNAPSHOT}/abort"): Api("abort", Role.ADMIN, "Abort a running snapshot.", SnapshotInfo),
    ("POST", f"{SNAPSHOT}/assemble"): Api(
        "assemble", Role.TRIGGER, "Build its tables, and verify it.", Job, AssemblyRequest, 202
    ),
    ("POST", f"{SNAPSHOT}/verify"): Api(
        "verify", Role.TRIGGER, "Verify it again, from the log.", Job, VerifyRequest, 202
    ),
    ("GET", "/v1/jobs/{job_id}"): Api("job", Role.READ, "A job of this instance.", Job, fresh=False),
    ("GET", "/v1/processes"): Api("processes", Role.READ, "Processes that have joined.", Processes),
    ("GET", "/v1/restores"): Api("restores", Role.READ, "Restores, newest first.", Restores),
    ("GET", "/v1/forks"): Api("forks", Role.READ, "Forks.", Forks),
    ("GET", "/v1/access"): Api("access", Role.READ, "What this client may do.", Access, fresh=False),
    ("GET", "/v1/doctor"): Api("doctor", Role.READ, "What would spoil a snapshot.", Findings),
    ("GET", "/v1/invariants"): Api("invariants", Role.READ, "Invariants, and whether they hold.", Invariants),
    ("GET", "/v1/invariants/{name}"): Api(
        "invariant", Role.READ, "The history of an invariant.", InvariantDetails
    ),
    ("GET", "/v1/events"): Api(
        "events", Role.READ, "An event `changed` whenever the ledger has more.", EVENTS
    ),
}


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    kinds = [kind for it in ROUTES.values() for kind in (it.answer, it.asked) if isinstance(kind, type)]
    kinds = list(dict.fromkeys([*kinds, Problem]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    refs = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), it in ROUTES.items():
        fields = re.findall(r"\{(\w+)\}", path)
        parameters: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in fields
        ]
        operation: dict[str, Any] = {"operationId": it.name, "summary": it.summary}
        if it.asked and method == "GET":
            parameters += _parameters(components[it.asked.__name__])
        elif it.asked:
            operation["requestBody"] = {"required": True, **_content(refs[it.asked])}
        answer = {"description": it.summary, **_content(refs.get(it.answer, {"type": "string"}), it.answer)}
        problem = {"description": "What is wrong.", **_content(refs[Problem], "application/problem+json")}
        operation |= {"parameters": parameters, "responses": {str(it.status): answer, "default": problem}}
        paths.setdefault(path, {})[method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "snapkafka",
            "version": "1",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "description": (
                "Fields and routes may be added, none is renamed or removed within /v1. Where a snapshot is named, its"
                " id, its epoch or `latest` can stand. An answer holds what the ledger had when it was asked for; one"
                " that may not has the header `Snapkafka-Stale`."
            ),
        },
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _content(schema: dict[str, Any], media: Any = None) -> dict[str, Any]:
    return {"content": {media if isinstance(media, str) else "application/json": {"schema": schema}}}


def _parameters(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Describe the fields of a query string; several values of one are separated by commas."""
    required = schema.get("required", ())
    return [
        {"name": name, "in": "query", "required": name in required, "explode": False, "schema": field}
        for name, field in schema["properties"].items()
    ]
