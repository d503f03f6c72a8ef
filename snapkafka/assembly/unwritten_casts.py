"""The casts that a query does not write, and that may change a number: an invariant with one proves nothing.

To compare a text with `0.0`, DuckDB casts the text to DECIMAL(2,1): 0.04 is 0.0 then. Its serialised plan has every
cast with the types before and after it, and with its place in the SQL; the serialised SQL has those that are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from snapkafka.store.database import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The types of numbers that do not keep what stands in a text, and the cast to write instead.
WHOLE: Final = frozenset(
    sign + of for sign in ("", "U") for of in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
)
ROUNDED: Final = WHOLE | {"DECIMAL", "FLOAT"}
TEXTS: Final = frozenset({"VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "JSON"})


def problem_of(database: DuckDBPyConnection, sql: str) -> str:
    """Return why a query proves nothing about numbers, with what to write instead; empty: it may be evaluated.

    Args:
        database: with the tables that the query reads, which may be empty.
        sql: one SELECT.
    """
    plan, parsed = (
        json.loads(database.execute(f"SELECT {function}", [sql]).fetchall()[0][0])
        for function in ("json_serialize_plan(?, optimize := false)", "json_serialize_sql(?)")
    )
    if plan["error"]:
        return one_line(plan["error_message"])
    written = {
        cast["query_location"]
        for cast in _casts(parsed)
        if cast["type_expr"]["type_name"].upper() not in TEXTS
    }
    for cast in _casts(plan["plans"]):
        (child,), start = cast["children"], cast["query_location"]
        before = child["value"]["type"] if "value" in child else child["return_type"]
        for one, other in zip(_types(before), _types(cast["return_type"]), strict=False):
            if one == "VARCHAR" and other in ROUNDED and start not in written:
                text = sql.encode()[start : start + cast["query_location_length"]].decode(errors="replace")
                wanted = "BIGINT" if other in WHOLE else "DECIMAL(38, 6)"
                return (
                    f"{text} is text, and is taken for {other} without a cast: write CAST({text} AS {wanted})"
                )
    return ""


def _casts(node: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the casts in a plan, or in a query that was parsed."""
    if isinstance(node, dict) and node.get("type") == "OPERATOR_CAST":
        yield node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _casts(item)


def _types(kind: Any) -> Iterator[str]:
    """Yield the types in a nested one, in order; a plain one is its own."""
    if isinstance(kind, dict) and "id" in kind:
        yield kind["id"]
    for item in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        yield from _types(item)
