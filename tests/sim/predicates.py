"""Small games whose global predicates are stable, played at random, with one snapshot in each.

The state of a process is what its events so far make of it, so a predicate can be asked of any global state: the one at
the start of the snapshot, the one at its end, and the recorded one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .textbook import Textbook

Processes = Mapping[str, Sequence[str]]
Channels = Mapping[tuple[str, str], Sequence[str]]
Global = tuple[Processes, Channels]


class Move(NamedTuple):
    """What a process does by itself: an event, and a message to somebody."""

    event: str
    to: str = ""
    kind: str = ""


@dataclass(frozen=True)
class Game:
    """`local`: the state of a process from its events. `moves`: what it may do next. `receive`: the name of the event
    of receiving a message of that kind from a sender. `holds`: the predicate. `least`: fewest processes."""

    local: Callable[[str, Sequence[str]], str]
    moves: Callable[[random.Random, str, str, list[str]], list[Move]]
    receive: Callable[[str, str], str]
    holds: Callable[[Processes, Channels], bool]
    least: int = 2


@dataclass
class Walk:
    """A game that was played: the scenario, the states at the start and at the end of the snapshot."""

    scenario: dict[str, Any]
    start: Global = field(default_factory=lambda: ({}, {}))
    end: Global = field(default_factory=lambda: ({}, {}))


def walk(game: Game, seed: int) -> Walk:
    """Play. Every process sends to every other; messages are `kind:sender:number`."""
    rng = random.Random(seed)
    names = [f"N{k + 1}" for k in range(rng.randint(game.least, 4))]
    channels = [(a, b) for a in names for b in names if a != b]
    book = Textbook(names, channels)
    steps: list[dict[str, Any]] = []
    found = Walk({"processes": names, "channels": [list(channel) for channel in channels], "steps": steps})
    length = rng.randint(20, 60)
    begin = rng.randrange(length)
    eager = rng.choice([0.3, 0.5, 0.7])

    def do(step: dict[str, Any]) -> None:
        book.do(len(steps), step)
        steps.append(step)
        if not found.end[0] and "s" in book.snapshots and len(book.snapshots["s"].states) == len(names):
            found.end = now(book)

    at = 0
    while at < length or not found.end[0]:
        if at == begin:
            found.start = now(book)
            do({"do": "snapshot", "at": rng.choice(names), "id": "s"})
        at += 1
        full = [channel for channel, queue in book.queues.items() if queue]
        if full and rng.random() < eager:
            do(_receive(game, book, rng.choice(full)))
            continue
        name = rng.choice(names)
        others = [other for other in names if other != name]
        moves = game.moves(rng, name, game.local(name, book.events[name]), others)
        if moves:
            move = rng.choice(moves)
            if move.to:
                message = f"{move.kind}:{name}:{len(steps)}"
                do({"do": "send", "from": name, "to": move.to, "message": message, "event": move.event})
            else:
                do({"do": "internal", "at": name, "event": move.event})
    return found


def now(book: Textbook) -> Global:
    """The true global state."""
    processes = {name: tuple(events) for name, events in book.events.items()}
    channels = {
        channel: tuple(name for kind, name in queue if kind == "message")
        for channel, queue in book.queues.items()
    }
    return processes, channels


def _receive(game: Game, book: Textbook, channel: tuple[str, str]) -> dict[str, Any]:
    kind, name = book.queues[channel][0]
    step = {"do": "deliver", "from": channel[0], "to": channel[1]}
    return step if kind == "marker" else {**step, "event": game.receive(name.split(":")[0], channel[0])}


# -- termination: who is passive sends nothing, and is woken by a message only -----------------------------------------


def _activity(name: str, events: Sequence[str]) -> str:
    latest = next((event for event in reversed(events) if event in {"passive", "woken"}), "")
    return "passive" if latest == "passive" or (not latest and name != "N1") else "active"


def _work(rng: random.Random, name: str, state: str, others: list[str]) -> list[Move]:
    if state == "passive":
        return []
    return [Move("passive"), Move("passive"), Move("work", rng.choice(others), "work")]


def terminated(processes: Processes, channels: Channels) -> bool:
    """All are passive and no message is on its way."""
    return all(_activity(name, events) == "passive" for name, events in processes.items()) and not any(
        channels.values()
    )


# -- one token --------------------------------------------------------------------------------------------------------


def _holder(name: str, events: Sequence[str]) -> str:
    latest = next((event for event in reversed(events) if event in {"pass", "get"}), "")
    return "token" if latest == "get" or (not latest and name == "N1") else "none"


def _pass(rng: random.Random, name: str, state: str, others: list[str]) -> list[Move]:
    return [Move("pass", rng.choice(others), "token")] if state == "token" else []


def one_token(processes: Processes, channels: Channels) -> bool:
    held = sum(_holder(name, events) == "token" for name, events in processes.items())
    return held + sum(map(len, channels.values())) == 1


GAMES = {
    "termination": Game(_activity, _work, lambda kind, sender: "woken", terminated),
    "token": Game(_holder, _pass, lambda kind, sender: "get", one_token),
}
