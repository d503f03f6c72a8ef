"""A small captured system on a real broker, played by hand: real topics, real headers, a real ledger.

Two apps in a cycle. `alpha` reads `orders` (2 partitions), keeps a table `balances`, sends to `credits`; `beta` reads
`credits` and sends back to `orders`. An older process of beta has left. What lies where is said line by line in
`play`, so that tests can name offsets.
"""

from __future__ import annotations

import asyncio
import functools
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from confluent_kafka import Producer

from snapkafka.assembly.cluster import ask_once
from snapkafka.checks import LogRecord
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import (
    Captured,
    ChangelogEnd,
    Hello,
    InputTopic,
    LedgerState,
    LogEnd,
    Report,
    Retention,
    Table,
    TopicPartition,
)
from snapkafka.protocol.offsets import ChannelRange, Position, SentEnd
from snapkafka.protocol.records import Assigned, Bye, LedgerRecord, Trigger
from snapkafka.testing import wait_until
from snapkafka.wire import headers as wire
from tests.spark.at_hand import header_of

_T = TypeVar("_T")


@dataclass
class Stage:
    """The broker, the ledger, and who plays."""

    bootstrap: str
    namespace: str
    ledger: KafkaLedger
    producer: Producer
    state: LedgerState = field(default_factory=LedgerState)
    epoch: int = 0
    captured: Captured | None = None
    players: tuple[Sender, ...] = ()  # who is alive: alpha, beta

    def topic(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    def tp(self, name: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.topic(name), partition)

    async def append(self, record: LedgerRecord) -> int:
        offset = await self.ledger.append(record)
        self.state.apply(offset, record)
        return offset

    def name(self, which: str = "snap") -> str:
        """The id of a snapshot."""
        return f"{self.namespace}-{which}"

    def job(self, storage: object, *which: str) -> list[str]:
        """The arguments of a job that assembles snapshots into a storage."""
        where = ["--bootstrap", self.bootstrap, "--namespace", self.namespace, "--storage", str(storage)]
        return [*where, *(part for one in which for part in ("--snapshot", self.name(one)))]

    def ask(self, question: Callable[[KafkaTopicAdmin], Awaitable[_T]]) -> _T:
        """Ask or alter the cluster."""
        return asyncio.run(ask_once(Connection(bootstrap=self.bootstrap), question))

    def trim(self, tp: TopicPartition, offset: int) -> None:
        """Delete the records below an offset."""
        self.ask(lambda admin: admin.delete_records(tp, offset))
        assert self.ask(lambda admin: admin.log_starts([tp])) == {tp: offset}

    def delete(self, *topics: str) -> None:
        """Delete topics, and wait until they are gone."""
        self.ask(lambda admin: admin.delete_topics(*topics))
        there = functools.partial(self.ask, KafkaTopicAdmin.describe_topics)
        wait_until("the topics to be gone", lambda: there().keys().isdisjoint(topics), timeout_s=20)

    def send(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        *,
        at_ms: int = 0,
    ) -> int:
        """Append a record and wait; its offset. `at_ms`: its time; 0: now."""
        landed: list[int] = []

        def delivered(error: object, message: Any) -> None:
            assert error is None, error
            landed.append(message.offset())

        self.producer.produce(
            tp.topic,
            partition=tp.partition,
            key=key,
            value=value,
            headers=list(headers),
            timestamp=at_ms,
            on_delivery=delivered,
        )
        self.producer.flush(10)
        return landed[0]


@dataclass
class Sender:
    """A process, as far as the log sees it."""

    stage: Stage
    process: int
    app: str
    n: int = 0
    seqs: dict[TopicPartition, int] = field(default_factory=lambda: defaultdict(int))
    ends: dict[TopicPartition, SentEnd] = field(default_factory=dict)
    reached: dict[TopicPartition, SentEnd] = field(default_factory=dict)  # the same with what is red

    def header(self, tp: TopicPartition, *said: Any) -> bytes:
        """Our header of a record of it: epoch, seq, and what else a `LogRecord` has."""
        return header_of(LogRecord(*tp, 0, self.process, *said), self.stage.ledger.ledger_id)

    def send(
        self,
        tp: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        *,
        epoch: int = 0,
        more: list[tuple[str, bytes | None]] | None = None,
        seq: int | None = None,
        cause: tuple[TopicPartition, int] | None = None,
        at_ms: int = 0,
    ) -> int:
        """A stamped record; white ones move the white end. `seq`: another than the next one (a forgery)."""
        number = self.seqs[tp] if seq is None else seq
        header = self.header(tp, epoch, number, False, cause)
        offset = self.stage.send(tp, key, value, [*(more or []), (wire.HEADER, header)], at_ms=at_ms)
        if seq is None:
            self.seqs[tp] += 1
            self.reached[tp] = SentEnd(**tp._asdict(), white_end=offset + 1, last_seq=number)
            if not self.stage.epoch or epoch < self.stage.epoch:
                self.ends[tp] = self.reached[tp]
        return offset

    def mark(self, tp: TopicPartition) -> int:
        """Its marker."""
        header = self.header(tp, self.stage.epoch, self.seqs[tp], True)
        self.seqs[tp] += 1
        offset = self.stage.send(tp, wire.marker_key(self.process), None, [(wire.HEADER, header)])
        end = self.ends.get(tp, SentEnd(**tp._asdict(), white_end=0, last_seq=-1))
        self.ends[tp] = replace(end, marker=offset)
        return offset

    async def write_record(self, kind: type[LedgerRecord], **fields: Any) -> int:
        self.n += 1
        return await self.stage.append(kind(process=self.process, n=self.n, **fields))


@dataclass(frozen=True, kw_only=True)
class Acts:
    """What happens.

    Args:
        declared: alpha declares `orders`, which beta and others write, as a source.
        red_received: let alpha take in a red record (orders[0] offset 8) before it cuts: what must never be.
        later_cause: let alpha write its table (balances[0] offset 2) for an event that it has yet to take in.
        split: `x` is also in partition 1 of the table, whose keys belong in one partition each.
    """

    red_received: bool = False
    later_cause: bool = False
    declared: bool = True
    split: bool = False


def play(bootstrap: str, namespace: str, **acts: Any) -> Stage:
    """Play it up to the captured snapshot, with red traffic behind it; see `Acts`."""
    ledger = KafkaLedger(Connection(bootstrap=bootstrap), namespace)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})
    stage, given = Stage(bootstrap, namespace, ledger, producer), Acts(**acts)

    async def act(admin: KafkaTopicAdmin) -> None:
        for name, settings in (("orders", {}), ("credits", {}), ("balances", {"cleanup.policy": "compact"})):
            await admin.create_topic(stage.topic(name), partitions=2, settings=settings)
        ids = {name: found.topic_id for name, found in (await admin.describe_topics()).items()}
        sources = (stage.topic("orders"),) if given.declared else ()
        old, a, b = await _join(stage, ids, sources, keyed=given.split)
        stage.players = (a, b)
        _white(stage, old, a, b, given)
        if given.split:
            a.send(stage.tp("balances", 1), b'"x"', b"5")
        await _cut(stage, a, b, given)

    _with_ledger(stage, act)
    return stage


def _with_ledger(stage: Stage, act: Callable[[KafkaTopicAdmin], Awaitable[None]]) -> None:
    async def played(admin: KafkaTopicAdmin) -> None:
        await stage.ledger.open()
        try:
            await act(admin)
        finally:
            await stage.ledger.close()

    stage.ask(played)
    stage.captured = stage.state.captured(stage.epoch)


async def _join(
    stage: Stage, ids: dict[str, str], sources: tuple[str, ...], *, keyed: bool
) -> tuple[Sender, Sender, Sender]:
    orders, back, balances = (stage.topic(name) for name in ("orders", "credits", "balances"))

    async def hello(app: str, n: int, topic: str, *tables: Table) -> Sender:
        source = InputTopic(topic=topic, partitions=2, topic_id=ids[topic])
        kept = tuple(
            Retention(topic=table.changelog, uncompacted_ms=0, tombstones_ms=86_400_000, retained_ms=-1)
            for table in tables
        )  # as Kafka has it where nobody says otherwise
        hello = Hello(
            n=n, app=app, host="here", pid=n, inputs=(source,), tables=tables, retention=kept, sources=sources
        )
        offset = await stage.append(hello)
        return Sender(stage, offset, app)

    table = Table(name="balances", changelog=balances, partitions=2, topic_id=ids[balances], keyed=keyed)
    old = await hello("beta", 1, back)
    a = await hello("alpha", 2, orders, table)
    b = await hello("beta", 3, back)
    await old.write_record(Bye)
    return old, a, b


def _white(stage: Stage, old: Sender, a: Sender, b: Sender, acts: Acts) -> None:
    """What is sent before the cut. Offsets are in the order of the lines."""
    orders, back, balances = stage.tp("orders"), stage.tp("credits"), stage.tp("balances")
    stage.send(orders, b"client", b'{"amount": 1}')  # orders 0: external, done
    b.send(orders, b'"x"', b'{"amount": 5}')  # orders 1: done
    b.send(orders, b'"x"', b'{"amount": 7}', more=[("trace", b"1"), ("trace", b"2")])  # 2: in flight
    stage.send(orders, b"client", b'{"amount": 2}')  # orders 3: external
    old.send(orders, None, b"left behind")  # orders 4: of a process that left, no JSON, no key: in flight
    b.send(orders, b"\xff\xfe", b"\x80\x81")  # orders 5: no text at all, in flight
    b.send(orders, b'"y"', None)  # orders 6: no value, in flight; b's last white one
    copied = [("_sk", a.header(back, 0, 0))]
    stage.send(orders, b"copied", b"header of another place", copied)  # orders 7: external

    a.send(back, b'"x"', b'"a text"')  # credits 0: text, in flight
    old.send(back, b"1", b"2")  # credits 1: started out of turn
    a.send(back, b'"z"', b'{"amount": 3}')  # credits 2: in flight
    a.send(stage.tp("credits", 1), b'"done"', b"1")  # credits[1] 0: done, nothing in flight there

    stage.send(balances, b'"old"', b"100")  # balances 0: from before snapkafka
    a.send(balances, b'"x"', b"10", cause=(orders, 1))  # 1
    a.send(balances, b'"x"', b"11", cause=(orders, 2 if acts.later_cause else 1))  # 2
    a.send(balances, b'"gone"', b"1")  # 3
    a.send(balances, b'"gone"', None)  # 4: deleted
    a.send(balances, b'"poison"', b"\xff")  # 5: no JSON
    a.send(balances, b'"late"', b'{"n": 1.50}')  # 6


async def _cut(stage: Stage, a: Sender, b: Sender, acts: Acts) -> None:
    orders, back, balances = stage.tp("orders"), stage.tp("credits"), stage.tp("balances")
    for sender, topic in ((a, "orders"), (b, "credits")):
        inputs = (stage.tp(topic, 0), stage.tp(topic, 1))
        await sender.write_record(Assigned, generation=1, inputs=inputs)
    seen = (("orders", 0, 8), ("orders", 1, 0), ("credits", 0, 3), ("credits", 1, 0))
    ends = tuple(LogEnd(**stage.tp(name, partition)._asdict(), end=end) for name, partition, end in seen)
    trigger = Trigger(n=9, id=stage.name(), who="test", ends=ends)
    stage.epoch = await stage.append(trigger) + 1

    position = 2
    if acts.red_received:
        position = b.send(orders, b'"red"', b"{}", epoch=stage.epoch) + 1
    report_a = _at_cut(stage, a, "orders", {0: (position, ()), 1: (0, ())})
    marker = b.mark(orders)  # orders 8
    a.mark(back)  # credits 3
    a.mark(stage.tp("credits", 1))
    # An event of a that ran at the cut writes once more in white, behind a red write.
    a.send(balances, b'"x"', b"999", epoch=stage.epoch)  # balances 7: red
    a.send(balances, b'"late"', b"2")  # balances 8: white
    report_b = _at_cut(stage, b, "credits", {0: (0, (1,)), 1: (1, ())})
    b.send(orders, b'"red"', b"{}", epoch=stage.epoch)  # orders 9: red
    a.send(back, b'"red"', b"{}", epoch=stage.epoch)  # credits 4: red
    a.send(balances, b'"red"', b"1", epoch=stage.epoch)  # balances 9: red

    await a.write_record(
        Report,
        **report_a,
        sent=tuple(a.ends.values()),
        changelogs=_changelogs(a, 9),
        recorded=(ChannelRange(sender=b.process, **orders._asdict(), start=position, end=marker),),
        cut_us=40,
    )
    await b.write_record(Report, **report_b, sent=tuple(b.ends.values()), cut_us=50)


def play_on(stage: Stage, which: str, *written: tuple[bytes, bytes | None], parent: str = "snap") -> None:
    """The next snapshot, an incremental one. Alpha writes its table: `written` before its cut; then `x` in red, and
    once more in white `late`, both below the end of the changelog; then `red`, past it."""
    balances, (a, b), before = stage.tp("balances"), stage.players, stage.epoch

    async def act(admin: KafkaTopicAdmin) -> None:
        for key, value in written:
            a.send(balances, key, value, epoch=before)
        for sender in stage.players:
            sender.ends = sender.ends | sender.reached  # what was red is white for the next one
        inputs = [stage.tp(topic, partition) for topic in ("orders", "credits") for partition in (0, 1)]
        ends = await admin.log_ends(inputs)
        of: dict[str, Any] = {"id": stage.name(which), "type": "incremental", "parent": stage.name(parent)}
        of["ends"] = tuple(LogEnd(**tp._asdict(), end=ends[tp]) for tp in inputs)
        stage.epoch = await stage.append(Trigger(n=1000 + before, **of)) + 1
        reports = [
            _at_cut(stage, a, "orders", {0: (2, ()), 1: (0, ())}),
            _at_cut(stage, b, "credits", {0: (0, (1,)), 1: (1, ())}),
        ]
        a.send(balances, b'"x"', b"%d" % stage.epoch, epoch=stage.epoch)
        end = a.send(balances, b'"late"', b"3", epoch=before) + 1
        a.send(balances, b'"red"', b"%d" % stage.epoch, epoch=stage.epoch)
        for sender, report in zip(stage.players, reports, strict=True):
            changed = _changelogs(a, end) if sender is a else ()
            await sender.write_record(Report, **report, sent=tuple(sender.ends.values()), changelogs=changed)

    _with_ledger(stage, act)


def _changelogs(a: Sender, end: int) -> tuple[ChangelogEnd, ...]:
    """Alpha's report of its table, whose partition 0 ends there."""
    one, other = (a.stage.tp("balances", partition) for partition in (0, 1))
    ends = {one: end, other: a.seqs[other]}
    return tuple(ChangelogEnd(table="balances", **tp._asdict(), end=upto) for tp, upto in ends.items())


def _at_cut(
    stage: Stage, sender: Sender, topic: str, positions: dict[int, tuple[int, tuple[int, ...]]]
) -> dict[str, Any]:
    """The fields of a report that are those of the cut."""
    agent = f"{sender.app}.agent"
    return {
        "epoch": stage.epoch,
        "previous": stage.epoch - 1,
        "heard": "ledger",
        "assigned": stage.state.processes[sender.process].assigned,
        "positions": tuple(
            Position(agent=agent, **stage.tp(topic, partition)._asdict(), offset=offset, started_above=above)
            for partition, (offset, above) in positions.items()
        ),
    }
