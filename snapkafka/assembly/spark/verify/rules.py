"""V1 to V5 in Spark: the same findings as in `snapkafka.checks`, on logs of any size.

The table of rules is that of the modules below, which have the names of those in `snapkafka.checks`. The pre-filter
(`prefilter`) counts the suspects of all rules in one query; only rules that have any are run. Findings are counted, and
the first 20 of each kind fetched; nothing else comes to the driver.
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from snapkafka.assembly.spark.reading.meter import step
from snapkafka.checks import WITNESSES_MAX, Checked, Finding, bounds_findings
from snapkafka.checks.run import outcomes_of

from . import v1_colour, v2_receipt, v3_state, v4_channels, v5_cause
from .log_frames import LogFrames
from .prefilter import Look, first_look
from .rule import Rule

RULES: Final = (*v1_colour.RULES, *v2_receipt.RULES, *v4_channels.RULES, *v5_cause.RULES)
SEARCHES: Final = (*v1_colour.SEARCHES, *v3_state.SEARCHES, *v4_channels.SEARCHES, *v5_cause.SEARCHES)


def run(log: LogFrames) -> Checked:
    """Run V1 to V5. If no record shows its cause, V5 is not run."""
    first, counts = bounds_findings(log.view)
    with step(log.lookups.spark, "V1 to V5: a first look at every record"):
        look = look_at(log)
    for search in SEARCHES:
        with step(log.lookups.spark, search.step):
            found, how_many = search.find(log, look)
        first += found
        counts += how_many
    if suspected := [rule for rule in RULES if look.counts[rule.suspect.name]]:
        with step(log.lookups.spark, "V1, V2, V4, V5: what is wrong, and where"):
            rows = _first_and_counts(find(log, suspected)).collect()
        counts += Counter({row.kind: row.found for row in rows})
        first += [Finding(*(row[name] for name in Finding._fields[:-1])) for row in rows]
    outcomes = outcomes_of(first, counts, look.examined, causes=not look.unreported)
    return Checked(outcomes, look.held, look.external, look.outside)


def look_at(log: LogFrames) -> Look:
    """Count the suspects of all rules."""
    return first_look(log, {rule.suspect.name: rule.suspect for rule in RULES}.values())


def find(log: LogFrames, rules: Collection[Rule]) -> DataFrame:
    """Return everything that some rules find: `rule.FINDINGS_SCHEMA`.

    Args:
        rules: at least one.
    """
    by_frame: dict[Callable[[LogFrames], DataFrame], list[Rule]] = defaultdict(list)
    for rule in rules:
        by_frame[rule.frame].append(rule)
    parts = [_found_in(frame(log), log, of_frame) for frame, of_frame in by_frame.items()]
    return functools.reduce(DataFrame.unionByName, parts)


def _found_in(frame: DataFrame, log: LogFrames, rules: Collection[Rule]) -> DataFrame:
    each = fn.array(*(rule.finding(log.view) for rule in rules))
    return frame.select(fn.inline(fn.filter(each, lambda finding: finding.isNotNull())))


def _first_and_counts(found: DataFrame) -> DataFrame:
    """Return the first findings of each kind (by `Finding.order`), each with the number of its kind (`found`)."""
    of_kind = Window.partitionBy("kind")
    in_order = of_kind.orderBy("topic", "partition", "offset", "process", "app")
    return (
        found.withColumn("found", fn.count("*").over(of_kind))
        .withColumn("nth", fn.row_number().over(in_order))
        .where(fn.col("nth") <= WITNESSES_MAX)
        .drop("nth")
    )
