"""Is this a consistent cut? Decided from what really happened, not from what anybody says of it."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from snapkafka.errors import BadInputError
from snapkafka.sim.story.file import Deliver, Internal, Send, Step, Story, StoryChannel
from snapkafka.sim.story.performance import StoryRun, topic_of
from snapkafka.sim.story.play import StoryOutcome


class Happened(NamedTuple):
    """One event: the message that it sends or receives, if any."""

    process: str
    name: str
    kind: str  # "internal", "send", "receive"
    channel: StoryChannel | None = None
    message: str = ""


class Recorded(StoryRun):
    """A run that remembers what happened. A delivery from an empty channel is left out: where one cut serves several
    snapshots there are fewer markers than a scenario may count on."""

    def __init__(self, story: Story, *, one_ledger: bool = False) -> None:
        self.history: list[Happened] = []
        super().__init__(story, one_ledger=one_ledger)

    def _step(self, step: Step) -> None:
        match step:
            case Internal():
                self.history.append(Happened(step.at, step.event, "internal"))
            case Send():
                sender = step.channel.sender
                self.history.append(Happened(sender, step.event, "send", step.channel, step.message))
            case _:
                pass
        super()._step(step)

    def _deliver(self, step: Deliver) -> None:
        with suppress(BadInputError):
            super()._deliver(step)

    def _hand_over(self, channel: StoryChannel, event: str) -> None:
        entry = self.logs[topic_of(channel)][self.heads[channel]]
        if entry.marker is None:
            self.history.append(Happened(channel.receiver, event, "receive", channel, entry.what))
        super()._hand_over(channel, event)


def inside(history: list[Happened], outcome: StoryOutcome) -> list[bool]:
    """Per event: does it lie before the cut of its process? (A process that has not cut has nothing before it.)"""
    left = {process: len(events) for process, events in outcome.processes.items()}
    found = []
    for event in history:
        found.append(left.get(event.process, 0) > 0)
        left[event.process] = left.get(event.process, 0) - 1
    return found


def complaints(history: list[Happened], outcome: StoryOutcome) -> list[str]:
    """What is wrong with a snapshot; nothing, if it is a consistent cut and its channels are exactly right."""
    before = inside(history, outcome)
    found = []
    states: dict[str, list[str]] = {process: [] for process in outcome.processes}
    for event, is_inside in zip(history, before, strict=True):
        if is_inside:
            states[event.process].append(event.name)
    for process, events in outcome.processes.items():
        if states[process] != list(events):
            found.append(f"the state of {process} is {events}, its first events were {states[process]}")
    sent: dict[StoryChannel, list[str]] = {channel: [] for channel in outcome.channels}
    sent_inside = set()
    for event, is_inside in zip(history, before, strict=True):
        if not is_inside or event.channel is None:
            continue
        if event.kind == "send":
            sent_inside.add(event.message)
            if event.channel in sent:
                sent[event.channel].append(event.message)
        elif event.channel.sender in outcome.processes and event.message not in sent_inside:
            found.append(f"{event.message} was received before the cut and sent after it")
        elif event.channel in sent:
            sent[event.channel].remove(event.message)
    for channel, messages in outcome.channels.items():
        if sent[channel] != list(messages):
            found.append(
                f"{channel} holds {messages}; sent before and received after the cut: {sent[channel]}"
            )
    return found
