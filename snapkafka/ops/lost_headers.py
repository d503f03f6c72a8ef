"""`doctor`: find topics in which headers get lost. (A transform, a proxy or a mirror may remove them.)

Every `Closed` in the ledger names the offset at which the last white record of its process was acknowledged: that
record left with a header, so it must have one in the log.
"""

from __future__ import annotations

from typing import Final

from snapkafka.advice import Advice, Weight
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.ledger.reading import Opened
from snapkafka.protocol.ledger_state import LedgerState, ProcessView
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire.headers import HEADER

#: One record is read of each of so many partitions at most.
EXAMINED_MAX: Final = 200


async def about_lost_headers(work: Opened, views: list[ProcessView]) -> list[Advice]:
    """Report the topics in which a record that left with a header has none."""
    topics = {source.topic for view in views for source in view.hello.inputs}
    topics |= {table.changelog for view in views for table in view.hello.tables}
    sent = {tp: at for tp, at in _last_sent(work.reading.state).items() if tp.topic in topics}
    wanted = dict(sorted((tp, offset) for tp, (offset, _) in sent.items())[:EXAMINED_MAX])
    if not wanted:
        return []
    try:
        starts, ends = await work.admin.log_starts(wanted), await work.admin.log_ends(wanted)
        found = await work.admin.record_headers(
            {tp: offset for tp, offset in wanted.items() if starts.get(tp, 0) <= offset < ends.get(tp, 0)}
        )
    except SnapkafkaError as error:
        return [Advice(code="headers-unseen", weight=Weight.WARNING, what=str(error), do=error.advice)]
    lost: dict[str, TopicPartition] = {}
    for tp, pairs in sorted(found.items()):
        if all(name != HEADER for name, _ in pairs):
            lost.setdefault(tp.topic, tp)
    return [
        Advice(
            code="headers-lost",
            weight=Weight.PROBLEM,
            what=f"the record at offset {wanted[tp]} of {tp}, sent by {sent[tp][1]}, lost its header {HEADER}",
            do=f"let the proxy, mirror or transform on the way to this topic pass the header {HEADER} on",
            subject=f"offset {wanted[tp]} of {tp}",
        )
        for tp in lost.values()
    ]


def _last_sent(state: LedgerState) -> dict[TopicPartition, tuple[int, str]]:
    """Return the place of the last acknowledged white record, by the latest snapshot that names the partition, and its
    sender."""
    found: dict[TopicPartition, tuple[int, str]] = {}
    for _, snapshot in sorted(state.snapshots.items(), reverse=True):
        latest: dict[TopicPartition, tuple[int, str]] = {}
        for process, (_, closed) in snapshot.closed.items():
            name = state.processes[process].name if process in state.processes else f"process {process}"
            for end in closed.sent:
                tp = TopicPartition(end.topic, end.partition)
                if end.last_seq >= 0 and end.white_end > latest.get(tp, (-1, ""))[0] + 1:
                    latest[tp] = end.white_end - 1, name
        found = latest | found
    return found
