"""The home directory, if there is one (containers run as users without a name, `env -i` has no HOME), and the cache."""

from __future__ import annotations

import os
from pathlib import Path

from snapkafka.errors import BadInputError, DependencyMissingError


def home_dir() -> Path | None:
    """Find the home of this user: HOME, else the one in the system's user database; None if neither is an absolute
    path."""
    home = os.environ.get("HOME") or ""
    if not os.path.isabs(home):  # noqa: PTH117 -- a text that may be empty
        home = _home_on_file()
    return Path(home) if os.path.isabs(home) else None  # noqa: PTH117


def expand_home(path: str | Path) -> Path:
    """Expand a leading `~` or `~user`.

    Raises:
        BadInputError: there is no such home directory.
    """
    first, *rest = Path(path).parts or ("",)
    if not first.startswith("~"):
        return Path(path)
    home = home_dir() if first == "~" else Path(first)
    if home is not None and first != "~":
        expanded = os.path.expanduser(first)  # noqa: PTH111 -- raises nothing, and leaves what it does not know
        home = Path(expanded) if expanded != first else None
    if home is None:
        raise BadInputError(
            f"{path}: no home directory is known for {first}", hint="give an absolute path, or set HOME"
        )
    return home.joinpath(*rest)


def cache_dir() -> Path:
    """Return the folder of what is fetched or made once, outside of any checkout: `SNAPKAFKA_CACHE`, else
    `XDG_CACHE_HOME`/snapkafka, else ~/.cache/snapkafka.

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


def _home_on_file() -> str:
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):  # not POSIX; a user id without a user
        return ""
