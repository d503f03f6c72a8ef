"""Assembly: from a vector of offsets to tables, with the proof that the cut is consistent.

| module | content |
|---|---|
| `spec` | the options of the job, and its result, as values and as JSON |
| `command`, `job`, `pipeline` | the job: its command line, its options, and its work in order |
| `ledger` | the ledger's side: captured snapshots, and their verdicts |
| `cluster` | facts about the cluster: existing offsets, topics |
| `base` | the base of an incremental snapshot |
| `order` | the order of the work on one snapshot, and what an engine is |
| `examine` | the work on records, piece by piece, in any engine |
| `state`, `around`, `rows` | the rows of the tables |
| `embedded`, `spark` | the engines: in this process, and on a cluster |
| `values` | keys and values as text |
| `invariants`, `invariant_files`, `unwritten_casts` | V6, in DuckDB; SQL files; what no number may rest on |
| `split_keys` | a note of V3 that the rows of `state` show |
| `schemas`, `table_files` | the tables' columns; tables as Parquet, with their digests |
| `stored_tables` | the stored tables beside those of the log |
| `manifest` | the manifest of an assembly |
| `entry` | the job as a process |

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .base import find_base, require_offsets
    from .command import main
    from .invariant_files import Invariant, load, parameters_of, parse_parameters, ready_made
    from .invariants import Tables, in_folder, published
    from .job import Job, Settings
    from .ledger import Desk
    from .manifest import check_entries
    from .order import HandOverError
    from .pipeline import isolation_of
    from .schemas import SCHEMAS, columns, comments, schema
    from .spark.session import session
    from .spec import OPTIONS, JobResult, JobSpec, as_file, changed, read_system
    from .stored_tables import compare
    from .table_files import arrow, digest_of
    from .values.decoder import PLAIN, Decoding
else:
    __getattr__ = lazily(__name__)
