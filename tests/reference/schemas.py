"""`schemas.md`: the records of the ledger, from schemas/ledger/*.avsc."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from .markdown import code, table

SCHEMAS: Final = Path(__file__).resolve().parents[2] / "schemas/ledger"


def page() -> str:
    """Return the page."""
    parts = [
        """# Records of the ledger

Avro in single-object encoding; `schemas/ledger/*.avsc` are the source, and have the defaults. [ledger.md](ledger.md)
describes the topic.

Every record has `process`, its author (the ledger offset of its `Hello`, -1 where no process wrote it), and `n`, a
count per author by which duplicates are recognised.
"""
    ]
    inner: dict[str, Any] = {}
    for path in sorted(SCHEMAS.glob("*.avsc")):
        parts.append(_record(json.loads(path.read_text("utf-8")), inner, "##"))
    parts.append("\n## Parts of records\n")
    done: set[str] = set()
    while todo := sorted(inner.keys() - done):
        for name in todo:
            done.add(name)
            parts.append(_record(inner[name], inner, "###"))
    return "".join(parts)


def _record(schema: dict[str, Any], inner: dict[str, Any], level: str) -> str:
    rows = [
        (code(field["name"]), _type(field["type"], inner), field.get("doc", ""))
        for field in schema["fields"]
        if level == "###" or field["name"] not in ("process", "n")
    ]
    return f"\n{level} {schema['name']}\n\n{schema.get('doc', '')}\n\n" + table(
        ("field", "type", "meaning"), rows
    )


def _type(type_: Any, inner: dict[str, Any]) -> str:
    return code(" or ".join(_names(type_, inner)))


def _names(type_: Any, inner: dict[str, Any]) -> Iterator[str]:
    match type_:
        case str():
            yield type_.rpartition(".")[2]
        case list():
            for one in type_:
                yield from _names(one, inner)
        case {"type": "array", "items": items}:
            yield "list of " + " or ".join(_names(items, inner))
        case {"type": "map", "values": values}:
            yield "map to " + " or ".join(_names(values, inner))
        case {"type": "record", "name": name}:
            inner[name] = type_
            yield name
        case {"type": "enum", "symbols": symbols}:
            yield ", ".join(symbols)
        case {"type": named}:
            yield str(type_.get("logicalType", named))
