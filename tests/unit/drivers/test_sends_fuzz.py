"""The producers of aiokafka and Faust, as they are and as they stamp: the same operations have the same outcomes, and
the seqs are in the order of the log.

The accumulator and the sender are aiokafka's own; the broker is in memory, and lets requests wait, fail and be lost.
`FUZZ_OPERATIONS=1000000` makes it a long run.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import wraps
from random import Random
from typing import Any, Final

import faust
import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.structs import TopicPartition

from snapkafka.drivers.aio_client import AioClient
from snapkafka.drivers.sends import Transaction, Unacknowledged
from snapkafka.protocol import Cause, SendOutcome
from snapkafka.protocol import TopicPartition as Place
from snapkafka.protocol.records import SENT_BARE, Abort
from snapkafka.wire import headers as wire

from .producing import PARTITIONS, Broker, Driver, Faust

OPERATIONS: Final = int(os.environ.get("FUZZ_OPERATIONS", "10000"))
#: Of one run; then the logs are compared.
A_RUN: Final = 250
BATCH_BYTES: Final = 4_000
#: Of a batch, as the broker takes it; of a record, as the producer does.
TOPIC_BYTES, PRODUCER_BYTES = 6_000, 20_000
#: Which event a task runs in.
EVENT: ContextVar[Cause | None] = ContextVar("event", default=None)
KINDS: Final = ("plain", "idempotent", "two clients", "transactions", "faust")


def _overhead() -> int:
    builder = DefaultRecordBatchBuilder(
        2, 0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=0, batch_size=BATCH_BYTES
    )
    builder.append(0, 1, b"k" * 4, b"." * TOPIC_BYTES, headers=[])
    return len(builder.build()) - TOPIC_BYTES


OVERHEAD: Final = _overhead()


@dataclass(frozen=True)
class Record:
    """What is sent: `task` and `n` are in the value, so each is another one."""

    task: int
    n: int
    size: int
    partition: int | None
    key: Any = b"key."
    headers: Any = None
    second: bool = False  # by the second client
    soon: bool = False  # by way of Faust's buffer

    @property
    def value(self) -> bytes | None:
        return f"{self.task}.{self.n}.".encode().ljust(self.size, b"_") if self.size >= 0 else None


@dataclass
class Step:
    """What comes next: tasks that send at once, and what happens meanwhile."""

    what: str
    tasks: list[list[Record]] = field(default_factory=list)
    commit: bool = True
    turns: int = 0


def script(kind: str, seed: int) -> list[Step]:
    """Compose the operations of one run."""
    random, steps, task, count = Random(seed), [], 0, 0
    while count < A_RUN:
        tasks = []
        for _ in range(random.choice((1, 1, 2, 5))):
            task += 1
            tasks.append(
                [_record(random, kind, task, n, odd=seed % 2) for n in range(random.choice((1, 2, 8, 20)))]
            )
            count += len(tasks[-1])
        steps.append(Step("send", tasks, commit=random.random() < 0.7, turns=random.randrange(6)))
        steps += [Step(what) for what in ("cut", "wait", "go on", "flush") if random.random() < 0.3]
    return steps


def _record(random: Random, kind: str, task: int, n: int, *, odd: float) -> Record:
    size = random.choice((20, 20, 60, 300, 1_200))
    partition, headers, key = random.randrange(PARTITIONS), None, b"key."  # type: tuple[int, Any, Any]
    odd = random.random() if odd else 1.0  # an unstamped record fails the snapshots that are open
    if odd < 0.02:
        size = TOPIC_BYTES - OVERHEAD - random.randrange(60)  # alone it fits, but perhaps not with our header
    elif odd < 0.03:
        size = random.choice((TOPIC_BYTES + 500, PRODUCER_BYTES + 500))
    elif odd < 0.04 and kind != "faust":
        key, size, partition = random.choice(((7, 20, 0), (None, -1, 0), (b"key.", 20, 99)))
    elif odd < 0.1:
        headers = random.choice(([("mine", b"1"), ("mine", b"2")], [("_sk", b"of a copy")]))
    place = None if kind == "plain" and size == 20 else partition
    second = kind == "two clients" and random.random() < 0.3
    soon = kind == "faust" and random.random() < 0.6
    return Record(task, n, size, place, key, headers, second=second, soon=soon)


class Sensor(faust.Sensor):
    """What Faust reports of what leaves its buffer."""

    def __init__(self, reported: Counter[Any]) -> None:
        super().__init__()
        self._reported = reported

    def on_send_initiated(self, producer: Any, topic: Any, message: Any, keysize: int, valsize: int) -> Any:
        self._reported["begins", topic, message.value, keysize, valsize] += 1
        return message.value

    def on_send_completed(self, producer: Any, state: Any, metadata: Any) -> None:
        self._reported["ends", state] += 1

    def on_send_error(self, producer: Any, exc: Any, state: Any) -> None:
        self._reported["fails", state, type(exc)] += 1


class Side:
    """One of the two: a producer as it is, or one that stamps. `traced`: something of the app's own is around it."""

    def __init__(self, kind: str, seed: int, *, stamps: bool, traced: bool) -> None:
        trouble = 0.0 if kind == "faust" else 0.1
        self.kind, self.traced = kind, traced
        self.broker = Broker(bytes_max=TOPIC_BYTES, trouble=trouble, seed=seed)
        self.driver = Driver() if stamps else None
        self.turn = 0
        settings: dict[str, Any] = {"max_batch_size": BATCH_BYTES, "max_request_size": PRODUCER_BYTES}
        settings |= {"partitioner": self._in_turns, "enable_idempotence": kind == "idempotent"}
        settings["transactional_id"] = "it" if kind == "transactions" else None
        self.faust: Any = None
        self.reported = Counter[Any]()
        self.held: Transaction | None = None
        if kind == "faust":
            given = {"producer_max_batch_size": BATCH_BYTES, "producer_max_request_size": PRODUCER_BYTES}
            self.faust = Faust(self.broker, self.driver, **given)
            self.faust.app.sensors.add(Sensor(self.reported))
            self.emptying = asyncio.create_task(self._empty(self.faust.buffer), context=copy_context())
        else:
            clients = [self.broker.producer(**settings) for _ in range(1 + (kind == "two clients"))]
            self.client, self.second = clients[0], clients[-1]
            if traced and seed % 4 < 2:
                self._trace(self.client, "send")
            elif traced:
                self._trace(self.client._message_accumulator, "add_message")
            if self.driver is not None:
                self.held = Transaction(self.driver.sends) if kind == "transactions" else None
                made = [AioClient(client, self.driver.sends, self.held) for client in clients]
                self.driver.client = made[0]
        if self.driver is not None:
            self.driver.sends.cause = EVENT.get
            if kind == "transactions":
                self.driver.machine.marks = False
        self.outcomes: dict[tuple[int, int], str] = {}
        self.futures: dict[tuple[int, int], Any] = {}
        self.colours: dict[int, int] = {}  # of the event of each task

    def _trace(self, owner: Any, name: str) -> None:
        inner = getattr(owner, name)

        @wraps(inner)
        async def around(*args: Any, **more: Any) -> Any:
            self.reported[name] += 1
            return await inner(*args, **more)

        setattr(owner, name, around)

    def _listen(self, sender: Any, *, headers: Any, **record: Any) -> None:
        """It may even change the headers."""
        self.reported["heard", record["value"]] += 1
        if isinstance(headers, list):
            headers.append(("traced", b"1"))

    async def _empty(self, buffer: Any) -> None:
        """As Faust's own task, but that it goes on after an error."""
        while True:
            message = await buffer.pending.get()
            try:
                await buffer._send_pending(message)
            except Exception as error:
                message.set_exception(error)

    def _in_turns(self, key: Any, partitions: list[int], available: list[int]) -> int:
        self.turn += 1
        return sorted(partitions)[self.turn % len(partitions)]

    # -- operations ---------------------------------------------------------------------------------------------------

    async def play(self, steps: list[Step]) -> None:
        """Do the steps. What a send waits for comes by itself."""
        pending: list[asyncio.Task[None]] = []
        if self.faust is not None and self.traced:
            self.faust.app.on_produce_message.connect(self._listen)
        for step in steps:
            if step.what == "wait":
                self.broker.answers.clear()
            elif step.what == "go on":
                self.broker.answers.set()
            elif step.what == "cut" and self.driver is not None:
                self.driver.snapshot(f"s{len(self.driver.written)}")
            elif step.what == "send":
                if self.kind == "transactions":
                    await self.client.begin_transaction()
                    self.broker.answers.set()
                pending += [asyncio.create_task(self._task(records)) for records in step.tasks]
                for _ in range(step.turns):
                    await asyncio.sleep(0)
                if self.kind == "transactions":
                    await asyncio.gather(*pending)
                    await self._end(commit=step.commit)
        self.broker.answers.set()
        await asyncio.gather(*pending)
        await asyncio.wait_for(asyncio.gather(*self.futures.values(), return_exceptions=True), 20)
        if self.driver is not None:
            await self.driver.settle()
            for client in self.broker.clients:
                await client.flush()
            await self.driver.settle()
        for record, future in self.futures.items():
            error = future.exception()
            while error is not None and error.__cause__ is not None:
                error = error.__cause__
            self.outcomes[record] = "sent" if error is None else type(error).__name__
        if self.faust is not None:
            self.emptying.cancel()
            self.faust.app.on_produce_message.disconnect(self._listen)
        await self.broker.close()

    async def _end(self, *, commit: bool) -> None:
        await (self.client.commit_transaction() if commit else self.client.abort_transaction())
        if self.held is not None:
            self.held.ended(None if commit else Unacknowledged(SendOutcome.ABORTED, "by the app"))

    async def _task(self, records: list[Record]) -> None:
        task = records[0].task
        event = Cause("agent", Place("in", 0), task)
        if self.driver is not None:
            self.driver.do(self.driver.machine.event_started(event))
            self.colours[task] = self.driver.machine.colours.epoch
            EVENT.set(event)
        for record in records:
            try:
                self.futures[task, record.n] = await self._send(record)
            except Exception as error:
                while error.__cause__ is not None:
                    error = error.__cause__  # type: ignore[assignment]
                self.outcomes[task, record.n] = type(error).__name__
        if self.driver is not None:
            self.driver.do(self.driver.machine.event_ended(event))

    async def _send(self, record: Record) -> Any:
        if self.faust is not None:
            headers = record.headers and [*record.headers]
            more: dict[str, Any] = {"partition": record.partition, "timestamp": 1.5, "headers": headers}
            if record.soon:
                more["callback"] = self._called_back
                return self.faust.topic.send_soon(key=record.key, value=record.value, **more)
            return await self.faust.producer.send("t", record.key, record.value, **more)
        client = self.second if record.second else self.client
        return await client.send(
            "t", record.value, record.key, record.partition, headers=record.headers, timestamp_ms=1
        )

    def _called_back(self, future: Any) -> None:
        """By Faust's task, which is in no event."""
        self.reported["called", future.message.value, EVENT.get()] += 1

    # -- what is there ------------------------------------------------------------------------------------------------

    def everything(self, records: dict[tuple[int, int], Record]) -> list[Any]:
        """Which records lie in the log, each with the partition that it was to have."""
        found = []
        for partition in range(PARTITIONS):
            for number, record in self.sent(partition):
                place = None if records[number].partition is None else partition
                headers = wire.without_header(record.headers)
                found.append((*number, place, record.timestamp, record.key, headers))
        return sorted(found)

    def sent(self, partition: int) -> list[tuple[tuple[int, int], Any]]:
        """Which records lie in a partition, in its order."""
        found = [
            it.record
            for it in self.broker.log[TopicPartition("t", partition)]
            if it.record is not None and not it.aborted and not wire.is_marker_key(it.record.key)
        ]
        return [(_number(record), record) for record in found]


def _number(record: Any) -> tuple[int, int]:
    task, n, _ = record.value.split(b".", 2)
    return int(task), int(n)


def judge(theirs: Side, ours: Side, records: dict[tuple[int, int], Record]) -> Counter[str]:
    """Hold one against the other. Returns what has happened, so that nothing is shown by nothing."""
    found: Counter[str] = Counter(ours.outcomes.values())
    assert ours.outcomes == theirs.outcomes
    assert ours.reported == theirs.reported
    assert theirs.turn == ours.turn, "a partitioner is asked once for each record"
    assert ours.everything(records) == theirs.everything(records)
    for partition in range(PARTITIONS):
        for side in (ours, theirs):
            latest: dict[tuple[int, bool], int] = {}
            for (task, n), _ in side.sent(partition):
                record = records[task, n]
                if side.kind != "two clients":
                    assert n > latest.get((task, record.soon), -1), "out of order"
                latest[task, record.soon] = n
        found += _judge_stamps(ours, TopicPartition("t", partition), records)
    assert ours.driver is not None and not ours.driver.machine.colours.busy, "something is still awaited"
    assert not ours.driver.machine.open.cuts, "a snapshot is not decided"
    assert ours.driver.metrics.counts["bare"].total() >= found["bare"]
    return found + Counter(abort.code for abort in ours.driver.found(Abort))


def _judge_stamps(ours: Side, tp: TopicPartition, records: dict[tuple[int, int], Record]) -> Counter[str]:
    driver, found = ours.driver, Counter[str]()
    assert driver is not None
    sent = driver.machine.colours.sent.get(tp)
    gaps = {n for it in (sent.unacknowledged if sent else ()) for n in range(it.first, it.last + 1)}
    due = marked = 0
    for stored in ours.broker.log[tp]:
        if stored.record is None or stored.aborted:
            continue
        stamp = stored.stamp(tp)
        if stamp is None:
            found["bare"] += 1
            if not wire.is_marker_key(stored.record.key):
                record = records[_number(stored.record)]
                assert record.size > BATCH_BYTES or ours.kind == "two clients"
            continue
        while due in gaps:
            due += 1
        assert stamp.seq == due, "seqs are in the order of the log"
        due += 1
        assert sum(name == "_sk" for name, _ in stored.record.headers) == 1
        if stamp.marker:
            found["marker"] += 1
            assert stamp.epoch > marked
            marked = stamp.epoch
            continue
        task, _ = _number(stored.record)
        assert (stamp.epoch, stamp.cause) == (ours.colours[task], (wire.topic_check("in"), 0, task))
        assert stamp.epoch >= marked, "nothing white stands behind a marker"
        for (place, epoch), seq in driver.due.items():
            if place == tp and marked < epoch <= stamp.epoch and ours.kind != "two clients":
                assert stamp.seq < seq, "a marker that is due stands before what is red"
                found["red before a marker was due"] += 1
    return found


async def play(kind: str, seed: int, *, traced: bool) -> Counter[str]:
    steps = script(kind, seed)
    records = {(it.task, it.n): it for step in steps for task in step.tasks for it in task}
    theirs, ours = (Side(kind, seed, stamps=stamps, traced=traced) for stamps in (False, True))
    await theirs.play(steps)
    await ours.play(steps)
    return judge(theirs, ours, records)


@pytest.mark.timeout(max(60, OPERATIONS // 500))
@pytest.mark.parametrize(
    ("kind", "traced"), [*((kind, False) for kind in KINDS), ("plain", True), ("faust", True)]
)
async def test_what_stamps_does_what_was_done_before(kind: str, traced: bool) -> None:
    found: Counter[str] = Counter()
    for seed in range(max(1, OPERATIONS // A_RUN // len(KINDS))):
        try:
            found += await play(kind, seed, traced=traced)
        except BaseException as error:
            error.add_note(f"kind {kind}, seed {seed}")
            raise
    print(kind, dict(found))
    happens = {"sent", "MessageSizeTooLargeError"}
    if kind != "faust":
        happens |= {"AssertionError", "TypeError"}
    if kind != "transactions":
        happens |= {"marker", "bare", SENT_BARE}
    assert happens <= {what for what, count in found.items() if count}
