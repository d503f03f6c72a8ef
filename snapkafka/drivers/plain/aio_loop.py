"""A loop with aiokafka as a participant: all of it runs in the app's own loop of asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, Final, Self

from aiokafka import ConsumerRebalanceListener, errors
from aiokafka import TopicPartition as Partition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor

from snapkafka.errors import BadInputError
from snapkafka.kafka.login.connection import Connection
from snapkafka.protocol.records import TopicPartition
from snapkafka.until import until
from snapkafka.wire import headers as wire

from .. import gate
from ..aio_client import AioClient, send_markers
from ..hello import connection_to
from ..patches import Patches
from ..reading import watch_positions
from .participant import FINISHED_EVERY_S, READ_AROUND, READ_BY, UNFINISHED, Participant
from .plan import Plan
from .running_events import Run, place_of

#: `stop` is noticed as soon.
LOOK_S: Final = 0.2
HELD_LOOK_S: Final = 0.02
#: What a client of aiokafka needs to connect, besides addresses.
SECURITY: Final = (
    *("security_protocol", "ssl_context", "sasl_mechanism", "sasl_plain_username", "sasl_plain_password"),
    *("sasl_kerberos_service_name", "sasl_kerberos_domain_name", "sasl_oauth_token_provider"),
)
#: Of the time that the group waits for a member: so long a revocation waits for the loop.
FINISHES: Final = 0.5


class AioParticipant(Participant, ConsumerRebalanceListener):
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
        self._patches = Patches()
        if plan.producer is not None:
            self.host.marked = partial(send_markers, self.sends, lambda: self._client)
            manager = plan.producer._txn_manager
            # One without an id is idempotent alone.
            if manager is not None and manager.transactional_id is not None:
                self.transact()

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self.take_clients()
        try:
            await self.join()
            if self.plan.table is not None:  # a change of it waits for nothing
                await self._producer.partitions_for(self.plan.table.changelog)
            self._patch()
            if self._consumer is not None:
                self._consumer.subscribe(list(self.plan.inputs), listener=self)
        except BaseException:
            self._leave_clients()
            await self.leave(in_order=True)
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        self.stopping, self._has_message = True, False
        if self._producer is not None:
            if self.events.open:  # nobody commits it
                self.events.aborted(confirmed=False)
            elif self.events.sent is None:
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
            self._client = AioClient(self._producer, self.sends, self.events.sent, put=self._patches.put)
            self._patches.put(self._producer, "send_batch", _send_batch)
        if self.events.sent is not None:
            self._watch("begin_transaction", self.events.beginning)
            self._watch("commit_transaction", self.events.committing)
            self._watch("abort_transaction", self.events.aborting)

    def _paused_by_loop(self, *tps: Any) -> None:
        self.host.paused_by_loop(TopicPartition(*tp) for tp in tps)
        self._pause(*tps)

    def _resumed_by_loop(self, *tps: Any) -> None:
        held = self.host.resumed_by_loop(TopicPartition(*tp) for tp in tps)
        self._resume(*(tp for tp in tps if TopicPartition(*tp) not in held))

    def _watch(self, step: str, inside: Callable[[], AbstractContextManager[None]]) -> None:
        """Take a step of a transaction inside a block."""
        theirs = getattr(self._producer, step)

        async def ours() -> None:
            with inside():
                await theirs()

        self._patches.put(self._producer, step, ours)

    # -- for the loop -----------------------------------------------------------------------------------------------

    async def poll(self, quiet_s: float | None = None) -> AsyncIterator[Any]:
        """Yield the messages of the inputs, each to be processed in its `event`, until `stop`, or until there was none
        for `quiet_s` seconds. Errors of the client are its own.

        Raises:
            BadInputError: the last message was processed outside of an event.
        """
        if self._consumer is None:
            raise BadInputError("a participant without a consumer has nothing to poll", hint="give it one")
        quiet_since = time.monotonic()
        while not self.stopping:
            self.events.require_in_order()
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
        """Run an event until this block ends."""
        with self.events.inside(run):
            yield

    async def rewind(self) -> None:
        """Go back to the committed positions, after an aborted transaction."""
        if self._consumer is not None and (tps := self._consumer.assignment()):
            self.events.on_revoked()
            await self._announce(tps)
        self.events.unwound = False

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
        tp, offset = place_of(message)
        generation, header = self._generation, None
        if tp in self.host.held:
            return self.put_back(tp, offset)
        if message.headers:
            header, rest = wire.take_out(message.headers)
            if header is not None:
                message = replace(message, headers=rest)
        waits, found = False, gate.decide(self.host, tp, offset, message.key, message.value, header)
        if found.met is not None and not self.host.absent:
            waits = await self.host.follower.meet(found.met, lambda: self.host.hold(tp))
            if generation != self._generation:
                return None
        self._has_message = self.takes_in(found, tp, offset, waits=waits)
        return message if self._has_message else None

    def _hold_back(self) -> None:
        self.host.hold_back(
            pause=lambda tps: self._pause(*(Partition(*tp) for tp in tps)),
            resume=lambda tps: self._resume(*(Partition(*tp) for tp in tps)),
        )

    def put_back(self, tp: TopicPartition, offset: int) -> None:
        self._hold_back()
        self._consumer.seek(Partition(*tp), offset)

    # -- inputs that come and go --------------------------------------------------------------------------------------

    async def on_partitions_assigned(self, tps: Collection[Any]) -> None:
        """Announce the inputs that aiokafka assigns."""
        if self.stopping:
            return
        try:
            await self._announce(tps)
            self.events.unwound = False
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

    async def on_partitions_revoked(self, tps: Collection[Any]) -> None:
        """Forget the inputs that aiokafka revokes, once the loop has finished and committed what it got, as long as the
        group waits for this member: aiokafka rebalances beside the loop. A fetch that goes on would take a record of
        the next assignment."""
        self._assigned.clear()
        limit_s = self._consumer._rebalance_timeout_ms / 1_000 * FINISHES
        with self.finishing(limit_s):
            await until(
                lambda: not (self._has_message or self.events.run()),
                limit_s,
                UNFINISHED,
                every_s=FINISHED_EVERY_S,
            )
        if self.stopping:
            return
        if self._fetching is not None:
            await _cancelled(self._fetching)
        try:
            if self.plan.on_revoke is not None:
                await _called(self.plan.on_revoke, tps)
        finally:
            self._generation += 1
            self.revoked()
            self.host.forget_paused()

    def change(self, partition: int, key: bytes, value: bytes | None) -> None:
        assert self._client is not None and self.plan.table is not None
        self._client.append_at_once(TopicPartition(self.plan.table.changelog, partition), key, value)


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


def require_usable(plan: Plan) -> None:
    """Refuse clients that cannot take part, by the name of the setting."""
    consumer = plan.consumer
    commits = consumer is not None and consumer._enable_auto_commit
    strategy = () if consumer is None else tuple(consumer._partition_assignment_strategy)
    equal = strategy == (RangePartitionAssignor,)
    plan.require_usable(
        group=None if consumer is None else consumer._group_id,
        commits="set enable_auto_commit to False, and commit after the event" if commits else "",
        unequal="" if equal else "set partition_assignment_strategy to (RangePartitionAssignor,)",
    )


def connection_of(client: Any) -> Connection:
    """Return the connection of this client."""
    given = client._bootstrap_servers
    bootstrap = given if isinstance(given, str) else ",".join(given)
    return connection_to(bootstrap, {name: getattr(client, f"_{name}") for name in SECURITY})
