"""The pre-flight of erased keys and masks: all that would be written is examined before anything is."""

from __future__ import annotations

from collections.abc import Iterable

from snapkafka.kafka.bulk import LogRecord
from snapkafka.ops.querying import Placed

from .editing import Editing, RuleCount
from .looking import rows_of_state
from .planning import changelogs_of
from .selecting import ALL, Keys, Selection

__all__ = ["preflight"]


def preflight(
    editing: Editing, placed: Placed, records: Iterable[LogRecord], selection: Selection = ALL
) -> tuple[RuleCount, ...]:
    """Examine the rows of a snapshot and the records that would be written with them; changes nothing.

    Args:
        placed: holds the part that is selected.
        records: messages in flight, and external records.
        selection: the keys of its table that are written alone.

    Returns:
        how many of them each rule matches.

    Raises:
        BadInputError: something cannot be examined or masked, or a rule matches nothing.
    """
    cuts = changelogs_of(placed.manifest.captured)
    keys = Keys(selection.keys) if selection.keys else None
    editing.examine(
        row
        for row in rows_of_state(placed)
        if row.tp in cuts and (keys is None or keys.takes(cuts[row.tp], row.key))
    )
    editing.examine(records)
    editing.raise_unmatched()
    return editing.counts
