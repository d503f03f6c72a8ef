"""The checks: they find what is wrong with a snapshot, name the witnesses, and give the verdict.

| module | content |
|---|---|
| `witness` | findings and witnesses, every kind of them with its sentence |
| `view` | look-ups in a captured snapshot; the colour of a record |
| `ranges` | the offsets that must be read; findings from the bounds of the log alone |
| `external` | records in inputs that have no proven colour, and what a verdict assumes about them |
| `log_checks` | V1, V2, V4, V5 on a list of records (the simulator; the reference for Spark's) |
| `unstamped` | V4: records that lost their header in transit |
| `ran_twice` | V5: events that ran twice before the cut |
| `v3_state` | V3: conclusions from the records that a changelog still holds |
| `invariants` | V6: the user's SQL, and ready-made ones |
| `coverage` | the number of records that each check has read |
| `verdict` | from outcomes to a verdict |

Pure: no Kafka, no Spark.
"""

from .coverage import Examined
from .external import (
    ExternalTopic,
    OutsideSender,
    external_topics,
    outside_senders,
    outside_senders_of,
    written_topics,
)
from .kinds import KINDS, Weight
from .log import Keeping, LogBounds, LogRecord
from .ranges import ReadRange, bounds_findings, reading_ranges, require_offsets
from .verdict import Verdict, decide
from .view import CutView, in_flight
from .witness import WITNESSES_MAX, CheckOutcome, Finding, Status, Witness, outcome

__all__ = [
    "KINDS",
    "WITNESSES_MAX",
    "CheckOutcome",
    "CutView",
    "Examined",
    "ExternalTopic",
    "Finding",
    "Keeping",
    "LogBounds",
    "LogRecord",
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
