"""The tables of a snapshot as files, from a few rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq  # type: ignore[import-untyped]

from snapkafka.assembly import SCHEMAS, Tables, arrow, in_folder


def in_files(folder: Path, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> Tables:
    """Write every table into a folder, the others without rows."""
    for name in SCHEMAS:
        (folder / name).mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(name, list(rows.get(name, ()))), folder / name / "part-00000.parquet")
    return in_folder(folder)
