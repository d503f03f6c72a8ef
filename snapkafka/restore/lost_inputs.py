"""Records that are gone, of inputs that are to be read again.

Records are deleted by age, by size, or on request (DeleteRecords). A restore sets readers back, or appends again what
they had still to start. So each missing record must be in the tables of the snapshot, or no reader needs it; else the
restore is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from snapkafka.manifest import Manifest
from snapkafka.protocol.records import TopicPartition

from .plan import AbsentInput, Refusal
from .state import inputs_of, lowest_positions, started_by_all
from .topics import StoredTables


def _missing(manifest: Manifest, tables: StoredTables, tp: TopicPartition, start: int, end: int) -> int:
    """Count the records of a range that no table holds, and that some reader had still to start."""
    held = next((it for it in manifest.inputs if (it.topic, it.partition) == tp), None)
    if held is not None and held.start <= start:
        start = max(start, held.end)
    known = {it.offset for it in tables.in_flight.get(tp, ())} | started_by_all(manifest.captured, tp)
    return max(0, end - start - sum(start <= offset < end for offset in known))


def lost_inputs(
    manifest: Manifest, tables: StoredTables, starts: Mapping[TopicPartition, int]
) -> Iterator[Refusal]:
    """Refuse inputs whose logs begin above the position to which they are set, if records are missing.

    Args:
        starts: of the existing logs.
    """
    external = {entry.topic for entry in manifest.external}
    of_apps = {(it.topic, it.partition) for it in manifest.captured.senders}
    for tp, position in lowest_positions(manifest.captured).items():
        start = starts.get(tp, 0)
        if count := _missing(manifest, tables, tp, position, start):
            doubtful = tp in of_apps and tp.topic not in external
            force = "; or add --force if only the apps write there: they send again" * doubtful
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start} and is read again from {position} on: {count:,} records are gone",
                hint=f"choose a later snapshot; then raise retention.ms of {tp.topic}, or use --with-inputs{force}",
                forceable=doubtful,
            )


def lost_arrivals(starts: Mapping[TopicPartition, int]) -> Iterator[Refusal]:
    """Refuse inputs of another cluster that have lost records which arrived there."""
    for tp, start in sorted(starts.items()):
        if start:
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start} here: records that have arrived are gone",
                hint="delete the topic while it is empty: the restore creates it; or use another cluster",
            )


def absent_inputs(
    manifest: Manifest, tables: StoredTables, external: Callable[[str], bool]
) -> Iterator[AbsentInput]:
    """Find what another cluster lacks of the records that came from outside before the cut.

    Args:
        external: returns whether programs without snapkafka append to a topic.
    """
    for tp, cuts in inputs_of(manifest.captured).items():
        start, end = lowest_positions(manifest.captured)[tp], max(cut.log_end for cut in cuts)
        if external(tp.topic) and (count := _missing(manifest, tables, tp, start, end)):
            yield AbsentInput(topic=tp.topic, partition=tp.partition, records=count)
