"""Sets of jars, fetched by the Apache Ivy that pyspark ships."""

from __future__ import annotations

import importlib.util
import os
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.fetching import cache_dir, fetch_lock, fetched_into, run_fetch
from snapkafka.runtime.jdk import Java, java

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: What makes Ivy know Maven's classifiers.
MAVEN: Final = ' xmlns:m="http://ant.apache.org/ivy/maven"'


@dataclass(frozen=True, kw_only=True, slots=True)
class JarSet:
    """Jars that belong together: Ivy modules, as `organisation:name:revision`.

    Without `transitive` exactly these are fetched, without their dependencies. With `application` there is one module,
    a program with all its dependencies in a zip (`...-all.zip`), which is unpacked here; its first jar is the one to
    run.
    """

    name: str
    modules: tuple[str, ...]
    transitive: bool
    application: bool = False

    def ivy_xml(self) -> str:
        """Return the list of modules for Ivy. Its text also determines the set's place in the cache."""
        lines = [
            f'    <dependency org="{org}" name="{name}" rev="{rev}" transitive="{str(self.transitive).lower()}"'
            f' conf="default->default"{self._packed(name)}'
            for org, name, rev in (module.split(":") for module in self.modules)
        ]
        return "\n".join(
            (
                f'<ivy-module version="2.0"{MAVEN if self.application else ""}>',
                f'  <info organisation="snapkafka" module="{self.name}"/>',
                '  <configurations><conf name="default"/></configurations>',
                "  <dependencies>",
                *lines,
                "  </dependencies>",
                "</ivy-module>\n",
            )
        )

    def _packed(self, name: str) -> str:
        if not self.application:
            return "/>"
        return f'><artifact name="{name}" type="zip" ext="zip" m:classifier="all"/></dependency>'

    def place(self) -> Path:
        return cache_dir() / "jars" / f"{self.name}-{sha256(self.ivy_xml().encode()).hexdigest()[:12]}"

    def first_jar(self) -> str:
        """Return the file name of the first module's jar, without which the set is incomplete."""
        _, name, revision = self.modules[0].split(":")
        return f"{name}-{revision}{'-runner' if self.application else ''}.jar"


#: The broker, and slf4j's simplest logger, so that a broker which does not start can say why.
KAFKA_JARS: Final = JarSet(
    name="kafka",
    modules=("org.apache.kafka:kafka_2.13:4.4.0", "org.slf4j:slf4j-simple:1.7.36"),
    transitive=True,
)

#: Spark's own Kafka source, in the versions that were run together with pyspark 4.1.
SPARK_JARS: Final = JarSet(
    name="spark",
    modules=(
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.3",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.1",
        "org.apache.commons:commons-pool2:2.12.1",
    ),
    transitive=False,
)


#: The parts of Amazon's library that Hadoop's connector needs; as a whole, in its bundle, it is 600 MB.
_AWS_SDK: Final = (
    *("annotations", "apache-client", "arns", "auth", "aws-core", "aws-query-protocol", "aws-xml-protocol"),
    *("checksums", "checksums-spi", "crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
    *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi", "identity-spi", "json-utils"),
    *("metrics-spi", "netty-nio-client", "profiles", "protocol-core", "regions", "retries", "retries-spi"),
    *("s3", "s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core", "utils"),
)
#: What Spark reads and writes S3 with, fetched where it shall; spark-hadoop-cloud: how it commits without renames.
S3_JARS: Final = JarSet(
    name="s3",
    modules=(
        "org.apache.hadoop:hadoop-aws:3.4.2",
        "org.apache.spark:spark-hadoop-cloud_2.13:4.1.1",
        "org.reactivestreams:reactive-streams:1.0.4",
        "software.amazon.eventstream:eventstream:1.0.1",
        *(f"software.amazon.awssdk:{part}:2.29.52" for part in _AWS_SDK),
    ),
    transitive=False,
)


def kafka_jars() -> list[Path]:
    """Return the class path of a Kafka 4.4 broker, fetched if missing.

    Raises:
        DependencyMissingError: it is not in the cache and cannot be fetched.
    """
    return jars(KAFKA_JARS)


def spark_jars(*, s3: bool = False) -> list[Path]:
    """Return the jars for `spark.jars`: Spark's Kafka source, fetched if missing.

    Args:
        s3: include the jars for S3.

    Raises:
        DependencyMissingError: it is not in the cache and cannot be fetched.
    """
    return jars(SPARK_JARS) + (jars(S3_JARS) if s3 else [])


def cached_jars(wanted: JarSet) -> list[Path] | None:
    """Return the jars of a set if it is in the cache, sorted; None if it is not."""
    found = sorted(wanted.place().glob("*.jar"))
    return found if wanted.first_jar() in {jar.name for jar in found} else None


def jars(wanted: JarSet) -> list[Path]:
    """Return the jars of a set, sorted, fetched if missing.

    Raises:
        DependencyMissingError: they are not in the cache and cannot be fetched.
    """
    if found := cached_jars(wanted):
        return found
    runtime = java()
    with fetch_lock():
        if (found := cached_jars(wanted)) is None:
            _fetch_jars(wanted, runtime)
            found = cached_jars(wanted)
    if found is None:
        raise DependencyMissingError(
            f"Ivy fetched the {wanted.name} jars without {wanted.first_jar()}",
            hint=f"look at {wanted.place()}, remove it and try again",
        )
    return found


def _fetch_jars(wanted: JarSet, runtime: Java) -> None:
    ivy_cache = cache_dir() / "ivy"  # kept when a fetch fails, so that the next one goes on where it stopped
    settings = os.environ.get("SNAPKAFKA_IVY_SETTINGS") or ""
    if settings and "://" not in settings:
        settings = str(Path(settings).absolute())  # Ivy runs in another folder
    with fetched_into(wanted.place()) as new:
        ivy_xml = new / "ivy.xml"
        ivy_xml.write_text(wanted.ivy_xml(), encoding="utf-8")
        run_fetch(
            [str(runtime.executable), *proxy_flags(os.environ)]
            # Not the Ivy of this user, in whose home others' jars may lie; nor a folder `?`, where there is no home.
            + [f"-Divy.default.ivy.user.dir={ivy_cache}", f"-Duser.home={ivy_cache}", "-jar", str(_ivy_jar())]
            + (["-settings", settings] if settings else [])
            + ["-cache", str(ivy_cache), "-ivy", str(ivy_xml), "-confs", "default"]
            + ["-types", *(("zip",) if wanted.application else ("jar", "bundle"))]
            # In its folder, since the pattern would take brackets in the folder's path for its own.
            + ["-retrieve", "[artifact]-[revision].[ext]"],
            folder=new,
            what=f"the {wanted.name} jars",
            hint="check the network, or name a repository that can be reached in SNAPKAFKA_IVY_SETTINGS",
        )
        for packed in new.glob("*.zip"):
            shutil.unpack_archive(packed, new)
            packed.unlink()
    shutil.rmtree(ivy_cache, ignore_errors=True)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = [] if spec is None else list(spec.submodule_search_locations or [])
    found = [jar for folder in folders for jar in Path(folder, "jars").glob("ivy-*.jar")]
    if not found:
        raise DependencyMissingError(
            "jars are fetched by the Apache Ivy that pyspark ships, and pyspark is not installed",
            hint="pip install 'snapkafka[spark]'",
        )
    return found[0]


def proxy_flags(environ: Mapping[str, str]) -> Iterator[str]:
    """Yield Java's flags for the proxy variables, which Java does not read itself. Invalid values are left out."""
    for scheme in ("http", "https"):
        text = environ.get(f"{scheme}_proxy") or environ.get(f"{scheme.upper()}_PROXY") or ""
        try:
            proxy = urlsplit(text if "://" in text else f"http://{text}")
            host, port = proxy.hostname, proxy.port
        except ValueError:
            continue
        if host:
            yield f"-D{scheme}.proxyHost={host}"
            yield f"-D{scheme}.proxyPort={port or 3128}"
    direct = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    if hosts := [host.strip().lstrip(".") for host in direct.split(",") if host.strip(" .")]:
        yield "-Dhttp.nonProxyHosts=" + "|".join(f"{host}|*.{host}" for host in hosts)
