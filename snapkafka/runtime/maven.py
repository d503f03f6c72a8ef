"""Jars of a Maven repository, fetched by jgo into a cache that all checkouts of a user share.

A set is a list of lines, `group:artifact:version`, with the SHA-256 of the file behind it. jgo takes them from Maven
Central, or from where its own settings say (`central = ...` under `[repositories]` in `~/.config/jgo.conf`, or in the
file that JGO_CONFIG_FILE names). A file has its place in the cache once it is whole and is what it should be.
"""

from __future__ import annotations

import os
import ssl
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Final

from snapkafka.errors import DependencyMissingError
from snapkafka.runtime.extras import extra_missing
from snapkafka.runtime.machine import cache_dir

LOCKS: Final = Path(__file__).with_name("locks")
#: A jar is a matter of seconds; a repository may answer slowly.
ANSWERS_WITHIN_S: Final = 60
AT_ONCE: Final = 8


def locked_jars(name: str) -> list[Path]:
    """Return the jars of a set of this package, fetched if missing.

    Args:
        name: "kafka" is the class path of a broker, "spark" is Spark's own Kafka source.

    Raises:
        DependencyMissingError: they are not in the cache and cannot be fetched.
    """
    return jars((LOCKS / f"{name}.txt").read_text("utf-8").splitlines())


def jars(wanted: Iterable[str]) -> list[Path]:
    """Return files of artifacts, fetched if missing.

    Args:
        wanted: a line each, `group:artifact:version[:classifier:packaging]`, and a SHA-256 where it is known.

    Raises:
        DependencyMissingError: they are not in the cache and cannot be fetched.
    """
    places = {line: _place(line) for line in wanted}
    if missing := {line: place for line, place in places.items() if not place.exists()}:
        try:
            _fetch(missing)
        except (OSError, RuntimeError) as error:  # requests' errors are of the system's, jgo's are of runtime
            raise DependencyMissingError(
                f"{len(missing)} jars, of which {next(iter(missing)).split()[0]} is the first, could not be fetched: "
                f"{str(error)[:300]}",
                hint="check the network; jgo's settings name another Maven repository, SNAPKAFKA_CACHE another cache",
            ) from error
    return list(places.values())


def _place(line: str) -> Path:
    group, artifact, version, classifier, packaging = _parts(line)
    name = f"{artifact}-{version}{classifier and '-'}{classifier}.{packaging}"
    return cache_dir().joinpath("maven", *group.split("."), artifact, version, name)


def _parts(line: str) -> Sequence[str]:
    parts = line.split()[0].split(":")
    return parts if len(parts) == 5 else (*parts, "", "jar")


def _fetch(places: dict[str, Path]) -> None:
    try:
        from jgo.config import GlobalSettings
        from jgo.constants import MAVEN_CENTRAL_URL
        from jgo.maven import MavenContext
    except ImportError as error:
        raise extra_missing("broker", "fetching jars", "jgo") from error
    # requests has a list of its own, which lacks the authority of a company's proxy.
    system = ssl.get_default_verify_paths()
    if trusted := system.cafile or system.capath:
        os.environ.setdefault("REQUESTS_CA_BUNDLE", trusted)
    cache = cache_dir() / "maven"
    cache.mkdir(parents=True, exist_ok=True)
    remote = {"central": MAVEN_CENTRAL_URL} | GlobalSettings.load().repositories

    def fetch(line: str, place: Path) -> None:
        group, artifact, version, *form = _parts(line)
        file = context.project(group, artifact).at_version(version).artifact(*form).resolve()
        for expected in line.split()[1:]:
            if expected != sha256(file.read_bytes()).hexdigest():
                raise OSError(f"{file.name} is not the file that it should be")
        place.parent.mkdir(parents=True, exist_ok=True)
        file.replace(place)

    with tempfile.TemporaryDirectory(prefix="part-", dir=cache) as new, ThreadPoolExecutor(AT_ONCE) as pool:
        context = MavenContext(repo_cache=Path(new), remote_repos=remote, timeout=ANSWERS_WITHIN_S)
        list(pool.map(fetch, *zip(*places.items(), strict=True)))


if __name__ == "__main__":
    try:
        for each in sys.argv[1:]:
            print(f"{each}: {len(locked_jars(each))} jars in {cache_dir()}")
    except DependencyMissingError as problem:
        sys.exit(f"error: {problem}\nwhat to do: {problem.hint}")
