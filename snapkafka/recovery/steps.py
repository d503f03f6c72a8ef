"""The steps of a recovery, in order; a crash may come after any of them.

    hold       the consumer groups are held: no worker joins them, no other run sets their offsets
    begun      from here on workers of these apps that start hold their inputs
    topics     those of the plan that are not there are created
    silence    `Dead` for each process of the apps that the ledger takes for living
    author     the run joins as a process of its own, and the plan names it
    quiet      no transaction is open; the ends are noted: all below is of the time before
    channels   what was in flight is appended behind the ends; from here on the plan cannot be aborted
    state      what changelogs lack to fold to the rows of the cut is appended
    read back  what lies behind the ends of inputs is what was to be appended, and nothing of anybody else
    compare    changelogs, folded once more, lack nothing
    ready      THE COMMIT POINT: bases and positions, in one go
    groups     the consumer groups are set, and read back
    done       workers run

Another run before `ready` starts at `silence` with a new author: records of the earlier one lie below the new ends and
are never read. Another run after it only does groups and done, which need only the ledger.

Before each step the ledger is read to its end: an overtaken run changes nothing more. The hold fences the rest:
offsets are set as a member of the group, and records are appended only while the hold lasts.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from snapkafka.checks import ReadRange
from snapkafka.errors import OvertakenError, RestoreFailedError
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import (
    RESTORE,
    Dead,
    Hello,
    Restore,
    RestoreStage,
    TopicPartition,
)
from snapkafka.protocol.restores import RestoreView
from snapkafka.until import Tries
from snapkafka.wire import headers as wire

from .appending import Author, NewRecord, read_back
from .channels import Channel, append_channels, is_external
from .finish import number
from .positions import Appended, changelogs_of, inputs_of, new_positions, spread
from .session import RestoreBulk, topic_id_of
from .state import Difference, differences
from .target import Target, TargetRun

#: The app of the process that restores.
APP: Final = "snapkafka-restore"
#: A transaction that was open when its worker was killed is aborted by the broker within 60 s.
QUIET_WITHIN_S: Final = 70.0
QUIET_POLL_S: Final = 0.2
#: The hold is looked at after so many records: they are in the client for less than a second.
HOLD_EVERY: Final = 200

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class RecoveryRun(TargetRun):
    """One run of all steps.

    Args:
        target: the snapshot and its destination.
    """

    target: Target
    bulk: RestoreBulk
    found: Callable[[], Iterator[Channel]] = lambda: iter(())
    appended: dict[str, int] = field(default_factory=dict)
    compared: tuple[str, ...] = ()

    @property
    def ledger_id(self) -> int:
        return self.target.ledger_id(self.work)

    async def run(self) -> RestoreView:
        """Run the rest of the plan.

        Raises:
            OvertakenError: another run has taken over; it changed nothing more.
            RestoreFailedError: appended records are missing, or others have written in between.
        """
        self.crash("begun")
        await self.target.announce(self)
        await self._begin()
        await self.phase("topics")
        await self.target.create(self)
        await self.phase("silence")
        await self._silence()
        await self.phase("author")
        author = await self._join()
        await self.phase("quiet")
        topics = await self._topic_ids()
        ends = await self.target.ends(self)
        await self._append_all(author, ends, topics)
        await self.set_groups(list(self.view().positions()))
        await self.end()
        return self.view()

    async def _begin(self) -> None:
        self.owned = await self.append(self._record("begun", replaces=self.plan.replaces))
        if self.view().committed:
            raise OvertakenError(
                f"plan {self.plan.plan} was committed by another run meanwhile: this one changed nothing",
                hint="run the same command again: it finishes the rest",
            )

    async def _append_all(
        self, author: Author, ends: Mapping[TopicPartition, int], topics: Mapping[str, str]
    ) -> None:
        for record in spread(self._record("appending", author=author.process), ends):
            await self.append(record)
        await self.phase("channels")
        appended = await self._channels(author, ends)
        await self.phase("state")
        await self._state(author, ends)
        await self.phase("read back")
        await self._read_back(author, ends)
        await self.phase("compare")
        await self.target.require_inputs(self, appended)
        await self._compare()
        if (now := await self._topic_ids()) != topics:
            changed = sorted(name for name in topics if now.get(name) != topics[name])
            raise RestoreFailedError(
                f"topic {changed[0]} was recreated meanwhile",
                hint="nothing is committed; run it again",
            )
        await self.target.require_inputs(self, appended)
        await self.phase("ready")
        positions = new_positions(self.target.captured, ends, appended)
        ids = {tp.topic: topics[tp.topic] for tp in ends if tp.topic in topics}
        for record in spread(self._record("ready", author=author.process), ends, positions, ids):
            await self.append(record)
        if not self.view().committed:
            raise OvertakenError(
                f"plan {self.plan.plan} was taken over by another run (author {self.view().author})",
                hint="let that one finish: only one run of a plan can commit",
            )

    async def _silence(self) -> None:
        living = [
            view for view in self.work.reading.state.living() if view.hello.app in (*self.plan.apps, APP)
        ]
        for view in living:
            await self.append(Dead(n=number(), dead=view.process))

    async def quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends.

        Raises:
            RestoreFailedError: one still is.
        """
        captured = self.target.captured
        wanted = sorted({*inputs_of(captured), *changelogs_of(captured)})
        async for _ in Tries(QUIET_WITHIN_S, QUIET_POLL_S):
            ends = dict(await self.admin.log_ends(wanted))
            stable = await self.in_thread(lambda: self.bulk.stable_ends(wanted))
            late = [tp for tp in wanted if stable[tp] < ends[tp]]
            if not late:
                return ends
        raise RestoreFailedError(
            f"a transaction on {late[0]} has been open for {QUIET_WITHIN_S:.0f} s",
            hint="end or abort it (kafka-transactions.sh --find-hanging), and run the same command again",
        )

    async def _join(self) -> Author:
        hello = Hello(n=number(), app=APP, host=socket.gethostname(), pid=os.getpid(), mode=RESTORE)
        process = await self.append(hello)
        epoch = self.work.reading.state.highest_epoch
        self.owned = await self.append(self._record("begun", author=process))
        await self.require_mine()
        return Author(process, epoch, self.ledger_id)

    # -- what is appended -------------------------------------------------------------------------------------

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        found = self.found = await self.target.channels(self, ends)
        appended = await self.in_thread(lambda: append_channels(self.append_held, author, found()))
        self.appended["messages"], self.appended["inputs"] = self.target.count(appended)
        return appended

    def append_held(self, records: Iterable[NewRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records as long as the groups are held: a suspended run appends nothing more."""

        def while_held() -> Iterator[NewRecord]:
            for count, record in enumerate(records):
                if count % HOLD_EVERY == 0:
                    for hold in self.holds.values():
                        hold.require()
                yield record

        return self.bulk.append(while_held())

    async def _lacking(self, ends: Mapping[TopicPartition, int]) -> Callable[[], Iterator[Difference]]:
        """Prepare the differences of changelogs from the rows of the cut; the result blocks."""
        cuts = changelogs_of(self.target.captured)
        starts = await self.admin.log_starts(cuts)

        def read(tp: TopicPartition) -> Iterable[KafkaRecord]:
            return self.bulk.read([ReadRange(*tp, starts[tp], ends[tp])]) if starts[tp] < ends[tp] else ()

        return lambda: differences(self.target.rows(), read, cuts)

    async def _state(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        lacking = await self._lacking(ends)
        count = 0

        def stamped() -> Iterator[NewRecord]:
            nonlocal count
            for item in lacking():
                count += 1
                yield author.stamped(item.record)

        await self.in_thread(lambda: self.append_held(stamped()))
        self.appended["state"] = count

    async def _read_back(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        now, inputs = await self.admin.log_ends(ends), inputs_of(self.target.captured)
        timed = {topic: await self._timed(topic) for topic in sorted({tp.topic for tp in inputs})}

        def allowed(record: KafkaRecord) -> bool:
            if wire.find(record.headers) is None:
                return self.target.takes_external(record.topic)
            return self.target.takes_others(record.topic) and is_external(record, self.ledger_id)

        def check(tp: TopicPartition, expected: Sequence[KafkaRecord] | None) -> None:
            there = self.bulk.read([ReadRange(*tp, ends[tp], now[tp])]) if ends[tp] < now[tp] else ()
            read_back(there, author, expected, allowed, self._written_by, timed=timed.get(tp.topic, True))

        def check_all() -> None:
            messages = {}
            for tp, records in self.found():
                check(tp, records)
                messages[tp] = len(records)
            for tp in sorted(ends.keys() - messages):
                check(tp, () if tp in inputs else None)
            self.compared = tuple(f"equal: input {tp}, {count:,} messages" for tp, count in messages.items())

        with self.target.editing.uncounted():
            await self.in_thread(check_all)

    async def _timed(self, topic: str) -> bool:
        settings = await self.target.session.settings(topic)
        return settings.get("message.timestamp.type", "CreateTime") == "CreateTime"

    async def _compare(self) -> None:
        """Fold the changelogs once more: they have to be those of the snapshot."""
        cuts = changelogs_of(self.target.captured)
        lacking = await self._lacking(await self.admin.log_ends(cuts))
        with self.target.editing.uncounted():
            wrong = await self.in_thread(lambda: next(lacking(), None))
        if wrong is not None:
            cut = cuts[wrong.record.tp]
            raise RestoreFailedError(
                f"table {cut.table} of app {cut.app} is not that of the snapshot: {wrong.unit} in {wrong.record.tp} is"
                f" {wrong.kind}",
                hint="nothing is committed; run the same command again, and report it if it happens again",
            )
        tables = sorted({(cut.app, cut.table) for cut in cuts.values()})
        self.compared += tuple(f"equal: table {table} of app {app}" for app, table in tables)

    def _written_by(self, process: int) -> str:
        view = self.work.reading.state.processes.get(process)
        return f"process {process}" + (f" of app {view.hello.app}" if view is not None else "")

    async def _topic_ids(self) -> dict[str, str]:
        captured = self.target.captured
        wanted = {tp.topic for tp in (*inputs_of(captured), *changelogs_of(captured))}
        described = await self.admin.describe_topics([*wanted, self.work.ledger.topic])
        ids = {name: it.topic_id for name, it in described.items() if name in wanted}
        return ids | {self.work.ledger.topic: topic_id_of(self.work, described)}

    # -- the ledger -------------------------------------------------------------------------------------------

    def _record(self, stage: RestoreStage, *, author: int = -1, replaces: str = "") -> Restore:
        plan = self.plan
        return Restore(
            n=number(),
            plan=plan.plan,
            stage=stage,
            snapshot=plan.snapshot,
            attempt=plan.attempt,
            epoch=plan.epoch,
            apps=plan.apps,
            author=author,
            who=self.who,
            origin=self.target.origin,
            replaces=replaces,
        )

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run blocking work in a thread; heartbeats continue beside it."""
        return await asyncio.to_thread(work)
