"""Tables in object storage: the way in which Spark's tasks write them there.

Tasks upload their files to the final place, and the job completes the uploads when all have succeeded (Hadoop's
"magic" committer): nothing is renamed or copied, and the files of a failed task never appear.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.session import having
from snapkafka.store import Store
from snapkafka.store.objects import JITTER_S
from snapkafka.store.reaching import endpoint, region

#: Where `monotonically_increasing_id` counts the rows of a task.
_OF_TASK: Final = (1 << 33) - 1

#: For every session; what a session was started with stands.
S3A: Final[Mapping[str, str]] = {
    "fs.s3a.committer.name": "magic",
    # Keys that Spark was given, else what Amazon's own tools would take.
    "fs.s3a.aws.credentials.provider": (
        "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
        "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
        "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    ),
    # A server that asks to be spared (503) is asked again so often, after 0.2 s, 0.4 s and so on, give or take.
    "fs.s3a.retry.throttle.limit": "20",
    "fs.s3a.retry.throttle.interval": "200ms",
    # One that does not answer, or fails, has been given half a minute by then.
    "fs.s3a.connection.establish.timeout": "5s",
    "fs.s3a.attempts.maximum": "3",
    "fs.s3a.retry.limit": "5",
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}


@contextlib.contextmanager
def reached(spark: SparkSession, store: Store) -> Iterator[None]:
    """Provide the settings by which the session reads and writes a store, for the length of the block. No secret is
    among them: Spark's processes find credentials as Amazon's own tools do."""
    given = spark.sparkContext.getConf()
    wanted = {
        name: value
        for name, value in _settings(store).items()
        if not (given.contains(name) or given.contains(f"spark.hadoop.{name}"))
    }
    with having(spark, wanted):
        yield


def _settings(store: Store) -> Mapping[str, str]:
    if store.scheme == "file":
        return {}
    if store.scheme != "s3a":
        return {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}
    place = {"fs.s3a.endpoint": endpoint(), "fs.s3a.path.style.access": "true"} if endpoint() else {}
    name = region() or ("us-east-1" if endpoint() else "")
    return {**S3A, **place, **({"fs.s3a.endpoint.region": name} if name else {})}


def spread(rows: DataFrame) -> DataFrame:
    """Return the same rows; each task waits for a random time, up to `JITTER_S`, before its first row: many uploads
    that begin at the same moment would exceed a limit of requests."""
    first = fn.monotonically_increasing_id().bitwiseAND(fn.lit(_OF_TASK)) == 0
    pause_ms = (fn.rand() * (JITTER_S * 1_000)).cast("bigint")
    pause = fn.reflect(fn.lit("java.lang.Thread"), fn.lit("sleep"), pause_ms)
    return rows.where(fn.when(first, pause.isNotNull()).otherwise(True))
