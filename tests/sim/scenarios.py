"""Random scenarios, one per seed: topologies with cycles, self-loops, islands; snapshots that overlap."""

from __future__ import annotations

import random
from typing import Any

from .textbook import Textbook

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
