"""Is this a consistent cut? Decided from what really happened, not from what anybody says of it."""

from __future__ import annotations

from collections import defaultdict, deque
from contextlib import suppress
from typing import NamedTuple

from snapkafka.errors import BadInputError
from snapkafka.sim.story.file import Internal, Send, Step, Story, StoryChannel
from snapkafka.sim.story.performance import StoryRun
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

    def _step(self, step: Step, event: str) -> None:
        match step:
            case Internal():
                self.history.append(Happened(step.at, event, "internal"))
            case Send():
                self.history.append(Happened(step.sender, event, "send", step.channel, step.message))
            case _:
                pass
        super()._step(step, event)

    def _deliver(self, channel: StoryChannel, message: str | None, event: str) -> None:
        with suppress(BadInputError):
            super()._deliver(channel, message, event)

    def _hand_over(self, channel: StoryChannel, event: str) -> str | None:
        message = super()._hand_over(channel, event)
        if message is not None:
            self.history.append(Happened(channel.receiver, event, "receive", channel, message))
        return message


def complaints(history: list[Happened], outcome: StoryOutcome) -> list[str]:
    """What is wrong with a snapshot; nothing, if it is a consistent cut and its channels are exactly right. (A process
    that has not cut has nothing before it.)"""
    found = []
    states = {process: deque(events) for process, events in outcome.processes.items()}
    flying: defaultdict[StoryChannel, list[str]] = defaultdict(list)
    sent = set()
    for event in history:
        if not states.get(event.process):
            continue  # after the cut
        if (name := states[event.process].popleft()) != event.name:
            found.append(f"{event.process} did {event.name}, and its state has {name}")
        if event.channel is None:
            continue
        if event.kind == "send":
            sent.add(event.message)
            flying[event.channel].append(event.message)
        elif event.channel.sender in outcome.processes and event.message not in sent:
            found.append(f"{event.message} was received before the cut and sent after it")
        elif event.message in sent:
            flying[event.channel].remove(event.message)
    found += [f"{process} never did {[*events]}" for process, events in states.items() if events]
    for channel, messages in outcome.channels.items():
        if flying[channel] != list(messages):
            found.append(f"{channel} holds {messages}; {flying[channel]} were in flight")
    return found
