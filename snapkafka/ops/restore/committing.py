"""The steps of a restore, in order, each of which may be the last before a crash.

    begun      from here on workers of these apps that start hold their inputs
    silence    `Dead` for each process of them that the ledger takes for living
    author     the restore joins as a process of its own, and the plan names it
    quiet      no transaction is open; the ends are noted: all below is of the time before
    channels   what was in flight is appended behind the ends
    state      what has changed since the cut is appended to changelogs; all is read back
    ready      THE COMMIT POINT: bases and positions, in one go
    groups     the consumer groups are set, and read back
    done       workers run

Run again before `ready` it starts at `silence` with a new author: what the earlier one appended lies below the new ends
and is never read. Run again after it, only groups and done are left.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from snapkafka.checks import ReadRange
from snapkafka.errors import RestoreFailedError
from snapkafka.kafka.reading import Opened
from snapkafka.protocol.captured import Captured
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
from snapkafka.query.engine import Placed

from .appending import Author, Bulk, NewRecord, read_back
from .channels import append_channels, channels, holds_own
from .editing import Editing
from .looking import Groups, Tables, ranges_from, rows_of_state
from .planning import (
    Appended,
    apps_of,
    changelogs_of,
    group_offsets,
    inputs_of,
    lowest_positions,
    new_positions,
    ready_records,
)
from .selecting import ALL, Keys, Selection
from .state import Row, keep_all, may_have_lost, records_of_state, touch

__all__ = ["NOTE", "RestoreBulk", "Restoring", "open_plan"]

#: What a committed offset that a restore has set says: a worker that cannot read the ledger then does not start.
NOTE: Final = RESTORED_METADATA + "{plan}"
#: The app of the process that restores.
APP: Final = "snapkafka-restore"
#: A transaction that was open when its worker was killed is aborted by the broker within 60 s.
QUIET_WITHIN_S: Final = 70.0
QUIET_POLL_S: Final = 0.2

T = TypeVar("T")


class RestoreBulk(Bulk, Protocol):
    """Bulk reading and appending, and the last stable offsets."""

    def stable_ends(self, partitions: list[TopicPartition]) -> Mapping[TopicPartition, int]:
        """Read the offsets below which no transaction is open."""


def open_plan(work: Opened) -> RestoreView | None:
    """Find the restore that the ledger has open."""
    return work.reading.state.restores.open


@dataclass(slots=True, kw_only=True)
class Restoring:
    """One run of the steps.

    Args:
        editing: names erased keys, which stay deleted.
        say: hears each phase as it begins.
        settings: all that hold for each topic; empty where they may not be read.
        selection, sender: the part that is restored (`placed` holds no other), and whose records are its own.
        origin: the topic id of the snapshot's ledger, where that is of another cluster.
        crash: for tests: is called with the name of each step before it is done.
    """

    work: Opened
    admin: Groups
    bulk: RestoreBulk
    placed: Placed
    tables: Tables
    ledger_id: int
    plan: str
    who: str
    triggered_ms: int
    now_ms: int
    settings: Mapping[str, Mapping[str, str]]
    selection: Selection = ALL
    sender: Callable[[int], bool] | None = None
    editing: Editing | None = None
    origin: str = ""
    say: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None
    appended: dict[str, int] = field(default_factory=dict)

    @property
    def captured(self) -> Captured:
        """The cut that is restored, by the names of the logs that are written to."""
        return self.placed.manifest.captured

    async def run(self) -> RestoreView:
        """Do what is left to do of the plan.

        Raises:
            RestoreFailedError: what was appended is not there, or another run has taken over.
        """
        view = self.work.reading.state.restores.views.get(self.plan)
        if view is None:
            await self._append(self._record("begun"))
            view = self._view()
        if not view.committed:
            await self._prepare()
        await self._set_groups(list(self._view().positions()))
        await self._finish()
        return self._view()

    # -- before the commit point ------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        self._phase("silence")
        await self._silence()
        self._phase("author")
        author = await self._join()
        self._phase("quiet")
        ends = await self._quiet()
        self._phase("channels")
        appended = await self._channels(author, ends)
        self._phase("state")
        settled = self._settled()
        ranges = await self._readable({tp: settled.get(tp, 0) for tp in changelogs_of(self.captured)}, ends)
        await self._in_thread(lambda: self._state(author, ranges))
        await self._commit(author, ends, appended)

    async def _commit(
        self,
        author: Author,
        ends: Mapping[TopicPartition, int],
        appended: Mapping[TopicPartition, tuple[Appended, ...]],
    ) -> None:
        """Read back what was appended, and reach the commit point.

        Raises:
            RestoreFailedError: it is not there, or another run has taken over.
        """
        self._phase("read back")
        await self._read_back(author, ends)
        self._phase("ready")
        positions = new_positions(self.captured, ends, appended)
        for record in ready_records(self._record("ready", author=author.process), ends, positions):
            await self._append(record)
        if not self._view().committed:
            raise RestoreFailedError(
                f"plan {self.plan} was taken over by another run (author {self._view().author})",
                hint="let that one finish: only one run of a restore can commit",
            )

    async def _silence(self) -> None:
        apps = apps_of(self.captured)
        living = [view for view in self.work.reading.state.living() if view.hello.app in (*apps, APP)]
        for view in living:
            await self._append(Dead(n=_number(), dead=view.process))

    async def _quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends.

        Raises:
            RestoreFailedError: one still is.
        """
        wanted = sorted({*inputs_of(self.captured), *changelogs_of(self.captured)})
        deadline = asyncio.get_running_loop().time() + QUIET_WITHIN_S
        while True:
            ends = dict(await self.admin.log_ends(wanted))
            stable = await self._in_thread(lambda: self.bulk.stable_ends(wanted))
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
        process = await self._append(hello)
        state = self.work.reading.state
        await self._append(self._record("begun", author=process))
        if self._view().author != process:
            raise RestoreFailedError(
                f"plan {self.plan} was taken over by another run", hint="let that one finish"
            )
        return Author(process, state.highest_epoch, self.ledger_id)

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        lowest = lowest_positions(self.captured)
        starts = await self.admin.log_starts(lowest)
        ranges = ranges_from({tp: max(at, starts[tp]) for tp, at in lowest.items()}, ends)
        in_flight = self.tables.unread(lowest, starts)

        def work() -> dict[TopicPartition, tuple[Appended, ...]]:
            own = holds_own(self.bulk, ranges, in_flight, self.ledger_id, self.sender, self.editing)
            found = channels(self.bulk, ranges, in_flight, own, self.ledger_id, self.sender, self.editing)
            return dict(append_channels(self.bulk, author, found))

        appended = await self._in_thread(work)
        self.appended["messages"] = sum(map(len, appended.values()))
        return appended

    async def _readable(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> list[ReadRange]:
        """Build the ranges of what is still there: of what was deleted, `refusing` has judged that it is not needed."""
        there = await self.admin.log_starts(starts)
        return ranges_from({tp: max(start, there[tp]) for tp, start in starts.items()}, ends)

    def _state(self, author: Author, ranges: list[ReadRange]) -> None:
        cuts = changelogs_of(self.captured)
        keys = Keys(self.selection.keys) if self.selection.keys else None
        changes = self.bulk.read([item for item in ranges if item.start < item.end])
        touched = touch((it for it in changes if keys is None or keys.takes(cuts[it.tp], it.key)), cuts)
        whole = {tp for tp in cuts if self._may_have_lost(tp.topic)}
        count = 0

        def stamped() -> Iterator[NewRecord]:
            nonlocal count
            rows = (
                row
                for row in self._rows()
                if keys is None or (row.tp in cuts and keys.takes(cuts[row.tp], row.key))
            )
            erased = keep_all if self.editing is None else self.editing.marked
            for record in records_of_state(rows, touched, cuts, whole, erased):
                count += 1
                yield author.stamped(record)

        self.bulk.append(stamped())
        self.appended["state"] = count

    def _settled(self) -> Mapping[TopicPartition, int]:
        """The offset of each changelog from which on records may name keys that the cut has otherwise."""
        return {TopicPartition(it.topic, it.partition): it.offset for it in self.placed.manifest.settled}

    def _rows(self) -> Iterable[Row]:
        """The rows of the cut, by the names of the logs that are written to."""
        return rows_of_state(self.placed)

    def _may_have_lost(self, topic: str) -> bool:
        return may_have_lost(self.settings.get(topic, {}), self.now_ms - self.triggered_ms)

    async def _read_back(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        self.crash("read back")
        now = await self.admin.log_ends(ends)
        ranges = [ReadRange(*tp, end, now[tp]) for tp, end in sorted(ends.items())]
        await self._in_thread(lambda: read_back(self.bulk, author, ranges))

    # -- after it ---------------------------------------------------------------------------------------------

    async def _set_groups(self, positions: list[AgentPosition]) -> None:
        self._phase("groups")
        note = NOTE.format(plan=self.plan)
        for app, offsets in sorted(group_offsets(positions).items()):
            await self.admin.commit_positions(app, offsets, note)
            there = await self.admin.committed(app)
            for tp, offset in offsets.items():
                if there.get(tp, (-1, ""))[0] != offset:
                    raise RestoreFailedError(
                        f"group {app} has committed {there.get(tp, (-1, ''))[0]} for {tp} instead of {offset}"
                    )

    async def _finish(self) -> None:
        self._phase("done")
        view = self._view()
        if view.author in {living.process for living in self.work.reading.state.living()}:
            await self._append(Bye(process=view.author, n=0))
        await self._append(self._record("done", author=view.author))

    # -- the ledger -------------------------------------------------------------------------------------------

    def _record(self, stage: RestoreStage, *, author: int = -1, phase: str = "") -> Restore:
        manifest = self.placed.manifest
        return Restore(
            n=_number(),
            plan=self.plan,
            stage=stage,
            snapshot=manifest.id,
            attempt=manifest.attempt,
            epoch=manifest.epoch,
            apps=apps_of(self.captured),
            author=author,
            who=self.who,
            phase=phase,
            only=self.selection.text,
            origin=self.origin,
        )

    def _view(self) -> RestoreView:
        view = self.work.reading.state.restores.views.get(self.plan)
        if view is None:
            raise RestoreFailedError(
                f"another restore was begun at the same time: {open_plan(self.work)}", hint="let it finish"
            )
        return view

    async def _append(self, record: LedgerRecord) -> int:
        offset = await self.work.ledger.append(record)
        await self.work.catch_up(to=offset + 1)
        return offset

    def _phase(self, name: str) -> None:
        self.crash(name)
        self.say(name)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.to_thread(work)


def _number() -> int:
    return random.getrandbits(62)  # of 63; chunks of one record count up from it
