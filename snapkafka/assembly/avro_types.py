"""Avro schemas, parsed: what `avro_decoder` reads by, with no more than the standard library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
COMPLEX = ("array", "map", "record", "error", "enum", "fixed")
#: Logical types that are read, each with the types that it is of.
LOGICAL: Mapping[str, tuple[str, ...]] = {
    "decimal": ("bytes", "fixed"),
    "duration": ("fixed",),
    "date": ("int",),
    "time-millis": ("int",),
    "time-micros": ("long",),
    **{
        f"{local}timestamp-{unit}": ("long",)
        for local in ("", "local-")
        for unit in ("millis", "micros", "nanos")
    },
}


@dataclass(slots=True, eq=False)
class Type:
    """A type of a schema. `name`: its full name, of a primitive one its kind; `items`: of an array or a map."""

    kind: str
    name: str
    names: frozenset[str] = frozenset()
    logical: str = ""
    scale: int = 0
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: Any = None
    items: Type | None = None
    branches: tuple[Type, ...] = ()
    fields: tuple[Field, ...] = ()


@dataclass(slots=True, eq=False)
class Field:
    """A field of a record. `names`: its own and its aliases; `default`: as JSON, if there is one."""

    name: str
    names: frozenset[str]
    type: Type
    default: tuple[Any, ...] = ()


def parsed(schema: str) -> Type:
    """Parse a schema.

    Raises:
        ValueError: it is invalid.
    """
    try:
        return _Parser().type(json.loads(schema), "")
    except KeyError as error:
        raise ValueError(f"{error} is missing, or an unknown type") from error
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError("it has no types of Avro where they belong") from error


class _Parser:
    """A parser of a schema, with the names that it has defined so far."""

    def __init__(self) -> None:
        self._named: dict[str, Type] = {}

    def type(self, schema: Any, space: str) -> Type:
        """Parse a type.

        Args:
            space: the namespace around it.
        """
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return Type(schema, schema)
            return (
                self._named[schema] if schema in self._named else self._named[f"{space}.{schema}".lstrip(".")]
            )
        if isinstance(schema, list):
            return Type("union", "union", branches=tuple(self.type(branch, space) for branch in schema))
        kind = schema["type"]
        if not isinstance(kind, str) or kind not in (*PRIMITIVES, *COMPLEX):
            return self.type(kind, space)
        if kind in ("array", "map"):
            return Type(kind, kind, items=self.type(schema["items" if kind == "array" else "values"], space))
        found = Type(kind, kind) if kind in PRIMITIVES else self._defined(schema, space)
        logical = schema.get("logicalType")
        if isinstance(logical, str) and kind in LOGICAL.get(logical, ()):
            scale = schema.get("scale", 0)
            sound = logical != "decimal" or (
                isinstance(scale, int) and 0 <= scale <= schema.get("precision", -1)
            )
            if sound and (logical != "duration" or found.size == 12):
                found.logical, found.scale = logical, scale
        return found

    def _defined(self, schema: Mapping[str, Any], space: str) -> Type:
        name, space = schema["name"], schema.get("namespace", space)
        if "." in name:
            space, _, name = name.rpartition(".")
        kind = "record" if schema["type"] == "error" else schema["type"]
        full = f"{space}.{name}".lstrip(".")
        aliases = frozenset(alias.rpartition(".")[2] for alias in schema.get("aliases") or ())
        found = self._named[full] = Type(kind, full, names=aliases | {name})
        if kind == "enum":
            found.symbols, found.default = tuple(schema["symbols"]), schema.get("default")
        elif kind == "fixed":
            found.size = int(schema["size"])
        else:
            found.fields = tuple(
                Field(
                    name=it["name"],
                    names=frozenset((it["name"], *(it.get("aliases") or ()))),
                    type=self.type(it["type"], space),
                    default=(it["default"],) if "default" in it else (),
                )
                for it in schema["fields"]
            )
        return found
