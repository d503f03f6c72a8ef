"""The questions of V3 about keys, as SQL that SQLite and Spark understand alike.

They ask the table `changes`, a row for each record of a changelog, read to the end of its range, without markers:
`place`, the number of its partition (`places`); its offset `pos`; a number for its key (`key_hash`, null: none); and
`white`: 1 if it is part of the state at the cut (`CutView.in_state`), else 0.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from snapkafka.protocol.records import TopicPartition

from .view import CutView
from .witness import WITNESSES_MAX

_KEYS: Final = """WITH asked(place, first_later) AS (VALUES {asked}), of_keys AS (
    SELECT
        changes.place AS place,
        MIN(CASE WHEN white = 1 THEN pos END) AS first_white,
        MAX(CASE WHEN white = 1 AND pos < first_later THEN pos END) AS last_white,
        MIN(CASE WHEN white = 0 THEN pos END) AS later
    FROM changes JOIN asked ON changes.place = asked.place
    WHERE key_hash IS NOT NULL
    GROUP BY changes.place, key_hash
)
"""


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
    `first_later`; and how many keys have no white record."""
    return (
        _KEYS.format(asked=_values(first_later))
        + """SELECT
    place,
    MIN(CASE WHEN first_white < last_white THEN first_white END),
    SUM(CASE WHEN first_white IS NULL THEN 1 ELSE 0 END)
FROM of_keys GROUP BY place"""
    )


def of_overtaken(first_later: Mapping[int, int]) -> str:
    """Ask for the first offsets of keys that have no white record, by place."""
    return (
        _KEYS.format(asked=_values(first_later))
        + f"""SELECT place, later FROM (
    SELECT place, later, ROW_NUMBER() OVER (PARTITION BY place ORDER BY later) AS nth
    FROM of_keys WHERE first_white IS NULL
) AS overtaken WHERE nth <= {WITNESSES_MAX} ORDER BY place, later"""
    )


def of_unordered(tables: Mapping[int, int]) -> str:
    """Ask for the keys with a white record in several places of one table: the last one in the first two of these; and
    how many such keys there are.

    Args:
        tables: a number for the table of each place.
    """
    return f"""WITH asked(place, of_table) AS (VALUES {_values(tables)}), last_ones AS (
    SELECT of_table, key_hash, changes.place AS place, MAX(pos) AS pos
    FROM changes JOIN asked ON changes.place = asked.place
    WHERE key_hash IS NOT NULL AND white = 1
    GROUP BY of_table, key_hash, changes.place
), in_order AS (
    SELECT
        place,
        pos,
        ROW_NUMBER() OVER (PARTITION BY of_table, key_hash ORDER BY place) AS nth,
        LEAD(place) OVER (PARTITION BY of_table, key_hash ORDER BY place) AS next_place,
        LEAD(pos) OVER (PARTITION BY of_table, key_hash ORDER BY place) AS next_pos
    FROM last_ones
)
SELECT place, pos, next_place, next_pos, COUNT(*) OVER () AS found
FROM in_order WHERE nth = 1 AND next_place IS NOT NULL
ORDER BY next_place, next_pos LIMIT {WITNESSES_MAX}"""


def _values(pairs: Mapping[int, int]) -> str:
    return ", ".join(f"({one}, {other})" for one, other in sorted(pairs.items()))
