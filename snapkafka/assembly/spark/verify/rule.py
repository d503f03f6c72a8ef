"""A rule of V1, V2, V4 or V5 in Spark: which records may break it, and which do.

A sound log breaks none, so a rule has two halves. Its *suspect* is a cheap condition that the pre-filter (`prefilter`)
counts, with those of all other rules, in one query over all records. It may count too much, never too little. Only
rules with suspects are run: `find` says which rows of a frame are findings. Rules with the same frame share its rows,
which are computed once.

Findings about several records, and those of V3, are not found row by row: a `Search` finds them, and decides by itself
whether it needs a query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as fn

from snapkafka.checks import KINDS, CutView, Finding

from .log_frames import LogFrames
from .prefilter import Look, Suspect

#: The fields of a `Finding`, without `text`: a record shows numbers.
FINDINGS_SCHEMA: Final = (
    "kind string, topic string, partition int, offset bigint, process bigint, seq bigint, app string, a bigint, "
    "b bigint"
)


class Found(NamedTuple):
    """The rows of a frame that are findings, and the numbers of their sentence (see `Finding`)."""

    where: Column
    app: Column | None = None
    a: Column | None = None
    b: Column | None = None


class Rule(NamedTuple):
    """A rule that single records break.

    `kind`: of its findings. `suspect`: what the pre-filter counts for it. `frame`: the rows that it reads. `find`:
    which of them are findings.
    """

    kind: str
    suspect: Suspect
    frame: Callable[[LogFrames], DataFrame]
    find: Callable[[CutView], Found]

    def finding(self, view: CutView) -> Column:
        """Return the finding of a row, as in `FINDINGS_SCHEMA`; null: it is none."""
        assert self.kind in KINDS, self.kind
        found = self.find(view)
        return fn.when(
            found.where,
            fn.struct(
                fn.lit(self.kind).alias("kind"),
                fn.col("topic"),
                fn.col("partition"),
                fn.col("offset"),
                fn.col("process"),
                fn.col("seq"),
                (fn.lit("") if found.app is None else found.app).alias("app"),
                (fn.lit(-1) if found.a is None else found.a).cast("bigint").alias("a"),
                (fn.lit(-1) if found.b is None else found.b).cast("bigint").alias("b"),
            ),
        )


class Search(NamedTuple):
    """What finds kinds that no single record shows. `step`: its name on Spark's page. `find`: returns the first
    findings of each kind, and the number of each."""

    kinds: tuple[str, ...]
    step: str
    find: Callable[[LogFrames, Look], tuple[list[Finding], Counter[str]]]
