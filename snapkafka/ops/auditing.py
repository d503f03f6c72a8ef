"""`audit`: the tables of the workers, compared with their changelogs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from snapkafka.assembly.invariants import MAIN
from snapkafka.assembly.spec import JobSpec, changed
from snapkafka.errors import BadInputError, LedgerUnusableError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.reading import find_captured, find_snapshot, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.kafka.records.read import records_to_end
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition
from snapkafka.query.engine import Placed, engine, in_thread
from snapkafka.store import read_manifest
from snapkafka.until import Tries
from snapkafka.verbs import Result
from snapkafka.wire.audit import TOPIC, Audited, read

from .assembling import BESIDE_US, assemble
from .audit_comparison import (
    Answer,
    AuditedPartition,
    AuditFinding,
    Comparison,
    StateRow,
    all_same,
    asked,
    audited_processes,
)
from .snapshots import CaptureProgress, trigger

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What the topic is created with: its messages are read within minutes.
TOPIC_SETTINGS: Final = {"cleanup.policy": "delete", "retention.ms": "21600000", "segment.ms": "3600000"}
#: How often the topic is read for answers.
LOOK_EVERY_S: Final = 0.5
ROWS_AT_ONCE: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedWorker:
    """The audit of one worker: see `wire.audit.Audited`."""

    app: str
    process: int
    reason: str
    pause_us: int


class AuditReport(Result, frozen=True, kw_only=True):
    """The result of an audit. `same`: there are tables, all were audited, and nothing differs."""

    snapshot: str
    epoch: int
    verdict: str
    same: bool
    partitions: tuple[AuditedPartition, ...]
    findings: tuple[AuditFinding, ...]
    workers: tuple[AuditedWorker, ...]
    seconds: float


async def audit(
    where: Connection,
    spec: JobSpec,
    *,
    snapshot: str = "",
    apps: Collection[str] = (),
    who: str = "",
    ttl_ms: int = 5_000,
    within_s: float = 300.0,
    capturing: Callable[[CaptureProgress], None] | None = None,
    notify: Callable[[str], None] | None = None,
    progress: Callable[[str], None] | None = None,
) -> AuditReport:
    """Compare the tables of the workers with the assembled state, key by key, as both were at one cut.

    Args:
        spec: how the snapshot is assembled; namespace and storage.
        snapshot: one that was triggered for an audit, lately; empty: a new one is triggered.
        within_s: a worker that has not answered by then counts as not audited.
    """
    started = time.monotonic()
    BESIDE_US.require_engine(spec)
    if not snapshot:
        async with KafkaTopicAdmin(where) as admin:
            await admin.create_topic(TOPIC + spec.namespace, settings=TOPIC_SETTINGS)
        options: dict[str, Any] = {"ttl_ms": ttl_ms, "apps": apps, "wait": True, "audit": True}
        options |= {"storage": spec.storage, "who": who, "progress": capturing}
        snapshot = (await trigger(where, spec.namespace, **options)).id
    async with opened(where, spec.namespace) as work:
        if not find_snapshot(work.reading.state, snapshot).trigger.audit:
            raise BadInputError(
                f"snapshot {snapshot} was not triggered for an audit",
                hint="without a snapshot `snapkafka audit` triggers one",
            )
        captured = find_captured(work.reading.state, snapshot)
        answers = asked(captured, work.reading.state)
    (result,) = await assemble(
        where, changed(spec, snapshots=(captured.id,)), notify=notify, progress=progress
    )
    await _read_answers(where, TOPIC + spec.namespace, answers, captured.epoch, within_s)
    comparison = Comparison(captured, answers)
    with engine({MAIN: Placed(*read_manifest(result.manifest))}) as database:
        await in_thread(database, lambda: comparison.take(_state(database)))
    partitions, findings = comparison.finish(await _written(where, comparison.tails()))
    return AuditReport(
        snapshot=captured.id,
        epoch=captured.epoch,
        verdict=result.verdict,
        same=all_same(partitions, findings),
        partitions=tuple(partitions),
        findings=tuple(findings),
        workers=tuple(_workers(captured, answers)),
        seconds=round(time.monotonic() - started, 3),
    )


async def _read_answers(
    where: Connection, topic: str, answers: dict[int, Answer], epoch: int, within_s: float
) -> None:
    """Read what the processes of a snapshot send, until each has ended."""
    place = TopicPartition(topic, 0)
    position = 0
    async for _ in Tries(within_s, every_s=LOOK_EVERY_S):
        try:
            async for _, record in records_to_end(where, {place: position}, "read what workers sent to"):
                position = record.offset + 1
                message = read(record.value or b"", epoch)
                if message is not None and message.process in answers:
                    answers[message.process].take(message)
        except LedgerUnusableError as error:
            raise BadInputError(
                f"what the workers sent cannot be read: {error.message}",
                hint=f"an audit needs topic {topic}, which `snapkafka audit` creates",
            ) from error
        if all(answer.ended is not None for answer in answers.values()):
            break


def _state(database: DuckDBPyConnection) -> Iterator[StateRow]:
    rows = database.execute(
        "SELECT changelog_topic, partition, changelog_offset, key_raw, value_raw FROM state "
        "WHERE key_raw IS NOT NULL AND value_raw IS NOT NULL"
    )
    while some := rows.fetchmany(ROWS_AT_ONCE):
        yield from (StateRow(*row) for row in some)


async def _written(
    where: Connection, tails: Mapping[TopicPartition, tuple[int, int]]
) -> dict[str, list[bytes]]:
    """Read the keys of the records in these ranges, by topic."""
    found: dict[str, list[bytes]] = {}
    starts = {tp: start for tp, (start, _) in tails.items()}
    async for tp, record in records_to_end(where, starts, "read changelog"):
        if record.offset < tails[tp][1] and record.key is not None:
            found.setdefault(tp.topic, []).append(record.key)
    return found


def _workers(captured: Captured, answers: dict[int, Answer]) -> Iterator[AuditedWorker]:
    apps = audited_processes(captured)
    for process, answer in sorted(answers.items()):
        silent = Audited(epoch=captured.epoch, process=process, reason="it has not answered")
        of = answer.ended or silent
        yield AuditedWorker(app=apps[process], process=process, reason=of.reason, pause_us=of.pause_us)
