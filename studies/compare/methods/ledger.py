"""The ledger and one process's machine on it, for `offsets`: the real protocol and the real wire format."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Final

from snapkafka.drivers.machine_driver import MachineDriver
from snapkafka.protocol.actions import (
    AppendToLedger,
    ReadLedgerTo,
    SendMarkers,
    StartTimer,
    TurnedRed,
)
from snapkafka.protocol.events import (
    AssignedInput,
    Event,
    InputsAssigned,
    Joined,
    LedgerRead,
    TimerExpired,
)
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import (
    ChangelogEnd,
    Hello,
    InputTopic,
    LedgerRecord,
    LogEnd,
    Table,
    TopicPartition,
)
from snapkafka.protocol.sent import Sent
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.wire import codec
from studies.compare.workload import DELAY_S

if TYPE_CHECKING:
    from studies.compare.process import Channel, Process

    from .offsets import Offsets

AGENT: Final = "transfer"
TABLE: Final = "balances"
#: Offsets and seqs start here, as in logs that have run for hours: small numbers would make smaller records.
BASE: Final = 10**9
#: So do those of the ledger: process ids and epochs are offsets of it.
LEDGER_BASE: Final = 10**6
#: How long the cut holds the process up: under a millisecond on a Faust worker (design, section 6).
CUT_S: Final = 0.001


class Ledger:
    """All records, with the size of each, and their fold as seen from outside."""

    def __init__(self) -> None:
        self.records: list[LedgerRecord] = []
        self.sizes: list[int] = []
        self.fold = LedgerState()

    def append(self, record: LedgerRecord, size: int | None = None) -> int:
        """Append a record; return its offset. `size`: of its bytes, if they are encoded already."""
        self.records.append(record)
        self.sizes.append(len(codec.encode(record)) if size is None else size)
        offset = LEDGER_BASE + len(self.records) - 1
        self.fold.apply(offset, record)
        return offset


class Node(MachineDriver):
    """The driver of one machine: it does its actions and feeds back the results. It decides nothing."""

    clock_ns = count(step=int(CUT_S * 1e9)).__next__

    def __init__(self, method: Offsets, process: Process) -> None:
        super().__init__(WorkerProtocol())
        self.method, self.process = method, process
        self.app = f"node-{process.number:04d}"
        self.inputs = tuple(method.tps[channel.number] for channel in process.incoming)
        self.changelog = TopicPartition(f"{self.app}-{TABLE}-changelog", 0)
        self.read = 0  # ledger records read
        self.polling = False
        self._own: set[int] = set()  # n of records that are held already, since they were asked for

    # -- joining ----------------------------------------------------------------------------------------------

    def hello(self) -> None:
        """Join."""
        hello = Hello(
            n=self.process.number,
            app=self.app,
            host=f"host-{self.process.number:04d}",
            inputs=tuple(InputTopic(topic=tp.topic, partitions=1) for tp in self.inputs),
            tables=(Table(name=TABLE, changelog=self.changelog.topic, partitions=1),),
        )
        self.machine.handle(Joined(hello=hello))
        self.method.ledger.append(hello)

    def take_inputs(self) -> None:
        """End the rebalance: everything sent so far is in the logs and acknowledged."""
        inputs = tuple(AssignedInput(tp=tp, agents=(AGENT,), position=BASE) for tp in self.inputs)
        recovered = ChangelogEnd(table=TABLE, topic=self.changelog.topic, partition=0, end=BASE)
        given = InputsAssigned(generation=1, inputs=inputs, changelogs=(recovered,))
        for action in self.machine.handle(given):
            assert isinstance(action, AppendToLedger)
            self.method.ledger.append(action.record)
        for channel in self.process.outgoing:
            self._has_sent(self.method.tps[channel.number])
        self._has_sent(self.changelog)

    def _has_sent(self, tp: TopicPartition) -> None:
        """Record that this process has written to `tp` for hours; the last record lies just below `BASE`."""
        machine = self.machine
        machine.colours.sent[tp] = Sent()
        machine.colours.sent[tp].next_seq = BASE - 1
        effect = machine.send_entered(None)
        seq = machine.send_stamped(effect, tp)
        machine.send_appended(effect)
        machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=BASE - 1)

    # -- the ledger -------------------------------------------------------------------------------------------

    def catch_up(self, upto: int | None = None) -> None:
        """Read the ledger, to its end or up to and including `upto`; the records are kept in the fold, and held."""
        ledger = self.method.ledger
        end = len(ledger.records) if upto is None else upto + 1 - LEDGER_BASE
        while self.read < end:
            record, size = ledger.records[self.read], ledger.sizes[self.read]
            self.read += 1
            if self.method.epoch:
                self.method.meter.send("control", size)
                if record.process != self.machine.process or record.n not in self._own:
                    self.method.meter.hold(self.process.number, "records", size)
            self.feed(LedgerRead(offset=LEDGER_BASE + self.read - 1, record=record))

    def has_read(self, offset: int) -> bool:
        return LEDGER_BASE + self.read > offset

    def poll(self, _: object) -> None:
        self.polling = False
        self.catch_up()

    # -- events in, actions out -------------------------------------------------------------------------------

    def meet(self, event: Event) -> None:
        """Handle something red: the ledger may have to be read first, which takes a round trip; then it is met
        again."""
        asked = self.feed(event)
        if isinstance(asked, ReadLedgerTo):
            self.process.stall(2 * DELAY_S)
            self.catch_up(asked.offset)
            self.feed(event)

    def append(self, record: LedgerRecord) -> None:
        """Append it after its way to the broker."""
        method = self.method
        size = len(codec.encode(record))
        self._own.add(record.n)
        method.meter.hold(self.process.number, "records", size)
        method.world.at(method.world.now + DELAY_S, method.append, (record, size))

    def send_markers(self, action: SendMarkers) -> None:
        """Send them at once."""
        for tp in action.tps:
            self.method.send_marker(self, tp, action.epoch, action.previous)

    def start_timer(self, action: StartTimer) -> None:
        """Let it expire at its time."""
        world = self.method.world
        world.at(world.now + action.ttl_ms / 1000, self._timer, action.epoch)

    def append_hello(self, was: int) -> None:
        """Fail: nobody dies here."""
        raise AssertionError(was)

    def hold_inputs(self) -> None:
        """Hold nothing back: no snapshot here is aligned."""

    def let_go(self) -> None:
        """Let nothing go: nothing is held back."""

    def turned_red(self, action: TurnedRed, us: int) -> None:
        """Let the process stand still as long as a cut takes."""
        self.process.stall(CUT_S)

    def _timer(self, epoch: int) -> None:
        self.feed(TimerExpired(epoch=epoch))


def log_end(tp: TopicPartition, records: int) -> LogEnd:
    """Return the end of a log that holds so many records."""
    return LogEnd(topic=tp.topic, partition=tp.partition, end=BASE + records)


def partition_of(channel: Channel) -> TopicPartition:
    """Return the place of a channel: a topic of its own, with a name of a usual length."""
    return TopicPartition(f"from-{channel.sender.number:04d}-to-{channel.receiver.number:04d}", 0)
