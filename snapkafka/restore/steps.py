"""The steps of a recovery, in order; a crash may come after any of them.

    hold       the consumer groups are held: no worker joins them, no other run sets their offsets
    begun      from here on workers of these apps that start hold their inputs
    topics     those of the plan that are not there are created
    author     the run joins as a process of its own, and the plan names it
    quiet      no transaction is open; the ends are noted: all below is of the time before
    channels   what was in flight is appended behind the ends; from here on the plan cannot be aborted
    state      what changelogs lack to fold to the rows of the cut is appended
    read back  what lies behind the ends of inputs is what was to be appended, and nothing of anybody else
    compare    changelogs, folded once more, lack nothing
    groups     the consumer groups are set, and read back; nobody else has written meanwhile
    done       THE COMMIT POINT: bases and positions, in one go; who ran before has left, and workers run

Another run before `done` starts at `author` with a new one: records of the earlier one lie below the new ends and
are never read.

Before each step the ledger is read to its end: an overtaken run changes nothing more. The hold fences the rest:
offsets are set as a member of the group, and records are appended only while the hold lasts.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import OvertakenError, RestoreFailedError
from snapkafka.kafka.cluster.group_hold import GroupHold
from snapkafka.kafka.ledger.reading import Opened
from snapkafka.kafka.records.bulk import KafkaRecord
from snapkafka.protocol.records import (
    RESTORE,
    AgentPosition,
    Bye,
    Hello,
    LedgerRecord,
    Restore,
    RestoreStage,
    TopicPartition,
)
from snapkafka.protocol.restores import RESTORED_METADATA, RestoreView
from snapkafka.until import Tries
from snapkafka.wire import headers as wire

from .channels import Author, Channel, append_channels, read_back, sender_of
from .plan import Plan
from .session import RecoverySession, topic_id_of
from .state import Appended, NewRecord, changelogs_of, group_offsets, inputs_of, new_positions, spread
from .target import Target

#: The app of the process that restores.
APP: Final = "snapkafka-restore"
#: A transaction that was open when its worker was killed is aborted by the broker within 60 s.
QUIET_WITHIN_S: Final = 70.0
QUIET_POLL_S: Final = 0.2
#: The hold is looked at after so many records: they are in the client for less than a second.
HOLD_EVERY: Final = 200


@dataclass(slots=True, kw_only=True)
class RecoveryRun:
    """One run of all steps.

    Args:
        target: the snapshot and its destination.
        work: the ledger of the target cluster.
        holds: the held consumer groups, by name.
        notify: called with each phase as it begins.
        crash: for tests: called with the name of each step before it is done.
    """

    target: Target
    work: Opened
    holds: Mapping[str, GroupHold]
    plan: Plan
    who: str = ""
    notify: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None
    found: Callable[[], Iterable[Channel]] = tuple
    appended: dict[str, int] = field(default_factory=dict)
    owned: int = -1  # the ledger offset of our latest `begun`

    @property
    def session(self) -> RecoverySession:
        return self.target.session

    @property
    def ledger_id(self) -> int:
        return wire.ledger_id(bytes.fromhex(getattr(self.work.ledger, "topic_id", self.session.topic_id)))

    async def run(self) -> RestoreView:
        """Run the plan.

        Raises:
            OvertakenError: another run has taken over; it changed nothing more.
            RestoreFailedError: appended records are missing, or others have written in between; the groups are not
                where they were set.
        """
        self.crash("begun")
        if (announced := self.target.announced(self.plan, self.who)) is not None:
            await self.append(announced)
        self.owned = await self.append(self._record("begun", replaces=self.plan.replaces))
        await self.phase("topics")
        await self.target.create()
        await self.phase("author")
        author = await self._join()
        await self.phase("quiet")
        topics = await self._topic_ids()
        ends = await self._quiet()
        for record in spread(self._record("appending", author=author.process), ends):
            await self.append(record)
        await self.phase("channels")
        appended = await self._channels(author, ends)
        await self.phase("state")
        await self._state(author, ends)
        await self.phase("read back")
        read_to = await self._read_back(author, ends, self.found)
        await self.phase("compare")
        await self._compare()
        await self.phase("groups")
        positions = new_positions(self.target.captured, ends, appended)
        await self._set_groups(positions)
        await self._read_back(author, read_to, tuple)
        await self.target.require_inputs(appended)
        await self._require_topics(topics)
        await self.phase("done")
        ids = {tp.topic: topics[tp.topic] for tp in ends if tp.topic in topics}
        await self.append(Bye(process=author.process, n=number()))
        for record in spread(self._record("done", author=author.process), ends, positions, ids):
            await self.append(record)
        if (view := self.view()).stage != "done":
            raise OvertakenError(
                f"plan {self.plan.plan} was taken over by another run (author {view.author})",
                hint="let that one finish: only one run of a plan can commit",
            )
        return view

    async def _quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends.

        Raises:
            RestoreFailedError: one still is.
        """
        captured = self.target.captured
        wanted = sorted({*inputs_of(captured), *changelogs_of(captured)})
        async for _ in Tries(QUIET_WITHIN_S, QUIET_POLL_S):
            ends = dict(await self.session.admin.log_ends(wanted))
            stable = await asyncio.to_thread(lambda: self.session.bulk.stable_ends(wanted))
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
        found = self.found = await self.target.channels(ends, self.ledger_id)
        appended = await asyncio.to_thread(lambda: append_channels(self.append_held, author, found()))
        flying = {
            (self.target.named(tp.topic), tp.partition, record.offset)
            for tp, records in self.session.tables.in_flight.items()
            for record in records
        }
        self.appended["messages"] = sum(
            (*tp, it.old) in flying for tp, items in appended.items() for it in items
        )
        self.appended["inputs"] = sum(map(len, appended.values())) - self.appended["messages"]
        return appended

    def append_held(self, records: Iterable[NewRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records as long as the groups are held: a suspended run appends nothing more."""

        def while_held() -> Iterator[NewRecord]:
            for count, record in enumerate(records):
                if count % HOLD_EVERY == 0:
                    for hold in self.holds.values():
                        hold.require()
                yield record

        return self.session.bulk.append(while_held())

    async def _state(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        lacking = await self.target.lacking(ends)
        count = 0

        def stamped() -> Iterator[NewRecord]:
            nonlocal count
            for item in lacking():
                count += 1
                yield author.stamped(item.record)

        await asyncio.to_thread(lambda: self.append_held(stamped()))
        self.appended["state"] = count

    async def _read_back(
        self, author: Author, ends: Mapping[TopicPartition, int], found: Callable[[], Iterable[Channel]]
    ) -> Mapping[TopicPartition, int]:
        """Check that behind these ends lies what was found to be appended, and nothing of anybody else who may not
        write there; return where the logs end."""
        now, inputs = await self.session.admin.log_ends(ends), inputs_of(self.target.captured)

        def allowed(record: KafkaRecord) -> bool:
            if wire.find(record.headers) is None:
                return self.target.takes_external(record.topic)
            return self.target.takes_others(record.topic) and sender_of(record, self.ledger_id) is None

        def check(tp: TopicPartition, expected: Sequence[KafkaRecord] | None) -> None:
            there = self.session.bulk.read([ReadRange(*tp, ends[tp], now[tp])]) if ends[tp] < now[tp] else ()
            read_back(there, author, expected, allowed, self._written_by)

        def check_all() -> None:
            rest = {*ends}
            for tp, records in found():
                check(tp, records)
                rest.discard(tp)
            for tp in sorted(rest):
                check(tp, () if tp in inputs else None)

        await asyncio.to_thread(check_all)
        return now

    async def _compare(self) -> None:
        """Fold the changelogs once more: they have to be those of the snapshot."""
        cuts = changelogs_of(self.target.captured)
        lacking = await self.target.lacking(await self.session.admin.log_ends(cuts))
        wrong = await asyncio.to_thread(lambda: next(lacking(), None))
        if wrong is not None:
            cut = cuts[wrong.record.tp]
            raise RestoreFailedError(
                f"table {cut.table} of app {cut.app} is not that of the snapshot: {wrong.unit} in {wrong.record.tp} is"
                f" {wrong.kind}",
                hint="nothing is committed; run the same command again, and report it if it happens again",
            )

    async def _set_groups(self, positions: Sequence[AgentPosition]) -> None:
        """Set the offsets of each group as its member, and read them back."""
        note = f"{RESTORED_METADATA}{self.plan.plan}"  # by it a worker without the ledger does not start
        for app, offsets in sorted(group_offsets(positions).items()):
            await self.require_mine()
            await self.holds[app].commit(offsets, note)
            there = await self.session.admin.committed(app)
            for tp, offset in offsets.items():
                if there.get(tp, (-1, ""))[0] != offset:
                    raise RestoreFailedError(
                        f"group {app} has committed {there.get(tp, (-1, ''))[0]} for {tp} instead of {offset}"
                    )

    async def _require_topics(self, topics: Mapping[str, str]) -> None:
        now = await self._topic_ids()
        for name, topic_id in sorted(topics.items()):
            if now.get(name) != topic_id:
                raise RestoreFailedError(
                    f"topic {name} was recreated meanwhile", hint="nothing is committed; run it again"
                )

    def _written_by(self, process: int) -> str:
        view = self.work.reading.state.processes.get(process)
        return f"process {process}" + (f" of app {view.hello.app}" if view is not None else "")

    async def _topic_ids(self) -> dict[str, str]:
        captured = self.target.captured
        wanted = {tp.topic for tp in (*inputs_of(captured), *changelogs_of(captured))}
        described = await self.session.admin.describe_topics([*wanted, self.work.ledger.topic])
        ids = {name: it.topic_id for name, it in described.items() if name in wanted}
        return ids | {self.work.ledger.topic: topic_id_of(self.work, described)}

    # -- the ledger -------------------------------------------------------------------------------------------

    def view(self) -> RestoreView:
        """Find the plan in the ledger."""
        view = self.work.reading.state.restores.views.get(self.plan.plan)
        if view is None:
            raise OvertakenError(
                f"another recovery was begun at the same time: {self.work.reading.state.restores.open}",
                hint="let it finish",
            )
        return view

    async def require_mine(self) -> None:
        """Read the ledger to its end, and check that the plan is still open, and this run's.

        Raises:
            OvertakenError: it is not.
        """
        await self.work.catch_up()
        view = self.view()
        if not view.open:
            raise OvertakenError(
                f"plan {view.plan} is {view.stage} by another run: this one changed nothing more",
                hint="see `snapkafka list`; the workers can be started when it is done",
            )
        if view.owner != self.owned:
            raise OvertakenError(
                f"plan {view.plan} was taken over by another run: this one changed nothing more",
                hint="let that one finish",
            )
        for hold in self.holds.values():
            hold.require()

    async def append(self, record: LedgerRecord) -> int:
        """Append to the ledger, and read it up to that."""
        offset = await self.work.ledger.append(record)
        await self.work.catch_up(to=offset + 1)
        return offset

    async def phase(self, name: str) -> None:
        """Begin a step, if the plan is still this run's."""
        self.crash(name)
        await self.require_mine()
        self.notify(name)

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


def number() -> int:
    """Draw a random number for a ledger record."""
    return random.getrandbits(62)  # of 63; chunks of one record count up from it
