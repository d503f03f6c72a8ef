"""The state of an incremental snapshot: the changes in the changelogs since its parent.

A record that is white for the parent is white for the child: its colour follows from its header, its sender and the
changelog's end, and each of these that made it white then does so now. So the child's state is the parent's, plus the
records that count for the child and did not count for the parent: those past the parent's end, and those below it that
were red for the parent. The parent's manifest has the first possible offset of these (`settled`).

A key is part of the delta if its *last* white record is one that the parent did not count. It is not enough to fold
the new records: a record that was red for the parent may be followed by one that was white for it, of an event that
ended late.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as fn

from snapkafka.assembly.schemas import columns
from snapkafka.assembly.spark.frames import Lookups
from snapkafka.assembly.values.decoding import PLAIN, Decoding
from snapkafka.manifest import STATE_DELTA

from .state import CHANGES, fold, last_of_keys
from .tables import is_white, of_changelogs

#: The names of the columns of a change.
CHANGE: Final = tuple(column.split(" ")[0] for column in CHANGES.split(", "))


def delta(records: DataFrame, lookups: Lookups, parent: Lookups, decoding: Decoding = PLAIN) -> DataFrame:
    """Return the keys whose value at the cut differs from the parent's, with that value, or as `deleted`; and all
    sets, because for these every record of the changelog counts.

    Args:
        records: of each changelog those from its settled offset in the parent on; changelogs of sets as a whole.
    """
    white, offsets = of_changelogs(records, lookups).where("white"), lookups.view.state_offsets
    last = last_of_keys(white.where(~fn.col("sets")), offsets=offsets)
    changes = _not_counted(last, parent).select(*CHANGE)
    if lookups.any_sets:
        changes = changes.unionByName(white.where("sets").select(*CHANGE))
    rows = fold(
        changes,
        decoding,
        sets=lookups.any_sets,
        windows=lookups.any_windows,
        offsets=offsets,
        deleted=True,
    )
    return rows.withColumn("deleted", fn.col("value_raw").isNull()).select(*columns(STATE_DELTA))


def _not_counted(last: DataFrame, parent: Lookups) -> DataFrame:
    """Return the changes that the parent has not counted."""
    place = ["app", "table_name", "topic", "partition"]
    ends = parent.changelogs.select(*place, fn.col("end").alias("parent_end"))
    counted = (fn.col("offset") < fn.col("parent_end")) & is_white(parent.view.epoch)
    return (
        last.transform(parent.with_senders)
        .join(fn.broadcast(ends), place, "left")
        .where(~fn.coalesce(counted, fn.lit(False)))
    )
