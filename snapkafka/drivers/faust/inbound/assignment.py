"""R9: what this worker was given, and from where, is reported before Faust lets the inputs go.

Some of that only the broker knows: what the group has committed, where an input starts of which it has committed
nothing, and where the inputs end, if a store on the disk holds effects of unknown events (R10). Faust waits
for it a little (R15). Then it goes on, and the asking does, too: the process is absent until it is done, or the inputs
are revoked again. So an answer may come when events have run, and has to be right then as well (R14):

* What was recovered, who reads what, and the generation are noted before anything runs.
* Where an input starts of which nothing is committed, the consumer settles once after each assignment, by the reset
  policy of the app; asked later the broker would report another moment, and the consumer of how far it has come. So
  the consumer is asked at once, and its first answer stands. If it gives none, only a commit shows.
* A committed position may be one that was committed since. All below it is done, here or before; and of what has
  started since it was given the machine knows itself.
* An end that is reported later is higher: there may be less to replay than a snapshot states then, never more.

The consumer runs in a thread of its own. Faust's calls to it have two places in a queue there, and what waits for the
broker keeps its place so long; ours go beside the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aiokafka.errors import ConsumerStoppedError
from faust.exceptions import ConsumerNotStarted, NotReady

from snapkafka.protocol.events import InputGiven, InputsGiven, InputsTaken
from snapkafka.protocol.records import ChangelogEnd, TopicPartition

from ...ledger_tasks import RETRY_S
from ..describe import internal_topics
from ..guard import CLUSTER_AT_FAULT

if TYPE_CHECKING:
    from ..host import Host
    from ..tables.changelogs import Tables
    from ..waiting import Waiting
    from .running_events import Events

__all__ = ["Announcing"]

#: What may pass; anything else is a fault of ours, or a client that we do not know.
MAY_PASS: Final = (*CLUSTER_AT_FAULT, ConsumerStoppedError, NotReady)
TRIES_AGAIN: Final = "this worker goes on without taking part, and tries again"

#: What is asked of the consumer's client, in its thread.
Ask = Callable[..., Coroutine[Any, Any, Any]]
#: Where the consumer starts with an input; None: it does not tell.
Starts = Mapping[TopicPartition, "asyncio.Future[int | None]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Hold what is known of an assignment without the broker: who reads each input, how far each table was
    recovered. `member`: the id of this process in its consumer group."""

    generation: int
    member: str
    readers: Mapping[TopicPartition, tuple[str, ...]]
    changelogs: tuple[ChangelogEnd, ...]


class Announcing:
    """Ask the broker, and feed the machine.

    Args:
        host: whose machine is informed.
        consumer: Faust's.
        assigned: hears which inputs are ours.
    """

    def __init__(
        self,
        host: Host,
        consumer: Any,
        *,
        events: Events,
        tables: Tables,
        waiting: Waiting,
        assigned: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        self._host, self._consumer = host, consumer
        self._events, self._tables, self._waiting, self._assigned = events, tables, waiting, assigned
        self._asking: asyncio.Task[None] | None = None
        self._said = False  # that asking fails, since the latest assignment

    async def announce(self) -> bool:
        """Tables are recovered, and Faust holds the inputs until this returns.

        Where they are revoked meanwhile it still takes them for its own until it has others: so long it is kept.

        Returns:
            are they still what it was given?
        """
        app, generation = self._host.app, self._host.app.consumer_generation_id

        def moved_on() -> bool:
            return bool(app.consumer_generation_id != generation)

        self.on_revoked()
        self._host.feed(InputsTaken())  # what starts from here on starts under this assignment
        try:
            given = assignment_of(self._host.app, self._consumer, self._events)
            self._assigned(given.readers)
            asking = self._asking = self._host.spawn(self._ask(given))
            await asyncio.sleep(0)  # so the consumer is asked before Faust moves it
            await self._waiting.for_inputs(asked=asking.done, moved_on=moved_on)
        except Exception as error:
            self._host.stand_down("to announce its inputs", error)
        return not moved_on()

    def on_revoked(self) -> None:
        """The inputs are not ours any more, or not as they were: nobody wants to know."""
        asking, self._asking, self._said = self._asking, None, False
        if asking is not None:
            asking.cancel()

    async def _ask(self, given: Assignment) -> None:
        with self._host.failing_open("to announce its inputs"):
            starts = {tp: self._in_consumer(starts_at, tp) for tp in given.readers}
            try:
                positions, _ = await asyncio.gather(
                    self._positions(starts), self._bound_effects(given.readers)
                )
            finally:
                for start in starts.values():
                    start.cancel()
            self._host.feed(self._told(given, positions))

    def _told(self, given: Assignment, positions: Mapping[TopicPartition, int]) -> InputsGiven:
        return InputsGiven(
            generation=given.generation,
            member=given.member,
            inputs=tuple(
                InputGiven(
                    tp=tp,
                    agents=agents,
                    position=positions[tp],
                    replay_until=self._tables.effects_until(tp),
                )
                for tp, agents in given.readers.items()
            ),
            changelogs=given.changelogs,
        )

    # -- asking ---------------------------------------------------------------------------------------------------

    async def _positions(self, starts: Starts) -> dict[TopicPartition, int]:
        """Where Faust sets the consumer to: the committed offsets; without one the reset policy holds.

        They are asked for, and the consumer is left as it is: a seek by anybody else moves what Faust takes for read.
        """
        found = await asyncio.gather(*(self._position(tp, start) for tp, start in starts.items()))
        return dict(zip(starts, found, strict=True))

    async def _position(self, tp: TopicPartition, start: asyncio.Future[int | None]) -> int:
        position: int | None = await self._answer(committed, tp)
        if position is None:
            position = await start
        while position is None:
            await asyncio.sleep(RETRY_S)
            position = await self._answer(committed, tp)
        return position

    async def _bound_effects(self, tps: Iterable[TopicPartition]) -> None:
        """R10, where a store holds what is not read again: its effects are of events that are in the inputs by now."""
        unknown = self._tables.to_bound(tps)
        if unknown:
            ends = await self._answer(log_ends, unknown)
            self._tables.bound({TopicPartition(*tp): end for tp, end in ends.items()})

    async def _answer(self, ask: Ask, *args: Any) -> Any:
        """Asked for as often as it takes, while the cluster is at fault; the first failure is logged."""
        while True:
            try:
                return await self._in_consumer(ask, *args)
            except MAY_PASS as error:
                if not self._said:
                    self._host.log_failed("to announce its inputs", error, TRIES_AGAIN)
                self._said = True
            await asyncio.sleep(RETRY_S)

    def _in_consumer(self, ask: Ask, *args: Any) -> asyncio.Future[Any]:
        """Begins at once: `ask(client, ...)` runs in the consumer's thread, beside the queue for Faust's own calls."""
        thread = self._consumer._thread
        work = ask(thread._ensure_consumer(), *args)
        try:
            return asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, thread.thread_loop))
        except RuntimeError as error:  # the thread has ended
            work.close()
            raise ConsumerNotStarted("its thread has ended") from error


def assignment_of(app: Any, consumer: Any, events: Events) -> Assignment:
    """The assignment as it is now, without what is Faust's own."""
    internal = internal_topics(app) | set(app.tables.changelog_topics)
    inputs = sorted(TopicPartition(*tp) for tp in consumer.assignment() if tp.topic not in internal)
    recovery = app.tables.recovery
    changelogs = [
        ChangelogEnd(
            table=table.name, topic=tp.topic, partition=tp.partition, end=recovery.active_highwaters[tp] + 1
        )
        for tp, table in recovery.tp_to_table.items()
        if tp in recovery.active_tps
    ]
    return Assignment(
        generation=app.consumer_generation_id,
        member=member_of(consumer),
        readers={tp: events.readers(tp) for tp in inputs},
        changelogs=tuple(sorted(changelogs, key=lambda end: (end.topic, end.partition))),
    )


def member_of(consumer: Any) -> str:
    """Return the id of this process in its consumer group; empty where the client library keeps it elsewhere."""
    client = getattr(getattr(consumer, "_thread", None), "_consumer", None)
    member = getattr(getattr(client, "_coordinator", None), "member_id", "")
    return member if isinstance(member, str) else ""


async def starts_at(client: Any, tp: TopicPartition) -> int | None:
    """Where the consumer starts. Nothing of the input has been handed out when this is asked, and when the consumer
    settles where to start it answers before it can fetch anything from there."""
    try:
        position: int = await client.position(tp)
    except Exception:
        return None  # a commit will tell
    return position


async def committed(client: Any, tp: TopicPartition) -> int | None:
    position: int | None = await client.committed(tp)
    return position


async def log_ends(client: Any, tps: list[TopicPartition]) -> Any:
    return await client.end_offsets(tps)
