"""The Faust driver: it feeds the machine, does its actions and feeds back the results. It decides nothing.

One `FaustDriver` stands for one app in one worker process. Its parts live as long, and reach each other through it. One
task reads the ledger; another appends what the machine wants written, in that order. No event, send or commit of the
app waits for either. R15 names the exceptions: the start, a rebalance, and a red record whose trigger is not read yet
(R2) wait for the ledger, at most `LEDGER_WAIT_S`.
"""

from __future__ import annotations

from typing import Any, cast

from snapkafka.config import Config
from snapkafka.errors import BadInputError
from snapkafka.kafka.cluster.admin import KafkaTopicAdmin
from snapkafka.kafka.ledger.kafka_ledger import KafkaLedger
from snapkafka.protocol import InputsRevoked, SendMarkers
from snapkafka.protocol.records import Hello, Report, TopicPartition, WhyUnread

from ..aio_client import send_markers
from ..patches import contained
from ..process import Process
from ..sends import Sends
from .describe import connection_of, in_transactions
from .hello import hello_of, process_hello, report_lacks
from .inbound.conductor import IncomingRecords
from .inbound.holding import HeldInputs
from .inbound.membership import Membership
from .inbound.recorder import Recorder
from .inbound.resume import resume_last
from .inbound.running_events import Events
from .outbound.producer import OutgoingRecords, skip_producer_guard
from .restores import AppliedRestores
from .support import refusal, restore_log_level
from .tables.changelogs import Tables, recover_to_the_end
from .tables.reads import Reads


class FaustDriver(Process):
    """`app.snapkafka`: this worker as a process of the protocol."""

    #: Made when Faust makes what they are parts of.
    recorder: Recorder
    outgoing: OutgoingRecords | None = None
    membership: Membership | None = None

    def __init__(self, app: Any, config: Config) -> None:
        super().__init__(config, app)
        self.restored = AppliedRestores(self)
        self.reads = Reads(self)
        self.events = Events(self)
        self.sends = Sends(self, self.events.cause_of_send)
        self.tables = Tables(self)
        self.held = HeldInputs(self)

    # -- Faust makes its own parts ------------------------------------------------------------------------------------

    def producer_made(self, producer: Any) -> None:
        """Patch the producer that Faust has created, unless the app's settings are refused."""
        if refusal(self.app):
            return
        self.outgoing = OutgoingRecords(self, producer)
        if in_transactions(self.app):
            # See docs/explanation/design-notes.md: a marker would open a transaction, or overtake one.
            self.machine.marks = False
        skip_producer_guard(self)

    def attach(self) -> None:
        """Patch what Faust has created when the app starts, as far as there are no faults of ours: no agent sees our
        headers then, and no restored app starts without its rules. Never raises."""
        app, what = self.app, "to patch what Faust has created"
        self.note(what, recover_to_the_end, app, app.consumer)
        self.note(what, resume_last, self, app.consumer)
        self.membership = self.note(what, Membership, self, app.consumer)
        self.note(what, IncomingRecords, self, app.topics)
        self.note(what, self.events.watch_replies, app._reply_consumer)
        self.recorder = cast("Recorder", self.note(what, Recorder, self))

    @contained("to record that its inputs are revoked")
    def inputs_revoked(self, *_: Any, **__: Any) -> None:
        """Note that all inputs are revoked."""
        if self.membership is not None:
            self.membership.on_revoked()  # also where we take no part any more: it may hold some
        self.held.forget()
        if self.absent:
            return
        self.events.on_revoked()
        self.tables.on_revoked()
        self.feed(InputsRevoked())

    # -- the hooks of the loop ----------------------------------------------------------------------------------------

    def membership_read(self) -> None:
        self.restored.ledger_read()

    def other_ledger(self) -> None:
        self.tables.forget_epochs()

    def reading_moved(self, tp: TopicPartition, start: int | None, end: int, why: WhyUnread) -> None:
        """Note it in the thread of the app; the consumer has its own."""
        self.in_loop(super().reading_moved, tp, start, end, why)

    def report(self, record: Report) -> None:
        self.recorder.take(record)

    def send_markers(self, action: SendMarkers) -> None:
        if self.outgoing is not None:
            send_markers(self.sends, self.outgoing.client, action)

    def hold_inputs(self) -> None:
        self.held.hold_all()

    def let_go(self) -> None:
        self.held.let_go()

    # -- life ---------------------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Reach the ledger once the app has started, and join if no consumer will subscribe."""
        restore_log_level()
        connection = connection_of(self.app)
        self.metrics.counts["requests"] = connection.requests
        self.connected(KafkaLedger(connection, self.config.namespace), KafkaTopicAdmin(connection))
        if self.config.every is not None:
            from .timer import run_timer

            self.spawn(run_timer(self, self.config.every))
        if self.app.producer_only:
            await self.join_usable(process_hello(self))

    async def join_as(self, topics: Any) -> None:
        """Join as a consumer of these topics."""
        self.tables.attach()
        hello = await hello_of(self, topics)
        report_lacks(self, hello)
        await self.join_usable(hello)

    async def join_usable(self, hello: Hello) -> None:
        """Join; a worker that its app's settings keep out of snapshots withdraws then, so that the ledger names it."""
        await self.join_ledger(hello)
        if why := refusal(self.app):
            self.stand_down("to join", BadInputError(why))
