"""The checks: they find what is wrong with a snapshot, name the witnesses, and give the verdict.

| module | content |
|---|---|
| `witness` | findings and witnesses, every kind of them with its sentence |
| `view` | look-ups in a captured snapshot; the colour of a record |
| `ranges` | the offsets that must be read; findings from the bounds of the log alone |
| `sequences` | the input of the checks on lists, and what several of them derive from it |
| `v1_colour`, `v2_receipt`, `v3_state`, `v4_channels`, `v5_cause` | one function per kind of finding, named as it |
| `split_keys` | a note of V3 that the rows of `state` show |
| `invariants` | V6: the user's SQL, and ready-made ones |
| `run` | V1 to V5 on a list of records (the simulator; the reference for Spark's) |
| `external` | records in inputs that have no proven colour, and what a verdict assumes about them |
| `coverage` | the number of records that each check has read |
| `verdict` | from outcomes to a verdict |

Pure: no Kafka, no Spark.
"""

from .coverage import NOTHING_SEEN, Examined, on_list
from .external import (
    ExternalTopic,
    OutsideSender,
    external_topics,
    outside_senders,
    outside_senders_of,
    written_topics,
)
from .invariants import Invariant, load, parameters_of, ready_made
from .kinds import CHECKS, KINDS, OF_STATE, Weight
from .log import EXTERNAL, Keeping, LogBounds, LogRecord
from .ranges import OF_BOUNDS, TAIL_MAX, ReadRange, bounds_findings, reading_ranges, require_offsets
from .run import LOG_CHECKS, Checked, find
from .sequences import CutLog
from .verdict import Verdict, decide
from .view import CutView, in_flight, read_before
from .witness import WITNESSES_MAX, CheckOutcome, Finding, Status, Witness, outcome
