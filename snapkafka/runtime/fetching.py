"""The cache of fetched things: its place, one writer at a time, nothing in it half-done."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapkafka.errors import BadInputError, DependencyMissingError
from snapkafka.runtime.environment import child_environment
from snapkafka.runtime.homes import expand_home, home_dir

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The longest that one fetch may take. The largest one takes a minute on a good line.
FETCH_TIMEOUT_S: Final = 1200
#: How pip, uv and Ivy (Java) say that there is no network, or a proxy that is not there.
NO_NETWORK: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|nodename nor servname provided|dns error"
    r"|UnknownHostException|Host \S+ not found|Network is unreachable|Connection refused|ConnectTimeout\w*"
)


def cache_dir() -> Path:
    """Return the folder of fetched things, outside of any checkout.

    Raises:
        DependencyMissingError: there is no home directory, and nothing names another place.
    """
    if own := os.environ.get("SNAPKAFKA_CACHE"):
        try:
            return expand_home(own).absolute()
        except BadInputError as error:
            raise DependencyMissingError(
                f"SNAPKAFKA_CACHE is {error.message}", hint="set it to an absolute path"
            ) from error
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or "")
    if xdg.is_absolute():  # others are to be ignored, its specification demands
        return xdg / "snapkafka"
    home = home_dir()
    if home is None:
        raise DependencyMissingError(
            "no place for what is fetched: HOME is not set, and this user has no home directory",
            hint="set SNAPKAFKA_CACHE to a directory that can be written",
        )
    return home / ".cache" / "snapkafka"


@contextlib.contextmanager
def fetched_into(place: Path) -> Iterator[Path]:
    """Provide a new folder to fill, beside `place`, which becomes `place` if nothing failed and is removed if
    something did."""
    new = place.with_name(f"{place.name}.part-{uuid.uuid4().hex}")
    with writing(place.parent):
        place.parent.mkdir(parents=True, exist_ok=True)
        for left_behind in place.parent.glob(
            f"{place.name}.part-*"
        ):  # by one that was killed: we hold the lock
            shutil.rmtree(left_behind, ignore_errors=True)
        new.mkdir()  # not mkdtemp, whose folders nobody else may read: another user may share the cache
    try:
        yield new
        shutil.rmtree(place, ignore_errors=True)  # there only if it was not whole
        with writing(place):
            new.replace(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextlib.contextmanager
def writing(place: Path) -> Iterator[None]:
    """Format the system's error of a cache that cannot be written as one line."""
    try:
        yield
    except OSError as error:
        raise DependencyMissingError(
            f"the cache {place} cannot be written: {error.strerror}", hint="set SNAPKAFKA_CACHE"
        ) from error


@contextlib.contextmanager
def fetch_lock() -> Iterator[None]:
    """Allow one fetch at a time over all processes of this user; the system frees the lock if its holder dies."""
    import fcntl  # POSIX; what is found and not fetched needs no lock

    folder = cache_dir()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_fetch(command: Sequence[str], *, what: str, hint: str, folder: Path | None = None) -> None:
    """Run a fetching command in a folder; if it fails, print one line, the most informative one that it printed."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=child_environment(os.environ),
            cwd=folder,
            timeout=FETCH_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        raise DependencyMissingError(f"{what} did not come in {FETCH_TIMEOUT_S} s", hint=hint) from None
    except OSError as error:
        raise DependencyMissingError(f"{what} could not be fetched: {error}", hint=hint) from error
    if done.returncode != 0:
        raise DependencyMissingError(
            f"{what} could not be fetched: {relevant_line(done.stdout + done.stderr)}", hint=hint
        )


def relevant_line(output: str) -> str:
    """Return the line of what pip, uv or Ivy printed before it failed that a user needs to know."""
    if no_network := NO_NETWORK.search(output):
        return f"the network cannot be reached ({no_network[0]})"
    lines = [line.strip(" \t:") for line in output.splitlines() if line.strip(" \t:.")]
    for sign in ("Server access error", "could not be", "ERROR", "error", "not found"):
        for line in lines:
            if sign in line:
                return line[:300]
    return lines[-1][:300] if lines else "no output"
