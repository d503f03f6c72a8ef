"""The questions of V3 about keys, as SQL that SQLite, DuckDB and Spark understand alike.

They ask the table `changes`, a row for each record of a changelog, read to the end of its range, without markers:
`place`, the number of its partition (`places`); its offset `pos`; a number for its key (`key_hash`, null: none); and
`white`: 1 if it is part of the state at the cut (`CutView.in_state`), else 0.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snapkafka.protocol.records import TopicPartition

from .view import CutView


def places(view: CutView) -> list[TopicPartition]:
    """Return the changelog partitions in the order of their numbers."""
    return sorted(view.changelogs.keys() - view.recreated)


def answered(question: str, changes: Iterable[tuple[int, int, int | None, int]]) -> Sequence[tuple[Any, ...]]:
    """Return the rows of a question, from rows of `changes`."""
    with sqlite3.connect(":memory:") as asked:
        asked.execute("CREATE TABLE changes (place INT, pos INT, key_hash INT, white INT)")
        asked.executemany("INSERT INTO changes VALUES (?, ?, ?, ?)", changes)
        return asked.execute(question).fetchall()


def of_keys(first_later: Mapping[int, int]) -> str:
    """Ask for each place the lowest offset of a key that another white record of it supersedes, both below
    `first_later`; how many keys have no white record; and the lowest offset of these."""
    asked = ", ".join(f"({place}, {until})" for place, until in sorted(first_later.items()))
    return f"""WITH asked(place, first_later) AS (VALUES {asked}), of_keys AS (
    SELECT
        changes.place AS place,
        MIN(CASE WHEN white = 1 THEN pos END) AS first_white,
        MAX(CASE WHEN white = 1 AND pos < first_later THEN pos END) AS last_white,
        MIN(CASE WHEN white = 0 THEN pos END) AS later
    FROM changes JOIN asked ON changes.place = asked.place
    WHERE key_hash IS NOT NULL
    GROUP BY changes.place, key_hash
)
SELECT
    place,
    MIN(CASE WHEN first_white < last_white THEN first_white END),
    SUM(CASE WHEN first_white IS NULL THEN 1 ELSE 0 END),
    MIN(CASE WHEN first_white IS NULL THEN later END)
FROM of_keys GROUP BY place"""


def of_unordered(table: Iterable[int]) -> str:
    """Ask for a key with a white record in several of these places: its last one in the first two of them; and how many
    such keys there are."""
    return f"""WITH last_ones AS (
    SELECT key_hash, place, MAX(pos) AS pos FROM changes
    WHERE key_hash IS NOT NULL AND white = 1 AND place IN ({", ".join(map(str, table))})
    GROUP BY key_hash, place
), in_order AS (
    SELECT
        place,
        pos,
        ROW_NUMBER() OVER (PARTITION BY key_hash ORDER BY place) AS nth,
        LEAD(place) OVER (PARTITION BY key_hash ORDER BY place) AS next_place,
        LEAD(pos) OVER (PARTITION BY key_hash ORDER BY place) AS next_pos
    FROM last_ones
)
SELECT place, pos, next_place, next_pos, COUNT(*) OVER () AS found
FROM in_order WHERE nth = 1 AND next_place IS NOT NULL
ORDER BY next_place, next_pos LIMIT 1"""
