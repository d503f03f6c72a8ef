"""`schemas.md`: the records of the ledger, from schemas/ledger/*.avsc, and the tables of a snapshot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from snapkafka.assembly.schemas import SCHEMAS as SCHEMAS_OF_TABLES
from snapkafka.assembly.schemas import comments, schema

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
    return "".join([*parts, *_tables()])


def _tables() -> Iterator[str]:
    """Yield the tables of a snapshot, which both engines write alike."""
    yield """
## Tables of a snapshot

Parquet, in Spark's types. The files hold the meaning of each column as its comment: `spark.read.parquet(...).schema`
has it in its metadata, `pyarrow` has it in the schema of the file, and `snapkafka query` in `duckdb_columns()`.

`key` and `value` are text: the content of a JSON string, other JSON as it was written. NaN, Infinity and -Infinity,
which Python's JSON has and JSON has not, are the strings `"NaN"`, `"Infinity"` and `"-Infinity"` in it, so `value` of a
bare NaN is `NaN`. This holds in `state` and in `messages`, for any codec and for Avro;
`CAST(value->>'x' AS DOUBLE)` makes numbers of them. An incremental snapshot has `state_delta` instead of `state`, with
one more column: `deleted`.
"""
    for name in SCHEMAS_OF_TABLES:
        types = dict(part.split(" ", 1) for part in schema(name).split(", "))
        rows = [(code(column), code(types[column]), text) for column, text in comments(name).items()]
        yield f"\n### {name}\n\n" + table(("column", "type", "meaning"), rows)


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
