"""V6: invariants in SQL over the tables of a snapshot (see `snapkafka.checks.invariants`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.schemas import SCHEMAS
from snapkafka.assembly.spark.reading.meter import step
from snapkafka.checks import WITNESSES_MAX, CheckOutcome, Status, Witness
from snapkafka.checks.invariants import Invariant
from snapkafka.errors import BadInputError

_ROW: Final = "_row"
_PLACE: Final = ("topic", "partition", "offset")


def require_valid(spark: SparkSession, invariants: Iterable[Invariant]) -> None:
    """Refuse SQL that Spark cannot parse, before any work, and SQL that is not a query.

    Spark would run a statement (`DROP VIEW state`) at once, and as it returns no rows it would seem to hold.

    Raises:
        BadInputError: names the invariant, with Spark's reason.
    """
    _views({name: spark.createDataFrame([], schema) for name, schema in SCHEMAS.items()})
    session: Any = spark._jsparkSession
    parser = session.sessionState().sqlParser()
    for invariant in invariants:
        try:
            parser.parseQuery(invariant.sql.rstrip().rstrip(";"))
            spark.sql(invariant.sql)
        except PySparkException as error:
            raise BadInputError(
                f"invariant {invariant.name}: {_one_line(error)}",
                hint="see docs/explanation/verification.md (V6)",
            ) from error


def check(
    spark: SparkSession, invariants: Iterable[Invariant], tables: Mapping[str, DataFrame]
) -> list[CheckOutcome]:
    """Evaluate each invariant; one that fails half-way (an amount that is not a number) proves nothing."""
    _views(tables)
    return [_outcome(spark, invariant) for invariant in invariants]


def _views(tables: Mapping[str, DataFrame]) -> None:
    for name, table in tables.items():
        table.createOrReplaceTempView(name)


def _outcome(spark: SparkSession, invariant: Invariant) -> CheckOutcome:
    name = f"V6 {invariant.name}"
    try:
        with step(spark, name):
            violations = spark.sql(invariant.sql)
            as_json = violations.select("*", fn.to_json(fn.struct("*")).alias(_ROW))
            # One more than are kept: where there are no more, nothing has to be counted.
            rows = as_json.orderBy(_ROW).limit(WITNESSES_MAX + 1).collect()
            found = len(rows) if len(rows) <= WITNESSES_MAX else violations.count()
    except (PySparkException, Py4JJavaError) as error:  # not all that Spark raises is made one of pyspark's
        error_text = Witness(
            check=name, topic="", partition=-1, offset=-1, what=f"the query failed: {_one_line(error)}"
        )
        return CheckOutcome(check=name, status=Status.UNVERIFIABLE, found=1, witnesses=(error_text,))
    return CheckOutcome(
        check=name,
        status=Status.FAILED if found else Status.PASSED,
        found=found,
        witnesses=tuple(_witness(name, row) for row in rows[:WITNESSES_MAX]),
    )


def _witness(name: str, row: Row) -> Witness:
    fields: dict[str, Any] = row.asDict()
    topic, partition, offset = (fields.get(column) for column in _PLACE)
    placed = isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int)
    return Witness(
        check=name,
        topic=topic if placed and isinstance(topic, str) else "",
        partition=partition if placed and isinstance(partition, int) else -1,
        offset=offset if placed and isinstance(offset, int) else -1,
        what=str(fields[_ROW]),
    )


def _one_line(error: Exception) -> str:
    text = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:300] if lines else type(error).__name__
