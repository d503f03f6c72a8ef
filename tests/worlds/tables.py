"""The tables of a snapshot as files, from a few rows."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly import SCHEMAS, Tables, arrow
from snapkafka.store import sql_of_files


def in_files(folder: Path, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Tables:
    """Write every table into a folder, the others without rows."""
    queries, files = dict[str, str](), list[str]()
    for name in SCHEMAS:
        files.append(str(folder / name / "part-00000.parquet"))
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(name, list(rows.get(name, ()))), files[-1])
        queries[name] = f"SELECT * FROM {sql_of_files(files[-1:])}"
    return Tables(queries, files)
