"""What a participant is, whichever client library its loop has: the parts of the driver, wired."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from snapkafka.config import Config
from snapkafka.errors import BadInputError, SnapkafkaError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.protocol.events import AssignedInput, InputsAssigned, InputsRevoked

from ..gate import Gate
from ..sends import Sends, Transaction
from .driver import PlainDriver
from .hello import hello_of
from .recovery import Recovered, recover
from .running_events import LOOP, Events, Run, Transactions, place_of

if TYPE_CHECKING:
    from snapkafka.kafka.login.connection import Connection
    from snapkafka.protocol.records import TopicPartition

    from .table import Table

logger = logging.getLogger("snapkafka")

#: A revocation waits for this, and looks as often.
UNFINISHED: Final = "the loop to finish its messages"
FINISHED_EVERY_S: Final = 0.01
READ_AROUND: Final = "the consumer is read around its participant, and its records would be in no event"
READ_BY: Final = "for message in part.poll()"
#: The clients of the participants that have begun.
TAKEN: Final[WeakSet[Any]] = WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What takes part: the clients of a loop, its inputs and its state.

    `group`: its consumer group, and its app in the snapshot. `on_assign`, `on_revoke`: the loop's own callbacks, as its
    library has them, after ours at an assignment and before ours at a revocation.
    """

    config: Config
    group: str
    consumer: Any = None
    producer: Any = None
    inputs: tuple[str, ...] = ()
    table: Table | None = None
    on_assign: Any = None
    on_revoke: Any = None

    @property
    def changelog(self) -> str:
        return "" if self.table is None else self.table.changelog

    def validate(self) -> None:
        """Refuse what cannot take part.

        Raises:
            BadInputError: names what is wrong.
        """
        self.config.validate(BadInputError)
        if self.consumer is None and self.producer is None:
            raise BadInputError("a participant needs a consumer or a producer", hint="give it one of them")
        if (self.consumer is None) != (not self.inputs):
            raise BadInputError(
                "a participant with a consumer needs its inputs, and one without has none",
                hint='participant(consumer=c, inputs=["orders"]): it subscribes to them',
            )
        if self.table is not None and (self.consumer is None or self.producer is None):
            raise BadInputError(
                f"table {self.table.name} needs a consumer and a producer",
                hint="its partitions are those of the inputs, its changes are records of the producer",
            )

    def require_equal_partitions(self, equal: bool, hint: str) -> None:
        """Refuse a table whose partitions two members may write. `equal`: a member has the same ones of all inputs.

        Raises:
            BadInputError: it has several inputs.
        """
        if self.table is not None and len(self.inputs) > 1 and not equal:
            raise BadInputError(f"table {self.table.name} needs equal partitions of all inputs", hint=hint)


class Participant:
    """The common parts of a participant.

    Args:
        plan: what takes part.
        connection: the cluster, for clients of our own.
        reset: where an input without a committed offset starts; empty: it must have one.
    """

    def __init__(self, plan: Plan, connection: Connection, *, reset: str) -> None:
        self.plan, self._reset = plan, reset
        self.host = PlainDriver(plan.config, connection)
        self.events = Events(self.host)
        self.sends = Sends(self.host, self.events.cause)
        self.gate = Gate(self.host)
        self.transactions: Transactions | None = None
        self.stopping = self._begun = False

    def transact(self, fenced: Callable[[BaseException], bool]) -> Transaction:
        """Prepare for a producer with transactions: a marker would open one, or overtake one, so none is sent."""
        self.host.machine.send_no_markers()
        sent = Transaction(self.sends)
        self.transactions = Transactions(self.host, events=self.events, sent=sent, fenced=fenced)
        return sent

    def bind_table(
        self, send: Callable[[int, bytes, bytes | None], None], *, before: Callable[[], None]
    ) -> None:
        """Make the table that of this participant."""
        if self.plan.table is not None:
            self.plan.table.bind(self.host, self.plan.group, events=self.events, send=send, before=before)

    def take_clients(self) -> None:
        """Make the clients those of this participant.

        Raises:
            BadInputError: one of them is another one's, or this one has ended.
        """
        if self._begun:
            raise BadInputError("a participant begins once", hint="make another one for another loop")
        for name, client in (("consumer", self.plan.consumer), ("producer", self.plan.producer)):
            if client is not None and client in TAKEN:
                raise BadInputError(
                    f"the {name} is another participant's", hint="make one for each participant"
                )
        self._begun = True
        TAKEN.update(self._clients())

    def release_clients(self) -> None:
        """Leave the clients to other participants."""
        TAKEN.difference_update(self._clients())

    def _clients(self) -> list[Any]:
        return [client for client in (self.plan.consumer, self.plan.producer) if client is not None]

    def stop(self) -> None:
        """End `poll` after the present message; to be called from anywhere, also by a handler of a signal."""
        self.stopping = True

    def trigger(self, snapshot_id: str = "", **options: Any) -> None:
        """Request a snapshot in the background (R1); to be called from anywhere."""
        host = self.host
        if host.absent or not host.started:
            logger.error(
                "snapkafka: no snapshot is requested: this loop takes no part in snapshots, it %s",
                host.absent or "has not started",
                extra=host.about(),
            )
            return
        host.spawn(host.trigger(snapshot_id, **options))

    def inside(self, run: Run) -> Any:
        """Return the block in which an event runs."""
        return self.events.inside(run)

    def event(self, message: Any) -> Any:
        """Return the block in which a message of `poll` is processed: `with part.event(message)`, or `async with`.

        Raises:
            BadInputError: it has begun already, or `poll` did not hand it out last.
        """
        return self.inside(self.events.claim(*place_of(message)))

    def skip(self, message: Any) -> None:
        """Skip a message: it is processed, and had no effect."""
        self.events.skip(self.events.claim(*place_of(message)))

    def require_in_order(self) -> None:
        """Refuse to hand out a record while the loop is not ready for it.

        Raises:
            BadInputError: the last one is in no event, or an aborted transaction is not undone.
        """
        self.events.require_claimed()
        if self.transactions is not None and self.transactions.unwound:
            raise BadInputError(
                "a transaction was aborted, and the loop was not rewound",
                hint="call part.rewind() after abort_transaction()",
            )

    def hand_out(self, tp: TopicPartition, offset: int) -> bool:
        """Start the event of a record; False: its input is held back since."""
        with self.host.lock:
            if self.host.held.holds(tp):
                return False
            self.events.hand_out(tp, offset)
        return True

    def waits_for_others(self) -> bool:
        """Return whether no message comes because inputs are held back; nobody waits for a transaction here."""
        return bool(self.host.held) and (self.transactions is None or not self.transactions.open)

    def rewound(self) -> None:
        """Note that the loop stands where the group has committed."""
        if self.transactions is not None:
            self.transactions.unwound = False

    def log_unfinished(self, limit_s: float) -> None:
        """Log that inputs are revoked in mid-processing."""
        logger.warning(
            "snapkafka: inputs are revoked while a message is processed for more than %.0f s, so it is processed again;"
            " process less in one event",
            limit_s,
            extra=self.host.about(),
        )

    def revoked(self) -> None:
        """Forget the inputs: the next assignment starts where the group has committed."""
        self.events.on_revoked()
        self.host.feed(InputsRevoked())
        if self.plan.table is not None:
            self.plan.table.replace({})
        if self.transactions is not None:
            self.transactions.revoked()

    async def assigned(
        self, committed: Mapping[TopicPartition, int | None], *, generation: int, member: str
    ) -> dict[TopicPartition, int]:
        """Recover the table, announce these inputs, and return where each starts.

        Args:
            committed: the offsets that the group has committed; None: none.
            generation: of the group.
            member: the id of this process in it.

        Raises:
            SnapkafkaError: the table cannot be recovered, or where an input starts is unknown.
        """
        host = self.host
        host.feed(InputsRevoked())  # what starts from here on starts under this assignment
        found = Recovered()
        if self.plan.table is not None:
            partitions = {tp.partition for tp in committed}
            found = await recover(host, self.plan.table, partitions)
            self.plan.table.replace(found.data)
        positions = await self._positions(committed)
        if host.absent or not host.started:
            return positions
        changelogs = () if self.plan.table is None else found.changelogs(self.plan.table)
        host.feed(
            InputsAssigned(
                generation=generation,
                member=member,
                inputs=tuple(
                    AssignedInput(
                        tp=tp, agents=(LOOP,), position=position, replay_until=found.effects_until(tp)
                    )
                    for tp, position in sorted(positions.items())
                ),
                changelogs=changelogs,
            )
        )
        await host.follower.for_inputs()
        return positions

    async def _positions(self, committed: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        unknown = [tp for tp, offset in committed.items() if offset is None]
        if unknown and not self._reset:
            raise BadInputError(
                f"the group has committed no offset of {unknown[0]}, and its reset policy is an error",
                hint="commit where the loop is to start, or set auto.offset.reset",
            )
        starts = await self._starts(unknown)
        return {tp: starts[tp] if offset is None else offset for tp, offset in committed.items()}

    async def _starts(self, tps: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        if not tps:
            return {}
        admin = self.host.admin
        return await (admin.log_starts(tps) if self._reset == "earliest" else admin.log_ends(tps))

    # -- in the loop of the ledger ------------------------------------------------------------------------------------

    async def join(self) -> None:
        """Start the tasks of the ledger, and join it before the group (R11).

        Raises:
            BadInputError: the inputs or the changelog are not as they have to be.
        """
        plan, host = self.plan, self.host
        if not plan.config.enabled or plan.config.mode in ("off", "observe"):
            host.absent = "is disabled"
            host.admin = KafkaTopicAdmin(host.connection)
        else:
            host.begin()
        try:
            hello = await hello_of(
                host.admin, plan.group, plan.inputs, plan.table, reset=self._reset, mode=plan.config.mode
            )
        except BadInputError:
            raise
        except SnapkafkaError as error:
            if host.absent or plan.table is not None:
                raise
            host.stand_down("to join", error)
            return
        if host.absent:
            return
        await host.join_ledger(hello)
        await self._wait_for_restore()

    async def _wait_for_restore(self) -> None:
        """Wait until no restore of this app is open: it sets the offsets of the group."""
        host, logged = self.host, False
        while not host.absent and (view := host.machine.ledger.restores.holds(self.plan.group)) is not None:
            if not logged:
                logged = True
                logger.warning(
                    "snapkafka: %s waits: %s is %s", self.plan.group, view, view.stage, extra=host.about()
                )
            await host.follower.changed()

    async def leave(self, *, in_order: bool) -> None:
        """Append `Bye`, and close our own clients. `in_order`: all that was sent is acknowledged; otherwise the next
        snapshot finds out that this process is gone (R12)."""
        host = self.host
        try:
            if not host.started:
                await host.admin.close()
            elif in_order:
                await host.stop()
            else:
                await host.end_tasks()
                await host.ledger.close()
                await host.admin.close()
        except Exception as error:
            host.log_failed("to leave", error)
        host.absent = host.absent or "has left"
