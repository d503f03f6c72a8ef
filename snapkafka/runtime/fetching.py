"""The cache of fetched things: where it is, one writer at a time, nothing in it half-done."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapkafka.errors import DependencyMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["cache_dir", "fetch_lock", "fetched_into", "run_fetch", "telling_line"]

#: The longest that one fetch may take. The largest one takes a minute on a good line.
FETCH_TIMEOUT_S: Final = 1200
#: How pip, uv and Ivy (Java) say that there is no network, or a proxy that is not there.
NO_NETWORK: Final = re.compile(
    r"Temporary failure in name resolution|Name or service not known|nodename nor servname provided|dns error"
    r"|UnknownHostException|Host \S+ not found|Network is unreachable|Connection refused|ConnectTimeout\w*"
)


def cache_dir() -> Path:
    """Where fetched things are kept, outside of any checkout."""
    if own := os.environ.get("SNAPKAFKA_CACHE"):
        return Path(own).expanduser().absolute()
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache").absolute() / "snapkafka"


@contextlib.contextmanager
def fetched_into(place: Path) -> Iterator[Path]:
    """A new folder to fill, beside `place`, which takes its place if nothing went wrong and vanishes if it did."""
    place.parent.mkdir(parents=True, exist_ok=True)
    for left_behind in place.parent.glob(f"{place.name}.part-*"):  # by one that was killed: we hold the lock
        shutil.rmtree(left_behind, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f"{place.name}.part-", dir=place.parent))
    try:
        yield new
        shutil.rmtree(place, ignore_errors=True)  # there only if it was not whole
        new.replace(place)
    finally:
        shutil.rmtree(new, ignore_errors=True)


@contextlib.contextmanager
def fetch_lock() -> Iterator[None]:
    """One fetch at a time over all processes of this user; freed by the system if its holder dies."""
    import fcntl  # POSIX; what is found and not fetched needs no lock

    folder = cache_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / "lock").open("w")
    except OSError as error:
        raise DependencyMissingError(
            f"the cache {folder} cannot be written: {error.strerror}", hint="set SNAPKAFKA_CACHE"
        ) from error
    with file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_fetch(command: Sequence[str], *, what: str, hint: str) -> None:
    """Run a fetching command; if it fails, say so in one line, with the most telling line that it printed."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        raise DependencyMissingError(f"{what} did not come in {FETCH_TIMEOUT_S} s", hint=hint) from None
    except OSError as error:
        raise DependencyMissingError(f"{what} could not be fetched: {error}", hint=hint) from error
    if done.returncode != 0:
        raise DependencyMissingError(
            f"{what} could not be fetched: {telling_line(done.stdout + done.stderr)}", hint=hint
        )


def telling_line(output: str) -> str:
    """Of all that pip, uv or Ivy printed before it failed, what a user needs to know, in one line."""
    if no_network := NO_NETWORK.search(output):
        return f"the network cannot be reached ({no_network[0]})"
    lines = [line.strip(" \t:") for line in output.splitlines() if line.strip(" \t:.")]
    for sign in ("Server access error", "could not be", "ERROR", "error", "not found"):
        for line in lines:
            if sign in line:
                return line[:300]
    return lines[-1][:300] if lines else "no output"
