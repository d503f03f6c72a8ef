"""The casts that a query does not write, and that may change a number: an invariant with one proves nothing.

To compare a text with `0.0`, DuckDB casts the text to DECIMAL(2,1): 0.04 is 0.0 then. Its serialised plan has every
cast with the type before and after it, and with the place in the SQL of the expression that is cast; of a cast that is
written, with the place of the cast. What may change a number is reported with the cast to write.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from snapkafka.store import sql_text
from snapkafka.store.database import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TYPE: Final = r"[a-z]\w*(?:\s+\w+)*\s*(?:\([0-9,\s]*\))?"
#: A written cast: `CAST(x AS type)`, `x::type`, and `type 'text'`; a group is the type.
WRITTEN: Final = re.compile(
    rf"(?:try_)?cast\s*\(.*\bas\s+({_TYPE})\s*\)|::\s*({_TYPE})|({_TYPE}?)\s*'.*'",
    re.IGNORECASE | re.DOTALL,
)
#: The decimal digits that each type of whole numbers needs at most.
WHOLE: Final[Mapping[str, int]] = {
    "TINYINT": 3,
    "SMALLINT": 5,
    "INTEGER": 10,
    "BIGINT": 19,
    "HUGEINT": 39,
    "UTINYINT": 3,
    "USMALLINT": 5,
    "UINTEGER": 10,
    "UBIGINT": 20,
    "UHUGEINT": 39,
}
#: The decimal digits that each type of fractions keeps, whatever they are.
FLOATING: Final[Mapping[str, int]] = {"FLOAT": 6, "DOUBLE": 15}
NESTED: Final = frozenset({"LIST", "ARRAY", "STRUCT", "TUPLE", "MAP"})
#: A number as text, in one of several forms: as text, `1.50` is not `1.5`.
FRACTION: Final = re.compile(r"\s*[-+]?(?:[0-9]*\.[0-9]*|[0-9.]+[eE][-+]?[0-9]+)\s*")
#: A number in JSON with a fraction or an exponent; the group is all but sign and exponent.
NUMBER_IN_JSON: Final = r"-?([0-9]+(?:\.[0-9]+|[eE]))"
#: The name at the end of a path: `$.order.amount`, `$."amount"`, `/order/amount`, `amount`.
LAST_NAME: Final = re.compile(r"""(?:^|[./])"?([^"./$\[\]*]+)"?$""")
#: What returns parts of JSON; it reads such numbers as DOUBLE.
OF_JSON: Final = re.compile(r"->>?|(?:json|from_json).*")
COMPARISON: Final = re.compile(r"COMPARE_.*")
#: A node of a plan.
Node = Mapping[str, Any]


def problem_of(database: DuckDBPyConnection, sql: str) -> str:
    """Return why a query proves nothing about numbers, with what to write instead; empty: it may be evaluated.

    Args:
        database: with the tables that the query reads, which may be empty.
        sql: one SELECT.
    """
    (text,) = database.execute("SELECT json_serialize_plan(?, optimize := false)", [sql]).fetchone() or ("",)
    plan = json.loads(text)
    if plan["error"]:
        return one_line(plan["error_message"])
    source = sql.encode()
    found = (_problem(database, source, node, parent) for node, parent in _expressions(plan["plans"]))
    return next(filter(None, found), "")


def long_number_sql(database: DuckDBPyConnection, sql: str, columns: Iterable[tuple[str, str]]) -> str:
    """Return a query for a number in JSON that has more digits than a DOUBLE keeps, and that another query reads other
    than as DOUBLE; empty: that reads none.

    Args:
        columns: tables, each with a column that may hold JSON.
    """
    (text,) = database.execute("SELECT json_serialize_plan(?, optimize := false)", [sql]).fetchone() or ("",)
    before = {
        _before_number(node)
        for node, parent in _expressions(json.loads(text)["plans"])
        if OF_JSON.fullmatch(_name(node)) and not (parent and _is_to_floating(parent))
    }
    if not before:
        return ""
    pattern = sql_text(f"(?:{'|'.join(sorted(before))}){NUMBER_IN_JSON}")
    rows = " UNION ALL ".join(
        f"SELECT unnest(regexp_extract_all({column}, {pattern}, 1)) AS number FROM {table}"
        for table, column in columns
    )
    digits = "length(trim(translate(number, '.eE', ''), '0'))"
    return f"SELECT number FROM ({rows}) WHERE {digits} > {FLOATING['DOUBLE']} LIMIT 1"


def _before_number(node: Node) -> str:
    """Return a pattern for what stands before the numbers that a function of JSON reads."""
    children: Sequence[Node] = node.get("children") or []
    path = _constant(children[1]) if len(children) > 1 else None
    if path == "$":
        return r"^\s*"
    name = LAST_NAME.search(path) if isinstance(path, str) else None
    return rf'"{re.escape(name[1])}"\s*:\s*' if name else r"(?:^|[:\[,])\s*"


def _is_to_floating(node: Node) -> bool:
    return node["type"] == "OPERATOR_CAST" and node["return_type"]["id"] in FLOATING


def _expressions(node: Any, parent: Node | None = None) -> Iterator[tuple[Node, Node | None]]:
    """Yield each expression of a plan with the one around it."""
    if isinstance(node, list):
        for item in node:
            yield from _expressions(item, parent)
    elif isinstance(node, dict):
        if "expression_class" in node:
            yield node, parent
            parent = node
        for item in node.values():
            yield from _expressions(item, parent)


def _name(node: Node) -> str:
    """Return the name of the function that an expression calls; empty: none."""
    return str((node.get("qname") or {"path": [""]})["path"][-1])


def _problem(database: DuckDBPyConnection, source: bytes, node: Node, parent: Node | None) -> str:
    if node["type"] == "OPERATOR_CAST":
        return _problem_of_cast(database, source, node, parent)
    if node["expression_class"] in ("BOUND_AGGREGATE", "BOUND_WINDOW"):
        of = [argument["id"] for argument in node.get("arguments") or ()]
        if of[:1] and of[0] in FLOATING and _name(node) in ("sum", "avg", "mean", "product"):
            text = _text(source, node)
            return f"{text} adds numbers of type {of[0]}, which are rounded: {_write('...', 'DECIMAL(38, 6)')} inside"
    if COMPARISON.fullmatch(node["type"]) and any(OF_JSON.fullmatch(_name(it)) for it in _operands(node)):
        for constant in filter(None, map(_constant, _operands(node))):
            if isinstance(constant, str) and FRACTION.fullmatch(constant) and any(map(str.isdigit, constant)):
                return f"'{constant}' is compared as text, in which 1.50 is not 1.5: {_write('...', 'DECIMAL(38, 6)')}"
    return ""


def _operands(node: Node) -> list[Node]:
    """Return what an expression compares, without casts from text to text."""
    found = [it for it in node.get("children") or (node.get("left"), node.get("right")) if it]
    return [it["children"][0] if it["type"] == "OPERATOR_CAST" and _same_kind(it) else it for it in found]


def _same_kind(cast: Node) -> bool:
    return bool(_type(cast["children"][0])["id"] == cast["return_type"]["id"])


def _problem_of_cast(database: DuckDBPyConnection, source: bytes, cast: Node, parent: Node | None) -> str:
    (child,) = cast["children"]
    one, other = _type(child), cast["return_type"]
    if one == other or not _may_change(one, other, child, parent) or _is_written(database, source, cast):
        return ""
    text, into = _text(source, cast) or str(child.get("alias") or "..."), _shown(other)
    wanted = (
        "VARCHAR" if other["id"] == "VARCHAR" else "DOUBLE" if other["id"] in FLOATING else "DECIMAL(38, 6)"
    )
    if other["id"] in WHOLE:
        wanted = "BIGINT"
    return f"{text} is {_shown(one)}, and is taken for {into} without a cast: {_write(text, wanted)}"


def _write(text: str, kind: str) -> str:
    return f"write CAST({text} AS {kind})"


def _may_change(one: Node, other: Node, child: Node, parent: Node | None) -> bool:
    """Return whether a cast may make two numbers one, or one number two."""
    before, after = one["id"], other["id"]
    if before in NESTED or after in NESTED:
        return _numbers_in(one) != _numbers_in(other) and not {"NULL", "SQLNULL"} & {*_leaves(one)}
    if _is_number(before) and _is_number(after):
        return not _exact(child, other) and not _holds(one, other)
    if before == "VARCHAR" and _is_number(after):
        return bool(after != "DOUBLE")
    if _is_number(before) and after == "VARCHAR":  # a text that is put together shows the number as it is
        return parent is None or str(parent["type"]) != "BOUND_FUNCTION"
    return False


def _is_number(kind: str) -> bool:
    return kind in WHOLE or kind in FLOATING or kind == "DECIMAL"


def _holds(one: Node, other: Node) -> bool:
    """Return whether a type has each number of another one, or raises an error."""
    digits, scale = _digits(one)
    if other["id"] in FLOATING:
        return digits <= FLOATING[other["id"]] or (one["id"], other["id"]) == ("FLOAT", "DOUBLE")
    return one["id"] not in FLOATING and scale <= _digits(other)[1]


def _digits(kind: Node) -> tuple[int, int]:
    """Return how many decimal digits a type of numbers has, and how many of them after the point."""
    if kind["id"] == "DECIMAL":
        return kind["type_info"]["width"], kind["type_info"]["scale"]
    return WHOLE.get(kind["id"]) or FLOATING.get(kind["id"], 39), 0


def _exact(child: Node, other: Node) -> bool:
    """Return whether a constant stays what it is."""
    value = _constant(child)
    if not isinstance(value, Decimal):
        return False
    digits = value.normalize().as_tuple()
    if other["id"] in FLOATING:
        return len(digits.digits) <= FLOATING[other["id"]]
    return -int(digits.exponent) <= _digits(other)[1]


def _constant(node: Node) -> str | Decimal | None:
    """Return the text or the exact number that an expression is; None: another value, or no constant."""
    if node["expression_class"] != "BOUND_CONSTANT" or node["value"].get("is_null"):
        return None
    kind, value = node["value"]["type"], node["value"].get("value")
    if isinstance(value, str) and kind["id"] == "VARCHAR":
        return value
    if isinstance(value, int) and kind["id"] in (*WHOLE, "DECIMAL"):
        return Decimal(value).scaleb(-_digits(kind)[1])
    return None


def _type(node: Node) -> Node:
    found: Node = node["value"]["type"] if "value" in node else node["return_type"]
    return found


def _leaves(kind: Any) -> Iterator[str]:
    """Yield the types in a nested one, in order."""
    if isinstance(kind, list):
        for item in kind:
            yield from _leaves(item)
    elif isinstance(kind, dict):
        if "id" in kind and kind["id"] not in NESTED:
            yield kind["id"]
        for item in kind.values():
            yield from _leaves(item)


def _numbers_in(kind: Node) -> list[bool]:
    return [*map(_is_number, _leaves(kind))]


def _shown(kind: Node) -> str:
    info = kind.get("type_info") or {}
    if kind["id"] == "DECIMAL":
        return f"DECIMAL({info['width']}, {info['scale']})"
    return str(info.get("alias") or kind["id"])


def _text(source: bytes, node: Node) -> str:
    """Return the SQL of an expression; empty: unknown."""
    start, length = node.get("query_location", 0), node.get("query_location_length", 0)
    return source[start : start + length].decode(errors="replace")


def _is_written(database: DuckDBPyConnection, source: bytes, cast: Node) -> bool:
    """Return whether a cast is one of the SQL: its place has the form of one, to the same type, and is not that of the
    expression that is cast."""
    import duckdb

    (child,), place = cast["children"], cast["query_location"]
    found = WRITTEN.fullmatch(_text(source, cast))
    if found is None or (place, cast["query_location_length"]) == (
        child.get("query_location"),
        child.get("query_location_length"),
    ):
        return False
    try:
        kind = next(filter(None, found.groups()))
        (named,) = database.execute(f"SELECT typeof(CAST(NULL AS {kind}))").fetchone() or ("",)
    except duckdb.Error:
        return False
    shown: str = _shown(cast["return_type"])
    return str(named).replace(" ", "") == shown.replace(" ", "")
