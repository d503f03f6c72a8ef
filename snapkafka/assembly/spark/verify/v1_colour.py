"""V1 in Spark; see `snapkafka.checks.v1_colour`: one function per kind of finding, of the same name.

Between two records of a sender a send that it reports as lost is a gap, as any other missing seq (`sequences`). Before
the first and after the last record, and without records, the order of the log shows no gap: so the reported seqs are
sought (`send_failed`). Hardly any snapshot has any.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.frames import local_frame
from snapkafka.checks import CutView, Finding
from snapkafka.checks.v1_colour import Unseen, lost_sends, unseen
from snapkafka.protocol.records import TopicPartition

from . import sequences
from .log_frames import LogFrames
from .prefilter import Look, Suspect
from .rule import Found, Rule, Search
from .sequences import TP, is_copy, is_unacknowledged, white_stamped

#: `number` stands for one of `Unseen`.
PARTS = "topic string, partition int, process bigint, first bigint, last bigint, number int"

# --- Suspects: conditions on a row of the pre-filter ----------------------------------------------------------------


def _after_end(view: CutView) -> Column:
    copied = (fn.col("seq") <= fn.col("earlier_seq")) & (fn.col("offset") >= fn.col("earlier_end"))
    late = white_stamped(view.epoch) & (_past_end() | copied)
    return late | (sequences.is_living() & is_unacknowledged())


def _after_left(view: CutView) -> Column:
    return sequences.has_left() & (fn.col("offset") >= fn.col("left_end")) & ~fn.col("marker")


def _out_of_turn(view: CutView) -> Column:
    seq, highest = fn.col("seq"), fn.col("highest")
    some_failed = fn.exists("failed", lambda it: (it["last"] > highest) & (it["first"] < seq))
    only_state = (
        (fn.col("offset") <= fn.col("only_state_below"))
        & (seq > highest)
        & (fn.col("holes") >= seq - highest - 1)
        & ~fn.coalesce(some_failed, fn.lit(False))
    )
    judged = fn.col("offset") < fn.when(sequences.has_left(), fn.col("closed_end")).otherwise(
        fn.col("white_end")
    )
    return fn.col("left").isNotNull() & judged & (seq != highest + 1) & ~only_state


AFTER_END: Final = Suspect("after_end", _after_end)
AFTER_LEFT: Final = Suspect("after_left", _after_left)
OUT_OF_TURN: Final = Suspect("out_of_turn", _out_of_turn, in_order=True)

# --- Findings -------------------------------------------------------------------------------------------------------


def white_after_end(view: CutView) -> Found:
    """Find white records past the white end of their sender, which knows of no such send."""
    white = white_stamped(view.epoch)
    return Found(white & _past_end() & ~is_unacknowledged() & ~is_copy(white), a=fn.col("white_end"))


def white_unsettled(view: CutView) -> Found:
    """Find white records past the white end of their sender, which got no result for them."""
    return Found(white_stamped(view.epoch) & _past_end() & is_unacknowledged(), a=fn.col("white_end"))


def landed(view: CutView) -> Found:
    """Find records below the white end of their sender that it got no acknowledgement for: they count as sent."""
    return Found(sequences.is_living() & ~_past_end() & is_unacknowledged())


def copy(view: CutView) -> Found:
    """Find records that were sent before, as their sender reports."""
    return Found(is_copy(white_stamped(view.epoch)))


def copy_after_left(view: CutView) -> Found:
    """Find copies past the observed end of a process that left."""
    return Found(fn.col("copy"))


def copy_of_unread(view: CutView) -> Found:
    """Find copies of records below all that are read."""
    return Found(~fn.col("again") & fn.col("below"), a=fn.col("highest"))


def duplicate(view: CutView) -> Found:
    """Find records whose seq is in the log a second time."""
    return Found(fn.col("again"), a=fn.col("highest"))


def disorder(view: CutView) -> Found:
    """Find records of living processes that come after a higher seq."""
    return Found(_out_of_order() & ~fn.col("left"), a=fn.col("highest"))


def disorder_left(view: CutView) -> Found:
    """Find records that come after a higher seq, of processes that left."""
    return Found(_out_of_order() & fn.col("left"), a=fn.col("highest"))


def gap(view: CutView) -> Found:
    """Find missing seqs of living processes that no missing offset explains."""
    return missing(~fn.col("explained") & ~fn.col("left"))


def gap_left(view: CutView) -> Found:
    """Find missing seqs that no missing offset explains, of processes that left."""
    return missing(~fn.col("explained") & fn.col("left"))


def gap_failed(view: CutView) -> Found:
    """Find missing seqs whose sender reports some of them as unacknowledged."""
    return missing(fn.col("explained") & fn.col("reported"))


def gap_explained(view: CutView) -> Found:
    """Find missing seqs that missing offsets explain; in a changelog V3 judges those that compaction took."""
    return missing(fn.col("explained") & ~fn.col("reported") & ~fn.col("only_state"))


def left_late(view: CutView) -> Found:
    """Find records of a process that was declared dead past the observed end."""
    return Found(~fn.col("copy"), a=fn.col("left_end"))


def _past_end() -> Column:
    return fn.col("offset") >= fn.col("white_end")


def _out_of_order() -> Column:
    return ~fn.col("again") & ~fn.col("below")


def missing(where: Column, app: Column | None = None) -> Found:
    """Return the finding for the seqs that are missing before a record."""
    return Found(where, app, a=fn.col("highest") + 1, b=fn.col("seq") - 1)


RULES: Final = (
    Rule("white-after-end", AFTER_END, LogFrames.known, white_after_end),
    Rule("white-unsettled", AFTER_END, LogFrames.known, white_unsettled),
    Rule("landed", AFTER_END, LogFrames.known, landed),
    Rule("copy", AFTER_END, LogFrames.known, copy),
    Rule("copy", AFTER_LEFT, LogFrames.after_left, copy_after_left),
    Rule("copy", OUT_OF_TURN, LogFrames.late, copy_of_unread),
    Rule("duplicate", OUT_OF_TURN, LogFrames.late, duplicate),
    Rule("disorder", OUT_OF_TURN, LogFrames.late, disorder),
    Rule("disorder-left", OUT_OF_TURN, LogFrames.late, disorder_left),
    Rule("gap", OUT_OF_TURN, LogFrames.gaps, gap),
    Rule("gap-left", OUT_OF_TURN, LogFrames.gaps, gap_left),
    Rule("gap-failed", OUT_OF_TURN, LogFrames.gaps, gap_failed),
    Rule("gap-explained", OUT_OF_TURN, LogFrames.gaps, gap_explained),
    Rule("left-late", AFTER_LEFT, LogFrames.after_left, left_late),
)

# --- Sends that processes report as lost ----------------------------------------------------------------------------


def send_failed(log: LogFrames, look: Look) -> tuple[list[Finding], Counter[str]]:
    """Find sends that were refused, or have no outcome and are not in the log: at most one finding for each range that
    a process reports."""
    if not any(row["failed"] for row in log.lookups.sender_rows):
        return [], Counter()
    sent = sequences.of_known(sequences.without_copies(log.stamps, log.lookups), log.lookups)
    judged = sent.where(~fn.col("left") & ~_past_end() & (fn.size("failed") > 0))
    rows = judged.groupBy(*TP, "process").agg(fn.min_by("seq", "offset"), fn.max("seq")).collect()
    parts = unseen(log.view, {(TopicPartition(*row[:2]), row[2]): (row[3], row[4]) for row in rows})
    wanted = [
        {**tp._asdict(), "process": process, "first": first, "last": last, "number": number}
        for number, (tp, process, first, last) in enumerate(parts)
    ]
    held: dict[Unseen, int] = dict.fromkeys(parts, 0)
    if wanted:
        counted = (
            judged.join(fn.broadcast(local_frame(log.lookups.spark, PARTS, wanted)), [*TP, "process"])
            .where(fn.col("seq").between(fn.col("first"), fn.col("last")))
            .groupBy("number")
            .agg(fn.count_distinct("seq"))
            .collect()
        )
        held |= {parts[number]: found for number, found in counted}
    found = lost_sends(log.view, held)
    return found, Counter(finding.kind for finding in found)


SEARCHES: Final = (Search(("send-failed",), "V1: sends that failed", send_failed),)
