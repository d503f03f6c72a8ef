"""The routes of REST: what each takes and answers is the signature of its handler, and the OpenAPI document says the
same."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from .access import Role
from .problems import Problem

EVENTS: Final = "text/event-stream"
SVG: Final = "image/svg+xml"
F = TypeVar("F", bound=Callable[..., Any])


class Route(NamedTuple):
    """A route: the name of its handler, the role that it needs, what it takes (the query string of a GET, else the
    body), and what it answers (a struct, or a media type). `fresh`: whether it waits for the ledger's end first: what a
    trigger or a stream answers is new by itself."""

    name: str
    role: Role
    summary: str
    takes: Mapping[str, Any]
    answer: Any
    status: int
    fresh: bool


ROUTES: Final[dict[tuple[str, str], Route]] = {}


def route(
    method: str,
    path: str,
    answer: Any = None,
    *,
    role: Role = Role.READ,
    status: int = 200,
    fresh: bool = True,
) -> Callable[[F], F]:
    """Register a handler. It takes `asked`, the request as a struct; `view`, the snapshot of the path; the `role` of
    the client; or another field of the path by its name.

    Args:
        answer: of a handler that makes the response itself; else that is its return type.
    """

    def registered(handler: F) -> F:
        takes = typing.get_type_hints(handler)
        ROUTES[method, path] = Route(
            handler.__name__,
            role,
            inspect.getdoc(handler) or "",
            takes,
            answer or takes["return"],
            status,
            fresh,
        )
        return handler

    return registered


@cache
def document() -> dict[str, Any]:
    """Return the OpenAPI document."""
    named = (kind for it in ROUTES.values() for kind in (it.answer, it.takes.get("asked")))
    kinds = list(dict.fromkeys([*(kind for kind in named if kind and not isinstance(kind, str)), Problem]))
    schemas, components = msgspec.json.schema_components(kinds, ref_template="#/components/schemas/{name}")
    refs = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), it in ROUTES.items():
        parameters: list[dict[str, Any]] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"\{(\w+)\}", path)
        ]
        operation: dict[str, Any] = {"operationId": it.name, "summary": it.summary}
        if (kind := it.takes.get("asked")) and method == "GET":
            parameters += _parameters(components[kind.__name__])
        elif kind:
            operation["requestBody"] = {"required": True, **_content(refs[kind])}
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
