"""The checks: they find what is wrong with a snapshot, name the witnesses, and give the verdict.

| module | content |
|---|---|
| `witness`, `kinds` | findings and witnesses, every kind of them with its sentence |
| `view`, `inputs` | look-ups in a captured snapshot; the colour of a record |
| `ranges` | the offsets that must be read; findings from the bounds of the log alone |
| `stretch`, `summary` | what the checks need of a range of the log: a few records, and counts of the others |
| `sequences` | the input of the checks, and what several of them derive from it |
| `listed` | that input from a list of records |
| `v1_colour`, `v2_receipt`, `v3_state`, `v4_channels`, `v5_cause` | the checks |
| `questions` | what V3 asks about keys |
| `run` | V1 to V5, in every engine and in the simulator |
| `external` | records in inputs that have no proven colour, and what a verdict assumes about them |
| `coverage` | the number of records that each check has read |
| `verdict` | from outcomes to a verdict |

Pure: no Kafka, no Spark.
"""

from .coverage import NOTHING_SEEN, Examined, examined
from .external import external_topics, outside_senders
from .inputs import in_flight, mark_of, read_before, received
from .kinds import CHECKS, KINDS, OF_STATE, Weight
from .listed import listed
from .log import EXTERNAL, Keeping, LogBounds, LogRecord
from .ranges import TAIL_MAX, ReadRange, bounds_findings, lead_ranges, reading_ranges
from .run import LOG_CHECKS, Checked, find, run
from .sequences import CutLog, Source
from .stretch import Stretch, Wanted
from .summary import stretch_of
from .verdict import Verdict, decide
from .view import CutView
from .witness import WITNESSES_MAX, Finding, Status, outcome, witness_of
