"""The steps of a recovery, in order, each of which may be the last before a crash.

    hold       the consumer groups are held: no worker joins them, no other run sets their offsets
    begun      from here on workers of these apps that start hold their inputs
    topics     those of the plan that are not there are created
    silence    `Dead` for each process of the apps that the ledger takes for living
    author     the run joins as a process of its own, and the plan names it
    quiet      no transaction is open; the ends are noted: all below is of the time before
    channels   what was in flight is appended behind the ends; from here on the plan cannot be aborted
    state      what has changed since the cut is appended to changelogs
    read back  what lies behind the ends is what was appended, byte by byte, and nothing of anybody else
    ready      THE COMMIT POINT: bases and positions, in one go
    groups     the consumer groups are set, and read back
    done       workers run

Run again before `ready` it starts at `silence` with a new author: what the earlier one appended lies below the new ends
and is never read. Run again after it, only groups and done are left, which the ledger alone suffices for.

Before each step the ledger is read to its end: a run that was overtaken changes nothing more. The hold fences the
rest: offsets are set as a member of the group, and records are appended only while the hold lasts.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from snapkafka.checks import ReadRange
from snapkafka.errors import OvertakenError, RestoreFailedError
from snapkafka.kafka.reading import Opened
from snapkafka.protocol.records import (
    RESTORE,
    AgentPosition,
    Bye,
    Dead,
    Hello,
    LedgerRecord,
    Restore,
    RestoreStage,
    TopicPartition,
)
from snapkafka.protocol.restoring import RESTORED_METADATA, RestoreView
from snapkafka.wire import headers as wire

from .appending import Author, LogRecord, NewRecord, read_back
from .channels import append_channels, is_external
from .facts import Groups, Hold, ranges_from
from .plan import Plan
from .positions import Appended, changelogs_of, group_offsets, inputs_of, new_positions, spread
from .selection import Keys
from .session import RestoreBulk, topic_id_of
from .state import records_of_state, touch
from .target import Target

__all__ = ["Commit", "Run"]

#: What a committed offset that a restore has set says: a worker that cannot read the ledger then does not start.
NOTE: Final = RESTORED_METADATA + "{plan}"
#: The app of the process that restores.
APP: Final = "snapkafka-restore"
#: A transaction that was open when its worker was killed is aborted by the broker within 60 s.
QUIET_WITHIN_S: Final = 70.0
QUIET_POLL_S: Final = 0.2
#: The hold is looked at after so many records: they are in the client for less than a second.
HOLD_EVERY: Final = 200

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class Commit:
    """The rest of a plan that is past its commit point: the ledger alone suffices for it.

    Args:
        work: the ledger of the cluster it goes to.
        holds: the held consumer groups, by name.
        say: prints each phase as it begins.
        crash: for tests: is called with the name of each step before it is done.
    """

    work: Opened
    admin: Groups
    holds: Mapping[str, Hold]
    plan: Plan
    who: str = ""
    say: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None
    owned: int = -1  # the ledger offset of our latest `begun`

    async def finish(self) -> RestoreView:
        """Set the groups, and end the plan.

        Raises:
            OvertakenError: another run has taken over; it changed nothing more.
            RestoreFailedError: the groups are not where they were set.
        """
        await self.claim()
        await self.set_groups(list(self.view().positions()))
        await self.end()
        return self.view()

    async def claim(self) -> None:
        """State in the ledger that this run goes on with the plan."""
        view = self.work.reading.state.restores.views.get(self.plan.plan)
        if view is None or not view.open:
            state = "was finished by another run" if view is not None else "is unknown"
            raise OvertakenError(
                f"plan {self.plan.plan} {state}: nothing was changed", hint="see `snapkafka list`"
            )
        self.owned = await self.append(
            Restore(
                n=_number(),
                plan=view.plan,
                stage="begun",
                snapshot=view.begun.snapshot,
                attempt=view.begun.attempt,
                epoch=view.begun.epoch,
                apps=view.apps,
                who=self.who,
                only=view.begun.only,
                origin=view.begun.origin,
            )
        )

    async def set_groups(self, positions: list[AgentPosition]) -> None:
        """Set the offsets of each group as its member, and read them back."""
        await self.phase("groups")
        note = NOTE.format(plan=self.plan.plan)
        for app, offsets in sorted(group_offsets(positions).items()):
            await self.require_mine()
            await self.holds[app].commit(offsets, note)
            there = await self.admin.committed(app)
            for tp, offset in offsets.items():
                if there.get(tp, (-1, ""))[0] != offset:
                    raise RestoreFailedError(
                        f"group {app} has committed {there.get(tp, (-1, ''))[0]} for {tp} instead of {offset}"
                    )

    async def end(self) -> None:
        """State that the plan is done: workers run."""
        await self.phase("done")
        view = self.view()
        if view.author in {living.process for living in self.work.reading.state.living()}:
            await self.append(Bye(process=view.author, n=0))
        await self.append(Restore(n=_number(), plan=view.plan, stage="done", author=view.author))

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
        self.say(name)


@dataclass(slots=True, kw_only=True)
class Run(Commit):
    """One run of all steps.

    Args:
        target: what is restored, and where to.
    """

    target: Target
    bulk: RestoreBulk
    appended: dict[str, int] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)

    @property
    def ledger_id(self) -> int:
        return self.target.ledger_id(self.work)

    async def run(self) -> RestoreView:
        """Do what is left to do of the plan.

        Raises:
            OvertakenError: another run has taken over; it changed nothing more.
            RestoreFailedError: what was appended is not there, or others have written in between.
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
        changelogs = changelogs_of(self.target.captured)
        settled = self.target.settled()
        there = await self.admin.log_starts(changelogs)
        ranges = ranges_from({tp: max(settled.get(tp, 0), there[tp]) for tp in changelogs}, ends)
        await self.in_thread(lambda: self._state(author, ranges))
        await self.phase("read back")
        await self._read_back(author, ends)
        if (now := await self._topic_ids()) != topics:
            changed = sorted(name for name in topics if now.get(name) != topics[name])
            raise RestoreFailedError(
                f"topic {changed[0]} was recreated meanwhile",
                hint="nothing is committed; run it again",
            )
        await self.phase("ready")
        positions = new_positions(self.target.captured, ends, appended)
        for record in spread(self._record("ready", author=author.process), ends, positions):
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
            await self.append(Dead(n=_number(), dead=view.process))

    async def quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends.

        Raises:
            RestoreFailedError: one still is.
        """
        captured = self.target.captured
        wanted = sorted({*inputs_of(captured), *changelogs_of(captured)})
        deadline = asyncio.get_running_loop().time() + QUIET_WITHIN_S
        while True:
            ends = dict(await self.admin.log_ends(wanted))
            stable = await self.in_thread(lambda: self.bulk.stable_ends(wanted))
            late = [tp for tp in wanted if stable[tp] < ends[tp]]
            if not late:
                return ends
            if asyncio.get_running_loop().time() > deadline:
                raise RestoreFailedError(
                    f"a transaction on {late[0]} has been open for {QUIET_WITHIN_S:.0f} s",
                    hint="end or abort it (kafka-transactions.sh --find-hanging), and run the same command again",
                )
            await asyncio.sleep(QUIET_POLL_S)

    async def _join(self) -> Author:
        hello = Hello(n=_number(), app=APP, host=socket.gethostname(), pid=os.getpid(), mode=RESTORE)
        process = await self.append(hello)
        epoch = self.work.reading.state.highest_epoch
        self.owned = await self.append(self._record("begun", author=process))
        await self.require_mine()
        return Author(process, epoch, self.ledger_id)

    # -- what is appended -------------------------------------------------------------------------------------

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        found = await self.target.channels(self, ends)
        appended = await self.in_thread(lambda: append_channels(self.append_held, author, found()))
        self.appended["messages"], self.appended["inputs"] = self.target.count(appended)
        return appended

    def append_held(self, records: Iterable[NewRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records as long as the groups are held: a run that was suspended appends nothing more."""

        def while_held() -> Iterator[NewRecord]:
            for number, record in enumerate(records):
                if number % HOLD_EVERY == 0:
                    for hold in self.holds.values():
                        hold.require()
                yield record

        return self.bulk.append(while_held())

    def _state(self, author: Author, ranges: list[ReadRange]) -> None:
        target, selected = self.target, self.plan.request.selection.keys
        cuts = changelogs_of(target.captured)
        keys = Keys(selected) if selected else None
        changes = self.bulk.read([item for item in ranges if item.start < item.end])
        touched = touch((it for it in changes if keys is None or keys.takes(cuts[it.tp], it.key)), cuts)
        whole = {tp for tp in cuts if target.is_whole(tp.topic)}
        count = 0

        def stamped() -> Iterator[NewRecord]:
            nonlocal count
            rows = (
                row
                for row in target.rows()
                if keys is None or (row.tp in cuts and keys.takes(cuts[row.tp], row.key))
            )
            for record in records_of_state(rows, touched, cuts, whole, target.marked):
                count += 1
                yield author.stamped(record)

        self.append_held(stamped())
        self.appended["state"] = count

    async def _read_back(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        now = await self.admin.log_ends(ends)
        ranges = [ReadRange(*tp, end, now[tp]) for tp, end in sorted(ends.items())]

        def allowed(record: LogRecord) -> bool:
            if wire.find(record.headers) is None:
                return self.target.takes_external(record.topic)
            return self.target.takes_others(record.topic) and is_external(
                record, self.ledger_id, self.target.sender
            )

        await self.in_thread(lambda: read_back(self.bulk, author, ranges, allowed, self._written_by))

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
            n=_number(),
            plan=plan.plan,
            stage=stage,
            snapshot=plan.snapshot,
            attempt=plan.attempt,
            epoch=plan.epoch,
            apps=plan.apps,
            author=author,
            who=self.who,
            only=plan.request.selection.text,
            origin=self.target.origin,
            replaces=replaces,
        )

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do work that blocks; heartbeats go on beside it."""
        return await asyncio.to_thread(work)


def _number() -> int:
    return random.getrandbits(62)  # of 63; chunks of one record count up from it
