"""A restore in place: records are appended to the logs of a system, so that it continues from a snapshot.

It overwrites, it does not merge: the work of the apps since the cut loses its effect, but nothing is deleted, and
outputs that others have read cannot be undone. See docs/guide/restore.md.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from snapkafka.checks import ReadRange
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire.headers import ledger_id

from .channels import Channel, channels, holds_own
from .lost_inputs import lost_inputs, raise_begun, raise_lost
from .plan import Irrevocable, PartitionMove, Plan, irrevocable
from .positions import apps_of, changelogs_of, inputs_of, lowest_positions
from .refusals import refusals, replaced
from .stored_rows import carried_by, ranges_from, topics_of
from .target import Offsets, Target
from .target_facts import Refusal


@dataclass(slots=True, kw_only=True)
class InPlace(Target):
    """The system of the snapshot itself."""

    _again: Counter[tuple[str, TopicPartition]] = field(default_factory=Counter)
    _groups: dict[str, Mapping[TopicPartition, tuple[int, str]]] = field(default_factory=dict)

    # -- the plan ---------------------------------------------------------------------------------------------

    async def plan(self) -> Plan:
        session = self.session
        captured, unfinished = session.captured, session.state.restores.open
        same = unfinished is not None and self._is_of(unfinished)
        self._groups = {app: await session.admin.committed(app) for app in apps_of(captured)}
        lowest, starts, ends = await self._known()
        self._again.clear()
        found = await asyncio.to_thread(lambda: list(self._channels(lowest, starts, ends)))
        appends = {channel.tp: channel.records for channel in found}
        carried = carried_by(record for channel in found for record in channel.records)
        plan = self.base_plan(unfinished if same else None)
        if unfinished is not None and not same and replaced(captured, unfinished):
            note = f"replaces {unfinished}, which was not finished"
            plan = replace(plan, replaces=unfinished.plan, notes=(note,))
        facts = replace(
            await self.facts(topics_of(session.placed), self.contents(carried), new={}),
            lost=await self._lost(lowest, starts, ends),
            appending=found,
            known={
                tp: {record.offset for record in records}
                for tp, records in session.tables.unread(lowest_positions(captured)).items()
            },
            takes_external=self.takes_external,
            resumes=unfinished if same else None,
            replaces=plan.replaces,
        )
        return replace(
            plan,
            moves=tuple(self._moves(appends)),
            irrevocable=await self._irrevocable(),
            refusals=refusals(facts, force=session.request.force),
        )

    def _is_of(self, view: RestoreView) -> bool:
        """Return whether an open restore is that of this snapshot."""
        manifest, begun = self.session.manifest, view.begun
        return (manifest.id, manifest.epoch) == (begun.snapshot, begun.epoch) and not begun.origin

    async def _lost(self, lowest: Offsets, starts: Offsets, ends: Offsets) -> list[Refusal]:
        it = self.session
        return await asyncio.to_thread(
            lambda: list(lost_inputs(it.manifest, it.tables, it.bulk, lowest, starts, ends, self._own_id))
        )

    async def examined(self) -> Callable[[], Iterator[KafkaRecord]]:
        lowest, starts, ends = await self._known()
        ranges, in_flight = self._to_read(lowest, starts, ends)
        every, own_id, bulk = frozenset(lowest), self._own_id, self.session.bulk
        return lambda: (
            record
            for channel in channels(bulk, ranges, in_flight, every, own_id)
            for record in channel.records
        )

    async def _known(self) -> tuple[Offsets, Offsets, Offsets]:
        """Read the lowest positions, the starts and the ends of the inputs that exist."""
        admin, lowest = self.session.admin, lowest_positions(self.session.captured)
        there = await self.existing(lowest)
        starts = await admin.log_starts(there) if there else {}
        return {tp: lowest[tp] for tp in there}, starts, await admin.log_ends(there) if there else {}

    @property
    def _own_id(self) -> int:
        return ledger_id(bytes.fromhex(self.session.topic_id or self.session.manifest.ledger.topic_id))

    def _to_read(
        self, lowest: Offsets, starts: Offsets, ends: Offsets
    ) -> tuple[list[ReadRange], dict[TopicPartition, list[KafkaRecord]]]:
        """Find the ranges of the logs from the lowest positions on, and the stored records before them."""
        ranges = ranges_from({tp: max(at, starts[tp]) for tp, at in lowest.items()}, ends)
        stored = self.session.tables.unread(lowest, starts)
        return ranges, {tp: of for tp, of in stored.items() if tp in ends}

    def _channels(self, lowest: Offsets, starts: Offsets, ends: Offsets) -> Iterator[Channel]:
        bulk = self.session.bulk
        ranges, in_flight = self._to_read(lowest, starts, ends)
        begins_above = {tp for tp, at in lowest.items() if starts[tp] > at}  # nobody can go back to it
        own = holds_own(
            bulk,
            ranges,
            in_flight.keys() | begins_above,
            self._own_id,
            self.editing,
            self._count,
        )
        return channels(bulk, ranges, in_flight, own, self._own_id, self.editing)

    def _count(self, record: KafkaRecord) -> None:
        """Count an event of a partition that goes back: it runs once more in each app that has committed it."""
        for app, committed in self._groups.items():
            if record.offset < committed.get(record.tp, (-1, ""))[0]:
                self._again[app, record.tp] += 1

    def _moves(self, appends: Mapping[TopicPartition, Sequence[KafkaRecord]]) -> Iterator[PartitionMove]:
        for tp, cuts in inputs_of(self.session.captured).items():
            for cut in cuts:
                before = self._groups[cut.app].get(tp, (-1, ""))[0]
                lowest = min([p.offset for p in cut.agents] or [cut.position])
                records = appends.get(tp)
                again = (
                    self._again[cut.app, tp]
                    if records is None
                    else sum(lowest <= record.offset < before for record in records)
                )
                yield PartitionMove(
                    app=cut.app,
                    topic=tp.topic,
                    partition=tp.partition,
                    before=before,
                    after=lowest if records is None else None,
                    appends=len(records or ()),
                    again=again,
                )

    async def _irrevocable(self) -> tuple[Irrevocable, ...]:
        captured, admin = self.session.captured, self.session.admin
        known = {*inputs_of(captured), *changelogs_of(captured)}
        outputs = {TopicPartition(it.topic, it.partition) for it in captured.senders} - known
        described = await admin.describe_topics({tp.topic for tp in outputs}) if outputs else {}
        there = [tp for tp in outputs if tp.topic in described]
        return irrevocable(captured, await admin.log_ends(there) if there else {})

    # -- what the steps ask -----------------------------------------------------------------------------------

    async def channels(self, ends: Offsets, own_id: int) -> Callable[[], Iterator[Channel]]:
        lowest = lowest_positions(self.session.captured)
        starts = await self.session.admin.log_starts(lowest)
        raise_lost(await self._lost(lowest, starts, ends), force=self.session.request.force)
        return lambda: self._channels(lowest, starts, ends)

    async def require_inputs(self, appended: Collection[TopicPartition]) -> None:
        lowest = {tp: at for tp, at in lowest_positions(self.session.captured).items() if tp not in appended}
        raise_begun(lowest, await self.session.admin.log_starts(lowest) if lowest else {})
