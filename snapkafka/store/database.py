"""DuckDB over files of storages: it reads the files that it is given, and nothing else of this machine or any other;
and text, names and files quoted in its SQL."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from snapkafka.runtime.extras import extra_missing

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@contextmanager
def database(
    filesystems: Iterable[Any], settings: Mapping[str, str | bool | int] | None = None
) -> Iterator[DuckDBPyConnection]:
    """Provide DuckDB, in UTC. The caller creates its views, and then calls `locked`.

    Args:
        filesystems: of the storages (`Store.filesystem`).
        settings: more of DuckDB's own.

    Raises:
        DependencyMissingError: DuckDB is not installed.
    """
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise extra_missing("query", "a query", "duckdb") from error
    with tempfile.TemporaryDirectory(prefix="snapkafka-") as spill:
        own: dict[str, str | bool | int] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
            "temp_directory": spill,
        }
        with duckdb.connect(config=own | dict(settings or {})) as opened:
            for filesystem in filesystems:
                if filesystem is not None:
                    opened.register_filesystem(filesystem)
            opened.execute("SET TimeZone = 'UTC'")
            yield opened


def locked(opened: DuckDBPyConnection, places: Iterable[tuple[str, Any]]) -> None:
    """Close everything but files to the database, before it runs a user's SQL.

    Args:
        places: the place of each file, with the file system that opens it.
    """
    names = {name for place, filesystem in places for name in _names(place, filesystem)}
    opened.execute(f"SET allowed_paths = [{', '.join(map(sql_text, sorted(names)))}]")
    opened.execute("SET enable_external_access = false")
    opened.execute("SET lock_configuration = true")


def _names(place: str, filesystem: Any) -> set[str]:
    """Return the names by which DuckDB may ask for a file: its file system may use one of its own."""
    own = place if filesystem is None else filesystem.unstrip_protocol(filesystem._strip_protocol(place))
    return {place, own, _exact(place), _exact(own)}


def one_line(error: Exception) -> str:
    """Return DuckDB's message, without the piece of SQL and the list of functions that it prints below."""
    return " ".join(re.split(r"\n\s*(?:LINE \d+:|Candidate functions:)", str(error))[0].split())


def sql_text(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """Quote the name of a schema, table or column."""
    return '"' + name.replace('"', '""') + '"'


def sql_of_files(places: Iterable[str]) -> str:
    """Return SQL for the rows of Parquet files, whose places may have characters of patterns."""
    return (
        f"read_parquet([{', '.join(sql_text(_exact(place)) for place in places)}], hive_partitioning = false)"
    )


def _exact(place: str) -> str:
    """Return the pattern that fits this place alone."""
    return re.sub(r"[*?[]", r"[\g<0>]", place)
