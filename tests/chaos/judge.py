"""The log as it is after a storm, and whether it bears out each snapshot: V1, V2, V4 and V5 on every record."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPartition

from snapkafka.checks import CutView, LogBounds, LogRecord, Verdict, decide, outcome
from snapkafka.checks.log_checks import left_late, v1, v2, v4, v5
from snapkafka.protocol.records import TopicPartition
from snapkafka.wire import headers as wire

if TYPE_CHECKING:
    from tests.e2e.parts import Live

__all__ = ["Log", "read_log", "verdict_of"]

CHECKS: Final = {"V1": (v1, left_late), "V2": (v2,), "V4": (v4,), "V5": (v5,)}


class Log:
    """Every record of some topics, by partition, and the bounds of each."""

    def __init__(self) -> None:
        self.records: dict[TopicPartition, list[LogRecord]] = defaultdict(list)
        self.bounds: dict[TopicPartition, LogBounds] = {}


async def read_log(bootstrap: str, topics: set[str], ledger_id: int) -> Log:
    """From the start to the end as it is now."""
    log = Log()
    by_check = {wire.topic_check(topic): topic for topic in topics}
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    await consumer.start()
    try:
        partitions = [
            KafkaPartition(topic, partition)
            for topic in sorted(topics)
            for partition in sorted(await _partitions(consumer, topic))
        ]
        consumer.assign(partitions)
        starts, ends = await consumer.beginning_offsets(partitions), await consumer.end_offsets(partitions)
        await consumer.seek_to_beginning(*partitions)
        for tp in partitions:
            log.bounds[TopicPartition(*tp)] = LogBounds(start=starts[tp], end=ends[tp])
        while any([await consumer.position(tp) < ends[tp] for tp in partitions]):
            for tp, batch in (await consumer.getmany(timeout_ms=500)).items():
                place = TopicPartition(*tp)
                log.records[place] += [_record(place, got, ledger_id, by_check) for got in batch]
    finally:
        await consumer.stop()
    return log


async def _partitions(consumer: AIOKafkaConsumer, topic: str) -> set[int]:
    await consumer._client.add_topic(topic)
    return set(consumer.partitions_for_topic(topic) or ())


def _record(tp: TopicPartition, got: object, ledger_id: int, by_check: dict[int, str]) -> LogRecord:
    offset, raw = got.offset, wire.find(list(got.headers))  # type: ignore[attr-defined]
    said = wire.read(raw, ledger_id, wire.tp_check(*tp)) if raw is not None else None
    if said is None:
        return LogRecord(*tp, offset)
    cause = None
    if said.cause is not None and said.cause[0] in by_check:
        cause = (TopicPartition(by_check[said.cause[0]], said.cause[1]), said.cause[2])
    return LogRecord(*tp, offset, said.process, said.epoch, said.seq, said.marker, cause)


def topics_of(live: Live) -> set[str]:
    """Every input and changelog that a process has named."""
    hellos = [view.hello for view in live.observer.state.processes.values()]
    return {source.topic for hello in hellos for source in hello.inputs} | {
        table.changelog for hello in hellos for table in hello.tables
    }


def verdict_of(live: Live, log: Log, epoch: int) -> tuple[Verdict, Counter[str]]:
    """The verdict, and what was found, by kind."""
    captured = live.observer.state.captured(epoch)
    view = CutView(captured, log.bounds)
    records = [record for tp in {*view.inputs, *view.changelogs} for record in log.records[tp]]
    findings = [finding for checks in CHECKS.values() for check in checks for finding in check(view, records)]
    counts = Counter(finding.kind for finding in findings)
    outcomes = [outcome(name, findings, counts) for name in CHECKS]
    verdict = decide(
        outcomes, replays=captured.replays + counts["replayed"], contaminated=captured.contaminated
    )
    return verdict, counts
