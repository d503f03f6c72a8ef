"""Random changelogs with three snapshots one after the other, for holding what is assembled on a parent to what is
assembled as a whole.

Colours stand among each other in them as they may: several writers in one partition, processes that leave and are born
in between, events that go on in an old colour behind red ones, records of nobody, markers, deletes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from snapkafka.checks import CutView, LogBounds, LogRecord
from snapkafka.protocol import Captured, ChangelogCut, ProcessCut, TopicPartition

EPOCHS = (1_000_000, 2_000_000, 3_000_000)
KEYS = (b'"a"', b'"b"', b'"c"', None)


class Written(NamedTuple):
    """A record with what is in it."""

    record: LogRecord
    key: bytes | None
    value: bytes | None


class Row(NamedTuple):
    """A row of state."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes
    offset: int


@dataclass
class Logs:
    """`left`: from which of the snapshots on a process had left. `ends`: of each partition, in each snapshot, what
    those who write it report."""

    written: list[Written] = field(default_factory=list)
    left: dict[int, int] = field(default_factory=dict)
    ends: dict[TopicPartition, tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    def view(self, snapshot: int) -> CutView:
        """One of the three, as it is when it is assembled: the log goes on."""
        born = {process: left for process, left in self.left.items() if process < EPOCHS[snapshot]}
        captured = Captured(
            id=f"s{snapshot}",
            attempt=1,
            epoch=EPOCHS[snapshot],
            type="incremental" if snapshot else "full",
            parent=f"s{snapshot - 1}" if snapshot else "",
            storage="",
            processes=tuple(
                ProcessCut(process=process, app="app", left=left <= snapshot)
                for process, left in sorted(born.items())
            ),
            inputs=(),
            senders=(),
            changelogs=tuple(
                ChangelogCut(
                    app="app", table="t", topic=tp[0], topic_id="", partition=tp[1], end=end, process=1
                )
                for tp, ends in self.ends.items()
                for end in ends[snapshot]
            ),
        )
        ends = dict.fromkeys(self.ends, 0)
        for item in self.written:
            ends[item.record.tp] = item.record.offset + 1
        return CutView(captured, {tp: LogBounds(start=0, end=end) for tp, end in ends.items()})

    def state(self, snapshot: int) -> set[Row]:
        """What is white, folded."""
        view = self.view(snapshot)
        last: dict[tuple[TopicPartition, bytes | None], Written] = {}
        for item in self.written:
            if view.in_state(item.record):
                last[item.record.tp, item.key] = item
        return {
            Row(*tp, key, item.value, item.record.offset)
            for (tp, key), item in last.items()
            if item.value is not None
        }


def logs(rng: random.Random, worlds: int) -> Logs:
    """So many small worlds in one, each with a changelog and processes of its own."""
    whole = Logs()
    for n in range(worlds):
        born = [n * 10 + i for i in range(4)] + [EPOCHS[0] + n * 10 + 4, EPOCHS[1] + n * 10 + 5]
        left = {process: rng.choice((0, 1, 2, 9, 9, 9)) for process in born}
        whole.left |= {process: max(first, _born_after(process)) for process, first in left.items()}
        tp = TopicPartition(f"table{n}", n % 2)
        written = list(_log(rng, tp, born))
        whole.written += written
        whole.ends[tp] = tuple(_ends(rng, written))
    return whole


def _born_after(process: int) -> int:
    return sum(process >= epoch for epoch in EPOCHS)


def _log(rng: random.Random, tp: TopicPartition, processes: list[int]) -> Iterator[Written]:
    """Epochs rise with the offsets, give or take a few records."""
    size = rng.randint(0, 24)
    offset = rng.randint(0, 2)
    for step in range(size):
        offset += 1 if rng.random() < 0.9 else 2
        now = (
            (step + rng.randint(-4, 4)) * 4 // max(size, 1)
        )  # how many of the snapshots the writer had cut for
        process = rng.choice([p for p in processes if _born_after(p) <= max(now, 0)])
        epoch = (0, *EPOCHS)[min(max(now, 0), 3)]
        value = None if rng.random() < 0.3 else b"%d" % rng.randint(0, 9)
        if rng.random() < 0.1:
            record = LogRecord(*tp, offset)
        else:
            record = LogRecord(*tp, offset, process, epoch, step, marker=rng.random() < 0.05)
        yield Written(record, rng.choice(KEYS), value)


def _ends(rng: random.Random, written: list[Written]) -> Iterator[tuple[int, ...]]:
    """What the writers report for each snapshot: past what was white then, and never less than before."""
    offsets = [item.record.offset for item in written] or [0]
    reached = 0
    for snapshot in range(len(EPOCHS)):
        near = (snapshot + 1) * len(offsets) // 4 + rng.randint(0, 5)
        reached = max(reached, offsets[min(near, len(offsets) - 1)] + rng.randint(0, 1))
        yield (reached, rng.randint(0, reached)) if rng.random() < 0.3 else (reached,)
