"""`verify --tables`: the stored tables, compared with those computed from the log.

The tables are computed again from the log, and compared with the stored ones by their order-free digests; rows are
compared only if these differ. Decoded keys and values depend on options (codecs, schemas) that no manifest holds, so
the bytes are compared separately: other bytes contradict the log, other texts of the same bytes leave it open. A log
that no longer shows all of a table (V3, V4) contradicts nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from snapkafka.checks import WITNESSES_MAX, CheckOutcome, Status, Witness
from snapkafka.manifest import STATE

#: As it is called among the other checks.
CHECK: Final = "tables"
#: Columns that depend on how keys and values are decoded.
DECODED: Final = frozenset({"key", "value", "why_undecoded", "window_start", "window_end"})
#: Which check proves that the log still holds all of a table.
PROVEN_BY: Final[Mapping[str, str]] = {STATE: "V3", "messages": "V4", "channels": "V4"}
#: Where the record of a row lies: topic, partition, offset.
PLACE: Final[Mapping[str, tuple[str, str, str]]] = {
    STATE: ("changelog_topic", "partition", "changelog_offset"),
    "messages": ("topic", "partition", "offset"),
}
#: So much of a row is shown.
ROW_CHARS: Final = 300


class OnlyThere(NamedTuple):
    """Rows that one of two tables lacks: how many, and the first as JSON, in that order, each with its place."""

    total: int
    first: Sequence[tuple[str, tuple[str | None, int | None, int | None]]]


class Compared(NamedTuple):
    """A table as it is stored and as its log gives it: whether all of it is the same, whether its bytes are, and what
    finds the rows that only the stored one has, and only the other."""

    name: str
    same: bool
    same_bytes: bool
    differences: Callable[[], tuple[OnlyThere, OnlyThere]]


def outcome_of(tables: Collection[Compared], outcomes: Collection[CheckOutcome]) -> CheckOutcome:
    """Return the outcome for the stored tables of a snapshot.

    Args:
        outcomes: of the checks of the log.
    """
    passed = {found.check for found in outcomes if found.status is Status.PASSED}
    found, statuses, witnesses = 0, {Status.PASSED}, list[Witness]()
    for table in tables:
        if table.same:
            continue
        open_question = table.same_bytes or PROVEN_BY.get(table.name, "V3") not in passed
        statuses.add(Status.UNVERIFIABLE if open_question else Status.FAILED)
        stored, computed = table.differences()
        found += max(1, stored.total + computed.total)
        witnesses += _witnesses(table, "has a row that the log does not give", stored)
        witnesses += _witnesses(table, "lacks a row that the log gives", computed)
    status = next(s for s in (Status.FAILED, Status.UNVERIFIABLE, Status.PASSED) if s in statuses)
    return CheckOutcome(check=CHECK, status=status, found=found, witnesses=tuple(witnesses[:WITNESSES_MAX]))


def _witnesses(table: Compared, what: str, rows: OnlyThere) -> list[Witness]:
    why = "" if not table.same_bytes else (
        "; its bytes are the same: either it was altered, or it was assembled with other codecs, schemas or registry, "
        "or another choice about pickles"
    )  # fmt: skip
    return [
        Witness(
            check=CHECK,
            topic=topic or "",
            partition=-1 if partition is None else partition,
            offset=-1 if offset is None else offset,
            what=f"stored table {table.name} {what}{why}: {row[:ROW_CHARS]}",
        )
        for row, (topic, partition, offset) in rows.first[:WITNESSES_MAX]
    ]
