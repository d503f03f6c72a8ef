"""Keys and values that begin with a number: a zero byte, the number of a schema in a registry, and the encoded value.

The rows contain the numbers, so they are read once before they are decoded; then the driver asks the registry, and the
rest is Spark expressions. Schemas of one name are versions of one another: values of all of them are read by the
latest one among the rows, so that all have the same fields. It is not the latest one of the registry: so the same rows
are decoded in the same way, whatever is registered later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.decoding import MAGIC, PREFIX_BYTES
from snapkafka.assembly.schema_registry import AVRO, JSON, Missing, Registry
from snapkafka.assembly.spark.reading.meter import step

from .avro import as_json, whole
from .json_text import only_json, with_quoted_constants

#: Registries have no number above it.
NUMBER_MAX: Final = (1 << 31) - 1
#: One table asks for so many: bytes that begin with a zero byte by chance may have any number.
NUMBERS_MAX: Final = 500
TOO_MANY: Final = f"more than {NUMBERS_MAX} schema numbers occur, and this one is rare"
NO_NUMBER: Final = "not a valid schema number"
OF_KIND: Final = "it is {}, which is not supported"
INVALID: Final = "it is not a valid Avro schema"

#: Whose schema: of keys or of values ("key", "value"), of a topic, by its number.
_Place = tuple[str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The way to read values of a schema: resolved to `reader`, the schema of number `newest`; without either as
    JSON."""

    writer: str = ""
    reader: str = ""
    newest: int = 0


@dataclass(frozen=True, slots=True)
class Numbered:
    """The facts about the numbers in a table: how to read the values of each, or why they cannot be read."""

    known: Mapping[_Place, Reading | str]

    def decoded(self, side: str, number: Column, found: Column, form: Callable[..., Column]) -> Column:
        """Decode values that begin with a number by its schema, and leave others as `found`.

        Args:
            side: "key" or "value", the column.
            number: `number_in` it.
            form: converts JSON and a reason to the form of all decoded values.
        """
        rest = fn.col(side).substr(fn.lit(PREFIX_BYTES + 1), fn.length(side))
        alike: dict[tuple[int, Reading | str], list[str]] = defaultdict(list)
        for (of, topic, n), how in sorted(self.known.items(), key=lambda item: item[0]):
            if of == side:
                alike[n, how].append(topic)
        reason = fn.concat(fn.lit("schema "), number.cast("string"), fn.lit(f": {TOO_MANY}"))
        by_number, place = form(fn.lit(None), reason), fn.lit(None).cast("int")
        schemas = sorted(
            {(how.writer, how.reader) for _, how in alike if isinstance(how, Reading) and how.writer}
        )
        applies = {it: (number == it[0]) & fn.col("topic").isin(topics) for it, topics in alike.items()}
        for (_, how), here in applies.items():
            if isinstance(how, Reading) and how.writer:
                place = fn.when(here, fn.lit(schemas.index((how.writer, how.reader)))).otherwise(place)
        avro = as_json(rest, place, schemas) if schemas else fn.lit(None).cast("string")
        for (n, how), here in applies.items():
            by_number = fn.when(here, form(*_read(rest, avro, n, how))).otherwise(by_number)
        return fn.when(number.isNotNull(), by_number).otherwise(found)


def number_in(raw: Column) -> Column:
    """Return the number with which bytes begin; null if there is none."""
    begins = (fn.length(raw) >= PREFIX_BYTES) & (fn.substring(raw, 1, 1) == fn.lit(MAGIC))
    return fn.when(begins, fn.conv(fn.hex(fn.substring(raw, 2, 4)), 16, 10).cast("bigint"))


def look_up(
    table: DataFrame, numbers: Mapping[str, Column], registry: Registry, given: Container[str] = ()
) -> Numbered:
    """Ask the registry about the numbers in a table, which is read for that.

    Args:
        table: with a `topic`.
        numbers: the column of numbers, by "key" and "value".
        given: numbers whose schemas are known, as text.
    """
    spark = table.sparkSession
    with step(spark, "numbers of schemas"):
        places = [place for place in _places(table, numbers) if str(place[2]) not in given]
    together: dict[tuple[str, str], list[int]] = defaultdict(list)
    for side, topic, number in places:
        together[side, topic].append(number)
    return Numbered(
        {
            (side, topic, number): how
            for (side, topic), of_topic in sorted(together.items())
            for number, how in _readings(spark, registry, side, topic, sorted(of_topic)).items()
        }
    )


def _places(table: DataFrame, numbers: Mapping[str, Column]) -> list[_Place]:
    """List the places of numbers (side and topic), those with the most rows first."""
    each = fn.explode(
        fn.array(*(fn.struct(fn.lit(side).alias("side"), n.alias("number")) for side, n in numbers.items()))
    )
    found = (
        table.select("topic", each.alias("of"))
        .where(fn.col("of.number").isNotNull())
        .groupBy("of.side", "topic", "of.number")
        .count()
        .orderBy(fn.desc("count"), "side", "topic", "number")
        .limit(NUMBERS_MAX)
    )
    return [(row.side, row.topic, row.number) for row in found.collect()]


def _readings(
    spark: SparkSession, registry: Registry, side: str, topic: str, numbers: Iterable[int]
) -> dict[int, Reading | str]:
    """Return the way to read the keys or values of a topic, by their number."""
    found: dict[int, Reading | str] = {}
    schemas: dict[int, str] = {}
    versions: dict[str, list[int]] = defaultdict(list)
    for number in numbers:
        schema = registry.schema(number) if number <= NUMBER_MAX else Missing(NO_NUMBER)
        if isinstance(schema, Missing):
            found[number] = schema.why
        elif schema.kind == JSON:
            found[number] = Reading()
        elif schema.kind != AVRO:
            found[number] = OF_KIND.format(schema.kind)
        elif (known := whole(spark, schema.text, schema.needs)) is None:
            found[number] = INVALID
        else:
            schemas[number], name = known
            versions[name].append(number)
    for of_name in versions.values():
        newest = _newest(registry, f"{topic}-{side}", of_name)
        for number in of_name:
            if isinstance(newest, Missing):
                found[number] = f"which of its versions is the latest: {newest.why}"
            else:
                found[number] = Reading(writer=schemas[number], reader=schemas[newest], newest=newest)
    return found


def _newest(registry: Registry, subject: str, numbers: list[int]) -> int | Missing:
    """Return the latest of several schemas: by version if all belong to one subject (preferably this one), else by
    number."""
    if len(numbers) == 1:
        return numbers[0]
    of_numbers: dict[int, Mapping[str, int]] = {}
    for number in numbers:
        versions = registry.versions(number)
        if isinstance(versions, Missing):
            return versions
        of_numbers[number] = versions
    shared = set.intersection(*(set(versions) for versions in of_numbers.values()))
    if not shared:
        return max(numbers)
    subject = subject if subject in shared else min(shared)
    return max(numbers, key=lambda number: (of_numbers[number][subject], number))


def _read(rest: Column, avro: Column, number: int, how: Reading | str) -> tuple[Column, Column]:
    """Convert the bytes after a number to JSON, for Avro the given one; return also why they cannot be read."""
    if isinstance(how, str):
        return fn.lit(None), fn.lit(f"schema {number}: {how}")
    if not how.writer:
        text = with_quoted_constants(fn.try_validate_utf8(rest.cast("string")))
        content, why = only_json(text), f"schema {number}: not JSON"
    else:
        content = avro
        read_as = f", read as schema {how.newest}" if how.newest != number else ""
        why = f"schema {number}: not Avro by it{read_as}"
    return content, fn.when(content.isNull(), why)
