"""V4 in Spark; see `snapkafka.checks.v4_channels`: one function per kind of finding, of the same name.

A record that was received and may lack its header is an external one at the place of a sender's last white one. The
pre-filter knows which partitions hold external records, so hardly any snapshot costs a query. Records below the reading
ranges are read separately.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import local_frame
from snapkafka.checks import CutView, Finding
from snapkafka.checks.v4_channels import look_back_ranges, received_without_header

from . import sequences
from .log_frames import LogFrames
from .prefilter import Look, Suspect
from .rule import Found, Rule, Search
from .sequences import TP, within
from .v1_colour import OUT_OF_TURN, missing

PLACES: Final = "topic string, partition int, offset bigint"

# --- Suspects: conditions on a row of the pre-filter ----------------------------------------------------------------


def _differs(view: CutView) -> Column:
    return sequences.white_stamped(view.epoch) & (
        within("low_from", "low_to") | within("high_from", "high_to")
    )


def _due(view: CutView) -> Column:
    as_counted = (fn.col("offset") == fn.col("due_offset")) & (fn.col("seq") == fn.col("due_seq"))
    return as_counted & ~fn.col("marker")


def _number_due(view: CutView) -> int:
    return len({(tp, end.process) for tp, end, _ in view.last_in_flight()})


DIFFERS: Final = Suspect("differs", _differs)
DUE: Final = Suspect("due", _due, expected=_number_due)

# --- Findings -------------------------------------------------------------------------------------------------------


def last_missing(view: CutView) -> Found:
    """Find last white records in flight that are not where their sender counted them."""
    return Found(~fn.col("old_topic") & ~fn.col("external"), fn.col("app"))


def last_recreated(view: CutView) -> Found:
    """Find such records of processes that joined before their topic was recreated."""
    return Found(fn.col("old_topic"), fn.col("app"))


def unstamped(view: CutView) -> Found:
    """Find last white records in flight that lack their header."""
    return Found(~fn.col("old_topic") & fn.col("external"), fn.col("app"))


def incomplete(view: CutView) -> Found:
    """Find missing seqs of living processes in flight that no missing offset explains."""
    return missing(~fn.col("explained"), fn.col("app"))


def hole(view: CutView) -> Found:
    """Find missing seqs of living processes in flight that missing offsets explain."""
    return missing(fn.col("explained"), fn.col("app"))


def recorded_differs(view: CutView) -> Found:
    """Find white records in only one of two ranges: the one that a receiver recorded, and the one that follows from
    its position and the sender's white end."""
    white = sequences.white_stamped(view.epoch)
    differs = within("start", "end") != within("position", "white_end")
    sent_once = ~sequences.is_copy(white) & ~sequences.is_unacknowledged()
    return Found(white & differs & sent_once, fn.col("app"), a=fn.col("start"), b=fn.col("end"))


RULES: Final = (
    Rule("last-missing", DUE, LogFrames.last, last_missing),
    Rule("last-recreated", DUE, LogFrames.last, last_recreated),
    Rule("unstamped", DUE, LogFrames.last, unstamped),
    Rule("incomplete", OUT_OF_TURN, LogFrames.gaps_in_flight, incomplete),
    Rule("hole", OUT_OF_TURN, LogFrames.gaps_in_flight, hole),
    Rule("recorded-differs", DIFFERS, LogFrames.recorded, recorded_differs),
)

# --- Headers that were removed --------------------------------------------------------------------------------------


def unstamped_received(log: LogFrames, look: Look) -> tuple[list[Finding], Counter[str]]:
    """Find last white records that were received, or are part of a table, and lack their header: at most one finding
    for each sender, partition and app."""
    view = log.view
    parts: list[DataFrame] = []
    spans = look.external_spans
    if any(
        tp in spans and spans[tp][0] <= end.white_end - 1 <= spans[tp][1] for tp, end, _ in view.last_behind()
    ):
        parts.append(log.stamps)
    if log.again is not None and (below := look_back_ranges(view, log.read)):
        parts.append(log.again(below))
    if not parts:
        return [], Counter()
    places = sorted({(*tp, end.white_end - 1) for tp, end, _ in view.last_behind()})
    wanted = [dict(zip((*TP, "offset"), place, strict=True)) for place in places]
    due = fn.broadcast(local_frame(log.lookups.spark, PLACES, wanted))
    external = {
        (row.topic, row.partition, row.offset)
        for part in parts
        for row in part.where(fn.col("process").isNull())
        .join(due, [*TP, "offset"])
        .select(*TP, "offset")
        .collect()
    }
    found = received_without_header(view, external)
    return found, Counter(finding.kind for finding in found)


SEARCHES: Final = (Search(("unstamped-received",), "V4: headers that were removed", unstamped_received),)
