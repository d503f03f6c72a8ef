"""Assembly: from a vector of offsets to tables, with the proof that the cut is consistent.

The order of the work: `command` (its command line) -> `job` -> `pipeline` -> `order` (of one snapshot) -> `examine`
(records, piece by piece, in the engine `embedded` or `spark`) -> `state`, `around`, `rows` (of the tables) ->
`table_files` -> `invariants` (V6) -> `manifest`.

Run it with `python -m snapkafka.assembly` or `spark-submit`; see docs/guide/assembly.md. Importing this package loads
no Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapkafka.lazy import lazily

if TYPE_CHECKING:
    from .base import base_or_whole, require_offsets
    from .command import main
    from .invariant_files import load, parameters_of, parse_parameters, ready_made
    from .invariants import Tables, published
    from .job import Job, Settings
    from .ledger import Desk
    from .manifest import check_entries
    from .order import HandOverError
    from .schemas import SCHEMAS, columns, comment, schema
    from .spark.session import session
    from .spec import OPTIONS, JobResult, JobSpec, changed, read_system
    from .stored_tables import compare
    from .table_files import arrow, digest_of
    from .values.decoder import PLAIN, Decoding
else:
    __getattr__ = lazily(__name__)
