"""V6 in DuckDB: invariants in SQL over the tables of a snapshot, as `spark.verify.v6_invariants` evaluates them.

SQL that DuckDB does not take, and results that it would print otherwise, are handed over to Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final

from snapkafka.assembly.arrow_tables import arrow
from snapkafka.assembly.schemas import SCHEMAS
from snapkafka.checks import WITNESSES_MAX, CheckOutcome, Status, Witness
from snapkafka.checks.invariants import Invariant

from . import sql
from .handover import HandOverError

#: Java writes other doubles with an exponent.
SHORT_MIN: Final = 1e-3
SHORT_MAX: Final = 1e7
_PLACE: Final = ("topic", "partition", "offset")


def require_valid(invariants: Iterable[Invariant]) -> None:
    """Hand over SQL that DuckDB does not take, before any work."""
    check(invariants, {name: arrow(name, []) for name in SCHEMAS})


def check(invariants: Iterable[Invariant], tables: Mapping[str, Any]) -> list[CheckOutcome]:
    """Evaluate each invariant.

    Args:
        tables: of Arrow.
    """
    invariants = list(invariants)
    if not invariants:
        return []  # DuckDB takes longer to start than a small snapshot
    for invariant in invariants:
        sql.require_common(invariant.name, invariant.sql)
    numbers = sql.Numbers()
    with _engine(tables, numbers) as engine:
        return [_outcome(engine, invariant, tables, numbers) for invariant in invariants]


@contextmanager
def _engine(tables: Mapping[str, Any], numbers: sql.Numbers) -> Iterator[Any]:
    import duckdb

    with duckdb.connect() as engine:
        engine.execute("SET TimeZone = 'UTC'; SET enable_external_access = false; SET threads = 1")
        engine.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as Spark's
        for name, table in tables.items():
            engine.register(name, table)
        engine.create_function(
            "get_json_object",
            numbers.part_of_json,
            ["VARCHAR", "VARCHAR"],
            "VARCHAR",
            null_handling="special",
        )
        for macro in sql.MACROS:
            engine.execute(f"CREATE TEMP MACRO {macro}")
        engine.execute("SET lock_configuration = true")
        yield engine


def _outcome(
    engine: Any, invariant: Invariant, tables: Mapping[str, Any], numbers: sql.Numbers
) -> CheckOutcome:
    import duckdb

    name = f"V6 {invariant.name}"
    try:
        statements = engine.extract_statements(invariant.sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise HandOverError(f"invariant {invariant.name} is not one SELECT to DuckDB")
        plan = engine.execute(f"EXPLAIN (FORMAT json) {statements[0].query}").fetchall()
        numbers.require_plain(invariant.name, invariant.sql, plan[0][1], tables)
        done = engine.execute(statements[0])
        columns = [column[0] for column in done.description]
        rows = [dict(zip(columns, row, strict=True)) for row in done.fetchall()]
    except duckdb.Error as error:
        line = str(error).strip().splitlines()[0][:200]
        raise HandOverError(f"invariant {invariant.name}, which DuckDB refuses: {line}") from error
    found = sorted(((_as_json(invariant.name, row), row) for row in rows), key=lambda pair: pair[0].encode())
    return CheckOutcome(
        check=name,
        status=Status.FAILED if found else Status.PASSED,
        found=len(found),
        witnesses=tuple(_witness(name, text, row) for text, row in found[:WITNESSES_MAX]),
    )


def _as_json(name: str, row: Mapping[str, Any]) -> str:
    """Return a row as Spark's `to_json` writes it: without nulls."""
    return json.dumps(
        {column: _plain(name, value) for column, value in row.items() if value is not None},
        ensure_ascii=False,
        separators=(",", ":"),
    )


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, str | bool | int):
        return value
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, float) and (value == 0 or SHORT_MIN <= abs(value) < SHORT_MAX):
        return value
    raise HandOverError(f"invariant {name}, whose rows hold a {type(value).__name__}")


def _witness(name: str, text: str, row: Mapping[str, Any]) -> Witness:
    topic, partition, offset = (row.get(column) for column in _PLACE)
    placed = isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)
    return Witness(
        check=name,
        topic=topic if placed and isinstance(topic, str) else "",
        partition=partition if placed and isinstance(partition, int) else -1,
        offset=offset if placed and isinstance(offset, int) else -1,
        what=text,
    )
