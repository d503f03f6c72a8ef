"""Chandy and Lamport's algorithm as their paper of 1985 has it, buffers and all: what `run` is compared with.

It shares nothing with snapkafka: channels are queues, and a process that has recorded its state keeps, per incoming
channel, every message until the marker comes.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import Any

Channel = tuple[str, str]


@dataclass
class Recording:
    """One snapshot: what each process has recorded."""

    states: dict[str, list[str]] = field(default_factory=dict)
    recording: dict[Channel, list[str]] = field(default_factory=dict)  # the marker has not come yet
    channels: dict[Channel, list[str]] = field(default_factory=dict)  # the marker has come


class Textbook:
    """Runs the steps of a scenario; each snapshot by itself."""

    def __init__(self, processes: list[str], channels: list[Channel]) -> None:
        self.events: dict[str, list[str]] = {p: [] for p in processes}
        self.queues: dict[Channel, deque[tuple[str, str]]] = {c: deque() for c in channels}
        self.snapshots: dict[str, Recording] = {}

    def do(self, index: int, step: dict[str, Any]) -> None:
        event = step.get("event", f"#{index}")
        match step["do"]:
            case "internal":
                self.events[step["at"]].append(event)
            case "send":
                self.events[step["from"]].append(event)
                self.queues[step["from"], step["to"]].append(("message", step["message"]))
            case "deliver":
                channel = (step["from"], step["to"])
                while True:
                    handed = self.hand_over(channel, event)
                    if "message" not in step or handed == ("message", step["message"]):
                        break
            case "snapshot":
                self.snapshots.setdefault(step["id"], Recording())
                self.record(step["id"], step["at"])
            case "drain":
                while any(self.queues.values()):
                    for channel, queue in self.queues.items():
                        while queue:
                            self.hand_over(channel, event)

    def record(self, snapshot: str, p: str) -> None:
        """Marker-Sending Rule for a process p: for each channel c directed away from p, p sends one marker along c
        after p records its state and before p sends further messages along c."""
        recording = self.snapshots[snapshot]
        if p in recording.states:
            return
        recording.states[p] = list(self.events[p])
        for channel, queue in self.queues.items():
            if channel[1] == p:
                recording.recording[channel] = []
            if channel[0] == p:
                queue.append(("marker", snapshot))

    def hand_over(self, channel: Channel, event: str) -> tuple[str, str]:
        kind, name = self.queues[channel].popleft()
        q = channel[1]
        if kind == "message":
            self.events[q].append(event)
            for snapshot in self.snapshots.values():
                if channel in snapshot.recording:
                    snapshot.recording[channel].append(name)
            return kind, name
        # Marker-Receiving Rule for a process q: if q has not recorded its state then q records its state; q records
        # the state of c as the empty sequence; else q records the state of c as the sequence of messages received
        # along c after q's state was recorded and before q received the marker along c.
        self.record(name, q)
        snapshot = self.snapshots[name]
        snapshot.channels[channel] = snapshot.recording.pop(channel)
        return kind, name

    def result(self) -> list[dict[str, Any]]:
        """As `run` prints it; a channel whose marker has not come is not in it."""
        return [
            {
                "id": name,
                "complete": len(s.states) == len(self.events),
                "processes": {p: s.states[p] for p in self.events if p in s.states},
                "channels": {f"{a}->{b}": s.channels[a, b] for a, b in self.queues if s.channels.get((a, b))},
            }
            for name, s in self.snapshots.items()
        ]


# -- random scenarios, one per seed: topologies with cycles, self-loops, islands; snapshots that overlap ------

Scenario = dict[str, Any]


def random_scenario(seed: int, *, snapshots: int = 1, joint: bool = False, drained: bool = True) -> Scenario:
    """A scenario whose every step can be done.

    Args:
        seed: decides everything.
        snapshots: how many; they start anywhere in it.
        joint: several processes start the first one.
        drained: all that is left is handed over at the end.
    """
    rng = random.Random(seed)
    processes = [f"N{k + 1}" for k in range(rng.randint(1, 6))]
    density = rng.choice([0.2, 0.5, 0.9])
    pairs = [(a, b) for a in processes for b in processes]
    channels = [pair for pair in pairs if rng.random() < (density if pair[0] != pair[1] else density / 3)]
    rng.shuffle(channels)
    book = Textbook(processes, channels)
    steps: list[dict[str, Any]] = []

    def do(step: dict[str, Any]) -> None:
        if rng.random() < 0.5 and step["do"] not in {"snapshot", "drain"}:
            step["event"] = f"e{len(steps)}"
        book.do(len(steps), step)
        steps.append(step)

    eager = rng.choice([0.2, 0.5, 0.8])  # how soon messages are handed over
    length = rng.randint(5, 60)
    starts = sorted(rng.randrange(length) for _ in range(snapshots))
    for at in range(length):
        for k in [k for k, start in enumerate(starts) if start == at]:
            starters = rng.sample(processes, rng.randint(1, len(processes)) if joint and k == 0 else 1)
            for starter in starters:
                do({"do": "snapshot", "at": starter, "id": str(k)})
        full = [channel for channel, queue in book.queues.items() if queue]
        if full and rng.random() < eager:
            do(_delivery(rng, book, rng.choice(full)))
        elif channels and rng.random() < 0.8:
            sender, receiver = rng.choice(channels)
            do({"do": "send", "from": sender, "to": receiver, "message": f"m{len(steps)}"})
        else:
            do({"do": "internal", "at": rng.choice(processes)})
        if rng.random() < 0.01:
            do({"do": "drain"})
    if drained:
        do({"do": "drain"})
    return {"processes": processes, "channels": [list(channel) for channel in channels], "steps": steps}


def _delivery(rng: random.Random, book: Textbook, channel: tuple[str, str]) -> dict[str, Any]:
    step = {"do": "deliver", "from": channel[0], "to": channel[1]}
    messages = [name for kind, name in book.queues[channel] if kind == "message"]
    if messages and rng.random() < 0.3:
        step["message"] = rng.choice(messages)
    return step


def textbook(scenario: Scenario) -> Textbook:
    """The scenario, run by the book."""
    book = Textbook(scenario["processes"], [(a, b) for a, b in scenario["channels"]])
    for index, step in enumerate(scenario["steps"]):
        book.do(index, step)
    return book
