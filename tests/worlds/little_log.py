"""A snapshot and a log that a person can hold in the head: epoch 100; process 1 lives, 2 has left, 200 was born later.

Process 1 sent seq 0 to 4 to `in`[0], offsets 0 to 4, and its marker at 5; the receiver stood at 2.
At 6 it sends in red.
"""

from dataclasses import replace
from typing import Any

from snapkafka.checks import LogBounds, LogRecord
from snapkafka.protocol import Captured, InputCut, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, ProcessCut, Recorded, SenderEnd
from snapkafka.protocol.offsets import SeqRange

EPOCH = 100
TP, STATE, OUT = TopicPartition("in", 0), TopicPartition("table", 0), TopicPartition("out", 3)
INPUT = InputCut(
    app="app", topic="in", topic_id="t1", partition=0, position=2, noted=2, low=1, log_end=6, receiver=1
)
CAPTURED = Captured(
    id="snap",
    attempt=1,
    epoch=EPOCH,
    type="full",
    parent="",
    storage="",
    processes=(ProcessCut(process=1, app="app"), ProcessCut(process=2, app="app", left=True)),
    inputs=(INPUT,),
    senders=(
        SenderEnd(process=1, topic="in", partition=0, white_end=5, last_seq=4, marker=5),
        SenderEnd(process=1, topic="table", partition=0, white_end=3, last_seq=2),
    ),
    changelogs=(
        ChangelogCut(app="app", table="t", topic="table", topic_id="t2", partition=0, end=3, process=1),
    ),
    recorded=(Recorded(app="app", sender=1, topic="in", partition=0, start=2, end=5),),
)
WHITE = [LogRecord("in", 0, offset, 1, 0, offset) for offset in range(5)]
RED = [LogRecord("in", 0, 5, 1, EPOCH, 5, marker=True), LogRecord("in", 0, 6, 1, EPOCH, 6)]
TABLE = [LogRecord("table", 0, offset, 1, 0, offset) for offset in range(3)]
LOG = [*WHITE, *RED, *TABLE]


def with_input(**changes: Any) -> Captured:
    return replace(CAPTURED, inputs=(replace(INPUT, **changes),), recorded=())


def with_sender(**changes: Any) -> Captured:
    return replace(CAPTURED, senders=(replace(CAPTURED.senders[0], **changes), CAPTURED.senders[1]))


def seqs(first: int, last: int | None = None, *, refused: bool = True) -> tuple[SeqRange, ...]:
    """One range of seqs that were not acknowledged."""
    return (SeqRange(first=first, last=first if last is None else last, refused=refused),)


def without(*offsets: int, of: list[LogRecord] = LOG) -> list[LogRecord]:
    return [record for record in of if record.topic != "in" or record.offset not in offsets]


def shared_changelog(*missing: int) -> tuple[list[LogRecord], Captured, dict[TopicPartition, LogBounds]]:
    """A changelog of ten records that another app reads: it stands at 8, and below 4 nothing is red.

    Some are `missing` with their offsets, as what compaction took. Those at 4 and 5 are of nobody.
    """
    log = [LogRecord("table", 0, at, 1, 0, seq) for seq, at in enumerate((0, 1, 2, 3, 6, 7, 8, 9))]
    log += [LogRecord("table", 0, at) for at in (4, 5)]
    reader = replace(INPUT, app="audit", topic="table", topic_id="t2", position=8, noted=8, low=4, log_end=10)
    captured = replace(
        CAPTURED,
        inputs=(reader,),
        senders=(SenderEnd(process=1, topic="table", partition=0, white_end=10, last_seq=7),),
        changelogs=(replace(CAPTURED.changelogs[0], end=10),),
        recorded=(),
    )
    left = [record for record in log if record.offset not in missing]
    return left, captured, {STATE: LogBounds(start=0, end=10, topic_id="t2")}
