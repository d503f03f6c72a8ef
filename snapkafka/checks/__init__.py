"""The checks: they find what is wrong with a snapshot, name the witnesses, and give the verdict.

A captured snapshot (`view`) and stretches of its log (`stretch`, `summary`; in memory `listed`) make a `CutLog`
(`sequences`). `run` gives it to V1 to V5 (`v1_colour` ... `v5_cause`) and counts what they have read (`coverage`). They
find `kinds` of `witness`es, from which the `verdict` follows.

Pure: no Kafka, no Spark.
"""

from .coverage import Examined, examined
from .external import external_topics, outside_senders
from .inputs import in_flight, read_before, received
from .kinds import CHECKS, KINDS, OF_STATE, Weight
from .listed import listed
from .log import EXTERNAL, Keeping, LogBounds, LogRecord
from .ranges import ReadRange, bounds_findings, lead_ranges, reading_ranges
from .run import LOG_CHECKS, Checked, find, run
from .sequences import CutLog, Source
from .stretch import Stretch, Wanted
from .summary import stretch_of
from .verdict import GOOD, Verdict, decide
from .view import CutView
from .witness import WITNESSES_MAX, Finding, Status, outcome, witness_of
