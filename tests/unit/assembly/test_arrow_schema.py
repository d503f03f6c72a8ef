"""Arrow schemas of the tables and of Spark's small frames."""

from __future__ import annotations

import re

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from snapkafka.assembly import SCHEMAS
from snapkafka.assembly.arrow_schema import arrow_schema
from snapkafka.assembly.spark import frame_schemas

DDL = {
    **SCHEMAS,
    **{
        name: value
        for name, value in vars(frame_schemas).items()
        if name.isupper() and isinstance(value, str)
    },
}


@pytest.mark.parametrize("name", DDL)
def test_spark_reads_it_as_the_same_schema(name: str) -> None:
    found = from_arrow_schema(arrow_schema(DDL[name]))
    written = re.sub(r"(\w+) (?=\w)", r"\1:", re.sub("([,:]) ", r"\1", DDL[name]))
    assert found.simpleString() == f"struct<{written}>"


def test_times_are_in_utc() -> None:
    assert arrow_schema("at timestamp") == pa.schema([pa.field("at", pa.timestamp("us", "UTC"))])
