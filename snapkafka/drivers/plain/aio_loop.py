"""A loop with aiokafka as a participant: all of it runs in the app's own loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from aiokafka import ConsumerRebalanceListener, errors
from aiokafka import TopicPartition as Partition

from snapkafka.errors import BadInputError, TimedOutError
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import until
from snapkafka.wire import headers as wire

from ..aio_client import AioClient, send_markers
from ..outcomes import FENCED
from ..patches import Patches
from ..reading import watch_positions
from ..sends import Transaction
from .aio_settings import connection_of, require_usable
from .participant import FINISHED_EVERY_S, READ_AROUND, READ_BY, UNFINISHED, Participant, Plan
from .running_events import Run, Transactions, place_of
from .table import Changes

#: `stop` is noticed as soon.
LOOK_S: Final = 0.2
HELD_LOOK_S: Final = 0.02
#: Of the time that the group waits for a member: so long a revocation waits for the loop.
FINISHES: Final = 0.5


class AioParticipant(Participant):
    """A loop with aiokafka in a snapshot; its clients have started. Arguments: see `Participant`."""

    def __init__(self, plan: Plan) -> None:
        require_usable(plan)
        client = plan.producer.client if plan.consumer is None else plan.consumer._client
        reset = "none" if plan.consumer is None else plan.consumer._auto_offset_reset
        super().__init__(plan, connection_of(client), reset="" if reset == "none" else reset)
        self._consumer, self._producer = plan.consumer, plan.producer
        self._getone, self._pause, self._resume = (
            getattr(plan.consumer, name, _read_around) for name in ("getone", "pause", "resume")
        )
        self._assigned = asyncio.Event()
        self._generation = 0  # of our own count: what was fetched under an earlier one is fetched again
        self._fetching: asyncio.Future[Any] | None = None
        self._has_message = False  # from `poll` until the loop calls it again: its position is committed then
        self._failed: BaseException | None = None  # in a callback of aiokafka, which swallows it
        self._client: AioClient | None = None  # while the producer stamps
        self._sent: Transaction | None = None
        self.changes: Changes | None = None
        self._patches = Patches()
        if plan.producer is not None:
            self.changes = Changes(plan.producer, sends=self.sends, events=self.events)
            self.host.marked = partial(send_markers, self.sends, lambda: self._client)
            manager = plan.producer._txn_manager
            # One without an id is idempotent alone.
            if manager is not None and manager.transactional_id is not None:
                self._sent = self.transact(lambda error: isinstance(error, FENCED))
        self.bind_table(self._change, before=lambda: None)

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.take_clients()
        try:
            await self.join()
            self._patch()
            if self._consumer is not None:
                self._consumer.subscribe(list(self.plan.inputs), listener=_Listener(self))
        except BaseException:
            self._leave_clients()
            await self.leave(in_order=True)
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stopping, self._has_message = True, False
        if self._producer is not None:
            if self.transactions is not None:
                self.transactions.left()
            else:
                with contextlib.suppress(errors.KafkaError):
                    await self._producer.flush()
        self._leave_clients()
        self.events.on_revoked()
        if self._consumer is not None:
            self._consumer.unsubscribe()
        await self.leave(in_order=True)

    def _leave_clients(self) -> None:
        self.release_clients()
        self._patches.undo()

    def _patch(self) -> None:
        if self._consumer is not None:
            watch_positions(self._consumer, self.host.reading_moved, self._patches.put)
            for name in ("getone", "getmany"):
                self._patches.put(self._consumer, name, _read_around)
            self._patches.put(self._consumer, "pause", self._paused_by_loop)
            self._patches.put(self._consumer, "resume", self._resumed_by_loop)
        if self._producer is not None:
            self._client = AioClient(self._producer, self.sends, self._sent, put=self._patches.put)
            self._patches.put(self._producer, "send_batch", _send_batch)
        if self.transactions is not None:
            self._patch_transactions(self._producer, self.transactions)

    def _paused_by_loop(self, *tps: Any) -> None:
        self.host.held.paused_by_loop(TopicPartition(*tp) for tp in tps)
        self._pause(*tps)

    def _resumed_by_loop(self, *tps: Any) -> None:
        held = self.host.held.resumed_by_loop(TopicPartition(*tp) for tp in tps)
        self._resume(*(tp for tp in tps if TopicPartition(*tp) not in held))

    def _patch_transactions(self, producer: Any, transactions: Transactions) -> None:
        begin, commit, abort = (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
        )

        async def begun() -> None:
            await begin()
            transactions.began()

        async def committed() -> None:
            with transactions.committing():
                await commit()

        async def aborted() -> None:
            with transactions.aborting():
                await abort()

        self._patches.put(producer, "begin_transaction", begun)
        self._patches.put(producer, "commit_transaction", committed)
        self._patches.put(producer, "abort_transaction", aborted)

    # -- for the loop -----------------------------------------------------------------------------------------------

    async def poll(self, quiet_s: float | None = None) -> AsyncIterator[Any]:
        """Yield the messages of the inputs, each to be processed in its `event`.

        Args:
            quiet_s: end when there was no message for so many seconds; None: go on until `stop`.

        Raises:
            BadInputError: the last message was processed outside of an event.
            KafkaError: the client's own errors.
        """
        if self._consumer is None:
            raise BadInputError("a participant without a consumer has nothing to poll", hint="give it one")
        quiet_since = time.monotonic()
        while not self.stopping:
            self.require_in_order()
            self._has_message = False
            within_s = HELD_LOOK_S if self.host.held else LOOK_S
            message = await self._fetched(within_s if quiet_s is None else min(within_s, quiet_s))
            if self._failed is not None:
                failed, self._failed = self._failed, None
                raise failed
            if self.waits_for_others():
                quiet_since = time.monotonic()
            if message is None:
                if quiet_s is not None and time.monotonic() - quiet_since >= quiet_s:
                    return
                continue
            passed = await self._take_in(message)
            if passed is not None:
                yield passed
                quiet_since = time.monotonic()

    @contextlib.asynccontextmanager
    async def inside(self, run: Run) -> AsyncIterator[None]:
        """Run an event until this block ends; then its changes of the table are sent."""
        with self.events.inside(run):
            try:
                yield
            finally:
                if self.changes is not None:
                    await self.changes.send()

    async def rewind(self) -> None:
        """Go back to the committed positions, after an aborted transaction.

        Raises:
            KafkaError: the committed positions are unknown.
        """
        if self._consumer is not None and (tps := self._consumer.assignment()):
            self.events.on_revoked()
            if self.changes is not None:
                self.changes.forget()
            await self._announce(tps)
        self.rewound()

    # -- records that come in ---------------------------------------------------------------------------------------

    async def _fetched(self, within_s: float) -> Any:
        """Return the next record, or None. One that was fetched under an earlier assignment is fetched again."""
        try:
            async with asyncio.timeout(within_s):
                await self._assigned.wait()
        except TimeoutError:
            return None
        generation = self._generation
        self._hold_back()
        self._fetching = fetching = asyncio.ensure_future(self._getone())
        try:
            await asyncio.wait({fetching}, timeout=within_s)
        finally:
            await _cancelled(fetching)
        if fetching.cancelled() or generation != self._generation:
            return None
        return fetching.result()

    async def _take_in(self, message: Any) -> Any:
        """Return the record as the loop gets it; None: it does not."""
        (tp, offset), held = place_of(message), self.host.held
        generation, times, header = self._generation, held.times, None
        if held.holds(tp):
            return self._put_back(tp, offset)
        if message.headers:
            header, rest = wire.take_out(message.headers)
            if header is not None:
                message = replace(message, headers=rest)
        found = self.gate.decide(tp, offset, message.key, message.value, header)
        if found.met is not None and not self.host.absent:
            waits = await self.host.follower.meet(found.met)
            if generation != self._generation:
                return None
            if waits:
                held.hold(tp, times)
                return self._put_back(tp, offset)
        if found.ended is not None:
            self.host.feed(found.ended)
        if not found.passes:
            return None
        if not self.hand_out(tp, offset):
            return self._put_back(tp, offset)
        self._has_message = True
        return message

    def _hold_back(self) -> None:
        """Pause what is held back, and resume what is not any more."""
        self.host.held.apply(
            pause=lambda tps: self._pause(*(Partition(*tp) for tp in tps)),
            resume=lambda tps: self._resume(*(Partition(*tp) for tp in tps)),
        )

    def _put_back(self, tp: TopicPartition, offset: int) -> None:
        """Read a record again, once its partition is not held back any more."""
        self._hold_back()
        self._consumer.seek(Partition(*tp), offset)

    # -- inputs that come and go --------------------------------------------------------------------------------------

    async def on_assigned(self, tps: Collection[Any]) -> None:
        """Announce the inputs that aiokafka assigns."""
        if self.stopping:
            return
        try:
            await self._announce(tps)
            self.rewound()
        except Exception as error:
            self._failed = error
        self._assigned.set()
        if self.plan.on_assign is not None:
            await _called(self.plan.on_assign, tps)

    async def _announce(self, tps: Collection[Any]) -> None:
        consumer = self._consumer
        self._generation += 1
        committed = {TopicPartition(*tp): await consumer.committed(tp) for tp in tps}
        coordinator = consumer._coordinator
        starts = await self.assigned(
            committed, generation=coordinator.generation, member=coordinator.member_id
        )
        self._generation += 1
        for tp in tps:
            consumer.seek(tp, starts[TopicPartition(*tp)])

    async def on_revoked(self, tps: Collection[Any]) -> None:
        """Forget the inputs that aiokafka revokes, once the loop has finished its message.

        aiokafka rebalances beside the loop. What it processes would have effects, but its position could no longer be
        committed; a fetch that goes on would take a record of the next assignment.
        """
        self._assigned.clear()
        await self._finished()
        if self.stopping:
            return
        if self._fetching is not None:
            await _cancelled(self._fetching)
        try:
            if self.plan.on_revoke is not None:
                await _called(self.plan.on_revoke, tps)
        finally:
            self._generation += 1
            if self.changes is not None:
                self.changes.forget()
            self.revoked()
            self.host.held.forget()

    async def _finished(self) -> None:
        """Wait until the loop has finished and committed what it got, as long as the group waits for this member."""
        limit_s = self._consumer._rebalance_timeout_ms / 1_000 * FINISHES
        try:
            await until(
                lambda: not (self._has_message or self.events.run()),
                limit_s,
                UNFINISHED,
                every_s=FINISHED_EVERY_S,
            )
        except TimedOutError:
            self.log_unfinished(limit_s)

    # -- the table ----------------------------------------------------------------------------------------------------

    def _change(self, partition: int, key: bytes, value: bytes | None) -> None:
        assert self.changes is not None
        self.changes.add(TopicPartition(self.plan.changelog, partition), key, value)


class _Listener(ConsumerRebalanceListener):
    def __init__(self, participant: AioParticipant) -> None:
        self._participant = participant

    async def on_partitions_revoked(self, revoked: Collection[Any]) -> None:
        await self._participant.on_revoked(revoked)

    async def on_partitions_assigned(self, assigned: Collection[Any]) -> None:
        await self._participant.on_assigned(assigned)


async def _send_batch(*arguments: Any, **more: Any) -> Any:
    raise BadInputError("send_batch is not supported in a participant", hint="call send for each record")


async def _read_around(*arguments: Any, **more: Any) -> Any:
    raise BadInputError(READ_AROUND, hint=f"async {READ_BY}")


async def _cancelled(work: asyncio.Future[Any]) -> None:
    if not work.done():
        work.cancel()
        await asyncio.wait({work})


async def _called(callback: Callable[[Any], Any], tps: Collection[Any]) -> None:
    found = callback(tps)
    if asyncio.iscoroutine(found):
        await found
