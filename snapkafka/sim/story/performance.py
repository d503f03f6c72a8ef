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
from collections.abc import Sequence
from typing import Final, NamedTuple, assert_never

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

from .file import UNNAMED, Deliver, Drain, Internal, Send, Snapshot, Step, Story, StoryChannel, step_error

#: Only the initiator learns of a snapshot from the ledger, and nobody from a header.
HEAR: Final = frozenset({"markers"})

AGENT: Final = "agent"
TABLE: Final = "events"


def topic_of(channel: StoryChannel) -> TopicPartition:
    return TopicPartition(str(channel), 0)


def changelog_of(process: str) -> TopicPartition:
    return TopicPartition(f"{process}-{TABLE}-changelog", 0)


class StoryEntry(NamedTuple):
    """A record: a message or a table write with its epoch per ledger, or a marker, with its ledger."""

    what: str
    epochs: tuple[int, ...] = ()
    marker: ChannelEnded | None = None
    ledger: int = 0


class StoryLedger:
    """A ledger: a list in memory, and the fold of all of it."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.records: list[LedgerRecord] = []
        self.fold = LedgerState()

    def append(self, record: LedgerRecord) -> None:
        self.records.append(record)
        self.fold.apply(len(self.records) - 1, record)


Logs = defaultdict[TopicPartition, list[StoryEntry]]


class StoryMember(MachineDriver):
    """One process in one ledger: its machine, and that machine's driver. It decides nothing."""

    clock_ns = staticmethod(lambda: 0)  # a story has no clock

    def __init__(self, name: str, ledger: StoryLedger, logs: Logs) -> None:
        super().__init__(WorkerProtocol(hear=HEAR))
        self.name, self.ledger, self._logs = name, ledger, logs

    def join(self, inputs: Sequence[StoryChannel], outputs: Sequence[StoryChannel]) -> None:
        """Append `Hello`, be assigned all inputs for good, and name the outputs: markers go to every one of them."""
        hello = Hello(
            n=len(self.ledger.records),
            app=self.name,
            inputs=tuple(InputTopic(topic=str(channel), partitions=1) for channel in inputs),
            tables=(Table(name=TABLE, changelog=changelog_of(self.name).topic, partitions=1),),
        )
        self.feed(Joined(hello=hello))
        self.append(hello)
        self._read_to_end()
        given = tuple(AssignedInput(tp=topic_of(channel), agents=(AGENT,), position=0) for channel in inputs)
        changelog = ChangelogEnd(table=TABLE, topic=changelog_of(self.name).topic, partition=0, end=0)
        self.feed(InputsAssigned(generation=1, inputs=given, changelogs=(changelog,)))
        self._read_to_end()
        for channel in outputs:
            self.machine.colours.sent_to(topic_of(channel))  # its markers go to the partitions that it knows

    def start_snapshot(self, snapshot: str, topics: tuple[str, ...]) -> None:
        """Start a snapshot as an initiator: append the trigger, and read it. A second initiator finds it started."""
        known = self.ledger.fold.latest_of.get(snapshot)
        if known is not None:
            self.meet_marker(known)  # as if a marker had come from outside
            return
        n = len(self.ledger.records)
        author = self.machine.author
        self.append(Trigger(process=author, n=n, id=snapshot, who=self.name, marker_topics=topics))
        self._read_to_end()

    def meet_marker(self, epoch: int) -> None:
        """Meet a marker: read the ledger first, if the machine asks for that (R2)."""
        if isinstance(self.feed(MarkerMet(epoch=epoch)), ReadLedgerTo):
            self._read_to_end()
            self.feed(MarkerMet(epoch=epoch))

    def append(self, record: LedgerRecord) -> None:
        """Append at once."""
        self.ledger.append(record)

    def send_markers(self, action: SendMarkers) -> None:
        """Send them at once."""
        for tp in action.tps:
            self.machine.colours.stamp(tp)
            at, epoch, sender = len(self._logs[tp]), action.epoch, self.machine.author
            marker = ChannelEnded(tp=tp, offset=at, sender=sender, epoch=epoch, previous=action.previous)
            self._logs[tp].append(StoryEntry("marker", marker=marker, ledger=self.ledger.index))
            self.feed(MarkerSettled(epoch=epoch, tp=tp, offset=at))

    def start_timer(self, action: StartTimer) -> None:
        """Start none: a story has no clock."""

    def append_hello(self, was: int) -> None:
        """Fail: nobody is taken for dead in a story."""
        raise AssertionError(was)

    def _read_to_end(self) -> None:
        while (offset := self.machine.ledger.end) < len(self.ledger.records):
            self.feed(LedgerRead(offset=offset, record=self.ledger.records[offset]))


class StoryRun:
    """All processes of a story, each with a machine per ledger; `run` it once.

    Args:
        story: the steps.
        one_ledger: all snapshots in one ledger, not each in its own.
    """

    def __init__(self, story: Story, *, one_ledger: bool = False) -> None:
        self.story = story
        self.logs: Logs = defaultdict(list)
        ids = story.snapshot_ids
        self.ledgers = [StoryLedger(index) for index in range(min(len(ids), 1) if one_ledger else len(ids))]
        self.ledger_of = {name: self.ledgers[0 if one_ledger else k] for k, name in enumerate(ids)}
        self.members = {
            name: [StoryMember(name, ledger, self.logs) for ledger in self.ledgers]
            for name in story.processes
        }
        self._heads = dict.fromkeys(story.channels, 0)  # the first offset not handed over
        for name, members in self.members.items():
            for member in members:
                member.join(
                    [channel for channel in story.channels if channel.receiver == name],
                    [channel for channel in story.channels if channel.sender == name],
                )

    def run(self) -> None:
        """Do all steps.

        Raises:
            BadInputError: a step cannot be done; the message names it.
        """
        for index, step in enumerate(self.story.steps):
            try:
                self._step(step, f"#{index}" if step.event == UNNAMED else step.event)
            except BadInputError as error:
                raise step_error(index, str(error)) from None

    def _step(self, step: Step, event: str) -> None:
        match step:
            case Internal():
                self._act(step.at, event)
            case Send():
                self._act(step.channel.sender, event)
                self._send(step.channel.sender, topic_of(step.channel), step.message)
            case Deliver():
                self._deliver(step.channel, step.message, event)
            case Snapshot():
                member = self.members[step.at][self.ledger_of[step.id].index]
                member.start_snapshot(step.id, tuple(map(str, self.story.channels)))
            case Drain():
                while any([self._empty(channel, event) for channel in self.story.channels]):  # noqa: C419
                    pass  # one whole round: a channel that was empty may have got a marker since
            case _:
                assert_never(step)

    def _deliver(self, channel: StoryChannel, message: str | None, event: str) -> None:
        left = self.logs[topic_of(channel)][self._heads[channel] :]
        names = [entry.what for entry in left if entry.marker is None]
        if not left:
            raise BadInputError(f"channel {channel} is empty")
        if message is not None and message not in names:
            raise BadInputError(f"message {message} is not in flight from {channel}")
        while self._hand_over(channel, event) != message and message is not None:
            pass

    def _empty(self, channel: StoryChannel, event: str) -> bool:
        """Deliver everything in the channel, and what enters it meanwhile; return whether there was anything."""
        before = self._heads[channel]
        while self._heads[channel] < len(self.logs[topic_of(channel)]):
            self._hand_over(channel, event)
        return self._heads[channel] > before

    def _hand_over(self, channel: StoryChannel, event: str) -> str | None:
        """Hand over the head of a channel; return the message, None: it is a marker."""
        tp, offset, members = topic_of(channel), self._heads[channel], self.members[channel.receiver]
        self._heads[channel] = offset + 1
        entry, cause = self.logs[tp][offset], Cause(AGENT, tp, offset)
        if entry.marker is not None:  # it is no event, and one for the machine of its ledger only
            members[entry.ledger].meet_marker(entry.marker.epoch)
            members[entry.ledger].feed(entry.marker)
            return None
        for member, epoch in zip(members, entry.epochs, strict=True):
            # What 1985 promises: on a FIFO channel the marker has come before the first red message.
            assert epoch <= member.machine.colours.epoch, "a white process was about to take in red"
            member.do(member.machine.event_started(cause))
        self._act(channel.receiver, event, cause)
        for member in members:
            member.do(member.machine.event_ended(cause))
        return entry.what

    def _act(self, process: str, event: str, cause: Cause | None = None) -> None:
        """Execute an event: a table write."""
        self._send(process, changelog_of(process), event, cause)

    def _send(self, process: str, tp: TopicPartition, what: str, cause: Cause | None = None) -> None:
        """Send a record: it enters, is stamped, appended and acknowledged. Each machine sees that."""
        members, log = self.members[process], self.logs[tp]
        sent = [member.machine.send_at_once(cause, tp) for member in members]
        log.append(StoryEntry(what, tuple(effect.epoch for effect, _ in sent)))
        for member, (effect, seq) in zip(members, sent, strict=True):
            member.do(member.machine.settled(effect, tp, seq, SendOutcome.ACKED, offset=len(log) - 1))
