"""The SQL that Spark and DuckDB understand alike: what an invariant may use in the embedded engine.

Functions of Spark that DuckDB lacks are defined here. Any other function is handed over, and so is a cast where a value
in the tables is a number to one of the two alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
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
        "unix_millis",
    ]
)
MACROS: Final = (
    "collect_set(x) AS coalesce(list(DISTINCT x) FILTER (WHERE x IS NOT NULL), [])",
    # To Spark the separator is a pattern.
    r"split(x, s) AS if(s = '' OR regexp_matches(s, '[\\.\[\]{}()*+?^$|]'), error('a pattern'), string_split(x, s))",
    # Beyond ASCII each has capitals of its own; `trim` without the second argument takes any space.
    "lower(x) AS CASE WHEN strlen(x) > length(x) THEN error('letters beyond ASCII') ELSE lcase(x) END",
    "upper(x) AS CASE WHEN strlen(x) > length(x) THEN error('letters beyond ASCII') ELSE ucase(x) END",
    "trim(x) AS ltrim(rtrim(x, ' '), ' ')",
    "size(x) AS len(x)",
    "raise_error(x) AS error(x)",
    "explode(x) AS unnest(x)",
    "array_join(x, s) AS array_to_string(x, s)",
    "array_sort(x) AS list_sort(x)",
    "unix_millis(x) AS epoch_ms(x)",
)
#: Texts, comments and quoted names, which hold no SQL.
QUOTED: Final = re.compile(r"'(?:[^']|'')*'|--[^\n]*|/\*.*?\*/|`[^`]*`|\"[^\"]*\"", re.DOTALL)
CALL: Final = re.compile(r"([A-Za-z_]\w*)\s*\(")
#: The names of common table expressions with columns.
COLUMNS: Final = re.compile(
    r"(?:\bwith\s+(?:recursive\s+)?|,\s*)([A-Za-z_]\w*)\s*\([^()]*\)\s+as\s*\(", re.IGNORECASE
)
#: What may differ: any sign but a few (Spark counts the elements of a list from 0, and DuckDB from 1), numbers in other
#: forms, and some words.
OTHER: Final = re.compile(
    r"::|\*\*|->|!(?!=)|<<|>>|(?<!\|)\|(?!\|)|[^\w\s(),.;*+=<>!|-]|\b0[xXbB]|\d_"
    r"|\b(?:like|ilike|rlike|regexp|similar|glob|collate|limit|fetch|sample|tablesample|qualify|pivot|unpivot|interval"
    r"|zone)\b",
    re.IGNORECASE,
)
#: Numbers that both read alike, whatever they are cast to.
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\.[0-9]{1,6}")
#: What might be a number to one of them.
LIKE_A_NUMBER: Final = re.compile(
    r"\s*[-+.]?[0-9][0-9_.eE+-]*\s*|\s*[-+]?(?:inf|infinity|nan)\s*|0[xXbB].*", re.IGNORECASE
)
#: The types that both cast to alike; without its digits a decimal is another one to each.
TO_WHOLE: Final = re.compile(r"int|integer|bigint", re.IGNORECASE)
TO_FRACTION: Final = re.compile(r"decimal\s*\(\s*\d+\s*,\s*\d+\s*\)|double", re.IGNORECASE)
#: A cast to a boolean that is only there to raise an error.
RAISED: Final = re.compile(r"\s*raise_error\b.*\bas\s+boolean\s*", re.IGNORECASE | re.DOTALL)
#: Values that one of them rounds, and the other cuts off.
FRACTION: Final = re.compile(r"\d\.\d")
#: Columns of times, which each of them casts in its way.
TIMES: Final = re.compile(r"\b(?:timestamp|\w+_at|window_start|window_end)\b", re.IGNORECASE)
#: A cast to a whole number in a plan of DuckDB.
PLANNED_WHOLE: Final = re.compile(r" AS U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)\)")
CAST: Final = re.compile(r"\b(?:try_)?cast\s*\(", re.IGNORECASE)
STEP: Final = re.compile(r"\.([A-Za-z_]\w*)|\[([0-9]+)\]")


def require_common(name: str, sql: str) -> None:
    """Hand over SQL that the two may understand differently."""
    plain = QUOTED.sub(" ", sql)
    for quoted in QUOTED.findall(sql):
        if quoted[0] == '"':  # a text to Spark, and a name to DuckDB
            raise HandOverError(f"double quotes in invariant {name}")
        if quoted[0] == "'" and "\\" in quoted:
            raise HandOverError(f"a backslash in a text of invariant {name}")
    own = {found.lower() for found in COLUMNS.findall(plain)}
    for function in CALL.findall(plain):
        if function.lower() not in KNOWN | own:
            raise HandOverError(f"the function {function} of invariant {name}")
    if found := OTHER.search(plain):
        raise HandOverError(f"{found[0]} in invariant {name}")
    _require_common_casts(name, plain)


def _require_common_casts(name: str, plain: str) -> None:
    kinds = [_target(cast) for cast in _casts(plain)]
    for kind in filter(None, kinds):
        if not (TO_WHOLE.fullmatch(kind) or TO_FRACTION.fullmatch(kind)):
            raise HandOverError(f"a cast to {kind} in invariant {name}")
    if any(kinds) and re.search(
        r"\bexplode\s*\(", plain, re.IGNORECASE
    ):  # parts of texts, which do not matter
        raise HandOverError(f"a cast beside explode in invariant {name}")
    if any(map(TO_WHOLE.fullmatch, kinds)) and (
        any(map(TO_FRACTION.fullmatch, kinds)) or FRACTION.search(plain)
    ):
        raise HandOverError(f"a cast of a fraction to a whole number in invariant {name}")


def _casts(plain: str) -> Iterator[str]:
    """Yield the text in the brackets of each cast."""
    for found in CAST.finditer(plain):
        depth, at = 1, found.end()
        while depth and at < len(plain):
            depth += (plain[at] == "(") - (plain[at] == ")")
            at += 1
        yield plain[found.end() : at - 1]


def _target(cast: str) -> str:
    """Return the type to which a cast goes; empty: it only raises an error."""
    return "" if RAISED.fullmatch(cast) else re.split(r"\bas\b", cast, flags=re.IGNORECASE)[-1].strip()


class Numbers:
    """The texts that an invariant may take for numbers: those that only one of the two would take, or each in its way,
    are handed over. Without a cast, in the SQL or of DuckDB's own, it takes none."""

    def __init__(self) -> None:
        self._name, self._cast, self._fractions = "", False, False

    def require_plain(self, name: str, sql: str, plan: str, tables: Mapping[str, Any]) -> None:
        """Check the texts in an invariant and in the tables.

        Args:
            plan: of DuckDB, with all its casts.
        """
        casts = [_target(cast) for cast in _casts(QUOTED.sub(" ", sql))]
        self._name, self._cast = name, any(casts) or "CAST(" in plan
        if self._cast and TIMES.search(sql):
            raise HandOverError(f"a cast beside a time in invariant {name}")
        self._fractions = not any(map(TO_WHOLE.fullmatch, casts)) and not PLANNED_WHOLE.search(plan)
        if not self._cast:
            return
        for quoted in QUOTED.findall(sql):
            self._require(quoted[1:-1] if quoted[0] == "'" else "")
        for table in tables.values():
            for column in {"key", "value"} & {*table.column_names}:
                for text in table.column(column).to_pylist():
                    self._require(text or "")

    def part_of_json(self, text: str | None, path: str | None) -> str | None:
        """Return a part of JSON."""
        found = get_json_object(text, path)
        if self._cast:
            self._require(found or "")
        return found

    def _require(self, text: str) -> None:
        if _doubtful(text, self._fractions):
            raise HandOverError(f"a cast in invariant {self._name}, of a number like {text[:40]}")


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
