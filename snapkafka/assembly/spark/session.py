"""The one place that creates a Spark session.

Under `spark-submit` (or in a notebook) the existing session is used as it is: whoever started it chooses master,
memory and jars. Under plain Python a local one is started, with the Java and the jars that `snapkafka.runtime` finds
or fetches, bound to this machine only.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.extras import extra_missing
from snapkafka.runtime.jdk import UTF8, spark_java_home
from snapkafka.runtime.machine import memory_bytes
from snapkafka.runtime.maven import locked_jars

try:
    from pyspark.sql import SparkSession
except ImportError as error:  # pragma: no cover -- the extra is not installed
    raise extra_missing("spark", "assembly by Spark", "pyspark") from error

#: Says nothing below ERROR: a person who assembles a snapshot wants to read the report, not Spark's start.
LOG4J: Final = Path(__file__).with_name("log4j2.properties")

#: What a local session is started with. Snapshots are small next to what Spark is made for: its fixed costs count.
LOCAL: Final[Mapping[str, str]] = {
    # What a developer's machine can spare, and enough for snapshots of a million records.
    "spark.master": "local[2]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.daemon.module": "snapkafka.assembly.spark.workers",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "16",
    # Three plain plans: to plan them again while they run takes a third of the time of a small snapshot.
    "spark.sql.adaptive.enabled": "false",
    # What is kept is looked at twice: to compress it takes longer than both.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
    "spark.sql.session.timeZone": "UTC",
}

#: A local session has no more memory: more save no time, and what is there Java fills before it clears up.
MEMORY_MAX: Final = 2 << 30
#: Nobody waits for an answer within milliseconds, for which Java would clear up beside the work.
JAVA: Final = "-XX:+UseParallelGC"
#: Up to so many offsets Java's first compiler alone takes a third less CPU time; for millions it takes twice as much.
SMALL_MAX: Final = 500_000
JAVA_SMALL: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
#: Where another Spark is, what it is to connect to, how its shell starts. (Spark's own settings for whoever has
#: them, `SPARK_CONF_DIR` and `HADOOP_CONF_DIR`, stay.)
OF_ANOTHER_SPARK: Final = (
    *("SPARK_HOME", "SPARK_REMOTE", "SPARK_API_MODE", "SPARK_CONNECT_MODE", "SPARK_CONNECT_MODE_ENABLED"),
    *("SPARK_LOCAL_REMOTE", "SPARK_ENV_LOADED", "PYSPARK_SUBMIT_ARGS", "PYSPARK_DRIVER_PYTHON_OPTS"),
)


@contextlib.contextmanager
def session(*, ui: bool = False, offsets: int = SMALL_MAX + 1) -> Iterator[SparkSession]:
    """Provide a Spark session for the length of the `with` block; an existing one stays after it.

    Args:
        ui: serve Spark's web page while it runs (local sessions only).
        offsets: about how many it has to read.

    Raises:
        DependencyMissingError: Java or the jars are missing and cannot be fetched, or Spark does not start with them.
    """
    if not (submitted := "PYSPARK_GATEWAY_PORT" in os.environ):
        set_environment(os.environ)  # SPARK_REMOTE: even to ask for a session would import Spark Connect
    if (given := SparkSession.getActiveSession()) is not None:
        yield given
        return
    if not submitted:  # it ends with its Java: to stop it first, pyspark waits for half a second
        yield _local(ui, JAVA_SMALL if offsets <= SMALL_MAX else JAVA)
        return
    with SparkSession.builder.appName("snapkafka").getOrCreate() as spark:  # spark-submit has set everything
        yield spark


def heap_bytes() -> int:
    """Return the memory of a local session's Java; Python and what Java keeps outside of its heap need some, too."""
    return min(memory_bytes() // 3, MEMORY_MAX)


def set_environment(environ: MutableMapping[str, str]) -> None:
    """Set the environment of a local session of *this* pyspark, whatever other Spark the environment is set up for."""
    for name in OF_ANOTHER_SPARK:
        environ.pop(name, None)
    # Spark starts its Python workers by these; the `python3` of the PATH may be another one.
    environ["PYSPARK_PYTHON"] = environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not environ.get("SPARK_LOCAL_IP"):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    environ.update(UTF8)


def _local(ui: bool, java: str) -> SparkSession:
    os.environ["JAVA_HOME"] = str(spark_java_home())
    builder = SparkSession.builder.appName("snapkafka")
    own = {
        "spark.driver.extraClassPath": os.pathsep.join(map(str, locked_jars("spark"))),
        "spark.ui.enabled": str(ui).lower(),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOG4J.as_uri()} {java}",
        "spark.driver.memory": f"{heap_bytes() >> 20}m",
    }
    for key, value in {**LOCAL, **own}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:  # Py4J's and pyspark's own errors have no common base
        raise DependencyMissingError(
            f"Spark does not start: {str(error).strip().splitlines()[0]}",
            hint="check that Java 17 to 21 runs (JAVA_HOME)",
        ) from error
