"""The SQL that Spark and DuckDB understand alike: what an invariant may use in the embedded engine.

Functions of Spark that DuckDB lacks are defined here. Any other function is handed over, and so is a cast where a value
in the tables is a number to one of the two alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from .handover import HandOverError
from .json_text import is_json

#: Words before a bracket that are no functions, and functions that mean the same in both.
KNOWN: Final = frozenset(
    [
        "and",
        "as",
        "by",
        "case",
        "coalesce",
        "count",
        "decimal",
        "distinct",
        "else",
        "exists",
        "filter",
        "from",
        "having",
        "in",
        "join",
        "max",
        "min",
        "not",
        "on",
        "or",
        "over",
        "partition",
        "select",
        "sum",
        "then",
        "union",
        "using",
        "values",
        "when",
        "where",
        "with",
        "abs",
        "cast",
        "try_cast",
        "lower",
        "upper",
        "trim",
        "length",
        "array_contains",
        "array_join",
        "array_sort",
        "collect_set",
        "explode",
        "get_json_object",
        "raise_error",
        "size",
        "split",
    ]
)
MACROS: Final = (
    "collect_set(x) AS list(DISTINCT x)",
    "size(x) AS len(x)",
    "raise_error(x) AS error(x)",
    "explode(x) AS unnest(x)",
    "array_join(x, s) AS array_to_string(x, s)",
    "array_sort(x) AS list_sort(x)",
)
#: Texts, comments and quoted names, which hold no SQL.
QUOTED: Final = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|`[^`]*`|\"[^\"]*\"", re.DOTALL)
CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
#: The names of common table expressions with columns.
COLUMNS: Final = re.compile(
    r"(?:\bwith\s+(?:recursive\s+)?|,\s*)([A-Za-z_]\w*)\s*\([^()]*\)\s+as\s*\(", re.IGNORECASE
)
#: Operators that differ: a division, a remainder, DuckDB's own casts, and patterns.
OTHER: Final = re.compile(r"::|%|/|~|\b(?:like|ilike|rlike|regexp|limit|qualify|pivot)\b", re.IGNORECASE)
#: Numbers that both read alike, whatever they are cast to.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,6}")
#: What might be a number to one of them.
LIKE_A_NUMBER: Final = re.compile(
    r"\s*[-+.]?[0-9][0-9_.eE+-]*\s*|\s*[-+]?(?:inf|infinity|nan)\s*|0[xXbB].*", re.IGNORECASE
)
TO_DECIMAL: Final = re.compile(r"\bas\s+decimal\b", re.IGNORECASE)
CAST: Final = re.compile(r"\b(?:try_)?cast\s*\(", re.IGNORECASE)
STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[([0-9]+)\]")


def require_common(name: str, sql: str) -> None:
    """Hand over SQL that the two may understand differently."""
    plain = QUOTED.sub(" ", sql)
    own = {found.lower() for found in COLUMNS.findall(plain)}
    for function in CALL.findall(plain):
        if function.lower() not in KNOWN | own:
            raise HandOverError(f"the function {function} of invariant {name}")
    if found := OTHER.search(plain):
        raise HandOverError(f"{found[0]} in invariant {name}")


def require_plain_numbers(name: str, sql: str, tables: Mapping[str, Any]) -> None:
    """Hand over a cast where the tables hold a number that only one of the two would take, or each in its way."""
    if not CAST.search(sql):
        return
    decimals = len(TO_DECIMAL.findall(sql)) == len(CAST.findall(sql))
    for table in tables.values():
        for column in {"key", "value"} & {*table.column_names}:
            for text in table.column(column).to_pylist():
                if text is not None and _doubtful(text, decimals):
                    raise HandOverError(f"a cast in invariant {name}, of a number like {text[:40]}")


def _doubtful(text: str, decimals: bool) -> bool:
    if not LIKE_A_NUMBER.fullmatch(text):
        return False
    return not (NUMBER.fullmatch(text) or (decimals and DECIMAL.fullmatch(text)))


def get_json_object(text: str | None, path: str | None) -> str | None:
    """Return a part of JSON as Spark's function of this name does."""
    if text is None or path is None:
        return None
    steps = list(STEP.finditer(path[1:]))
    if not path.startswith("$") or "".join(step[0] for step in steps) != path[1:]:
        raise HandOverError(f"the path {path}")
    if not is_json(text):
        if text.lstrip()[:1] in ("{", "["):
            raise HandOverError("a part of text that is no JSON")
        return None
    found = json.loads(text, parse_int=_Text, parse_float=_Text, object_pairs_hook=_object)
    for step in steps:
        name, index = step.groups()
        if name is not None:
            if isinstance(found, list):  # Spark looks into each of its elements
                raise HandOverError("a name in a list")
            found = found.get(name) if isinstance(found, dict) else None
        else:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
    return _as_text(found)


class _Text(str):
    """A number as it stands in the text."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) != len(pairs):
        raise HandOverError("a JSON object that has a name twice")
    return found


def _as_text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, _Text):
        if not (NUMBER.fullmatch(value) or DECIMAL.fullmatch(value)):
            raise HandOverError(f"a number like {value[:40]} in JSON")
        return str(value)
    if isinstance(value, str):
        return value
    raise HandOverError("an object or a list in JSON, as a whole")
