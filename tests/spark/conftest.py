"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly.spark.reading.session import session, sized


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    with session(s3=True) as running:
        yield running


@pytest.fixture(scope="module")
def small(spark: SparkSession) -> Iterator[None]:
    """Settings for a few rows: a test takes half the time."""
    with sized(spark, 0):
        yield
