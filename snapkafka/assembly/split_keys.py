"""A note of V3: keys that lie in several partitions of a table whose keys belong in one each.

Faust writes a change of a table to the partition of the event that makes it. So a key has one row as long as all its
events come from one partition, which Faust's partitioner (murmur2) sees to. A producer that places keys in another way
(librdkafka's default, a client in another language), a topic that was given more partitions, or an agent that keys a
table by something other than its events, splits the key: each partition has a row of it, and each row a part of its
value. The snapshot is consistent, and what it shows is wrong all the same. So it is named beside the verdict.

Nothing of that holds for tables of sets, of windows and global ones, with `use_partitioner`, or in apps with a
partitioner of their own: their keys may lie in several partitions, and are not examined (`ChangelogCut.keyed`).

The rows are those of the table `state`, with a parent's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from snapkafka.checks import WITNESSES_MAX, Checked, CutView, Finding, witness_of
from snapkafka.manifest import STATE

from .invariants import Tables, opened

#: So many keys of a table are named, by so many characters each.
KEYS_SHOWN: Final = 5
CHARACTERS_SHOWN: Final = 40

#: Of each table the first of the keys that have several rows, in the order of their bytes, and how many there are.
_SPLIT: Final = f"""
WITH split AS (
    SELECT app, table_name, changelog_topic, key_raw, any_value(key) AS key,
           list({{'at': "partition", 'offset': changelog_offset}} ORDER BY "partition") AS places
    FROM {STATE} WHERE key_raw IS NOT NULL
    GROUP BY app, table_name, changelog_topic, key_raw HAVING count(*) > 1
)
SELECT *, count(*) OVER (PARTITION BY app, table_name, changelog_topic) AS found FROM split
QUALIFY row_number() OVER (PARTITION BY app, table_name, changelog_topic ORDER BY key_raw) <= {KEYS_SHOWN}
ORDER BY app, table_name, changelog_topic, key_raw
"""


class Place(NamedTuple):
    """The row of a key in one changelog partition."""

    partition: int
    offset: int


class SplitKey(NamedTuple):
    """A key, as text if it can be decoded, and its rows in order."""

    raw: bytes
    text: str | None
    places: tuple[Place, ...]


def state_split(app: str, table: str, topic: str, count: int, first: Iterable[SplitKey]) -> Finding:
    """Return the finding for a table.

    Args:
        topic: its changelog.
        count: how many of its keys are split.
        first: at least `KEYS_SHOWN` of them, fewer only if there are fewer; in the order of their bytes.
    """
    shown = list(first)[:KEYS_SHOWN]
    keys = ", ".join(f"{_name(key)} ({', '.join(str(p.partition) for p in key.places)})" for key in shown)
    keys += ", ..." if count > len(shown) else ""
    lie = "key lies" if count == 1 else "keys lie"
    text = f"table {table} of {app}: {count:,} {lie} in several partitions: {keys}"
    return Finding("state-split", topic, *shown[0].places[1], app=app, text=text)


def _name(key: SplitKey) -> str:
    text = f"0x{key.raw.hex()}" if key.text is None or not key.text.isprintable() else key.text
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[: CHARACTERS_SHOWN - 1]}…"


def find(view: CutView, tables: Tables) -> list[Finding]:
    """Find split keys in the table `state`: one finding for each table that has some."""
    if not view.keyed_tables:
        return []
    of_tables: dict[tuple[str, str, str, int], list[SplitKey]] = {}
    with opened(tables) as there:
        for app, table, topic, raw, text, places, found in there.execute(_SPLIT).fetchall():
            if (app, table) in view.keyed_tables:
                key = SplitKey(raw, text, tuple(Place(it["at"], it["offset"]) for it in places))
                of_tables.setdefault((app, table, topic, found), []).append(key)
    return [state_split(*of, keys) for of, keys in of_tables.items()]


def noted(checked: Checked, found: list[Finding]) -> Checked:
    """Add these notes to V3, before those about single records."""
    notes = tuple(map(witness_of, found))
    return checked._replace(
        outcomes=[
            replace(outcome, noted=outcome.noted + len(notes), notes=(*notes, *outcome.notes)[:WITNESSES_MAX])
            if notes and outcome.name == "V3"
            else outcome
            for outcome in checked.outcomes
        ]
    )
