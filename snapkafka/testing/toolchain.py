"""What the tests need beyond `snapkafka.runtime`: the jars of a whole Kafka broker.

Standard library only. `python -m snapkafka.testing.toolchain [java] [kafka] [spark]` fetches what is missing and says
where it is.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime import SPARK_JARS, JarSet, jars, java, spark_jars, spark_java_home

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["KAFKA_JARS", "kafka_jars"]

#: The broker, and slf4j's simplest logger, so that a broker which does not start can say why.
KAFKA_JARS: Final = JarSet(
    name="kafka",
    modules=("org.apache.kafka:kafka_2.13:4.1.0", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
)


def kafka_jars() -> list[Path]:
    """The class path of a Kafka 4.1 broker, fetched where it is missing.

    Raises:
        DependencyMissingError: it is not in the cache and cannot be fetched.
    """
    return jars(KAFKA_JARS)


#: What can be asked for by name, and how it is fetched where it is missing; returns one line on where it is.
PARTS: Final[dict[str, Callable[[], str]]] = {
    "java": lambda: f"Java {java().major} in {java().home}, for Spark {spark_java_home()}",
    "kafka": lambda: f"Kafka: {len(kafka_jars())} jars in {KAFKA_JARS.place()}",
    "spark": lambda: f"Spark: {len(spark_jars())} jars in {SPARK_JARS.place()}",
}


def main(names: list[str]) -> int:
    """Fetch the named parts (all if none is named) where they are missing, and say where they are."""
    try:
        for name in names or PARTS:
            print(PARTS[name](), flush=True)
    except DependencyMissingError as error:
        print(f"{error}\nhint: {error.advice}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
