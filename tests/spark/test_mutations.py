"""Damage on real topics, twenty cases of each kind: found by the right check, at the right offset. And two hundred runs
in which nothing went wrong, on the same broker: none of them is accused.

Each case is a small history (`small_logs`) in partitions of its own. What lies in them is written as it would be,
headers and all, with real transactions where offsets are missing; Spark looks at all of them in one go.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from snapkafka.assembly import cluster, read_ranges, stamped, stamps
from snapkafka.assembly.spark.verify import rules
from snapkafka.checks import KINDS, Finding, LogRecord, Weight, bounds_findings, in_flight, reading_ranges
from snapkafka.checks.view import received
from snapkafka.demo import wait_until
from snapkafka.kafka import Connection, KafkaTopicAdmin
from snapkafka.protocol import TopicPartition
from snapkafka.testing import Broker
from snapkafka.wire import headers as wire

from .in_spark import frames, suspected, what_is_found
from .small_logs import EPOCH, World, captured, history, together

pytestmark = pytest.mark.nightly

CASES = 20
HEALTHY = 200
LEDGER = 0xABCD
#: Of each topic. So many make no broker tired at once.
PARTITIONS = 60


@dataclass
class Case:
    """A history, and what was done to it: `check` has to find it at `place`."""

    world: World
    kind: str = ""
    check: str = ""
    place: tuple[str, int, int] = ("", 0, 0)
    delete_before: tuple[TopicPartition, int] | None = None


Damage = Callable[[random.Random, Case], bool]
White = Callable[[Case], list[LogRecord]]


# -- Kinds of damage: each says whether this history has room for it -------------------------------------------------


def white_of_inputs(case: Case) -> list[LogRecord]:
    """White records of inputs, all of whose seqs have to be there; in the order of the log."""
    return _white(case, {(source.topic, source.partition) for source in case.world.inputs})


def white_of_changelogs(case: Case) -> list[LogRecord]:
    """The same of changelogs, which only their own process writes."""
    return _white(case, {(cut.topic, cut.partition) for cut in case.world.changelogs})


def _white(case: Case, places: set[tuple[str, int]]) -> list[LogRecord]:
    living = {cut.process for cut in case.world.processes if not cut.left}
    return [
        r
        for r in case.world.records
        if r.process in living and r.epoch < EPOCH and not r.marker and r[:2] in places
    ]


def next_of(record: LogRecord, records: list[LogRecord]) -> LogRecord | None:
    """The next one of the same process in the same partition."""
    later = [r for r in records if r[:2] == record[:2] and r.process == record.process]
    return next((r for r in later if r.seq > record.seq), None)


def drop(rng: random.Random, case: Case, white: White) -> bool:
    """A record that its sender counted never came; no offset is missing for it."""
    room = [
        (r, after)
        for r in white(case)
        if (after := next_of(r, white(case))) is not None
        and (before := _before(case, r)) is not None
        and (white is white_of_inputs or _without_holes(case, before, after))
    ]
    if not room:
        return False
    lost, after = rng.choice(room)
    _renumber(case, lost)
    case.check, case.place = "V1", after[:3]
    return True


def _before(case: Case, record: LogRecord) -> LogRecord | None:
    """The one before it. A gap before the first one of a process cannot be seen."""
    earlier = [
        r
        for r in case.world.records
        if r[:2] == record[:2] and r.process == record.process and r.seq < record.seq
    ]
    return max(earlier, key=lambda r: r.seq, default=None)


def _without_holes(case: Case, before: LogRecord, after: LogRecord) -> bool:
    """Where an offset is missing in a changelog, compaction may have taken what is."""
    between = [r for r in case.world.records if r.tp == after.tp and before.offset < r.offset <= after.offset]
    return len(between) == after.offset - before.offset


def _renumber(case: Case, lost: LogRecord) -> None:
    """Its place is taken by the record of a stranger: every offset stays where it is."""
    case.world.records = [
        r._replace(process=-1, epoch=0, seq=-1, cause=None) if r is lost else r for r in case.world.records
    ]


def send_late(rng: random.Random, case: Case, white: White) -> bool:
    """A white record is sent when its sender had closed. (With the seq of an earlier one it would be a copy.)"""
    room = [r for r in white(case) if next_of(r, white(case)) is None]
    if not room:
        return False
    last = rng.choice(room)
    end = case.world.bounds[last.tp].end
    case.world.records.append(last._replace(offset=end, seq=last.seq + 1, cause=None))
    case.world.bounds[last.tp] = replace(case.world.bounds[last.tp], end=end + 1)
    case.check, case.place = "V1", (*last.tp, end)
    return True


def reorder(rng: random.Random, case: Case, white: White) -> bool:
    """Two records of one sender change places. (A seq below that of its first record would be that of a copy.)"""
    room = [
        (r, after)
        for r in white(case)
        if (after := next_of(r, white(case))) is not None and _before(case, r) is not None
    ]
    if not room:
        return False
    one, other = rng.choice(room)
    swapped = {one: one._replace(seq=other.seq), other: other._replace(seq=one.seq)}
    case.world.records = [swapped.get(r, r) for r in case.world.records]
    case.check, case.place = "V1", other[:3]
    return True


def recolour(rng: random.Random, case: Case) -> bool:
    """A record that somebody had received turns out to be red."""
    room = [
        r
        for r in white_of_inputs(case)
        if any(received(s, r.offset) for s in case.world.inputs if (s.topic, s.partition) == r.tp)
    ]
    if not room:
        return False
    red = rng.choice(room)
    case.world.records = [r._replace(epoch=EPOCH, cause=None) if r is red else r for r in case.world.records]
    case.check, case.place = "V2", red[:3]
    return True


def forge_marker(rng: random.Random, case: Case) -> bool:
    """A marker that its sender never sent: the receiver closed the channel at it, and white records came after."""
    room = []
    for item in case.world.recorded:
        after = [
            r
            for r in white_of_inputs(case)
            if r.tp == (item.topic, item.partition)
            and r.process == item.sender
            and item.start < r.offset < item.end
        ]
        externals = [
            r
            for r in case.world.records
            if after and r.tp == after[0].tp and r.process < 0 and item.start <= r.offset < after[-1].offset
        ]
        room += [(item, external, after) for external in externals]
    if not room:
        return False
    item, external, after = rng.choice(room)
    white = next(r for r in after if r.offset > external.offset)
    forged = external._replace(process=item.sender, epoch=EPOCH, seq=white.seq, marker=True)
    case.world.records = [forged if r is external else r for r in case.world.records]
    shorter = replace(item, end=external.offset)
    case.world.recorded = [shorter if one is item else one for one in case.world.recorded]
    case.check, case.place = "V4", white[:3]
    return True


def trim(rng: random.Random, case: Case) -> bool:
    """The first record that was in flight is deleted."""
    room = [
        source
        for source in case.world.inputs
        if any(
            in_flight(source, r.offset) and r.tp == (source.topic, source.partition)
            for r in white_of_inputs(case)
        )
    ]
    if not room:
        return False
    source = rng.choice(room)
    tp = TopicPartition(source.topic, source.partition)
    case.delete_before = (tp, source.position + 1)
    case.check, case.place = "V4", (*tp, source.position)
    return True


def an_older_topic(rng: random.Random, case: Case) -> bool:
    """A topic of that name, but not that one: a copy that was made before."""
    source = rng.choice(case.world.inputs)
    tp = TopicPartition(source.topic, source.partition)
    case.world.inputs = [replace(s, topic_id="00" * 16) if s is source else s for s in case.world.inputs]
    case.check, case.place = "V4", (*tp, 0)
    return True


def recolour_last_of_state(rng: random.Random, case: Case) -> bool:
    """The last change of a table turns out to be red: nothing white supersedes what its place should hold."""
    room = [r for r in white_of_changelogs(case) if next_of(r, white_of_changelogs(case)) is None]
    if not room:
        return False
    (red,) = room
    case.world.records = [r._replace(epoch=EPOCH, cause=None) if r is red else r for r in case.world.records]
    case.check, case.place = "V3", red[:3]
    return True


def recolour_effect(rng: random.Random, case: Case) -> bool:
    """What an event did that counts as done turns out to be red: a record, or a change of a table."""
    steady = {(s.topic, s.partition): s for s in case.world.inputs if s.steady}
    room = [
        r
        for r in white_of_inputs(case) + white_of_changelogs(case)
        if r.cause is not None
        and (source := steady.get(r.cause[0])) is not None
        and source.receiver == r.process
        and not in_flight(source, r.cause[1])
    ]
    if not room:
        return False
    red = rng.choice(room)
    case.world.records = [r._replace(epoch=EPOCH) if r is red else r for r in case.world.records]
    case.check, case.place = "V5", red[:3]
    return True


def trim_state(rng: random.Random, case: Case) -> bool:
    """The first changes of a table are deleted."""
    (cut,) = case.world.changelogs
    if cut.end < 2:
        return False
    start = rng.randint(1, cut.end - 1)
    case.delete_before = (TopicPartition(cut.topic, cut.partition), start)
    case.check, case.place = "V3", (cut.topic, cut.partition, start)
    return True


def an_older_changelog(rng: random.Random, case: Case) -> bool:
    """A changelog of that name, but not that one."""
    (cut,) = case.world.changelogs
    case.world.changelogs = [replace(cut, topic_id="00" * 16)]
    case.check, case.place = "V3", (cut.topic, cut.partition, 0)
    return True


KINDS_OF_DAMAGE: Mapping[str, Damage] = {
    **{
        f"{damage.__name__} in {where}": partial(damage, white=white)
        for damage in (drop, send_late, reorder)
        for where, white in (("an input", white_of_inputs), ("a changelog", white_of_changelogs))
    },
    **{
        damage.__name__: damage
        for damage in (
            recolour,
            recolour_effect,
            recolour_last_of_state,
            forge_marker,
            trim,
            trim_state,
            an_older_topic,
            an_older_changelog,
        )
    },
}


def case_of(rng: random.Random, n: int, kind: str = "") -> Case:
    """A history all of which is read."""
    world = history(rng, n)
    world.inputs = [replace(source, low=0) for source in world.inputs]
    return Case(world, kind=kind)


def cases(seed: int) -> list[Case]:
    """Healthy ones, and of each kind as many as are asked for; every one with processes and topics of its own."""
    rng = random.Random(seed)
    found = [case_of(rng, n) for n in range(1, HEALTHY + 1)]
    n = HEALTHY
    for kind, damage in KINDS_OF_DAMAGE.items():
        made = 0
        while made < CASES:
            case = case_of(rng, n + 1, kind)
            if damage(rng, case):
                n, made = n + 1, made + 1
                found.append(case)
    return found


# -- Writing them ----------------------------------------------------------------------------------------------------


def moved(case: Case, where: Mapping[TopicPartition, TopicPartition], ids: Mapping[str, str]) -> Case:
    """The same case in other partitions."""

    def to(topic: str, partition: int) -> dict[str, Any]:
        return where[TopicPartition(topic, partition)]._asdict()

    world = case.world
    inputs = [
        replace(
            s,
            **to(s.topic, s.partition),
            topic_id=s.topic_id or ids[where[TopicPartition(s.topic, s.partition)].topic],
            agents=tuple(replace(a, **to(a.topic, a.partition)) for a in s.agents),
        )
        for s in world.inputs
    ]
    records = [
        r._replace(**to(r.topic, r.partition), cause=(where[r.cause[0]], r.cause[1]) if r.cause else None)
        for r in world.records
    ]
    there = World(
        records=records,
        bounds={where[tp]: bounds for tp, bounds in world.bounds.items()},
        processes=world.processes,
        inputs=inputs,
        senders=[replace(e, **to(e.topic, e.partition)) for e in world.senders],
        changelogs=[
            replace(
                c,
                **to(c.topic, c.partition),
                topic_id=c.topic_id or ids[where[TopicPartition(c.topic, c.partition)].topic],
            )
            for c in world.changelogs
        ],
        recorded=[replace(r, **to(r.topic, r.partition)) for r in world.recorded],
    )
    deleted = case.delete_before and (where[case.delete_before[0]], case.delete_before[1])
    place = (*where[TopicPartition(*case.place[:2])], case.place[2]) if case.kind else case.place
    return replace(case, world=there, place=place, delete_before=deleted)


def header_of(record: LogRecord) -> list[tuple[str, bytes]]:
    said = LEDGER, wire.tp_check(*record.tp), record.epoch, record.process, record.seq
    if record.process < 0:
        return []
    if record.marker:
        return [(wire.HEADER, wire.marker(*said, 0))]
    if record.cause is None:
        return [(wire.HEADER, wire.stamp(*said))]
    (topic, partition), offset = record.cause
    return [(wire.HEADER, wire.stamp_with_cause(*said, wire.topic_check(topic), partition, offset))]


def write(bootstrap: str, records: Iterable[LogRecord]) -> int:
    """Append them at just these offsets, the n-th of every partition at once; how many transactions that took.

    Where the next offset is to be missing a record is sent in a transaction of its own partition's round: its end
    takes that offset.
    """
    log: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
    for record in sorted(records, key=lambda r: r[:3]):
        log[record.tp].append(record)
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "log_level": 0})
    tx = Producer({"bootstrap.servers": bootstrap, "transactional.id": "mutations", "log_level": 0})
    tx.init_transactions(20)
    ends = Consumer({"bootstrap.servers": bootstrap, "group.id": "mutations", "log_level": 0})
    transactions = 0
    wrong: list[str] = []

    def landed(record: LogRecord) -> Callable[[object, object], None]:
        def check(error: object, message: object) -> None:
            if error is not None or message.offset() != record.offset:  # type: ignore[attr-defined]
                wrong.append(f"{record} came to lie at {error or message.offset()}")  # type: ignore[attr-defined]

        return check

    for nth in range(max(map(len, log.values()))):
        of_round = [lines[nth : nth + 2] for lines in log.values() if nth < len(lines)]
        before_holes = [line for line, *after in of_round if after and after[0].offset == line.offset + 2]
        if before_holes:
            tx.begin_transaction()
            transactions += 1
        for line, *_ in of_round:
            producer = tx if line in before_holes else plain
            key = wire.marker_key(line.process) if line.marker else b"%d" % (line.seq % 3)
            value = None if line.marker or line.seq % 7 == 3 else b"{}"
            producer.produce(
                line.topic, value, key, line.partition, headers=header_of(line), on_delivery=landed(line)
            )
        assert plain.flush(30) == 0
        if before_holes:
            tx.commit_transaction(30)
            for line in before_holes:
                _await_end(ends, line)
    ends.close()
    assert not wrong, wrong[:3]
    return transactions


def _await_end(ends: Consumer, line: LogRecord) -> None:
    """The coordinator writes the ends of transactions by and by."""
    tp = KafkaPartition(*line.tp)
    wait_until(
        f"the end of the transaction behind {line}",
        lambda: ends.get_watermark_offsets(tp, timeout=10)[1] == line.offset + 2,
        timeout_s=30,
        period_s=0.01,
    )


# -- Looking ---------------------------------------------------------------------------------------------------------


@dataclass
class Examined:
    cases: list[Case]
    by_place: dict[TopicPartition, list[Finding]]
    transactions: int

    def of(self, case: Case) -> list[Finding]:
        return [finding for tp in case.world.bounds for finding in self.by_place.get(tp, ())]


@pytest.fixture(scope="module")
def examined(kafka: Broker, spark: SparkSession, namespace: str) -> Examined:
    return asyncio.run(look(kafka.bootstrap, spark, namespace))


@pytest.fixture(scope="module")
def namespace() -> str:
    return f"m{random.randrange(10**9)}"


async def look(bootstrap: str, spark: SparkSession, namespace: str) -> Examined:
    seed = random.randrange(10**9)
    print(f"{seed=}")  # what fails can be had again
    made = cases(seed)
    where: dict[TopicPartition, TopicPartition] = {}
    counts: Counter[str] = Counter()
    for tp in (tp for case in made for tp in case.world.bounds):
        kind = "in" if tp.topic.startswith("in") else "table"
        nth, partition = divmod(counts[kind], PARTITIONS)
        where[tp] = TopicPartition(f"{namespace}-{kind}-{nth}", partition)
        counts[kind] += 1
    connection = Connection(bootstrap=bootstrap)
    admin = KafkaTopicAdmin(connection)
    topics = {tp.topic for tp in where.values()}
    for topic in topics:
        settings = {"cleanup.policy": "compact,delete"} if "-table-" in topic else {}
        await admin.create_topic(topic, partitions=PARTITIONS, settings=settings)
    ids = {name: topic.topic_id for name, topic in (await admin.describe_topics(topics)).items()}
    await admin.close()
    there = [moved(case, where, ids) for case in made]
    whole = together([case.world for case in there])
    transactions = write(bootstrap, whole.records)
    _delete(bootstrap, [case.delete_before for case in there if case.delete_before])

    view = await cluster.ask_once(
        connection,
        lambda admin: cluster.look(admin, captured(whole), isolation="read_committed", triggered_ms=1),
    )
    read = reading_ranges(view)
    source = read_ranges(spark, read, bootstrap=bootstrap, isolation="read_committed")
    seen = stamps(stamped(source, ledger_id=LEDGER)).persist()
    log = frames(spark, view, seen, read=read)
    look = rules.look_at(log)
    of_state = {kind for kind, it in KINDS.items() if it.check == "V3"}
    found = [
        *bounds_findings(view)[0],
        *what_is_found(log, look, kinds=suspected(look) | of_state).elements(),
    ]
    seen.unpersist()
    by_place = defaultdict(list)
    for finding in found:
        by_place[TopicPartition(finding.topic, finding.partition)].append(finding)
    return Examined(there, by_place, transactions)


def _delete(bootstrap: str, places: list[tuple[TopicPartition, int]]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for done in admin.delete_records([KafkaPartition(*tp, offset) for tp, offset in places]).values():
        done.result()


@pytest.mark.parametrize("kind", KINDS_OF_DAMAGE)
def test_found_by_the_right_check_at_the_right_offset(examined: Examined, kind: str) -> None:
    of_kind = [case for case in examined.cases if case.kind == kind]
    assert len(of_kind) == CASES
    for case in of_kind:
        found = examined.of(case)
        places = [
            f[1:4]
            for f in found
            if KINDS[f.kind].check == case.check and KINDS[f.kind].weight is not Weight.NOTE
        ]
        assert case.place in places, (case.kind, case.place, found)


def test_what_was_not_damaged_is_not_accused(examined: Examined) -> None:
    healthy = [case for case in examined.cases if not case.kind]
    assert len(healthy) == HEALTHY
    assert examined.transactions > 5, "no transaction: no offset was missing"
    accused = [f for case in healthy for f in examined.of(case) if KINDS[f.kind].weight is Weight.FAILS]
    assert accused == []
