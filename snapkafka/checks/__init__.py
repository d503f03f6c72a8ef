"""The checks: what is wrong with a snapshot, what a witness of it is, and what verdict follows.

| module | what |
|---|---|
| `witness` | findings and witnesses, every kind of them with its sentence |
| `view` | a captured snapshot as the checks ask about it; the colour of a record |
| `ranges` | which offsets must be read; what the bounds of the log alone show |
| `external` | records in inputs that have no proven colour, and what a verdict assumes of them |
| `log_checks` | V1, V2, V4, V5 on a list of records (the simulator; the reference for Spark's) |
| `unstamped` | V4: records that lost their header on the way |
| `ran_twice` | V5: events that ran twice before the cut |
| `state_checks` | V3: what follows from what a changelog still holds |
| `invariants` | V6: the user's SQL, and ready-made ones |
| `looked_at` | how many records each check has looked at |
| `verdict` | from outcomes to a verdict |

Pure: no Kafka, no Spark.
"""

from .coverage import LookedAt
from .external import (
    ExternalTopic,
    OutsideSender,
    external_topics,
    outside_senders,
    outside_senders_of,
    written_topics,
)
from .ranges import ReadRange, bounds_findings, reading_ranges, require_offsets
from .verdict import Verdict, decide
from .view import CutView, Keeping, LogBounds, LogRecord, in_flight
from .witness import KINDS, WITNESSES_MAX, CheckOutcome, Finding, Status, Weight, Witness, outcome

__all__ = [
    "KINDS",
    "WITNESSES_MAX",
    "CheckOutcome",
    "CutView",
    "ExternalTopic",
    "Finding",
    "Keeping",
    "LogBounds",
    "LogRecord",
    "LookedAt",
    "OutsideSender",
    "ReadRange",
    "Status",
    "Verdict",
    "Weight",
    "Witness",
    "bounds_findings",
    "decide",
    "external_topics",
    "in_flight",
    "outcome",
    "outside_senders",
    "outside_senders_of",
    "reading_ranges",
    "require_offsets",
    "written_topics",
]
