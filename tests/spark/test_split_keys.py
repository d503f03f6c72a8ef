"""Split keys in Spark: the same findings as on lists."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly.spark.verify import split_keys as in_spark
from snapkafka.checks import split_keys

from .damaged_logs import damaged_state

pytestmark = pytest.mark.spark

COLUMNS = (
    "app string, table string, partition int, key string, key_raw binary, changelog_topic string, "
    "changelog_offset bigint"
)


@pytest.mark.parametrize("seed", range(3))
def test_lists_and_spark_agree_on_random_damage(spark: SparkSession, seed: int) -> None:
    view, rows = damaged_state(seed)
    found = split_keys.find(view, rows)
    assert [finding.topic for finding in found] == ["plain-changelog", "second-changelog"]
    assert in_spark.find(view, spark.createDataFrame(rows, COLUMNS)) == found


def test_whole_keys_have_no_finding(spark: SparkSession) -> None:
    view, rows = damaged_state(0)
    whole = list({(row["table"], row["key_raw"]): row for row in rows}.values())
    assert in_spark.find(view, spark.createDataFrame(whole, COLUMNS)) == []
