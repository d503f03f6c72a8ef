"""The steps of a recovery, in order; a crash may come after any of them.

    hold       the consumer groups are held: no worker joins them, no other run sets their offsets
    begun      from here on workers of these apps that start hold their inputs
    topics     those of the plan that are not there are created
    author     the run joins as a process of its own, and the plan names it
    quiet      no transaction is open; the ends are noted: all below is of the time before
    channels   what was in flight is appended behind the ends; from here on the plan cannot be aborted
    state      what changelogs lack to fold to the rows of the cut is appended
    read back  what lies behind the ends of inputs is what was to be appended, and nothing of anybody else
    compare    the same of changelogs; if they differ, or begin later, they are folded once more, and lack nothing
    groups     the consumer groups are set; nobody else has written meanwhile
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
from hashlib import blake2b
from typing import Final

from snapkafka.checks import ReadRange
from snapkafka.errors import OvertakenError, RestoreFailedError
from snapkafka.kafka.cluster.group_hold import GroupHold
from snapkafka.kafka.ledger.reading import Opened
from snapkafka.kafka.records.read import KafkaRecord
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

from .channels import Author, add, append_channels, sender_of
from .plan import Plan
from .state import Appended, changelogs_of, group_offsets, inputs_of, new_positions, spread
from .target import Target

AGAIN: Final = "nothing is committed; run the same command again, and report it if it happens again"
#: The app of the process that restores.
APP: Final = "snapkafka-restore"
#: A transaction that was open when its worker was killed is aborted by the broker within 60 s.
QUIET_WITHIN_S: Final = 70.0
QUIET_POLL_S: Final = 0.2
#: The hold is looked at after so many records: they are in the client for less than a second.
HOLD_EVERY: Final = 200


@dataclass(slots=True, kw_only=True)
class RecoveryRun:
    """One run of all steps. `work`: the ledger of the target cluster. `holds`: the held consumer groups, by name.
    `notify`: called with each phase in words as it begins; `crash`: for tests, called with its name before it."""

    target: Target
    work: Opened
    holds: Mapping[str, GroupHold]
    plan: Plan
    who: str = ""
    notify: Callable[[str], None] = lambda text: None
    crash: Callable[[str], None] = lambda step: None
    folded_from: Mapping[TopicPartition, int] = field(default_factory=dict)
    appended: dict[str, int] = field(default_factory=dict)
    owned: int = -1  # the ledger offset of our latest `begun`

    async def run(self) -> RestoreView:
        self.crash("begun")
        if (announced := self.target.announced(self.plan, self.who)) is not None:
            await self.append(announced)
        self.owned = await self.append(self._record("begun", replaces=self.plan.replaces))
        await self.phase("topics", "creating topics")
        await self.target.create(self.plan.topics)
        await self.phase("author", "joining as the author of what is appended")
        author = await self._join()
        await self.phase("quiet", "waiting until nobody writes")
        topics = await self._topic_ids()
        ends = await self._quiet()
        for record in spread(self._record("appending", author=author.process), ends):
            await self.append(record)
        await self.phase("channels", f"appending {self.plan.messages:,} messages")
        appended = await self._channels(author, ends)
        await self.phase("state", "writing tables")
        await self._state(author, ends)
        await self.phase("read back", "reading back")
        inputs = {tp: ends[tp] for tp in inputs_of(self.target.captured)}
        read_to = await self._read_back(author, inputs, author.digests)
        await self.phase("compare", "comparing tables with the snapshot")
        read_to |= await self._compare(author, ends)
        await self.phase("groups", "setting positions")
        positions = new_positions(self.target.captured, ends, appended)
        await self._set_groups(positions)
        await self._read_back(author, read_to, {})
        await self.target.require_inputs(appended)
        now = await self._topic_ids()
        if other := [name for name in sorted(topics) if now.get(name) != topics[name]]:
            raise RestoreFailedError(f"topic {other[0]} was recreated meanwhile")
        await self.phase("done", "committing")
        ids = {tp.topic: topics[tp.topic] for tp in ends if tp.topic in topics}
        await self.append(Bye(process=author.process, n=random.getrandbits(62)))
        for record in spread(self._record("done", author=author.process), ends, positions, ids):
            await self.append(record)
        view = self.work.reading.state.restores.views.get(self.plan.plan)
        if view is None or view.stage != "done":
            raise self._overtaken()
        return view

    async def _quiet(self) -> dict[TopicPartition, int]:
        """Wait until no transaction is open, and return the ends."""
        captured = self.target.captured
        wanted = sorted({*inputs_of(captured), *changelogs_of(captured)})
        async for _ in Tries(QUIET_WITHIN_S, QUIET_POLL_S):
            ends = await self.target.admin.log_ends(wanted)
            stable = await self.target.admin.log_ends(wanted, stable=True)
            # A broker that has just started may not know a partition yet.
            late = [tp for tp in wanted if tp not in ends or stable.get(tp, -1) < ends[tp]]
            if not late:
                return dict(ends)
        raise RestoreFailedError(
            f"{late[0]} has had an open transaction for {QUIET_WITHIN_S:.0f} s, or is gone",
            hint="end or abort it (kafka-transactions.sh --find-hanging), and run the same command again",
        )

    async def _join(self) -> Author:
        hello = Hello(
            n=random.getrandbits(62), app=APP, host=socket.gethostname(), pid=os.getpid(), mode=RESTORE
        )
        process = await self.append(hello)
        epoch = self.work.reading.state.highest_epoch
        self.owned = await self.append(self._record("begun", author=process))
        await self.require_mine()
        return Author(process, epoch, self.target.ledger_id)

    async def _channels(
        self, author: Author, ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, tuple[Appended, ...]]:
        found = await self.target.channels(ends)
        appended = await asyncio.to_thread(lambda: append_channels(self.append_held, author, found()))
        in_flight = self.target.tables.in_flight
        flying = {
            (self.target.named(tp.topic), tp.partition, it.offset) for tp in in_flight for it in in_flight[tp]
        }
        olds = [(*tp, it.old) for tp, items in appended.items() for it in items]
        messages = sum(old in flying for old in olds)
        self.appended |= {"messages": messages, "inputs": len(olds) - messages}
        return appended

    def append_held(self, records: Iterable[KafkaRecord]) -> Mapping[TopicPartition, Sequence[int]]:
        """Append records as long as the groups are held: a suspended run appends nothing more."""

        def while_held() -> Iterator[KafkaRecord]:
            for count, record in enumerate(records):
                if count % HOLD_EVERY == 0:
                    for hold in self.holds.values():
                        hold.require()
                yield record

        held = while_held()
        appended = self.target.bulk.append(held)
        assert next(held, None) is None, "not all was appended"
        return appended

    async def _state(self, author: Author, ends: Mapping[TopicPartition, int]) -> None:
        starts = await self.target.admin.log_starts(changelogs_of(self.target.captured))
        stamped = (author.stamped(it.record) for it in self.target.lacking(starts, ends))
        appended = await asyncio.to_thread(self.append_held, stamped)
        self.appended["state"], self.folded_from = sum(map(len, appended.values())), starts

    async def _behind(
        self, author: Author, ends: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, blake2b]
    ) -> tuple[dict[TopicPartition, int], list[TopicPartition]]:
        """Check that nobody has written behind these ends who may not; return where the logs end now, and those where
        the author's records are not the wanted ones."""
        now = await self.target.admin.log_ends(ends)

        def differs(tp: TopicPartition) -> bool:
            digest = blake2b()
            for record in self.target.bulk.read([ReadRange(*tp, ends[tp], now[tp])]):
                process = sender_of(record, author.ledger_id)
                if process == author.process:
                    add(digest, record)
                elif not self.target.takes(record, process):
                    raise RestoreFailedError(
                        f"{self._written_by(process)} has written to {tp} at offset {record.offset} during the restore",
                        hint="stop it, and run the same command again: nothing of this attempt counts",
                    )
            return digest.digest() != wanted.get(tp, blake2b()).digest()

        return now, await asyncio.to_thread(lambda: list(filter(differs, sorted(ends))))

    async def _read_back(
        self, author: Author, ends: Mapping[TopicPartition, int], wanted: Mapping[TopicPartition, blake2b]
    ) -> dict[TopicPartition, int]:
        """Check that behind these ends is what was to be appended, in order; return where the logs end."""
        now, differing = await self._behind(author, ends, wanted)
        for tp in differing:
            what = f"what {tp} has from offset {ends[tp]} on is not what was appended"
            raise RestoreFailedError(what, hint=AGAIN)
        return now

    async def _compare(self, author: Author, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Check that changelogs have gained what they lacked; return where they end. If one has not, or begins later
        than when it was folded, all are folded once more: they have to be those of the snapshot."""
        cuts = changelogs_of(self.target.captured)
        now, differing = await self._behind(author, {tp: ends[tp] for tp in cuts}, author.digests)
        starts, wrong = await self.target.admin.log_starts(cuts), None
        if differing or starts != self.folded_from:
            wrong = await asyncio.to_thread(lambda: next(self.target.lacking(starts, now), None))
        if wrong is not None:
            cut = cuts[wrong.record.tp]
            raise RestoreFailedError(
                f"table {cut.table} of app {cut.app} is not that of the snapshot: {wrong.unit} in {wrong.record.tp} is"
                f" {wrong.kind}",
                hint=AGAIN,
            )
        return now

    async def _set_groups(self, positions: Sequence[AgentPosition]) -> None:
        note = f"{RESTORED_METADATA}{self.plan.plan}"  # by it a worker without the ledger does not start
        for app, offsets in sorted(group_offsets(positions).items()):
            await self.require_mine()
            await self.holds[app].commit(offsets, note)

    def _written_by(self, process: int | None) -> str:
        if process is None:
            return "an external producer"
        view = self.work.reading.state.processes.get(process)
        return f"process {process}" + (f" of app {view.hello.app}" if view is not None else "")

    async def _topic_ids(self) -> dict[str, str]:
        captured = self.target.captured
        wanted = {tp.topic for tp in (*inputs_of(captured), *changelogs_of(captured))}
        described = await self.target.admin.describe_topics([*wanted, self.work.ledger.topic])
        return {name: it.topic_id for name, it in described.items()}

    def _overtaken(self) -> OvertakenError:
        return OvertakenError(
            f"plan {self.plan.plan} was taken over by another run, or ended: this one changed nothing more",
            hint="let that one finish; the workers can be started when it is done (see `snapkafka list`)",
        )

    async def require_mine(self) -> None:
        """Read the ledger to its end, and check that the plan is still open, and this run's."""
        await self.work.catch_up()
        view = self.work.reading.state.restores.open
        if view is None or (view.plan, view.owner) != (self.plan.plan, self.owned):
            raise self._overtaken()
        for hold in self.holds.values():
            hold.require()

    async def append(self, record: LedgerRecord) -> int:
        offset = await self.work.ledger.append(record)
        await self.work.catch_up(to=offset + 1)
        return offset

    async def phase(self, name: str, said: str) -> None:
        self.crash(name)
        await self.require_mine()
        self.notify(said)

    def _record(self, stage: RestoreStage, *, author: int = -1, replaces: str = "") -> Restore:
        plan = self.plan
        return Restore(
            n=random.getrandbits(62),
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
