"""The worker in its consumer group: it joins the ledger before the group, announces its inputs after each rebalance,
and gives them back.

R9: the inputs assigned to this worker, and where each starts, are reported before Faust resumes them, in
`on_rebalance_complete`. Part of that only the broker knows, and Faust waits for its answers a short time only (R15).
Then it resumes, and the process is absent until they are there. So an answer that comes after events have run must be
right as well (R14):

* The recovered offsets, the readers of each input and the generation are noted before any event runs.
* Where an input without a committed offset starts, the consumer decides once, by the reset policy of the app; it is
  asked at once, and its first answer stands. If it gives none, only a commit shows the start.
* All events below a committed position are done, here or before, and the machine knows which ones have started since.
* A log end that is reported later is higher: a snapshot may then list more replays than there will be, never fewer.

The consumer runs in a thread of its own. Faust's calls to it share two slots of a queue there; ours bypass it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import ConsumerStoppedError
from faust.exceptions import NotReady

from snapkafka.errors import InstallError
from snapkafka.protocol.events import AssignedInput, InputsAssigned, InputsRevoked
from snapkafka.protocol.records import ChangelogEnd, TopicPartition, WhyUnread

from ...ledger import RETRY_S
from ...patches import after
from ...process import CLUSTER_AT_FAULT, GOES_ON
from ...reading import watch_positions
from ..describe import internal_topics, runs_no_agents
from ..restores import keep_metadata
from ..support import Ask, in_consumer
from .running_events import RUNS

if TYPE_CHECKING:
    from ..driver import FaustDriver

#: What may pass; anything else is a fault of ours, or a client that we do not know.
MAY_PASS: Final = (*CLUSTER_AT_FAULT, ConsumerStoppedError, NotReady)

#: What was assigned, but for positions, and the readers of each input.
Assignment = tuple[InputsAssigned, Mapping[TopicPartition, tuple[str, ...]]]


class Membership:
    """The membership of one worker. `consumer`: Faust's; its `subscribe`, `ack` and `stop_flow` are patched."""

    def __init__(self, driver: FaustDriver, consumer: Any) -> None:
        self._driver, self._consumer = driver, consumer
        self._client: Any = None  # aiokafka's, that is watched
        self._asking: asyncio.Task[None] | None = None
        self._said = False  # that asking fails, since the latest assignment
        self._subscribe: Callable[[Any], Coroutine[Any, Any, None]] = consumer.subscribe
        consumer.subscribe = self.subscribe
        after(driver, consumer, "ack", self._acked, RUNS)
        # Faust waits until all that it has taken in is acknowledged.
        after(driver, consumer, "stop_flow", lambda _: driver.held.forget(), "to forget what it holds back")
        driver.app.on_rebalance_complete.connect(self.announce, weak=False)

    async def subscribe(self, topics: Any) -> None:
        """Replace `Consumer.subscribe`: join the ledger, wait for restores, then join the group."""
        driver = self._driver
        if driver.machine.process is None and not driver.absent:
            with driver.failing_open("to join"):
                await driver.join_as(topics)
        if not (driver.restored.joined or runs_no_agents(driver.app)):
            try:  # the one place that fails closed
                await driver.restored.await_turn(topics)
            except InstallError as error:
                driver.log("%s; %s", error, error.hint, level=logging.ERROR)
                raise
            except Exception as error:
                driver.stand_down("to see whether a restore is open", error)
        with driver.failing_open("to watch its positions and commits"):
            self._watch()
        await self._subscribe(topics)

    def _watch(self) -> None:
        client = None if self._driver.absent else self._consumer._thread._ensure_consumer()
        if client is not self._client:
            self._client = client
            if client is not None:
                watch_positions(client, self._moved)
                keep_metadata(self._driver.restored, client)

    async def announce(self, *args: Any, **kwargs: Any) -> None:
        """Report the assignment (R9): tables are recovered, and Faust holds the inputs until this returns.

        If the inputs are revoked meanwhile, Faust treats them as its own until it has the next assignment, and so does
        this.
        """
        driver, app = self._driver, self._driver.app
        if driver.absent:
            return
        generation = app.consumer_generation_id
        try:
            self.on_revoked()
            driver.feed(InputsRevoked())  # what starts from here on starts under this assignment
            self._asking = driver.spawn(self._ask(*assignment_of(driver, self._consumer)))
            await asyncio.sleep(0)  # so the consumer is asked before Faust moves it
            await driver.follower.for_inputs(lambda: app.consumer_generation_id != generation)
            # Else it begins anew.
            if driver.outgoing is not None and app.consumer_generation_id == generation:
                driver.outgoing.on_rebalanced(self._consumer)
        except Exception as error:
            driver.stand_down("to announce its inputs", error)

    def on_revoked(self) -> None:
        """Forget the assignment: the inputs were revoked, or assigned again, and nobody waits for the answers."""
        asking, self._asking, self._said = self._asking, None, False
        if asking is not None:
            asking.cancel()

    def _moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        if tp.topic not in internal_topics(self._driver.app) | self._driver.tables.topics:
            self._driver.reading_moved(tp, start, end, why)

    def _acked(self, _: bool, message: Any) -> None:
        """Note an acknowledgement, also by `event.ack()`, which no sensor sees."""
        events = self._driver.events
        if events.parked:
            events.acknowledged(message.tp, message.offset)

    # -- what only the broker knows ------------------------------------------------------------------------------------

    async def _ask(self, assigned: InputsAssigned, readers: Mapping[TopicPartition, tuple[str, ...]]) -> None:
        """Ask where Faust sets the consumer to: the committed offsets, or what the reset policy yields where there is
        none. The consumer is left as it is: a seek of ours would move what Faust takes for read."""
        driver, tables = self._driver, self._driver.tables
        with driver.failing_open("to announce its inputs"):
            starts = {tp: in_consumer(self._consumer, partial(starts_at, tp)) for tp in readers}
            try:
                positions = await asyncio.gather(*(self._position(tp, it) for tp, it in starts.items()))
                await self._bound_effects(readers)
            finally:
                for start in starts.values():
                    start.cancel()
            inputs = tuple(
                AssignedInput(tp=tp, agents=agents, position=position, replay_until=tables.effects_until(tp))
                for (tp, agents), position in zip(readers.items(), positions, strict=True)
            )
            driver.feed(replace(assigned, inputs=inputs))

    async def _position(self, tp: TopicPartition, start: asyncio.Future[int | None]) -> int:
        position: int | None = await self._answer(lambda client: client.committed(tp))
        if position is None:
            position = await start
        while position is None:
            await asyncio.sleep(RETRY_S)
            position = await self._answer(lambda client: client.committed(tp))
        return position

    async def _bound_effects(self, tps: Iterable[TopicPartition]) -> None:
        """Ask for log ends (R10) where a store holds effects that are not read again: their events are in the inputs
        by now."""
        tables = self._driver.tables
        if unknown := [tp for tp in tps if tables.holds and tp not in tables.bounds]:
            ends = await self._answer(lambda client: client.end_offsets(unknown))
            tables.bounds.update({TopicPartition(*tp): end for tp, end in ends.items()})

    async def _answer(self, ask: Ask) -> Any:
        """Ask until there is an answer, while the cluster is at fault; log the first failure."""
        while True:
            try:
                return await in_consumer(self._consumer, ask)
            except MAY_PASS as error:
                if not self._said:
                    self._driver.log_failed("to announce its inputs", error, f"{GOES_ON}, and tries again")
                self._said = True
            await asyncio.sleep(RETRY_S)


def assignment_of(driver: FaustDriver, consumer: Any) -> Assignment:
    """Return the current assignment without Faust's own topics, as far as it is known without the broker: who reads
    each input, how far each table was recovered."""
    app, recovery = driver.app, driver.app.tables.recovery
    internal = internal_topics(app) | driver.tables.topics
    changelogs = [
        ChangelogEnd(
            table=table.name, topic=tp.topic, partition=tp.partition, end=recovery.active_highwaters[tp] + 1
        )
        for tp, table in recovery.tp_to_table.items()
        if tp in recovery.active_tps
    ]
    coordinator = getattr(consumer._thread._consumer, "_coordinator", None)  # without a group it has no id
    assigned = InputsAssigned(
        generation=app.consumer_generation_id,
        member=getattr(coordinator, "member_id", ""),
        inputs=(),
        changelogs=tuple(sorted(changelogs, key=lambda end: (end.topic, end.partition))),
    )
    inputs = sorted(TopicPartition(*tp) for tp in consumer.assignment() if tp.topic not in internal)
    return assigned, {tp: driver.events.readers(tp) for tp in inputs}


async def starts_at(tp: TopicPartition, client: Any) -> int | None:
    """Return where the consumer starts. Nothing of the input has been handed out when this is asked, and a consumer
    that has just decided where to start answers before it can fetch anything from there."""
    try:
        position: int = await client.position(tp)
    except Exception:
        return None  # a commit will tell
    return position
