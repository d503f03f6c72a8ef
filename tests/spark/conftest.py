"""One Spark session for all tests of this folder: starting one takes longer than most of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import session
from snapkafka.assembly.spark.reading.session import sized


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """It plans as for few rows: a test takes half the time."""
    with session(s3=True) as running, sized(running, 0):
        yield running
