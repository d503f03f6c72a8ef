"""What a snapshot of a large mesh costs each of its workers: bytes of the ledger, and CPU time to read and fold them.

Every process writes to the partition of every other one: 100 of them are 9,900 channels. The records pass through the
real codec, the batches of the real producer, and the real machine; nothing is written to a broker.
"""

import gc
import math
import random
import statistics
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, Final, NamedTuple

from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from snapkafka.kafka.ledger.ledger_producer import COMPRESSION
from snapkafka.protocol.actions import AppendToLedger
from snapkafka.protocol.events import AssignedInput, Event, InputsAssigned, Joined, LedgerRead
from snapkafka.protocol.offsets import ChannelRange, InputTopic, LogEnd, Position, SentEnd, TopicPartition
from snapkafka.protocol.records import Assigned, Hello, LedgerRecord, Report, Trigger
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.wire import decode, encode
from tests.bench.figures import Figure, figure

ROUNDS: Final = 15
PROCESSES: Final = 100
#: The growth is the slope of the line through these, on logarithmic axes.
SIZES: Final = (10, 20, 50, PROCESSES, 200)
TOPIC: Final = "positions"
#: Where the logs are: offsets of a system that has run for a while.
AT: Final = 5_000_000


def bench_mesh() -> list[Figure]:
    """CPU time of a worker for a snapshot of 9,900 channels, the bytes of it in the ledger, and how both grow."""
    costs = {number: _costs(number) for number in SIZES}
    rounds = list(zip(*costs.values(), strict=True))
    return [
        figure("mesh_worker_ms", [cost.worker_ms for cost in costs[PROCESSES]], "ms"),
        figure("mesh_ledger_kb", [cost.ledger_kb for cost in costs[PROCESSES]], "kB"),
        figure("mesh_worker_ms_200", [cost.worker_ms for cost in costs[SIZES[-1]]], "ms"),
        figure("mesh_ledger_kb_200", [cost.ledger_kb for cost in costs[SIZES[-1]]], "kB"),
        figure("mesh_worker_exponent", [_slope([cost.worker_ms for cost in of]) for of in rounds], ""),
    ]


def _slope(values: list[float]) -> float:
    """Return the exponent by which values grow with `SIZES`, by least squares on logarithms."""
    return statistics.linear_regression(list(map(math.log, SIZES)), list(map(math.log, values))).slope


class Cost(NamedTuple):
    """Of one snapshot: CPU time of one worker, and bytes in the ledger."""

    worker_ms: float
    ledger_kb: float


def _costs(processes: int) -> list[Cost]:
    mesh = _Mesh(processes)
    gc.collect()
    return [mesh.snapshot(number) for number in range(ROUNDS)]


class _Mesh:
    """A ledger, and the first of its processes, which is a real machine."""

    def __init__(self, processes: int) -> None:
        self._processes = processes
        self._any = random.Random(1985).randrange
        self._ends = [AT + self._any(1_000_000) for _ in range(processes)]
        self._machine = WorkerProtocol()
        self._at = 0
        self._numbers = count(1)
        self._written: list[LedgerRecord] = []  # by the machine
        for number in range(processes):
            hello = Hello(
                n=next(self._numbers), app="mesh", inputs=(InputTopic(topic=TOPIC, partitions=processes),)
            )
            if number == 0:
                self._feed(Joined(hello=hello))
            self._read(hello)
        mine = AssignedInput(tp=TopicPartition(TOPIC, 0), agents=("mesh.take",), position=AT)
        self._feed(InputsAssigned(generation=1, inputs=(mine,), changelogs=()))
        (announced,) = self._taken()
        self._assigned = {0: self._at}
        self._read(announced)
        for process in range(1, processes):
            self._assigned[process] = self._at
            tp = TopicPartition(TOPIC, process)
            self._read(Assigned(process=process, n=next(self._numbers), generation=1, inputs=(tp,)))

    def snapshot(self, number: int) -> Cost:
        """Take a snapshot; all that its records cost the first process: to read each from its bytes on, and to write
        its own. Nothing white runs at the cuts."""
        previous, epoch = self._machine.colours.epoch, self._at + 1
        trigger = self._batch(self._trigger(number))
        spent = self._read_batches([trigger])
        (own,) = self._taken()
        assert isinstance(own, Report)
        others = (self._report(process, epoch, previous) for process in range(1, self._processes))
        batches = [self._batch(record) for record in (own, *others)]
        # The machine here has no channels of its own: a record like those of the others is written once more.
        like_theirs = self._report(1, epoch, previous)
        began = time.thread_time()
        self._batch(like_theirs)
        spent += time.thread_time() - began + self._read_batches(batches)
        view = self._machine.ledger.snapshots[epoch]
        assert view.captured_at == self._at - 1, f"it is {view.status}: {view.failure}"
        return Cost(worker_ms=spent * 1_000, ledger_kb=sum(map(len, (trigger, *batches))) / 1_000)

    def _read_batches(self, batches: list[bytes]) -> float:
        began = time.thread_time()
        for batch in batches:
            for found in DefaultRecordBatch(bytearray(batch)):
                self._read(decode(found.value))
        return time.thread_time() - began

    def _read(self, record: LedgerRecord) -> None:
        self._at += 1
        self._feed(LedgerRead(offset=self._at - 1, record=record))

    def _batch(self, record: LedgerRecord) -> bytes:
        """Return the batch that the ledger's producer makes of a record."""
        of = {"is_transactional": 0, "producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
        of["compression_type"] = {"gzip": 1}[COMPRESSION]  # in Kafka's numbering
        builder = DefaultRecordBatchBuilder(magic=2, batch_size=1_000_000, **of)
        builder.append(0, 1_000, type(record).__name__.encode(), encode(record), [])
        return bytes(builder.build())

    def _feed(self, event: Event) -> None:
        for action in self._machine.handle(event):
            if isinstance(action, AppendToLedger):
                self._written.append(action.record)

    def _taken(self) -> list[LedgerRecord]:
        taken, self._written = self._written, []
        return taken

    def _others(self, process: int) -> Iterator[int]:
        return (other for other in range(self._processes) if other != process)

    def _trigger(self, number: int) -> Trigger:
        return Trigger(
            n=1_000_000 + number,
            id=f"mesh-{number}",
            ends=tuple(LogEnd(topic=TOPIC, partition=p, end=end) for p, end in enumerate(self._ends)),
            marker_topics=(TOPIC,),
            asked_at=self._at,
        )

    def _report(self, process: int, epoch: int, previous: int) -> Report:
        end = self._ends[process]
        place: dict[str, Any] = {"topic": TOPIC, "partition": process}
        at = Position(agent="mesh.take", **place, offset=end - process)
        return Report(
            process=process,
            n=next(self._numbers),
            epoch=epoch,
            previous=previous,
            heard="ledger",
            assigned=self._assigned[process],
            positions=(at,),
            sent=tuple(self._sent(other) for other in self._others(process)),
            recorded=tuple(
                ChannelRange(sender=other, **place, start=end - process, end=end + self._any(500))
                for other in self._others(process)
            ),
            cut_us=150,
        )

    def _sent(self, partition: int) -> SentEnd:
        """Return an end as many senders have it that write at their own pace: a regular one would compress too well."""
        white_end, last_seq = self._ends[partition] - self._any(500), 40_000 - self._any(10_000)
        return SentEnd(
            topic=TOPIC,
            partition=partition,
            white_end=white_end,
            last_seq=last_seq,
            marker=self._ends[partition] + self._any(500),
            earlier_seq=last_seq - self._any(50),
            earlier_end=white_end - 500 - self._any(1_000),
        )
