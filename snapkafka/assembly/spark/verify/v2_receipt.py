"""V2 in Spark; see `snapkafka.checks.v2_receipt`: one function per kind of finding, of the same name."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.tables.tables import has_started
from snapkafka.checks import CutView

from . import sequences
from .log_frames import LogFrames
from .prefilter import Suspect
from .rule import Found, Rule
from .sequences import is_copy, is_unacknowledged


def _red(view: CutView) -> Column:
    ends = fn.when(sequences.has_left(), fn.col("log_end")).otherwise(fn.col("white_end"))
    red = (
        (fn.col("process") >= view.epoch)
        | _by_header(view)
        | (fn.col("left").isNotNull() & (fn.col("offset") >= ends))
    )
    return has_started(fn.col("offset")) & red & ~fn.col("marker")


RED: Final = Suspect("red", _red)


def red_birth(view: CutView) -> Found:
    """Find received records of processes that joined after the trigger."""
    return _received(view, fn.col("process") >= view.epoch, fn.col("epoch"))


def red_header(view: CutView) -> Found:
    """Find received records that are red by their header."""
    return _received(view, (fn.col("process") < view.epoch) & _by_header(view), fn.col("epoch"))


def red_late(view: CutView) -> Found:
    """Find received records past the end of what their sender sent in white; copies were received before."""
    of_left = sequences.has_left() & (fn.col("offset") >= fn.col("log_end"))
    late = _past_end(view) & ~is_unacknowledged() & ~is_copy(fn.lit(True))
    end = fn.when(fn.col("left"), fn.col("log_end")).otherwise(fn.col("white_end"))
    return _received(view, (fn.col("process") < view.epoch) & (of_left | late), end)


def received_unsettled(view: CutView) -> Found:
    """Find received records past the end of what counts as sent, for which their sender got no result."""
    return _received(view, _past_end(view) & is_unacknowledged(), fn.col("white_end"))


def _by_header(view: CutView) -> Column:
    return ~sequences.has_left() & (fn.col("epoch") >= view.epoch)


def _past_end(view: CutView) -> Column:
    return sequences.white_stamped(view.epoch) & (fn.col("offset") >= fn.col("white_end"))


def _received(view: CutView, where: Column, number: Column) -> Found:
    return Found(where, fn.col("app"), a=number, b=fn.lit(view.epoch))


RULES: Final = (
    Rule("red-birth", RED, LogFrames.received, red_birth),
    Rule("red-header", RED, LogFrames.received, red_header),
    Rule("red-late", RED, LogFrames.received, red_late),
    Rule("received-unsettled", RED, LogFrames.received, received_unsettled),
)
