"""Home directories, which not every user has (containers run as users without a name), and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from snapkafka.errors import BadInputError, DependencyMissingError


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
