"""Text and names quoted in DuckDB's SQL, and the files of a table in it."""

from __future__ import annotations

from collections.abc import Iterable


def sql_text(text: str) -> str:
    """Quote a text."""
    return "'" + text.replace("'", "''") + "'"


def sql_name(name: str) -> str:
    """Quote the name of a schema, table or column."""
    return '"' + name.replace('"', '""') + '"'


def sql_of_files(places: Iterable[str]) -> str:
    """Return SQL for the rows of Parquet files."""
    return f"read_parquet([{', '.join(map(sql_text, places))}], hive_partitioning = false)"
