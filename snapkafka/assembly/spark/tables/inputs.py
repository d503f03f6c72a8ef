"""The table `inputs`: external records that the apps had not read yet, so that a restore does not need the old log.

For each input it holds the records from the lowest position of an agent to the end of the log when assembly read it;
also those from after the cut, as a restored app reads all of them. Records of the apps are not in it: those in flight
are in the table `messages`, and later ones are sent again.

Its end depends on when the log is read. For that reason its rows are not part of a manifest's `content`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.schemas import columns
from snapkafka.assembly.spark.reading.header_columns import other_headers
from snapkafka.manifest import INPUTS

from .tables import timestamp_type


def inputs(records: DataFrame) -> DataFrame:
    """Return the external records among these, byte by byte.

    Args:
        records: stamped, of the `manifest.unread_ranges`.
    """
    return (
        records.where(fn.col("process").isNull() & ~fn.col("marker"))
        .select(
            "topic",
            "partition",
            "offset",
            fn.col("key").alias("key_raw"),
            fn.col("value").alias("value_raw"),
            other_headers().alias("headers"),
            "timestamp_ms",
            timestamp_type().alias("timestamp_type"),
        )
        .select(*columns(INPUTS))
    )
