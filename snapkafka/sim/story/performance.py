"""The run of a story: the real machines, driven by the markers alone, over one log per channel.

A channel is a topic with one partition, so it is FIFO, as in 1985. The state of a process is the list of the events
executed there; each of them is a write to a table, so it lies in a changelog, as any state does. The machines learn of
snapshots by markers only (`hear`), except of those that they start themselves; they report in the ledger, and read it
up to the trigger when a marker has to be believed (R2). Nothing is taken from the textbook: channel states are offsets,
`[position of the receiver, white end of the sender)`, and so are process states.

Every snapshot has a ledger of its own, so that only the initiator learns of it through the ledger, also if several run
at once. With `one_ledger` they share one, as in a real namespace, and one cut may serve several of them (R2);
docs/guide/simulator.md describes how the results then differ.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, assert_never

from msgspec import UNSET

from snapkafka.drivers.machine_driver import MachineDriver
from snapkafka.errors import BadInputError
from snapkafka.protocol.actions import ReadLedgerTo, SendMarkers, StartTimer
from snapkafka.protocol.colours import Cause
from snapkafka.protocol.events import (
    AssignedInput,
    ChannelEnded,
    InputsAssigned,
    Joined,
    LedgerRead,
    MarkerMet,
    MarkerSettled,
)
from snapkafka.protocol.hot_path import SendOutcome
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.records import (
    ChangelogEnd,
    Hello,
    InputTopic,
    LedgerRecord,
    Table,
    TopicPartition,
    Trigger,
)
from snapkafka.protocol.worker import WorkerProtocol

from .file import Deliver, Drain, Internal, Send, Snapshot, Step, Story, StoryChannel, step_error

#: Only the initiator learns of a snapshot from the ledger, and nobody from a header.
HEAR: Final = frozenset({"markers"})

AGENT: Final = "agent"
TABLE: Final = "events"


def topic_of(channel: StoryChannel) -> TopicPartition:
    return TopicPartition(str(channel), 0)


def changelog_of(process: str) -> TopicPartition:
    return TopicPartition(f"{process}-{TABLE}-changelog", 0)


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """A record: a message or a table write with its epoch per ledger, or the marker of one ledger."""

    what: str
    epochs: tuple[int, ...] = ()
    marker: MarkerBody | None = None


class MarkerBody(NamedTuple):
    ledger: int
    sender: int
    epoch: int
    previous: int


class StoryLedger:
    """A ledger: a list in memory, and the fold of all of it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.records: list[LedgerRecord] = []
        self.fold = LedgerState()
        self.numbers = count(1)  # of records whose author is no process yet
        self.epochs: dict[str, int] = {}  # snapshot id -> epoch

    def append(self, record: LedgerRecord) -> int:
        self.records.append(record)
        self.fold.apply(len(self.records) - 1, record)
        return len(self.records) - 1


Logs = defaultdict[TopicPartition, list[StoryEntry]]


class StoryMember(MachineDriver):
    """One process in one ledger: its machine, and that machine's driver. It decides nothing."""

    clock_ns = staticmethod(lambda: 0)  # a story has no clock

    def __init__(self, name: str, ledger: StoryLedger, logs: Logs) -> None:
        super().__init__(WorkerProtocol(hear=HEAR))
        self.name, self.ledger, self._logs = name, ledger, logs
        self._read = 0  # first ledger offset not read yet

    def join(self, inputs: Sequence[StoryChannel], outputs: Sequence[StoryChannel]) -> None:
        """Append `Hello`, be assigned all inputs for good, and name the outputs: markers go to every one of them."""
        hello = Hello(
            n=next(self.ledger.numbers),
            app=self.name,
            inputs=tuple(InputTopic(topic=str(channel), partitions=1) for channel in inputs),
            tables=(Table(name=TABLE, changelog=changelog_of(self.name).topic, partitions=1),),
        )
        self.feed(Joined(hello=hello))
        self._read_to(self.ledger.append(hello))
        given = tuple(AssignedInput(tp=topic_of(channel), agents=(AGENT,), position=0) for channel in inputs)
        changelog = ChangelogEnd(table=TABLE, topic=changelog_of(self.name).topic, partition=0, end=0)
        self.feed(InputsAssigned(generation=1, inputs=given, changelogs=(changelog,)))
        self._read_to(len(self.ledger.records) - 1)
        for channel in outputs:
            self.machine.colours.sent_to(topic_of(channel))  # its markers go to the partitions that it knows

    def start_snapshot(self, snapshot: str, topics: Iterable[str]) -> None:
        """Start a snapshot as an initiator: append the trigger, and read it. A second initiator finds it started."""
        known = self.ledger.epochs.get(snapshot)
        if known is not None:
            self.meet_marker(known)  # as if a marker had come from outside
            return
        trigger = Trigger(
            process=self.machine.author,
            n=next(self.ledger.numbers),
            id=snapshot,
            who=self.name,
            marker_topics=tuple(topics),
        )
        offset = self.ledger.append(trigger)
        self.ledger.epochs[snapshot] = offset + 1
        self._read_to(offset)

    def meet_marker(self, epoch: int) -> None:
        """Meet a marker: read the ledger up to the trigger first, if the machine asks for that (R2)."""
        asked = self.feed(MarkerMet(epoch=epoch))
        if isinstance(asked, ReadLedgerTo):
            self._read_to(asked.offset)
            self.feed(MarkerMet(epoch=epoch))

    def append(self, record: LedgerRecord) -> None:
        """Append at once."""
        self.ledger.append(record)

    def send_markers(self, action: SendMarkers) -> None:
        """Send them at once."""
        assert self.machine.process is not None
        for tp in action.tps:
            self.machine.colours.stamp(tp)
            body = MarkerBody(self.ledger.index, self.machine.process, action.epoch, action.previous)
            self._logs[tp].append(StoryEntry("marker", marker=body))
            self.feed(MarkerSettled(epoch=action.epoch, tp=tp, offset=len(self._logs[tp]) - 1))

    def start_timer(self, action: StartTimer) -> None:
        """Start none: a story has no clock."""

    def append_hello(self, was: int) -> None:
        """Fail: nobody is taken for dead in a story."""
        raise AssertionError(was)

    def _read_to(self, offset: int) -> None:
        while self._read <= offset:
            self._read += 1
            self.feed(LedgerRead(offset=self._read - 1, record=self.ledger.records[self._read - 1]))


class Place:
    """One process: each of its machines sees everything that it does."""

    def __init__(self, name: str, ledgers: Sequence[StoryLedger], logs: Logs) -> None:
        self.name, self._logs = name, logs
        self.members = [StoryMember(name, ledger, logs) for ledger in ledgers]

    def act(self, event: str, cause: Cause | None = None) -> None:
        """Execute an event: a table write."""
        self.send(changelog_of(self.name), event, cause)

    def send(self, tp: TopicPartition, what: str, cause: Cause | None = None) -> None:
        """Send a record: it enters, is stamped, appended and acknowledged."""
        sent = [member.machine.send_at_once(cause, tp) for member in self.members]
        log = self._logs[tp]
        log.append(StoryEntry(what, tuple(effect.epoch for effect, _ in sent)))
        for member, (effect, seq) in zip(self.members, sent, strict=True):
            member.do(member.machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=len(log) - 1))

    def receive(self, tp: TopicPartition, offset: int, event: str) -> None:
        """Process a message: an event starts on it, and ends."""
        cause = Cause(AGENT, tp, offset)
        for member, epoch in zip(self.members, self._logs[tp][offset].epochs, strict=True):
            # What 1985 promises: on a FIFO channel the marker has come before the first red message.
            assert epoch <= member.machine.colours.epoch, "a white process was about to take in red"
            member.do(member.machine.event_started(cause))
        self.act(event, cause)
        for member in self.members:
            member.do(member.machine.event_ended(cause))

    def meet_marker(self, tp: TopicPartition, offset: int, marker: MarkerBody) -> None:
        """Pass a marker to the machine of its ledger; it is no event."""
        _, sender, epoch, previous = marker
        member = self.members[marker.ledger]
        member.meet_marker(epoch)
        member.feed(ChannelEnded(tp=tp, offset=offset, sender=sender, epoch=epoch, previous=previous))


class StoryRun:
    """All processes of a story; `run` it once.

    Args:
        story: the steps.
        one_ledger: all snapshots in one ledger, not each in its own.
    """

    def __init__(self, story: Story, *, one_ledger: bool = False) -> None:
        self.story = story
        self.logs: Logs = defaultdict(list)
        ids = story.snapshot_ids
        self.ledger_of = {name: 0 if one_ledger else k for k, name in enumerate(ids)}
        self.ledgers = [StoryLedger(index) for index in range(min(len(ids), 1) if one_ledger else len(ids))]
        self.places = {name: Place(name, self.ledgers, self.logs) for name in story.processes}
        self.heads = dict.fromkeys(story.channels, 0)  # the first offset not handed over
        for place in self.places.values():
            for member in place.members:
                member.join(
                    [channel for channel in story.channels if channel.receiver == place.name],
                    [channel for channel in story.channels if channel.sender == place.name],
                )

    def run(self) -> None:
        """Do all steps.

        Raises:
            BadInputError: a step cannot be done; the message names it.
        """
        for index, step in enumerate(self.story.steps):
            try:
                self._step(step)
            except BadInputError as error:
                raise step_error(index, self.story.texts[index], str(error)) from None

    def _step(self, step: Step) -> None:
        match step:
            case Internal():
                self.places[step.at].act(step.event)
            case Send():
                self.places[step.channel.sender].act(step.event)
                self.places[step.channel.sender].send(topic_of(step.channel), step.message)
            case Deliver():
                self._deliver(step)
            case Snapshot():
                member = self.places[step.at].members[self.ledger_of[step.id]]
                member.start_snapshot(step.id, (str(channel) for channel in self.story.channels))
            case Drain():
                while any([self._empty(channel, step.event) for channel in self.story.channels]):  # noqa: C419
                    pass  # one whole round: a channel that was empty may have got a marker since
            case _:
                assert_never(step)

    def _deliver(self, step: Deliver) -> None:
        left = self.logs[topic_of(step.channel)][self.heads[step.channel] :]
        if step.message is UNSET:
            if not left:
                raise BadInputError(f"channel {step.channel} is empty")
            self._hand_over(step.channel, step.event)
            return
        names = [entry.what if entry.marker is None else None for entry in left]
        if step.message not in names:
            raise BadInputError(f"message {step.message} is not in flight from {step.channel}")
        for _ in range(names.index(step.message) + 1):
            self._hand_over(step.channel, step.event)

    def _empty(self, channel: StoryChannel, event: str) -> bool:
        """Deliver everything in the channel, and what enters it meanwhile; return whether there was anything."""
        before = self.heads[channel]
        while self.heads[channel] < len(self.logs[topic_of(channel)]):
            self._hand_over(channel, event)
        return self.heads[channel] > before

    def _hand_over(self, channel: StoryChannel, event: str) -> None:
        tp, offset, receiver = topic_of(channel), self.heads[channel], self.places[channel.receiver]
        self.heads[channel] = offset + 1
        marker = self.logs[tp][offset].marker
        if marker is None:
            receiver.receive(tp, offset, event)
        else:
            receiver.meet_marker(tp, offset, marker)
