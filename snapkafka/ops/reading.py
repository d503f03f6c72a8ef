"""`query`: run SQL on the tables of assembled snapshots, by DuckDB, without broker or Spark. `trace`: follow the causes
of a message through the log, from header to header.

Each record of an instrumented process names the event that caused it (topic, partition, offset), so the chain of
causes of one message can be read back as far as the log holds it, one record at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from snapkafka.assembly.invariants import MAIN
from snapkafka.errors import BadInputError
from snapkafka.kafka.ledger.reading import LATEST, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster, TopicAdmin
from snapkafka.protocol import LedgerState, TopicPartition
from snapkafka.query.engine import Bounds
from snapkafka.query.locate import manifest_places
from snapkafka.query.manifest_check import Trust
from snapkafka.query.sandbox import Asked, Tables, ask
from snapkafka.runtime.extras import require_extra
from snapkafka.verbs import Result
from snapkafka.wire import headers


class Queried(Result, frozen=True, kw_only=True):
    """The result of a query, in values that JSON has: bytes as hex digits, times as ISO 8601, in UTC.

    `id`, `epoch`, `verdict` are those of the snapshot whose tables need no schema. `more`: there are more `rows`.
    `trust`: the integrity checks before the tables were read.
    """

    id: str
    epoch: int
    verdict: str
    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    more: bool
    trust: Trust


async def query(
    where: Connection | Cluster | None,
    namespace: str,
    sql: str,
    *,
    name: str = LATEST,
    manifest: str = "",
    storage: str = "",
    rows_max: int | None = None,
    bounds: Bounds | None = None,
    tables: Tables | None = None,
) -> Queried:
    """Run a SELECT. The tables of the snapshot are views `state`, `messages` and so on; those of every other one in
    the same storage are available with its id as a schema: `"friday".state`. `all_state` and `all_messages` have the
    rows of all of them.

    Args:
        rows_max: the limit of rows; None: all.
        tables: stay open for the next query.

    Raises:
        TimedOutError: it ran longer than `bounds` allow.
    """
    require_extra("query", "a query")
    place = manifest
    if not place:
        (place,) = await manifest_places(where, namespace, [name], storage=storage, good=True)
    asked = Asked(places={MAIN: place}, sqls=(sql,), bounds=bounds, rows_max=rows_max)
    done = await ask(asked, where, tables)
    found, rows = done.manifests[0], done.answers[0].mappings()
    return Queried(
        id=found.id,
        epoch=found.epoch,
        verdict=found.verdict,
        columns=done.answers[0].columns,
        rows=tuple(rows[:rows_max]),
        more=rows_max is not None and len(rows) > rows_max,
        trust=done.trust,
    )


#: A chain is as long as its messages went through services; longer ones are loops.
STEPS_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceStep:
    """A record of the chain. `process`, `app`: its sender; -1 and empty for an external one. `epoch`: the colour of
    its event; `after`: the id of the snapshot of that epoch, empty before the first."""

    topic: str
    partition: int
    offset: int
    process: int = -1
    app: str = ""
    seq: int = -1
    epoch: int = 0
    after: str = ""
    marker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The chain, from the message back to its first known cause. `end`: why it ends there, a sentence."""

    steps: tuple[TraceStep, ...]
    end: str


async def trace(
    where: Connection | Cluster, namespace: str, topic: str, partition: int, offset: int
) -> Trace:
    """Follow the causes of the record at `offset` of `topic`[`partition`]."""
    if partition < 0 or offset < 0:
        raise BadInputError(f"partition and offset must be 0 or more: got {partition}, {offset}")
    async with opened(where, namespace) as work:
        described = await work.admin.describe_topics()
        if topic not in described or partition >= described[topic].partitions:
            raise BadInputError(f"there is no partition {partition} of topic {topic}", hint="check the name")
        own = (await work.admin.describe_topics([work.ledger.topic]))[work.ledger.topic]
        ledger_id = headers.ledger_id(bytes.fromhex(own.topic_id))
        known = headers.topics_by_check({*described})
        tp, steps = TopicPartition(topic, partition), list[TraceStep]()
        while True:
            stamp, why = await _stamp(work.admin, ledger_id, tp, offset)
            if why:
                end = f"the record of its cause cannot be read: {why}" if steps else why
                break
            steps.append(_step(work.reading.state, tp, offset, stamp))
            if stamp is None:
                end = "the last record is external: no service with snapkafka sent it"
            elif stamp.marker:
                end = "the last record is a marker: it has no cause"
            elif stamp.cause is None:
                end = "the last record was sent outside any event, or without a cause"
            elif stamp.cause[0] not in known:
                end = "the topic of its cause is unknown: deleted, or its name is not unique"
            elif len(steps) >= STEPS_MAX:
                end = f"more than {STEPS_MAX} causes follow"
            else:
                check, partition, offset = stamp.cause
                tp = TopicPartition(known[check], partition)
                continue
            break
        return Trace(steps=tuple(steps), end=end)


async def _stamp(
    admin: TopicAdmin, ledger_id: int, tp: TopicPartition, offset: int
) -> tuple[headers.Stamp | None, str]:
    """Return the stamp of a record, None if it is external; and why there is no record, empty if there is one."""
    ends = await admin.log_ends([tp])
    start, end = (await admin.log_starts([tp])).get(tp, 0), ends.get(tp, 0)
    if tp not in ends:
        return None, f"{tp} does not exist: its topic was deleted"
    if offset < start:
        return None, f"offset {offset} of {tp} was deleted: the log begins at {start}"
    if offset >= end:
        return None, f"{tp} ends at {end}: there is no offset {offset}"
    pairs = (await admin.record_headers({tp: offset})).get(tp)
    if pairs is None:
        return None, f"there is no record at offset {offset} of {tp}: compacted, or the end of a transaction"
    header = headers.find(list(pairs))
    return None if header is None else headers.read(header, ledger_id, headers.tp_check(*tp)), ""


def _step(state: LedgerState, tp: TopicPartition, offset: int, stamp: headers.Stamp | None) -> TraceStep:
    if stamp is None:
        return TraceStep(topic=tp.topic, partition=tp.partition, offset=offset)
    view, snapshot = state.processes.get(stamp.process), state.snapshots.get(stamp.epoch)
    return TraceStep(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        process=stamp.process,
        app="" if view is None else view.hello.app,
        seq=stamp.seq,
        epoch=stamp.epoch,
        after="" if snapshot is None else snapshot.trigger.id,
        marker=stamp.marker,
    )
