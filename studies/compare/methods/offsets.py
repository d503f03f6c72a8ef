"""snapkafka: a snapshot is a vector of offsets. Nothing is stopped, copied, blocked or forwarded.

This is the real protocol, not a model: each process runs `protocol.WorkerProtocol`, messages carry the real `_sk`
header, markers are real markers, `Report` is encoded by `wire.codec`, and `LedgerState` decides
whether the snapshot is captured, and its content. Channels are partitions of logs, states are folds of changelogs;
both exist in Kafka anyway. Counted are:

* memory: the records of the ledger that a process holds. Its own, from when it wants to write them; and those of all
  others, because every process folds the ledger. So it grows with the number of channels of the whole system.
* network: markers, written and read; each record of the ledger, written once and read by every process.

Not counted, as they exist without snapshots too: the header on each message (`tag_bytes`), and the changelog.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from snapkafka.checks import CutView, LogRecord
from snapkafka.protocol.colours import Cause, Effect
from snapkafka.protocol.events import ChannelEnded, MarkerMet, MarkerSettled, RecordMet
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.records import LedgerRecord, LogEnd, TopicPartition, Trigger
from snapkafka.wire import headers
from studies.compare.process import START_BALANCE, Control, Message

from .base import Method, Snapshot
from .ledger import AGENT, BASE, Ledger, Node, log_end, partition_of

if TYPE_CHECKING:
    from studies.compare.process import Channel, Process
    from studies.compare.world import World

LEDGER: Final = headers.ledger_id(b"ledger of compar")
#: No snapshot is aborted here for being slow.
TTL_MS: Final = 86_400_000

_SLOT: Final = Struct("<q")


class _Entry(NamedTuple):
    """A record in the log of a channel; a marker has no payload."""

    header: bytes
    payload: bytes | None


class Offsets(Method):
    name = "snapkafka: offsets"
    recovery = "the offsets, and the logs: changelogs to their ends, channels from position to white end"
    tag_bytes = headers.CAUSED_BYTES

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.ledger = Ledger()
        self.epoch = 0
        self.tps = [partition_of(channel) for channel in world.channels]
        self._checks = [headers.tp_check(tp.topic, tp.partition) for tp in self.tps]
        self._channels = dict(zip(self.tps, world.channels, strict=True))
        self._logs: list[list[_Entry]] = [[] for _ in world.channels]
        self._changelogs: list[list[tuple[int, int, int]]] = [[] for _ in world.processes]
        self._unsent: dict[int, Effect] = {}  # sends under way to a log that reorders, by message
        self._causes: list[Cause | None] = [None] * len(world.processes)
        self.nodes = [Node(self, process) for process in world.processes]
        for node in self.nodes:
            node.hello()
        for node in self.nodes:
            node.catch_up()
            node.take_inputs()
        for node in self.nodes:
            node.catch_up()
        world.at(world.trigger_s, self._trigger, None)

    # -- the snapshot -----------------------------------------------------------------------------------------

    def _trigger(self, _: object) -> None:
        ends = tuple(self.log_end(channel) for channel in self.world.channels)
        topics = tuple(sorted({tp.topic for tp in self.tps}))
        trigger = Trigger(n=len(self.nodes), id="compare", ttl_ms=TTL_MS, ends=ends, marker_topics=topics)
        self.epoch = self.ledger.append(trigger) + 1
        self.meter.send("control", self.ledger.sizes[-1])

    def hear(self, process: Process) -> None:
        self.nodes[process.number].catch_up()

    def append(self, asked: tuple[LedgerRecord, int]) -> None:
        """Append a record to the ledger, which all read soon."""
        self.ledger.append(*asked)
        self.meter.send("control", self.ledger.sizes[-1])
        for node in self.nodes:
            if not node.polling and node.has_read(
                self.epoch - 1
            ):  # who has not read the trigger does so at its time
                node.polling = True
                self.world.at(self.world.now + self.world.load.hears_s[0], node.poll, None)
        snapshot = self.ledger.fold.snapshots[self.epoch]
        if self.snapshot is None and snapshot.captured_at is not None:
            self.snapshot = self._read_back()

    def stuck(self) -> str:
        failure = self.ledger.fold.snapshots[self.epoch].failure
        if failure is not None:
            return f"failed: {failure.reason}"
        return f"waits for {next(iter(self.ledger.fold.waiting(self.epoch)), 'nothing')}"

    # -- messages ---------------------------------------------------------------------------------------------

    def sending(self, process: Process, message: Message) -> None:
        node, number = self.nodes[process.number], message.channel.number
        machine, tp = node.machine, self.tps[number]
        assert machine.process is not None
        effect = machine.send_entered(None)
        seq = machine.send_stamped(effect, tp)
        message.tag = headers.stamp(LEDGER, self._checks[number], effect.epoch, machine.process, seq)
        node.do(machine.send_appended(effect))
        if self.world.load.fifo:
            self._into_log(message, message.payload)
            node.do(machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=message.offset))
        else:
            self._unsent[message.number] = effect

    def arrived(self, item: Message | Control) -> None:
        """Append an item to the log: a network that reorders does so on the way to the log, which numbers items as
        they come."""
        if self.world.load.fifo:
            return
        tp, node = self.tps[item.channel.number], self.nodes[item.channel.sender.number]
        if isinstance(item, Message):
            self._into_log(item, item.payload)
            stamp = self._stamp(item)
            effect = self._unsent.pop(item.number)
            node.do(node.machine.settled(effect, tp, stamp.seq, SendOutcome.ACKED, offset=item.offset))
        else:
            self._into_log(item, None)
            node.feed(MarkerSettled(epoch=self._stamp(item).epoch, tp=tp, offset=item.offset))

    def receiving(self, process: Process, message: Message) -> None:
        node = self.nodes[process.number]
        stamp = self._stamp(message)
        if stamp.epoch > node.machine.colours.epoch:
            node.meet(RecordMet(epoch=stamp.epoch))
        cause = Cause(AGENT, self.tps[message.channel.number], message.offset)
        node.do(node.machine.event_started(cause))
        self._causes[process.number] = cause

    def changed(self, process: Process, slot: int) -> None:
        """Write the table change of the event to the changelog; then the event is over."""
        node, changelog = self.nodes[process.number], self._changelogs[process.number]
        machine, cause = node.machine, self._causes[process.number]
        effect = machine.send_entered(cause)
        seq = machine.send_stamped(effect, node.changelog)
        changelog.append((slot, process.counts[slot], process.balance))
        node.do(machine.send_appended(effect))
        node.do(
            machine.settled(effect, node.changelog, seq, SendOutcome.ACKED, offset=BASE + len(changelog) - 1)
        )
        if cause is not None:
            self._causes[process.number] = None
            node.do(machine.event_ended(cause))

    # -- markers ----------------------------------------------------------------------------------------------

    def send_marker(self, node: Node, tp: TopicPartition, epoch: int, previous: int) -> None:
        """Send a marker: it is a record too, written to the log and read from it."""
        channel = self._channels.get(tp)
        assert channel is not None and node.machine.process is not None, "markers go to inputs only"
        process, seq = node.machine.process, node.machine.colours.stamp(tp)
        header = headers.marker(LEDGER, self._checks[channel.number], epoch, process, seq, previous)
        item = self.world.carry_control(channel, header, 2 * (len(header) + len(headers.marker_key(process))))
        if self.world.load.fifo:
            self._into_log(item, None)
            node.feed(MarkerSettled(epoch=epoch, tp=tp, offset=item.offset))

    def control(self, process: Process, item: Control) -> None:
        node, stamp = self.nodes[process.number], self._stamp(item)
        node.meet(MarkerMet(epoch=stamp.epoch))
        ended = ChannelEnded(
            tp=self.tps[item.channel.number],
            offset=item.offset,
            sender=stamp.process,
            epoch=stamp.epoch,
            previous=stamp.previous,
        )
        node.feed(ended)

    # -- logs -------------------------------------------------------------------------------------------------

    def log_end(self, channel: Channel) -> LogEnd:
        """Return the present end of a channel's log."""
        return log_end(self.tps[channel.number], len(self._logs[channel.number]))

    def _into_log(self, item: Message | Control, payload: bytes | None) -> None:
        log = self._logs[item.channel.number]
        assert isinstance(item.tag, bytes)
        item.offset = BASE + len(log)
        log.append(_Entry(item.tag, payload))

    def _stamp(self, item: Message | Control) -> headers.Stamp:
        assert isinstance(item.tag, bytes)
        stamp = headers.read(item.tag, LEDGER, self._checks[item.channel.number])
        assert stamp is not None, "everything here carries our header"
        return stamp

    def _read_back(self) -> Snapshot:
        """Read what assembly would read: the folds of the changelogs, the white records in flight."""
        captured = self.ledger.fold.captured(self.epoch)
        view = CutView(captured)
        snapshot = Snapshot(finished_s=self.world.now)
        for source in captured.inputs:
            tp = TopicPartition(source.topic, source.partition)
            channel = self._channels[tp]
            log, data = self._logs[channel.number], bytearray()
            for offset in range(source.position, view.closed_end(tp)):
                header, payload = log[offset - BASE]
                stamp = headers.read(header, LEDGER, self._checks[channel.number])
                assert stamp is not None
                at = LogRecord(*tp, offset, stamp.process, stamp.epoch, stamp.seq, stamp.marker)
                if payload is not None and view.in_channel(at, source):
                    data += payload
            snapshot.channels[channel.number] = bytes(data)
        of_process = {node.changelog.topic: node.process for node in self.nodes}
        for cut in captured.changelogs:
            process = of_process[cut.topic]
            snapshot.states[process.number] = self._fold(process, cut.end - BASE)
        return snapshot

    def _fold(self, process: Process, end: int) -> bytes:
        """Return the state that results from the changelog below `end`."""
        slots, money = [0] * len(process.counts), START_BALANCE
        for slot, count, balance in self._changelogs[process.number][:end]:
            slots[slot], money = count, balance
        return b"".join(_SLOT.pack(value) for value in (money, *slots))
