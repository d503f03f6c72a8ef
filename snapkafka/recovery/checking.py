"""A stopped system, compared with a snapshot: every table, every position, every message in flight.

A restore has *moved* an input if agents start after its base: then the messages in flight, and the external records
since the lowest position, are there once more. In any other input they are where they were at the cut.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from snapkafka.checks import ReadRange
from snapkafka.errors import LedgerUnusableError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import RESTORE, TopicPartition
from snapkafka.query.engine import Placed
from snapkafka.wire import headers as wire
from snapkafka.wire.headers import ledger_id

from .channels import channels
from .comparing import ComparedTable, StateRow, compare_state
from .comparing_inputs import (
    ChannelComparison,
    ComparedChannel,
    MessageDifference,
    PositionDifference,
    compare_in_flight,
    compare_positions,
)
from .editing import Editing
from .positions import (
    Appended,
    apps_of,
    changelogs_of,
    inputs_of,
    lowest_positions,
    new_positions,
)
from .reasons import member_refusals
from .session import RestoreBulk
from .stored_rows import GroupAdmin, StoredTables, rows_of_state
from .target_facts import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedInput:
    """A compared input topic. `messages`: the number in flight at the cut, in a moved input with the external records
    appended with them; `differing` of them differ, and `differences` names the first. `positions`: the number of
    compared agents (or apps without any); `misplaced` names those that start at a wrong position."""

    topic: str
    messages: int
    positions: int
    differing: int = 0
    differences: tuple[MessageDifference, ...] = ()
    misplaced: tuple[PositionDifference, ...] = ()

    @property
    def equal(self) -> bool:
        return not (self.differing or self.misplaced)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem:
    """The compared tables and inputs of a system. `notes`: the parts that could not be compared, a sentence each."""

    tables: tuple[ComparedTable, ...]
    inputs: tuple[ComparedInput, ...]
    notes: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        return all(table.equal for table in self.tables) and all(item.equal for item in self.inputs)

    def differences(self) -> Iterator[str]:
        """List the differences by name; for further ones, their number."""
        for table in self.tables:
            what = f"table {table.table} of app {table.app}"
            yield from (f"{what}: {key}" for key in table.keys)
            if (more := table.missing + table.unexpected + table.different - len(table.keys)) > 0:
                yield f"{what}: {more:,} more"
        for item in self.inputs:
            yield from map(str, item.misplaced)
            yield from map(str, item.differences)
            if (more := item.differing - len(item.differences)) > 0:
                yield f"input {item.topic}: {more:,} more messages"


@dataclass(slots=True, kw_only=True)
class SystemCheck:
    """The comparison of a stopped system with a snapshot.

    Args:
        state: the fold of the present ledger.
        placed: the snapshot, by the names of the compared logs.
        tables: its tables.
        ledger_id: of the present ledger.
        editing: names erased keys, which must be absent.
    """

    state: LedgerState
    admin: GroupAdmin
    bulk: RestoreBulk
    placed: Placed
    tables: StoredTables
    ledger_id: int
    editing: Editing | None = None
    notes: list[str] = field(default_factory=list)
    _starts: Mapping[TopicPartition, int] = field(default_factory=dict)
    _ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def captured(self) -> Captured:
        return self.placed.manifest.captured

    async def refusals(self) -> tuple[Refusal, ...]:
        """Find the reasons not to compare: the system runs, or the tables are damaged."""
        members = {app: len(await self.admin.group_members(app)) for app in apps_of(self.captured)}
        found = list(member_refusals(members))
        if self.tables.damage:
            hint = "restore the files from a copy, or compare with another snapshot"
            found.append(Refusal(code="files", what=self.tables.damage, hint=hint))
        there = await self._there()
        ends = await self.admin.log_ends(there) if there else {}
        stable = await asyncio.to_thread(self.bulk.stable_ends, there)
        found += [
            Refusal(
                code="transaction-open",
                what=f"a transaction on {tp} is open",
                hint="wait until the broker has aborted it (60 s by default), and run the same command again",
            )
            for tp in there
            if stable[tp] < ends[tp]
        ]
        return tuple(found)

    async def run(self) -> ComparedSystem:
        """Read the logs and the groups, and compare them."""
        there = await self._there()
        self._starts = await self.admin.log_starts(there) if there else {}
        self._ends = await asyncio.to_thread(self.bulk.stable_ends, there)
        apps = apps_of(self.captured)
        committed = {
            app: {tp: offset for tp, (offset, _) in (await self.admin.committed(app)).items()} for app in apps
        }
        inputs = {tp.topic for tp in inputs_of(self.captured)} & {tp.topic for tp in there}
        timed = {topic: await self._timed(topic) for topic in sorted(inputs)}
        tables, found = await asyncio.to_thread(lambda: (tuple(self._tables()), self._channels(timed)))
        return ComparedSystem(
            tables=tables, inputs=tuple(self._inputs(found, committed)), notes=tuple(self.notes)
        )

    async def _there(self) -> list[TopicPartition]:
        """List the inputs and changelogs that exist."""
        wanted = sorted({*inputs_of(self.captured), *changelogs_of(self.captured)})
        described = await self.admin.describe_topics({tp.topic for tp in wanted}) if wanted else {}
        return [
            tp for tp in wanted if tp.topic in described and tp.partition < described[tp.topic].partitions
        ]

    async def _timed(self, topic: str) -> bool:
        try:
            settings = (await self.admin.topic_settings(topic))[0]
        except LedgerUnusableError:
            return True
        return settings.get("message.timestamp.type", "CreateTime") == "CreateTime"

    # -- tables -----------------------------------------------------------------------------------------------

    def _tables(self) -> Iterator[ComparedTable]:
        cuts = changelogs_of(self.captured)

        def rows() -> Iterator[StateRow]:
            found = rows_of_state(self.placed)
            return iter(found if self.editing is None else self.editing.edit(found))

        def records(tp: TopicPartition) -> Iterator[KafkaRecord]:
            return self._read(tp, 0)

        for table in compare_state(rows, records, cuts, is_void=self._is_void):
            if table.void:
                self.notes.append(
                    f"{table.topic} holds {table.void:,} records that processes of before the restore have appended"
                    " since: workers with snapkafka skip them, a worker without would apply them"
                )
            yield table

    def _read(self, tp: TopicPartition, start: int) -> Iterator[KafkaRecord]:
        """Read a log to its end from `start`, or from its present start."""
        if tp not in self._ends:
            return iter(())
        there = ReadRange(*tp, max(start, self._starts[tp]), self._ends[tp])
        return self.bulk.read([there]) if there.start < there.end else iter(())

    def _stamp(self, record: KafkaRecord) -> wire.Stamp | None:
        header = wire.find(record.headers)
        return None if header is None else wire.read(header, self.ledger_id, wire.tp_check(*record.tp))

    def _is_void(self, record: KafkaRecord) -> bool:
        if record.tp not in self.state.restores.bases:
            return False
        stamp = self._stamp(record)
        return stamp is not None and self._is_of_before(stamp.process, record)

    def _is_of_before(self, process: int, record: KafkaRecord) -> bool:
        """Return whether a process that is older than the restore appended it after a base."""
        return self.state.is_void(process, record.tp, record.offset)

    def _is_of(self, process: int, apps: Collection[str]) -> bool:
        """Return whether it is a process of one of these apps, a restore, or one that the ledger no longer names."""
        view = self.state.processes.get(process)
        return view is None or view.hello.mode == RESTORE or view.hello.app in apps

    # -- inputs -----------------------------------------------------------------------------------------------

    @property
    def _elsewhere(self) -> bool:
        """Whether the snapshot is of another ledger, so that its offsets mean nothing here."""
        return ledger_id(bytes.fromhex(self.placed.manifest.ledger.topic_id)) != self.ledger_id

    def _base(self, tp: TopicPartition, lowest: int) -> int | None:
        """Find the base after which agents start; None: no restore since the cut has moved this input."""
        restores = self.state.restores
        base = restores.bases.get(tp)
        if base is None or (base.end <= lowest and not self._elsewhere):
            return None
        starts = [rule.offset for app in apps_of(self.captured) for rule in restores.rules(app, tp).values()]
        return base.end if starts and min(starts) >= base.end else None

    def _channels(self, timed: Mapping[str, bool]) -> dict[TopicPartition, ComparedChannel]:
        found = {}
        for tp, lowest in lowest_positions(self.captured).items():
            base = self._base(tp, lowest)
            channel = self._in_place(tp, lowest) if base is None else self._behind(tp, lowest, base)
            compared = found[tp] = compare_in_flight(channel, timed=timed.get(tp.topic, True))
            start = self._starts.get(tp, 0)
            lost = base is not None and start > lowest and tp not in self.tables.external
            if lost and not self._elsewhere and any(it.kind == "unexpected" for it in compared.differences):
                self.notes.append(
                    f"{tp} has lost the records from offset {lowest} to {start}: external ones of them that the restore"
                    " has appended again are unknown, so they count as unexpected, and are not skipped by any agent"
                )
        return found

    def _in_place(self, tp: TopicPartition, lowest: int) -> ChannelComparison:
        """Collect an input whose records are where they were at the cut."""
        messages = sorted(self.tables.in_flight.get(tp, ()), key=lambda it: it.offset)
        apps = self._apps()
        cuts = inputs_of(self.captured)[tp]
        agents = [(agent.offset, frozenset(agent.started_above)) for cut in cuts for agent in cut.agents]
        agents += [(cut.position, frozenset()) for cut in cuts if not cut.agents]
        unread = (
            record
            for record in self._read(tp, lowest)
            if self._is_own(record, apps)
            and any(record.offset >= at and record.offset not in above for at, above in agents)
        )
        return ChannelComparison(
            tp, messages if self.editing is None else list(self.editing.edit(messages)), unread
        )

    def _behind(self, tp: TopicPartition, lowest: int, base: int) -> ChannelComparison:
        """Collect an input whose messages a restore has appended again, after its base."""
        apps = self._apps()
        unread = (record for record in self._read(tp, base) if self._is_own(record, apps))
        start = self._starts.get(tp, 0)
        if self._elsewhere:
            in_flight, old = self.tables.unread({tp: lowest}), ReadRange(*tp, 0, 0)
        else:
            in_flight = self.tables.unread({tp: lowest}, {tp: start})
            old = ReadRange(*tp, max(lowest, start), min(base, self._ends.get(tp, 0)))
        own = frozenset({tp})
        (channel,) = channels(self.bulk, [old], in_flight, own, self.ledger_id, self.editing)
        return ChannelComparison(tp, channel.records, unread)

    def _apps(self) -> set[str]:
        """List the apps whose records are compared."""
        return {*apps_of(self.captured), *(view.app for view in self.captured.processes)}

    def _is_own(self, record: KafkaRecord, apps: set[str]) -> bool:
        """Return whether it is a record of one of these apps, or of a restore, that a worker takes in."""
        stamp = self._stamp(record)
        if stamp is None or stamp.marker or wire.is_marker_key(record.key):
            return False
        return self._is_of(stamp.process, apps) and not self._is_of_before(stamp.process, record)

    def _inputs(
        self,
        found: Mapping[TopicPartition, ComparedChannel],
        committed: Mapping[str, Mapping[TopicPartition, int]],
    ) -> Iterator[ComparedInput]:
        restores = self.state.restores
        lowest = lowest_positions(self.captured)
        bases = {tp: base for tp, at in lowest.items() if (base := self._base(tp, at)) is not None}
        pairs = {tp: [Appended(*pair) for pair in found[tp].pairs] for tp in bases}
        expected = new_positions(self.captured, bases, pairs)
        agents: defaultdict[str, int] = defaultdict(int)
        for it in expected:
            agents[it.topic] += 1
        misplaced: defaultdict[str, list[PositionDifference]] = defaultdict(list)
        for difference in compare_positions(expected, committed, restores.rules):
            misplaced[difference.topic].append(difference)
        for topic in sorted({tp.topic for tp in found}):
            parts = [compared for tp, compared in sorted(found.items()) if tp.topic == topic]
            yield ComparedInput(
                topic=topic,
                messages=sum(part.messages for part in parts),
                positions=agents[topic],
                differing=sum(part.differing for part in parts),
                differences=tuple(it for part in parts for it in part.differences),
                misplaced=tuple(misplaced[topic]),
            )
