"""What this machine gives: home directories, which not every user has (containers run as users without a name), the
cache, and memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from snapkafka.errors import BadInputError, DependencyMissingError

#: What a container sees of its own control group: version 2, or 1.
LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_bytes() -> int:
    """Return the least of the machine's memory and the limit of this container."""
    texts = (limit.read_text().strip() for limit in LIMITS if limit.exists())
    limits = (int(text) for text in texts if text.isdecimal())  # else "max"
    return min([os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *limits])


def expand_home(path: str | Path) -> Path:
    """Expand a leading `~` or `~user`.

    Raises:
        BadInputError: there is no such home directory.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise BadInputError(
            f"{path}: no such home directory is known", hint="give an absolute path, or set HOME"
        ) from None


def cache_dir() -> Path:
    """Return the folder of what is fetched or made once, outside of any checkout: `SNAPKAFKA_CACHE`, else
    `XDG_CACHE_HOME`/snapkafka, else ~/.cache/snapkafka.

    Raises:
        DependencyMissingError: there is no home directory, and nothing names another place.
    """
    xdg = Path(os.environ.get("XDG_CACHE_HOME") or "")
    # One that is relative is to be ignored, its specification demands.
    usual = xdg / "snapkafka" if xdg.is_absolute() else "~/.cache/snapkafka"
    try:
        return expand_home(os.environ.get("SNAPKAFKA_CACHE") or usual).absolute()
    except BadInputError as error:
        raise DependencyMissingError(
            f"no place for what is fetched: {error.message}", hint="set SNAPKAFKA_CACHE to an absolute path"
        ) from error
