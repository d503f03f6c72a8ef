"""Java and the jars of a checkout: `python -m tools.toolchain [java] [kafka] [spark] [s3] [s3proxy] [registry]`
fetches what is missing and reports where it is.

Standard library only.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.ivy import KAFKA_JARS, S3_JARS, SPARK_JARS, jars, kafka_jars, spark_jars
from snapkafka.runtime.jdk import java, spark_java_home
from tests.servers.jars import REGISTRY_JARS, S3_SERVER_JARS

if TYPE_CHECKING:
    from collections.abc import Callable

#: What can be asked for by name, and how it is fetched where it is missing; returns one line on where it is.
PARTS: Final[dict[str, Callable[[], str]]] = {
    "java": lambda: f"Java {java().major} in {java().home}, for Spark {spark_java_home()}",
    "kafka": lambda: f"Kafka: {len(kafka_jars())} jars in {KAFKA_JARS.place()}",
    "spark": lambda: f"Spark: {len(spark_jars())} jars in {SPARK_JARS.place()}",
    "s3": lambda: f"S3: {len(jars(S3_JARS))} jars in {S3_JARS.place()}",
    "registry": lambda: f"schema registry: {len(jars(REGISTRY_JARS))} jar to run in {REGISTRY_JARS.place()}",
    "s3proxy": lambda: f"S3 server: {len(jars(S3_SERVER_JARS))} jars in {S3_SERVER_JARS.place()}",
}


def main(names: list[str]) -> int:
    """Fetch the named parts (all if none is named) if they are missing, and print their places."""
    try:
        for name in names or PARTS:
            print(PARTS[name](), flush=True)
    except DependencyMissingError as error:
        print(f"{error}\nhint: {error.advice}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
