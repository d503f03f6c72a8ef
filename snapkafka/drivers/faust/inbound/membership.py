"""The worker in its consumer group: it joins the ledger before the group, announces its inputs after each rebalance,
and gives them back.

Faust calls `subscribe` once, when what the app reads is known and nothing is sent yet; `on_rebalance_complete` when
tables are recovered and the inputs are not resumed; `ack` for each record that all agents are through with.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from snapkafka.errors import InstallError

from ...reading import watch_positions
from ..describe import internal_topics, runs_no_agents
from ..restores import crash_if_refused, keep_metadata
from ..support import require_usable

if TYPE_CHECKING:
    from snapkafka.protocol.records import TopicPartition, WhyUnread

    from ...host import Host
    from ..restores import AppliedRestores
    from .assignment import AssignmentAnnouncer
    from .running_events import Events


logger = logging.getLogger("snapkafka")


class Membership:
    """The membership of one worker.

    Args:
        host: whose machine is fed.
        consumer: Faust's; its `subscribe`, `ack` and `stop_flow` are patched.
        join: appends our `Hello` to the ledger, as a reader of these topics.
        rebalanced: called when the inputs are announced.
        flow_stops: called when Faust takes in nothing more, for a rebalance or as the app stops.
    """

    def __init__(
        self,
        host: Host,
        consumer: Any,
        *,
        join: Callable[[Any], Awaitable[None]],
        announcing: AssignmentAnnouncer,
        events: Events,
        restored: AppliedRestores,
        rebalanced: Callable[[Any], None],
        flow_stops: Callable[[], None],
    ) -> None:
        self._host, self._consumer, self._join = host, consumer, join
        self._announcing, self._rebalanced = announcing, rebalanced
        self._events, self._restored = events, restored
        self._subscribe: Callable[[Any], Awaitable[None]] = consumer.subscribe
        self._ack: Callable[[Any], Any] = consumer.ack
        consumer.ack = self.ack
        self._client: Any = None  # aiokafka's, that is watched
        self._flow_stops = flow_stops
        self._stop_flow: Callable[[], None] = consumer.stop_flow
        consumer.stop_flow = self.stop_flow
        host.app.on_rebalance_complete.connect(self.announce, weak=False)
        consumer.subscribe = self.subscribe

    async def subscribe(self, topics: Any) -> None:
        """Replace `Consumer.subscribe`: join the ledger, wait for restores, then join the group."""
        host = self._host
        if host.machine.process is None and not host.absent:
            with host.failing_open("to join"):
                await self._join(topics)
                require_usable(host.app)
        await self._wait_for_restores(topics)
        with host.failing_open("to watch its positions and commits"):
            self._watch()
        await self._subscribe(topics)
        with host.failing_open("to see whether its group is held"):
            if self._client is not None:
                crash_if_refused(host, self._client)

    def _watch(self) -> None:
        client = None if self._host.absent else self._consumer._thread._ensure_consumer()
        if client is not self._client:
            self._client = client
            if client is not None:
                watch_positions(client, self._moved)
                keep_metadata(self._restored, client)

    async def announce(self, *args: Any, **kwargs: Any) -> None:
        """Announce the inputs (R9): Faust waits for this before it resumes them."""
        try:
            if self._host.absent or not await self._announcing.announce():
                return  # or Faust has been given others meanwhile, and begins anew
            self._rebalanced(self._consumer)
        except Exception as error:
            self._host.stand_down("to end a rebalance", error)

    def _moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        if tp.topic not in internal_topics(self._host.app) | set(self._host.app.tables.changelog_topics):
            self._host.reading_moved(tp, start, end, why)

    def ack(self, message: Any) -> bool:
        """Replace `Consumer.ack`: note an acknowledgement, also by `event.ack()`, which no sensor sees."""
        done = bool(self._ack(message))
        try:
            if self._events.parked:
                self._events.acknowledged(message.tp, message.offset)
        except Exception as error:
            self._host.stand_down("to record that an event is acknowledged", error)
        return done

    def stop_flow(self) -> None:
        """Replace `Consumer.stop_flow`: forget what is held back first, for Faust waits until all that it has taken in
        is acknowledged."""
        try:
            self._flow_stops()
        except Exception as error:
            self._host.stand_down("to forget what it holds back", error)
        self._stop_flow()

    def on_revoked(self) -> None:
        """Forget the unannounced inputs."""
        self._announcing.on_revoked()

    async def _wait_for_restores(self, topics: Any) -> None:
        """Hold the inputs as a restore asks: the one place that fails closed. A fault of ours still stops nothing
        (R15)."""
        host = self._host
        if self._restored.joined or runs_no_agents(host.app):
            return
        try:
            await self._restored.await_turn(topics)
        except InstallError as error:
            logger.error("snapkafka: %s; %s", error, error.hint, extra=host.about())
            raise
        except Exception as error:
            host.stand_down("to see whether a restore is open", error)
