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

from dataclasses import replace
from typing import Final

from snapkafka.checks import WITNESSES_MAX, Checked, CutView, Finding, witness_of
from snapkafka.manifest import STATE

from .invariants import MAIN, Tables, opened

#: So many keys of a table are named, by so many characters each.
KEYS_SHOWN: Final = 5
CHARACTERS_SHOWN: Final = 40

#: Of each table how many keys have several rows, and the first of them in the order of their bytes.
_SPLIT: Final = f"""
WITH split AS (
    SELECT app, table_name, changelog_topic, key_raw, any_value(key) AS key,
           list("partition" ORDER BY "partition") AS partitions,
           list(changelog_offset ORDER BY "partition") AS offsets
    FROM {STATE} WHERE key_raw IS NOT NULL
    GROUP BY app, table_name, changelog_topic, key_raw HAVING count(*) > 1
)
SELECT app, table_name, changelog_topic, count(*), list(split ORDER BY key_raw)[:{KEYS_SHOWN}]
FROM split GROUP BY ALL ORDER BY app, table_name, changelog_topic
"""


def find(view: CutView, tables: Tables) -> list[Finding]:
    """Find split keys in the table `state`: one finding for each table that has some."""
    found, keyed = list[Finding](), view.tables_of_several("keyed")
    if not keyed:
        return found
    with opened({MAIN: tables}) as there:
        for app, table, topic, count, first in there.execute(_SPLIT).fetchall():
            if (app, table) in keyed:
                keys = [
                    f"{_name(it['key_raw'], it['key'])} ({', '.join(map(str, it['partitions']))})"
                    for it in first
                ]
                shown = ", ".join(keys) + (", ..." if count > len(keys) else "")
                lie = "key lies" if count == 1 else "keys lie"
                text = f"table {table} of {app}: {count:,} {lie} in several partitions: {shown}"
                place = first[0]["partitions"][1], first[0]["offsets"][1]
                found.append(Finding("state-split", topic, *place, app=app, text=text))
    return found


def _name(raw: bytes, key: str | None) -> str:
    text = f"0x{raw.hex()}" if key is None or not key.isprintable() else key
    return text if len(text) <= CHARACTERS_SHOWN else f"{text[: CHARACTERS_SHOWN - 1]}…"


def noted(checked: Checked, view: CutView, tables: Tables) -> Checked:
    """Add notes of split keys to V3, before those about single records."""
    notes = tuple(map(witness_of, find(view, tables)))
    return checked._replace(
        outcomes=[
            replace(outcome, noted=outcome.noted + len(notes), notes=(*notes, *outcome.notes)[:WITNESSES_MAX])
            if notes and outcome.name == "V3"
            else outcome
            for outcome in checked.outcomes
        ]
    )
