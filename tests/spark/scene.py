"""A small captured system on a real broker, played by hand: real topics, real headers, a real ledger.

Two apps in a cycle. `alpha` reads `orders` (2 partitions), keeps a table `balances`, sends to `credits`; `beta` reads
`credits` and sends back to `orders`. An older process of beta has left. What lies where is said line by line in
`play`, so that tests can name offsets.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer

from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.protocol import (
    Assigned,
    Bye,
    Captured,
    ChangelogEnd,
    ChannelRange,
    Hello,
    InputTopic,
    LedgerRecord,
    LedgerState,
    LogEnd,
    Pause,
    Position,
    Report,
    Retention,
    SentEnd,
    Table,
    TopicPartition,
    Trigger,
)
from snapkafka.wire import headers as wire


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

    def header(
        self, tp: TopicPartition, epoch: int, seq: int, cause: tuple[TopicPartition, int] | None = None
    ) -> bytes:
        said = self.stage.ledger.ledger_id, wire.tp_check(*tp), epoch, self.process, seq
        if cause is None:
            return wire.stamp(*said)
        (topic, partition), offset = cause
        return wire.stamp_with_cause(*said, wire.topic_check(topic), partition, offset)

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
        header = self.header(tp, epoch, number, cause)
        offset = self.stage.send(tp, key, value, [*(more or []), (wire.HEADER, header)], at_ms=at_ms)
        if seq is None:
            self.seqs[tp] += 1
            self.reached[tp] = SentEnd(
                topic=tp.topic, partition=tp.partition, white_end=offset + 1, last_seq=number
            )
            if not self.stage.epoch or epoch < self.stage.epoch:
                self.ends[tp] = self.reached[tp]
        return offset

    def fill(self, tp: TopicPartition, count: int) -> None:
        """So many white records of as many keys, which nothing else has in this partition."""
        producer = Producer(
            {
                "bootstrap.servers": self.stage.bootstrap,
                "enable.idempotence": True,  # many are in flight at once, and stay in order
                "queue.buffering.max.messages": 500_000,
                "log_level": 0,
            }
        )
        for seq in range(count):
            headers = [(wire.HEADER, self.header(tp, 0, seq))]
            producer.produce(tp.topic, b'{"n": %d}' % seq, b'"%d"' % seq, tp.partition, headers=headers)
        assert producer.flush(60) == 0
        if count:
            self.seqs[tp] = count
            self.ends[tp] = self.reached[tp] = SentEnd(
                topic=tp.topic, partition=tp.partition, white_end=count, last_seq=count - 1
            )

    def mark(self, tp: TopicPartition) -> int:
        """Its marker."""
        ledger_id, check = self.stage.ledger.ledger_id, wire.tp_check(*tp)
        header = wire.marker(ledger_id, check, self.stage.epoch, self.process, self.seqs[tp], 0)
        self.seqs[tp] += 1
        offset = self.stage.send(tp, wire.marker_key(self.process), None, [(wire.HEADER, header)])
        end = self.ends.get(tp)
        self.ends[tp] = SentEnd(
            topic=tp.topic,
            partition=tp.partition,
            white_end=end.white_end if end else 0,
            last_seq=end.last_seq if end else -1,
            marker=offset,
        )
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
        calm: let no event of alpha run at its cut: the state of balances[0] ends with offset 6, red begins at 7.
        external: False: what clients without snapkafka send comes from beta in their place.
        lost: let so many of alpha's records to balances[0] be lost, the first of them behind its cut.
        relay: a process of an app out of scope passes a record of beta on to `orders` (offset 8), which alpha takes in
            before it cuts. "hangs": it was red, and the relay did not cut; "refused": nor did the ledger take its
            Hello; "cuts": it was white, and the relay cuts after it.
        split: `x` is also in partition 1 of the table, whose keys belong in one partition each.
        shared: alpha's table is a global one, which two of its processes write, in turns and in both partitions: `x`
            and `y` in 1 too. The second one ends later: past a red write of the first it has a white one.
        bulk: let alpha write so many keys to balances[1] before its cut.
    """

    red_received: bool = False
    later_cause: bool = False
    calm: bool = False
    lost: int = 0
    external: bool = True
    declared: bool = True
    relay: str = ""
    split: bool = False
    shared: bool = False
    bulk: int = 0


def play(bootstrap: str, namespace: str, **acts: Any) -> Stage:
    """Play it up to the captured snapshot, with red traffic behind it; see `Acts`."""
    return asyncio.run(_play(bootstrap, namespace, Acts(**acts)))


async def _play(bootstrap: str, namespace: str, acts: Acts) -> Stage:
    connection = Connection(bootstrap=bootstrap)
    ledger, admin = KafkaLedger(connection, namespace), KafkaTopicAdmin(connection)
    await ledger.open()
    try:
        stage = Stage(
            bootstrap,
            namespace,
            ledger,
            Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0}),
        )
        for name, settings in (
            ("orders", {}),
            ("credits", {}),
            ("side", {}),
            ("balances", {"cleanup.policy": "compact"}),
        ):
            await admin.create_topic(stage.topic(name), partitions=2, settings=settings)
        ids = {name: found.topic_id for name, found in (await admin.describe_topics()).items()}
        sources = (stage.topic("orders"),) if acts.declared else ()
        old, a, b, other = await _join(stage, ids, sources, keyed=acts.split, shared=acts.shared)
        stage.players = (a, b)
        _white(stage, old, a, b, acts)
        if other is not None:
            a.send(stage.tp("balances", 1), b'"x"', b"6")
            a.send(stage.tp("balances", 1), b'"y"', b"7")
            for number, who in enumerate((other, a, other)):
                who.send(stage.tp("balances", 1), b'"w"', b"%d" % number)
        if acts.split:
            a.send(stage.tp("balances", 1), b'"x"', b"5")
        a.fill(stage.tp("balances", 1), acts.bulk)
        await _cut(stage, a, b, acts, await _relay(stage, ids, acts.relay))
        if other is not None:
            await _cut_other(stage, a, other)
        stage.captured = stage.state.captured(stage.epoch)
        return stage
    finally:
        await admin.close()
        await ledger.close()


async def _join(
    stage: Stage, ids: dict[str, str], sources: tuple[str, ...], *, keyed: bool, shared: bool
) -> tuple[Sender, Sender, Sender, Sender | None]:
    orders, back, balances = (stage.topic(name) for name in ("orders", "credits", "balances"))

    async def hello(app: str, n: int, topic: str, *tables: Table) -> Sender:
        source = InputTopic(topic=topic, partitions=2, topic_id=ids[topic])
        kept = tuple(
            Retention(topic=table.changelog, uncompacted_ms=0, tombstones_ms=86_400_000, retained_ms=-1)
            for table in tables
        )  # as Kafka has it where nobody says otherwise
        hello = Hello(
            n=n,
            app=app,
            host="here",
            pid=n,
            inputs=(source,),
            tables=tables,
            retention=kept,
            sources=sources,
        )
        offset = await stage.append(hello)
        return Sender(stage, offset, app)

    table = Table(
        name="balances",
        changelog=balances,
        partitions=2,
        topic_id=ids[balances],
        keyed=keyed,
        is_global=shared,
    )
    old = await hello("beta", 1, back)
    a = await hello("alpha", 2, orders, table)
    b = await hello("beta", 3, back)
    other = await hello("alpha", 4, orders, table) if shared else None
    await old.write_record(Bye)
    return old, a, b, other


async def _cut_other(stage: Stage, a: Sender, other: Sender) -> None:
    """The second writer of a global table, which has no inputs; its event writes in white behind a red one of `a`."""
    place = stage.tp("balances", 1)
    a.send(place, b'"w"', b"7", epoch=stage.epoch)
    end = other.send(place, b'"v"', b"8") + 1
    await other.write_record(
        Report,
        epoch=stage.epoch,
        previous=0,
        heard="ledger",
        assigned=-1,
        positions=(),
        sent=tuple(other.ends.values()),
        changelogs=(ChangelogEnd(table="balances", topic=place.topic, partition=1, end=end),),
    )


async def _relay(stage: Stage, ids: dict[str, str], kind: str) -> Sender | None:
    """The process that passes records of `side` on; one that is refused has an id that is no `Hello` here."""
    if not kind:
        return None
    side = stage.topic("side")
    if kind == "refused":
        return Sender(stage, await stage.append(Pause(n=99, paused=False)), "relay")
    source = InputTopic(topic=side, partitions=2, topic_id=ids[side])
    return Sender(stage, await stage.append(Hello(n=77, app="relay", inputs=(source,))), "relay")


def _white(stage: Stage, old: Sender, a: Sender, b: Sender, acts: Acts) -> None:
    """What is sent before the cut. Offsets are in the order of the lines."""
    external = acts.external
    orders, back, balances = stage.tp("orders"), stage.tp("credits"), stage.tp("balances")
    client: Stage | Sender = stage if external else b
    client.send(orders, b"client", b'{"amount": 1}')  # orders 0: external, done
    b.send(orders, b'"x"', b'{"amount": 5}')  # orders 1: done
    b.send(orders, b'"x"', b'{"amount": 7}', more=[("trace", b"1"), ("trace", b"2")])  # 2: in flight
    client.send(orders, b"client", b'{"amount": 2}')  # orders 3: external
    old.send(orders, None, b"left behind")  # orders 4: of a process that left, no JSON, no key: in flight
    b.send(orders, b"\xff\xfe", b"\x80\x81")  # orders 5: no text at all, in flight
    b.send(orders, b'"y"', None)  # orders 6: no value, in flight; b's last white one
    copied = [("_sk", a.header(back, 0, 0))]
    if external:
        stage.send(orders, b"copied", b"header of another place", copied)  # orders 7: external
    else:
        b.send(orders, b"copied", b"header of another place", more=[*copied])

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


async def _cut(stage: Stage, a: Sender, b: Sender, acts: Acts, relay: Sender | None) -> None:
    orders, back, balances = stage.tp("orders"), stage.tp("credits"), stage.tp("balances")
    for sender, topic in ((a, "orders"), (b, "credits")):
        inputs = (stage.tp(topic, 0), stage.tp(topic, 1))
        await sender.write_record(Assigned, generation=1, inputs=inputs)
    seen = (("orders", 0, 8), ("orders", 1, 0), ("credits", 0, 3), ("credits", 1, 0))
    ends = tuple(
        LogEnd(topic=stage.topic(name), partition=partition, end=end) for name, partition, end in seen
    )
    scope = ("alpha", "beta") if relay is not None else ()
    trigger = Trigger(n=9, id=f"{stage.namespace}-snap", who="test", ends=ends, apps=scope)
    stage.epoch = await stage.append(trigger) + 1

    position = 2
    if relay is not None:
        passed_on = 0 if acts.relay == "cuts" else stage.epoch
        b.send(stage.tp("side"), b'"on"', b"{}", epoch=passed_on)
        position = relay.send(orders, b'"on"', b"{}") + 1
    if acts.relay == "cuts":
        assert relay is not None
        await relay.write_record(
            Report, epoch=stage.epoch, previous=0, heard="ledger", assigned=-1, positions=()
        )
    if acts.red_received:
        position = b.send(orders, b'"red"', b"{}", epoch=stage.epoch) + 1
    report_a = _at_cut(stage, a, "orders", {0: (position, ()), 1: (0, ())})
    marker = b.mark(orders)  # orders 8
    a.mark(back)  # credits 3
    a.mark(stage.tp("credits", 1))
    if not acts.calm:  # an event of a that ran at the cut writes once more in white, behind a red write
        a.send(balances, b'"x"', b"999", epoch=stage.epoch)  # balances 7: red
        a.send(balances, b'"late"', b"2")  # balances 8: white
    a.seqs[balances] += acts.lost
    report_b = _at_cut(stage, b, "credits", {0: (0, (1,)), 1: (1, ())})
    b.send(orders, b'"red"', b"{}", epoch=stage.epoch)  # orders 9: red
    a.send(back, b'"red"', b"{}", epoch=stage.epoch)  # credits 4: red
    a.send(balances, b'"red"', b"1", epoch=stage.epoch)  # balances 9: red

    await a.write_record(
        Report,
        **report_a,
        sent=tuple(a.ends.values()),
        changelogs=tuple(
            ChangelogEnd(table="balances", topic=balances.topic, partition=partition, end=end)
            for partition, end in ((0, 7 if acts.calm else 9), (1, acts.split + 5 * acts.shared + acts.bulk))
        ),
        recorded=(
            ChannelRange(sender=b.process, topic=orders.topic, partition=0, start=position, end=marker),
        ),
        cut_us=40,
    )
    await b.write_record(
        Report,
        **report_b,
        sent=tuple(b.ends.values()),
        cut_us=50,
    )


def play_on(stage: Stage, name: str, *, parent: str, written: Sequence[tuple[bytes, bytes | None]]) -> None:
    """The next snapshot, an incremental one. Alpha writes its table: `written` before its cut; then `x` in red, and
    once more in white `late`, both below the end of the changelog; then `red`, past it."""
    asyncio.run(_play_on(stage, name, parent, written))


async def _play_on(
    stage: Stage, name: str, parent: str, written: Sequence[tuple[bytes, bytes | None]]
) -> None:
    balances, (a, b), before = stage.tp("balances"), stage.players, stage.epoch
    await stage.ledger.open(create=False)
    admin = KafkaTopicAdmin(Connection(bootstrap=stage.bootstrap))
    try:
        for key, value in written:
            a.send(balances, key, value, epoch=before)
        for sender in stage.players:
            sender.ends = sender.ends | sender.reached  # what was red is white for the next one
        inputs = [stage.tp(topic, partition) for topic in ("orders", "credits") for partition in (0, 1)]
        ends = await admin.log_ends(inputs)
        trigger = Trigger(
            n=1000 + before,
            id=name,
            type="incremental",
            parent=parent,
            ends=tuple(LogEnd(topic=tp.topic, partition=tp.partition, end=ends[tp]) for tp in inputs),
        )
        stage.epoch = await stage.append(trigger) + 1
        reports = [
            _at_cut(stage, a, "orders", {0: (2, ()), 1: (0, ())}),
            _at_cut(stage, b, "credits", {0: (0, (1,)), 1: (1, ())}),
        ]
        a.send(balances, b'"x"', b"%d" % stage.epoch, epoch=stage.epoch)
        end = a.send(balances, b'"late"', b"3", epoch=before) + 1
        a.send(balances, b'"red"', b"%d" % stage.epoch, epoch=stage.epoch)
        for sender, report in zip(stage.players, reports, strict=True):
            changelogs = (
                ChangelogEnd(table="balances", topic=balances.topic, partition=partition, end=upto)
                for partition, upto in ((0, end), (1, a.seqs[stage.tp("balances", 1)]))
            )
            await sender.write_record(
                Report,
                **report,
                sent=tuple(sender.ends.values()),
                changelogs=tuple(changelogs) if sender is a else (),
            )
        stage.captured = stage.state.captured(stage.epoch)
    finally:
        await admin.close()
        await stage.ledger.close()


def _at_cut(
    stage: Stage, sender: Sender, topic: str, positions: dict[int, tuple[int, tuple[int, ...]]]
) -> dict[str, Any]:
    """The fields of a report that are those of the cut."""
    return {
        "epoch": stage.epoch,
        "previous": stage.epoch - 1,
        "heard": "ledger",
        "assigned": stage.state.processes[sender.process].assigned,
        "positions": tuple(
            Position(
                agent=f"{sender.app}.agent",
                topic=stage.topic(topic),
                partition=partition,
                offset=offset,
                started_above=above,
            )
            for partition, (offset, above) in positions.items()
        ),
    }
