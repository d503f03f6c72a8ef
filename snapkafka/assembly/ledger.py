"""The ledger's side of the job: it finds captured snapshots, and records their verdicts.

One event loop is kept for all of it, while Spark works in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import defaultdict
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from snapkafka.checks import CutView
from snapkafka.checks.kinds import OF_STATE
from snapkafka.checks.stopped_app import ran_since
from snapkafka.errors import SnapkafkaError
from snapkafka.kafka import Connection, KafkaLedger, KafkaTopicAdmin
from snapkafka.kafka.cluster.external_groups import external_readers
from snapkafka.kafka.cluster.groups import positions_group
from snapkafka.kafka.cluster.restorable import restorable
from snapkafka.kafka.ledger.reading import LedgerReading, find_captured, good, read_to_end
from snapkafka.manifest import (
    AppendedEntry,
    LedgerEntry,
    Manifest,
    OpenEntry,
    RestorableEntry,
    TopicEntry,
    dump,
)
from snapkafka.protocol import records
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import TopicPartition

from .cluster import look, look_at_topics, require_same_topics

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The facts that the cluster knows about a snapshot, for its manifest.

    `external_readers`: groups that read outputs (`kafka.cluster.external_groups`); they count where inputs hold
    external records. `restorable`: how long the log keeps what it needs. `topics`: as they are now.
    """

    external_readers: tuple[OpenEntry, ...] = ()
    restorable: RestorableEntry | None = None
    topics: tuple[TopicEntry, ...] = ()


class Desk:
    """The ledger of a namespace, read to its end when the block is entered.

    Raises:
        LedgerUnusableError, BrokerUnavailableError: it cannot be read.
    """

    def __init__(self, connection: Connection, namespace: str) -> None:
        self.connection = connection
        self.namespace = namespace
        self.reading = LedgerReading("")
        self._loop = asyncio.Runner()
        self._ledger = KafkaLedger(connection, namespace)
        self._admin = KafkaTopicAdmin(connection)

    def __enter__(self) -> Self:
        try:
            self._run(self._open())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        with self._loop:
            self._run(self._close())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        task = self._loop.get_loop().create_task(work)
        try:
            return self._loop.get_loop().run_until_complete(task)
        finally:
            task.cancel()  # a signal has stopped the loop

    def ledger(self, captured: Captured) -> LedgerEntry:
        """Return the entry about the ledger for the manifest of a snapshot."""
        known = {at: ms for at, ms in self.reading.times_ms.items() if ms > 0}
        reported = sorted({cut.report for cut in captured.processes} & known.keys())
        return LedgerEntry(
            topic=self._ledger.topic,
            topic_id=self._ledger.topic_id,
            triggered_ms=known.get(captured.epoch - 1, 0),
            appended=tuple(AppendedEntry(offset=at, at_ms=known[at]) for at in reported),
        )

    def captured(self, name: str) -> Captured:
        """Find a captured snapshot; see `kafka.ledger.view.find_captured`."""
        return find_captured(self.reading.state, name)

    def look(self, captured: Captured, isolation: str) -> CutView:
        """Return the snapshot with the present bounds of its log, and with what is known by now of apps that were
        stopped."""
        ran = self._run(ran_since(self._admin, self.reading.state, captured))
        captured = replace(captured, contaminated=captured.contaminated or ran)
        age_ms = self._run(self._broker_ms()) - self.ledger(captured).triggered_ms
        return self._run(look(self._admin, captured, isolation=isolation, age_ms=age_ms))

    def require_same_topics(self, view: CutView) -> None:
        """Refuse a log that is another one by now; see `cluster.require_same_topics`."""
        self._run(require_same_topics(self._admin, view))

    def facts(self, captured: Captured, sinks: Collection[str]) -> ClusterFacts:
        """Ask the cluster about a snapshot, as of now; see `kafka.cluster.external_groups` for `sinks`."""
        return self._run(self._facts(captured, sinks))

    def record(self, manifest: Manifest, where: str, *, sha256: str = "") -> None:
        """Append the `Verdict`.

        Args:
            where: the place of the manifest.
            sha256: of its bytes; empty: of the result of `dump`.
        """
        verdict = records.Verdict(
            n=random.getrandbits(63),
            epoch=manifest.epoch,
            verdict=manifest.verdict,
            checks=tuple(
                records.CheckResult(
                    name=check.name,
                    status=check.status,
                    found=check.found,
                    records=-1 if check.records is None else check.records,
                    remarks=tuple(note.what for note in check.notes if note.kind in OF_STATE),
                )
                for check in manifest.checks
                if check.run
            ),
            manifest=where,
            digest=manifest.content,
            manifest_sha256=sha256 or hashlib.sha256(dump(manifest).encode()).hexdigest(),
        )
        self._run(self._ledger.append(verdict))

    def commit(self, manifest: Manifest) -> str:
        """Commit the positions of a verified snapshot as consumer groups, one per app.

        This is a convenience: a missing right, or a group in use, does not make a snapshot worse.

        Returns:
            why it was not done; empty: it was.
        """
        snapshots = self.reading.state.snapshots.values()
        later = [view for view in snapshots if view.epoch > manifest.epoch and good(view)]
        if later:
            return f"a later snapshot, {later[-1].trigger.id}, has committed its own"
        positions: dict[str, dict[TopicPartition, int]] = defaultdict(dict)
        for source in manifest.captured.inputs:
            positions[source.app][TopicPartition(source.topic, source.partition)] = source.position
        try:
            for app, of_app in sorted(positions.items()):
                group = positions_group(self.namespace, app)
                self._run(self._admin.commit_positions(group, of_app, manifest.id))
        except SnapkafkaError as error:
            return error.message
        return ""

    async def _open(self) -> None:
        await self._ledger.open(create=False)
        self.reading = await read_to_end(self._ledger)

    async def _broker_ms(self) -> int:
        """Return the present time by the clock of the cuts' ages: when the broker appends a record.

        The record is a verdict of epoch 0, which no snapshot has: every reader skips it.
        """
        nothing = records.Verdict(n=random.getrandbits(63), epoch=0, verdict="")
        offset = await self._ledger.append(nothing)
        await self.reading.catch_up(self._ledger, offset + 1)
        return self.reading.times_ms[offset]

    async def _facts(self, captured: Captured, sinks: Collection[str]) -> ClusterFacts:
        try:
            return ClusterFacts(
                external_readers=await external_readers(self._admin, captured, sinks=sinks),
                restorable=await restorable(self._admin, captured, cut_ms=self.ledger(captured).triggered_ms),
                topics=await look_at_topics(self._admin, captured),
            )
        finally:
            await self._admin.close()  # a broker would: the engine works for minutes now

    async def _close(self) -> None:
        try:
            await self._admin.close()
        finally:
            await self._ledger.close()
