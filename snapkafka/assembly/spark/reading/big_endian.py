"""Numbers in bytes, the highest byte first.

Spark has no function that reads one. The nearest combination of its functions goes through two texts, hexadecimal and
decimal digits (`by_digits`), and took as long as reading the record from Kafka. But Spark sorts binary columns by
their first eight bytes as one number, and the expression for that (`SortPrefix`) is available from its JVM. It is not
a part of Spark's interface: where it is unavailable, digits are used.
"""

from __future__ import annotations

from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.sql import Column
from pyspark.sql import functions as fn

BITS: Final = 64


def number(data: Column, start: int, size: int) -> Column:
    """Read the number in bytes `start`.. (from 1) of `data`; of eight bytes the first bit is its sign.

    Args:
        size: the number of bytes, at most eight. If `data` has fewer, the result means nothing.
    """
    part = fn.substring(data, start, size)
    try:
        first_eight = _sort_prefix(part)
    except (Py4JError, ImportError, TypeError, AttributeError):
        return by_digits(part)
    return first_eight if size == BITS // 8 else fn.shiftrightunsigned(first_eight, BITS - 8 * size)


def by_digits(part: Column) -> Column:
    """Convert binary data to a number, by Spark's functions alone."""
    return fn.conv(fn.hex(part), 16, -10).cast("bigint")


def _sort_prefix(part: Column) -> Column:
    """Return the first eight bytes as a number; missing bytes are zero.

    Raises:
        Py4JError, ImportError, TypeError, AttributeError: this Spark has it elsewhere, or its JVM is unreachable.
    """
    from pyspark.sql.classic.column import Column as ClassicColumn

    context = SparkContext._active_spark_context
    jvm: Any = None if context is None else context._jvm
    catalyst, columns = (
        jvm.org.apache.spark.sql.catalyst.expressions,
        jvm.org.apache.spark.sql.classic.ExpressionUtils,
    )

    def single(package: Any, name: str) -> Any:
        return getattr(getattr(package, f"{name}$"), "MODULE$")

    # The expression asks for its child's type as soon as it is made: the cast says it.
    child = columns.expression(part.cast("binary")._jc)
    nothing = single(jvm.scala.collection.immutable, "Nil")
    order = catalyst.SortOrder(child, single(catalyst, "Ascending"), single(catalyst, "NullsFirst"), nothing)
    return ClassicColumn(columns.column(catalyst.SortPrefix(order)))
