"""The casts that a query does not write, and that may change a number: an invariant with one proves nothing.

To compare a text with `0.0`, DuckDB casts the text to DECIMAL(2,1): 0.04 is 0.0 then. Its serialised plan has every
cast with the types before and after it, and with its place in the SQL; the serialised SQL has those that are written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from snapkafka.manifest import STATE
from snapkafka.store import sql_text
from snapkafka.store.database import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: The decimal digits that a type of whole numbers needs at most; those that a type of fractions keeps of any number.
WHOLE: Final[Mapping[str, int]] = {
    sign + name: digits
    for name, digits in {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 20, "HUGEINT": 39}.items()
    for sign in ("", "U")
}
FLOATING: Final[Mapping[str, int]] = {"FLOAT": 6, "DOUBLE": 15}
NUMBERS: Final = {*WHOLE, *FLOATING, "DECIMAL"}
TEXTS: Final = frozenset({"VARCHAR", "TEXT", "STRING", "CHAR", "BPCHAR", "JSON"})
#: A number as text, in one of several forms: as text, `1.50` is not `1.5`.
FRACTION: Final = re.compile(r"\s*[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9.]+[eE][-+]?[0-9]+)\s*")
#: A number in JSON with a fraction or an exponent; the group is all but sign and exponent.
NUMBER_IN_JSON: Final = r"-?([0-9]+(?:\.[0-9]+|[eE]))"
#: The name at the end of a path: `$.order.amount`, `$."amount"`, `/order/amount`, `amount`.
LAST_NAME: Final = re.compile(r"""(?:^|[./])"?([^"./$\[\]*]+)"?$""")
#: What returns parts of JSON; it reads numbers with a fraction as DOUBLE.
OF_JSON: Final = re.compile(r"->>?|(?:json|from_json).*")
#: The columns that may hold JSON.
JSON_COLUMNS: Final = ((STATE, "key"), (STATE, "value"), ("messages", "key"), ("messages", "value"))
#: A node of a plan.
Node = Mapping[str, Any]


def problem_of(database: DuckDBPyConnection, sql: str) -> str:
    """Return why a query proves nothing about numbers, with what to write instead; empty: it may be evaluated.

    Args:
        database: with the tables that the query reads, which may be empty.
        sql: one SELECT.
    """
    plan = _serialised(database, "json_serialize_plan(?, optimize := false)", sql)
    if plan["error"]:
        return one_line(plan["error_message"])
    parsed = _nodes(_serialised(database, "json_serialize_sql(?)", sql), "type")
    written = {
        cast["query_location"]
        for cast, _ in parsed
        if cast["type"] == "OPERATOR_CAST" and cast["type_expr"]["type_name"].upper() not in TEXTS
    }
    for node, around in _nodes(plan["plans"]):
        text = _text(sql, node)
        if node["type"] == "OPERATOR_CAST":
            (child,), place = node["children"], node["query_location"]
            if place in written and text != _text(sql, child):
                continue
            other = node["return_type"]
            if wanted := next(filter(None, _better_casts(_type(child), other, _constant(child), around)), ""):
                return f"{text} is {_type(child)['id']}, and is silently cast to {other['id']}: {_write(text, wanted)}"
        elif _name(node) in ("sum", "avg", "mean", "product"):
            of = [argument["id"] for argument in node.get("arguments") or ()]
            if FLOATING.keys() & of:
                return f"{_name(node)}(...) adds rounded numbers ({of[0]}): {_write('...', 'DECIMAL(38, 6)')} inside"
        elif node["type"].startswith("COMPARE_") and any(
            OF_JSON.fullmatch(_name(it)) for it in _compared(node)
        ):
            for constant in map(_constant, _compared(node)):
                if isinstance(constant, str) and FRACTION.fullmatch(constant):
                    wanted = _write("...", "DECIMAL(38, 6)")
                    return f"'{constant}' is compared as text, in which 1.50 is not 1.5: {wanted}"
    return ""


def long_number_sql(database: DuckDBPyConnection, sql: str) -> str:
    """Return a query for a number in JSON that has more digits than a DOUBLE keeps, and that another query reads other
    than as DOUBLE; empty: that reads none."""
    plan = _serialised(database, "json_serialize_plan(?, optimize := false)", sql)
    before = {
        _before_number(node)
        for node, around in _nodes(plan["plans"])
        if OF_JSON.fullmatch(_name(node)) and not (around and _type(around)["id"] in FLOATING)
    }
    if not before:
        return ""
    pattern = sql_text(f"(?:{'|'.join(sorted(before))}){NUMBER_IN_JSON}")
    rows = " UNION ALL ".join(
        f"SELECT unnest(regexp_extract_all({column}, {pattern}, 1)) AS number FROM {table}"
        for table, column in JSON_COLUMNS
    )
    digits = "length(trim(translate(number, '.eE', ''), '0'))"
    return f"SELECT number FROM ({rows}) WHERE {digits} > {FLOATING['DOUBLE']} LIMIT 1"


def _before_number(node: Node) -> str:
    """Return a pattern for what stands before the numbers that a function of JSON reads."""
    path = _constant([*(node.get("children") or ()), {}][1])
    if path == "$":
        return r"^\s*"
    name = LAST_NAME.search(path) if isinstance(path, str) else None
    return rf'"{re.escape(name[1])}"\s*:\s*' if name else r"(?:^|[:\[,])\s*"


def _serialised(database: DuckDBPyConnection, function: str, sql: str) -> Any:
    return json.loads(database.execute(f"SELECT {function}", [sql]).fetchall()[0][0])


def _nodes(
    node: Any, mark: str = "expression_class", around: Node | None = None
) -> Iterator[tuple[Node, Node | None]]:
    """Yield each expression of a plan, or of a query that was parsed, with the one around it."""
    if isinstance(node, dict) and mark in node:
        yield node, around
        around = node
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(item, mark, around)


def _better_casts(one: Any, other: Any, constant: str | Decimal | None, around: Node | None) -> Iterator[str]:
    """Yield the type to write where a cast may make two numbers one, or one number two; empty: where it may not."""
    before, after = one["id"], other["id"]
    if inner := list(zip(_inner(one), _inner(other), strict=False)):
        for pair in inner:
            yield from _better_casts(*pair, None, None)
    elif before == "VARCHAR" and after in NUMBERS - {"DOUBLE"}:
        yield "BIGINT" if after in WHOLE else "DECIMAL(38, 6)"
    elif after == "VARCHAR" and before in NUMBERS:  # a text that is put together shows the number as it is
        yield "" if around and around["type"] == "BOUND_FUNCTION" else "VARCHAR"
    elif before in NUMBERS and after in NUMBERS and not _holds(one, other, constant):
        yield "DOUBLE" if after in FLOATING else "DECIMAL(38, 6)"


def _holds(one: Node, other: Node, constant: str | Decimal | None) -> bool:
    """Return whether a type has each number of another one, or that constant, or raises an error."""
    digits, scale = _digits(one)
    if isinstance(constant, Decimal):
        exact = constant.normalize().as_tuple()
        digits, scale = len(exact.digits), -int(exact.exponent)
    if other["id"] in FLOATING:
        return digits <= FLOATING[other["id"]]
    return one["id"] not in FLOATING and scale <= _digits(other)[1]


def _digits(kind: Node) -> tuple[int, int]:
    """Return how many decimal digits a type of numbers has, and how many of them after the point."""
    if kind["id"] == "DECIMAL":
        return kind["type_info"]["width"], kind["type_info"]["scale"]
    return {**WHOLE, **FLOATING}[kind["id"]], 0


def _inner(kind: Any) -> Iterator[Any]:
    """Yield the types right inside a nested one, in order."""
    for item in kind.values() if isinstance(kind, dict) else kind if isinstance(kind, list) else ():
        if isinstance(item, dict) and "id" in item:
            yield item
        else:
            yield from _inner(item)


def _compared(node: Node) -> list[Node]:
    """Return what an expression compares, without casts from text to text."""
    found = [it for it in node.get("children") or (node.get("left"), node.get("right")) if it]
    return [
        it["children"][0] if it["type"] == "OPERATOR_CAST" and _type(it)["id"] == "VARCHAR" else it
        for it in found
    ]


def _constant(node: Node) -> str | Decimal | None:
    """Return the text or the exact number that an expression is; None: another value, or no constant."""
    constant: Node = node.get("value") or {}
    kind, value = constant.get("type", {}), constant.get("value")
    if isinstance(value, str) and kind["id"] == "VARCHAR":
        return value
    if isinstance(value, int) and kind["id"] in (*WHOLE, "DECIMAL"):
        return Decimal(value).scaleb(-_digits(kind)[1])
    return None


def _type(node: Node) -> Any:
    return node["value"]["type"] if "value" in node else node["return_type"]


def _name(node: Node) -> str:
    """Return the name of the function that an expression calls; empty: none."""
    return str((node.get("qname") or {"path": [""]})["path"][-1])


def _text(sql: str, node: Node) -> str:
    """Return the SQL of an expression; empty: unknown."""
    start, length = node.get("query_location", 0), node.get("query_location_length", 0)
    return sql.encode()[start : start + length].decode(errors="replace")


def _write(text: str, kind: str) -> str:
    return f"write CAST({text} AS {kind})"
