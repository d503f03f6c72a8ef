"""Avro to JSON, by Spark expressions; unreadable values are null, and null values are `null`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.avro.functions import from_avro

from .json_text import quoted

#: Around any schema. A record of one field is encoded as the field.
AROUND: Final = "snapkafka_around"


def as_json(data: Column, writer: str, reader: str = "") -> Column:
    """Convert Avro to JSON; null if it cannot be read.

    Args:
        writer: the schema by which it was written.
        reader: the schema to which it is resolved, by Avro's rules; empty: the same.
    """
    # A field that only the reader has gets its default wherever the record can be read, and is null where it cannot.
    read = {"name": "read", "type": "boolean", "default": True}
    options = {"mode": "PERMISSIVE", "avroSchema": _around(reader or writer, read)}
    found = from_avro(data, _around(writer), options)
    return fn.when(found["read"], quoted(found["v"]))


def _around(schema: str, *more: dict[str, Any]) -> str:
    fields = [{"name": "v", "type": json.loads(schema)}, *more]
    return json.dumps({"type": "record", "name": AROUND, "fields": fields})


def whole(spark: SparkSession, schema: str, needs: Sequence[str]) -> tuple[str, str] | None:
    """Return a schema with all schemas to which it refers, and its full name, or its type if it has no name.

    Args:
        needs: the schemas to which it refers, each after those that it needs itself.

    Returns:
        None if Avro's own parser, which Spark uses, refuses it.
    """
    assert spark._jvm is not None, "a session has a JVM"
    try:
        parser = spark._jvm.org.apache.avro.Schema.Parser()
        for need in needs:
            parser.parse(need)
        parsed = parser.parse(schema)
        return str(parsed.toString()), str(parsed.getFullName())
    except Py4JError:
        return None


def usable(spark: SparkSession, writer: str, reader: str) -> bool:
    """Return whether Spark has columns for it: not for a recursive record, for example."""
    try:
        spark.range(0).select(as_json(fn.lit(b""), writer, reader)).schema  # noqa: B018 -- asking is what plans it
    except (PySparkException, Py4JError, ValueError, RecursionError):
        return False
    return True
