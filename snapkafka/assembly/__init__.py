"""Assembly: from a vector of offsets to tables, with the proof that the cut is consistent.

This package holds what any engine needs; `spark` is the engine for snapshots of any size.

| module | content |
|---|---|
| `spec` | the options of the job, and its result, as values and as JSON |
| `command`, `pipeline` | the job: its command line, and its work in order |
| `ledger` | the ledger's side: captured snapshots, and their verdicts |
| `cluster` | facts about the cluster: existing offsets, topics |
| `base` | the base of an incremental snapshot |
| `settings` | how a log is read |
| `values` | keys and values as text, for both engines |
| `invariants`, `invariant_files`, `unwritten_casts` | V6, in DuckDB; SQL files; what no number may rest on |
| `split_keys` | a note of V3 that the rows of `state` show |
| `stored_tables` | the stored tables beside those of the log |
| `manifest` | the manifest of an assembly |
| `progress` | the progress of the job |
| `spark.entry`, `spark.engine` | the job as a process; Spark as its engine |
| `order` | the order of the work in every engine, the manifest last |
| `spark.job` | reading, checking and writing in Spark |
| `spark.frames` | the captured snapshot as small DataFrames, for joins |
| `spark.reading` | the session, exact offset ranges, our header |
| `spark.tables` | state, channels, messages, processes, positions |
| `spark.values` | keys and values as text, in functions over batches |
| `spark.log` | the log for the checks: tasks summarise their records |
| `table_files`, `spark.write` | tables as Parquet, with their digests |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .base import find_base, require_offsets
    from .command import main
    from .embedded.handover import HandOverError
    from .engines import opened
    from .invariant_files import Invariant, load, parameters_of, parse_parameters, ready_made
    from .invariants import Tables, in_folder, published
    from .ledger import Desk
    from .manifest import check_entries
    from .pipeline import Job, isolation_of
    from .progress import Step, Work, Working
    from .schemas import SCHEMAS, columns, comments, schema
    from .settings import Settings
    from .spark.frames import Lookups, local_frame
    from .spark.reading.header_columns import stamped, stamps
    from .spark.reading.kafka_source import SOURCE_SCHEMA, read_ranges
    from .spark.reading.session import session
    from .spec import OPTIONS, JobResult, JobSpec, as_file, changed, read_system
    from .stored_tables import compare
    from .table_files import arrow, digest_of, write
    from .values.decoding import PLAIN, Decoding
else:
    __getattr__ = lazily(
        __name__,
        {
            "base": "find_base require_offsets",
            "command": "main",
            "values.decoding": "PLAIN Decoding",
            "embedded.handover": "HandOverError",
            "engines": "opened",
            "invariants": "Tables in_folder published",
            "ledger": "Desk",
            "manifest": "check_entries",
            "pipeline": "Job isolation_of",
            "progress": "Step Work Working",
            "invariant_files": "Invariant load parameters_of parse_parameters ready_made",
            "schemas": "SCHEMAS columns comments schema",
            "settings": "Settings",
            "spark.frames": "Lookups local_frame",
            "spark.reading.header_columns": "stamped stamps",
            "spark.reading.kafka_source": "SOURCE_SCHEMA read_ranges",
            "spark.reading.session": "session",
            "spec": "OPTIONS JobResult JobSpec as_file changed read_system",
            "stored_tables": "compare",
            "table_files": "arrow digest_of write",
        },
    )
