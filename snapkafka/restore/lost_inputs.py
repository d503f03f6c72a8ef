"""Records that are gone, of inputs that are to be read again, and logs whose end was lost.

Records are deleted by age, by size, or on request (DeleteRecords). A restore sets readers back, or appends again what
they had still to start. What processes of the snapshot wrote after its cut is not needed: they write it again. What
came from outside is needed, and nothing else remembers it. So a missing record must be in the tables of the snapshot,
or be shown to be of those processes: each numbers its records per partition, so its first record that is left tells how
many came before. Where that does not account for every missing offset, a restore is refused by name.

A log whose end was lost, by an election of a replica that lagged behind or a disk that was set back, ends before an
offset that it had already, and offsets there will belong to other records. Neither settings nor clocks are used: only
offsets prove anything.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from snapkafka.checks import ReadRange
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.manifest import Manifest
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

from .channels import Bulk
from .plan import AbsentInput, Refusal
from .state import inputs_of, lowest_positions, started_by_all
from .topics import StoredTables


def unexplained(
    position: int, start: int, known: Collection[int], white: Mapping[int, int], first: Mapping[int, int]
) -> int:
    """Count the missing records that need not be of the snapshot's processes.

    Args:
        position, start: of the lowest reader, and of the log.
        known: offsets that the snapshot holds, or that no reader needs.
        white: the last number below the cut of each process that sent here.
        first: the number of the first record that is left of each process; of no other process than the snapshot's,
            and those that joined since.
    """
    missing = start - position - sum(position <= offset < start for offset in set(known))
    theirs = sum(max(0, number - white.get(process, -1) - 1) for process, number in first.items())
    return max(0, missing - theirs)


def lost_inputs(
    manifest: Manifest,
    tables: StoredTables,
    bulk: Bulk,
    lowest: Mapping[TopicPartition, int],
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    ledger_id: int,
) -> Iterator[Refusal]:
    """Refuse inputs whose logs begin above the position to which they are set, if external records may be missing.
    Blocks.

    Args:
        lowest: the lowest position of each input partition.
        starts, ends: of the existing logs.
        ledger_id: of the stamps there.
    """
    captured = manifest.captured
    external = {entry.topic for entry in manifest.external}
    stored = {(item.topic, item.partition): item for item in manifest.inputs}
    for tp, position in sorted(lowest.items()):
        start, held = starts.get(tp, 0), stored.get(tp)
        if start <= position or (held is not None and held.start <= position and start <= held.end):
            continue
        known = {record.offset for record in tables.in_flight.get(tp, ())} | started_by_all(captured, tp)
        white = {it.process: it.last_seq for it in captured.senders if (it.topic, it.partition) == tp}
        first: Mapping[int, int] = {}
        if unexplained(position, start, known, white, {}):
            left = bulk.read([ReadRange(*tp, start, ends[tp])]) if start < ends[tp] else ()
            first = _first_numbers(captured, left, ledger_id)
        if count := unexplained(position, start, known, white, first):
            yield _refusal(tp, position, start, count, doubtful=bool(white) and tp.topic not in external)


def lost_arrivals(
    bulk: Bulk, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], ledger_id: int
) -> Iterator[Refusal]:
    """Refuse inputs of another cluster that have lost records which arrived there. Blocks.

    Args:
        starts, ends: of the inputs there, which are read from offset 0 on.
        ledger_id: of the stamps there: those of an earlier attempt.
    """
    for tp, start in sorted(starts.items()):
        if start:
            left = bulk.read([ReadRange(*tp, start, ends[tp])]) if start < ends[tp] else ()
            first = _numbers(left, ledger_id)
            if count := unexplained(0, start, (), {}, first):
                yield Refusal(
                    code="offsets-gone",
                    what=f"{tp} begins at offset {start} here: {count:,} records that came from outside are gone",
                    hint="delete the topic while it is empty: the restore creates it; or use another cluster",
                )


def absent_inputs(
    manifest: Manifest, tables: StoredTables, external: Callable[[str], bool]
) -> Iterator[AbsentInput]:
    """Find what another cluster lacks of the records that came from outside before the cut.

    Args:
        external: returns whether programs without snapkafka append to a topic.
    """
    lowest = lowest_positions(manifest.captured)
    stored = {(item.topic, item.partition): item for item in manifest.inputs}
    for tp, cuts in inputs_of(manifest.captured).items():
        held, start = stored.get(tp), lowest[tp]
        if held is not None and held.start <= start:
            start = max(start, held.end)
        known = {record.offset for record in tables.in_flight.get(tp, ())} | started_by_all(
            manifest.captured, tp
        )
        count = unexplained(start, max(cut.log_end for cut in cuts), known, {}, {})
        if count and external(tp.topic):
            yield AbsentInput(topic=tp.topic, partition=tp.partition, records=count)


def _first_numbers(captured: Captured, records: Iterable[KafkaRecord], ledger_id: int) -> dict[int, int]:
    members = {view.process for view in captured.processes}
    found = _numbers(records, ledger_id)
    return {process: seq for process, seq in found.items() if process in members or process > captured.epoch}


def _numbers(records: Iterable[KafkaRecord], ledger_id: int) -> dict[int, int]:
    """Find the number of the first record of each process."""
    found: dict[int, int] = {}
    for record in records:
        header = wire.find(record.headers)
        check = wire.tp_check(record.topic, record.partition)
        stamp = None if header is None else wire.read(header, ledger_id, check)
        if stamp is not None:
            found.setdefault(stamp.process, stamp.seq)
    return found


def _refusal(tp: TopicPartition, position: int, start: int, count: int, *, doubtful: bool) -> Refusal:
    known = "that nothing shows to be of the snapshot's processes" if doubtful else "from outside"
    force = "; or add --force if nobody else writes there" if doubtful else ""
    return Refusal(
        code="offsets-gone",
        what=f"{tp} begins at offset {start} and is read again from {position} on: {count:,} records {known} are gone",
        hint=f"choose a later snapshot; next time raise retention.ms of {tp.topic}, or use --with-inputs{force}",
        forceable=doubtful,
    )


def shortened(manifest: Manifest, ends: Mapping[TopicPartition, int]) -> Iterator[str]:
    """Find logs whose end was lost: the records that the snapshot names by offset are missing.

    Args:
        ends: the next offsets to be written to its inputs and changelogs, as the broker reports them now. Partitions
            that are missing here do not exist, which is not judged here.
    """
    changelogs = {(cut.topic, cut.partition) for cut in manifest.captured.changelogs}
    for tp, reached in sorted(_reached(manifest).items()):
        if tp in ends and ends[tp] < reached:
            kind = "changelog" if tp in changelogs else "input"
            yield (
                f"{kind} {tp} ends at offset {ends[tp]}, and had records up to {reached} when the snapshot was made"
            )


def _reached(manifest: Manifest) -> dict[TopicPartition, int]:
    """Find the offset up to which each input and changelog certainly had records, whatever release assembled the
    snapshot."""
    found: defaultdict[TopicPartition, int] = defaultdict(int)

    def reach(topic: str, partition: int, *offsets: int) -> None:
        tp = TopicPartition(topic, partition)
        found[tp] = max(found[tp], *offsets)

    for cut in manifest.captured.inputs:
        reach(cut.topic, cut.partition, cut.position, cut.log_end)
        for agent in cut.agents:
            reach(cut.topic, cut.partition, agent.offset, *(offset + 1 for offset in agent.started_above))
    for changelog in manifest.captured.changelogs:
        reach(changelog.topic, changelog.partition, changelog.end)
    for log in manifest.logs:
        if (tp := TopicPartition(log.topic, log.partition)) in found:
            reach(*tp, log.end)
    for item in manifest.settled:
        if (tp := TopicPartition(item.topic, item.partition)) in found:
            reach(*tp, item.offset)
    return dict(found)
