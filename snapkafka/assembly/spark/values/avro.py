"""Avro to JSON as Spark expressions, by `avro_decoder`; unreadable values are null, and null values are `null`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import cloudpickle
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly import avro_decoder, avro_types
from snapkafka.assembly.avro_decoder import decoder

#: The modules that go with the tasks: workers need not have them.
for module in (avro_decoder, avro_types):
    cloudpickle.register_pickle_by_value(module)


def as_json(data: Column, which: Column, schemas: Sequence[tuple[str, str]]) -> Column:
    """Convert Avro to JSON; null if it cannot be read.

    Args:
        which: the place of its schema in the list; null: it has none.
        schemas: the schema by which a value was written, and the one to which it is resolved, by Avro's rules; empty:
            the same.
    """
    return fn.arrow_udf(loading(list(schemas)), "string")(fn.when(which.isNotNull(), data), which)


def loading(schemas: list[tuple[str, str]]) -> Any:
    """Create a function of (bytes, place of the schema) over batches."""
    decoders: dict[int, Callable[[bytes], str | None]] = {}

    def load(values: pa.Array, which: pa.Array) -> pa.Array:
        texts: list[str | None] = []
        for raw, number in zip(values.to_pylist(), which.to_pylist(), strict=True):
            if raw is not None and number not in decoders:
                decoders[number] = decoder(*schemas[number])
            texts.append(None if raw is None else decoders[number](raw))
        return pa.array(texts, pa.string())

    return load


def whole(spark: SparkSession, schema: str, needs: Sequence[str]) -> tuple[str, str] | None:
    """Return a schema with all schemas to which it refers, and its full name, or its type if it has no name.

    Args:
        needs: the schemas to which it refers, each after those that it needs itself.

    Returns:
        None if it is invalid.
    """
    assert spark._jvm is not None, "a session has a JVM"
    try:
        parser = spark._jvm.org.apache.avro.Schema.Parser()
        for need in needs:
            parser.parse(need)
        parsed = parser.parse(schema)
        text, name = str(parsed.toString()), str(parsed.getFullName())
        avro_types.parsed(text)
    except (Py4JError, ValueError):
        return None
    return text, name
