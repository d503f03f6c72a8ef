"""One workload, the same for every method: who is connected, who transfers how much to whom and when, what is late.

The application moves money. Every process holds a balance; requests from outside, a fixed or a Poisson stream per
channel, order it to transfer an amount to the process at the other end. A message is a transfer under way, so the sum
of all balances and all messages under way never changes: what every snapshot is checked against.

A channel is *late* if what is sent on it is taken in `late_s` later: it has a backlog of that age. A marker on it is
late by as much, and all that was sent before the marker keeps coming in for that long after the receiver's cut.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, NamedTuple

__all__ = ["MESSAGE_BYTES_MIN", "Edge", "Request", "Topology", "Workload"]

Topology = Literal["mesh", "ring", "layers", "fan-in"]
Arrivals = Literal["poisson", "fixed"]

#: Number and amount of a transfer, eight bytes each.
MESSAGE_BYTES_MIN: Final = 16
#: From sending to being offered to the receiver, on a channel that is not late: half of it is fixed, half varies.
DELAY_S: Final = 0.001
#: Processes hear of a snapshot within this time of each other, so that there are red messages for white processes.
HEARING_SPREAD_S: Final = 0.002
#: The system runs in before the snapshot begins.
BEFORE_S: Final = 0.25
AMOUNT_MAX: Final = 100


class Edge(NamedTuple):
    """A channel, and how long what is sent on it is in flight."""

    sender: int
    receiver: int
    delay_s: float
    late: bool


class Request(NamedTuple):
    """Somebody outside wants `amount` moved along channel `edge` at `time_s`; the message takes `delay_s`."""

    time_s: float
    edge: int
    amount: int
    delay_s: float


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A workload, at the scale at which it is run.

    Args:
        topology: "mesh": everyone to everyone; "ring"; "layers": three layers, each to the next (no cycle);
            "fan-in": everyone to process 0, which is one node of a mesh with all of its incoming channels.
        nodes: number of processes.
        rate: messages per second on each channel.
        message_bytes: size of a message.
        late_s: age of the backlog on a late channel.
        late: which channels are late: "all", "one" incoming channel of each process, or "none".
        capacity_rate: what the service times are made for (0: `rate`): a node spends `busy` of its time at this rate.
        fifo: False: messages overtake each other in flight.
        scale: 1/100 means that rates, sizes of state and speeds of machines are all a hundredth of the real ones, so
            that times are real. All that a message or a page costs takes a hundred times longer.
        state_bytes: the state of a process, at this scale.
        after_s: requests go on for so long after the snapshot began and what is late has come.
    """

    topology: Topology = "mesh"
    nodes: int = 8
    rate: float = 500.0
    message_bytes: int = 200
    late_s: float = 2.0
    late: Literal["all", "one", "none"] = "all"
    capacity_rate: float = 0.0
    busy: float = 0.5
    fifo: bool = True
    arrivals: Arrivals = "poisson"
    scale: float = 0.01
    state_bytes: int = 1 << 20
    after_s: float = 0.25
    seed: int = 0

    @property
    def trigger_s(self) -> float:
        """When the snapshot is asked for: the late channels are filled by then."""
        return BEFORE_S + (self.late_s if self.late != "none" else 0.0)

    @property
    def until_s(self) -> float:
        """Requests come until then."""
        return self.trigger_s + self.window_s

    @property
    def window_s(self) -> float:
        """Messages asked for in this time from the trigger on are those whose latency counts."""
        return (self.late_s if self.late != "none" else 0.0) + self.after_s

    @cached_property
    def service_s(self) -> float:
        """Return what a process spends on one message, sent or received."""
        degrees = Counter(node for edge in self.edges for node in (edge.sender, edge.receiver))
        return self.busy / (max(degrees.values()) * (self.capacity_rate or self.rate))

    @property
    def under_way_bytes(self) -> float:
        """Return what comes in at one node while its late markers are under way: rate, size, delay, incoming
        channels."""
        late = Counter(edge.receiver for edge in self.edges if edge.late)
        return max(late.values(), default=0) * self.rate * self.message_bytes * self.late_s

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The channels. Of the incoming ones of a process, the first is the one that is late, where one is."""
        edges: list[Edge] = []
        has_late: set[int] = set()
        for sender, receiver in _pairs(self.topology, self.nodes):
            late = self.late == "all" or (self.late == "one" and receiver not in has_late)
            has_late.add(receiver)
            edges.append(Edge(sender, receiver, self.late_s if late else DELAY_S, late))
        return tuple(edges)

    @cached_property
    def hears_s(self) -> tuple[float, ...]:
        """How long after the trigger each process hears of it over a control connection."""
        chance = random.Random(f"hears {self.seed}")
        return tuple(DELAY_S + chance.random() * HEARING_SPREAD_S for _ in range(self.nodes))

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """All requests in the order of time: every method gets these."""
        found: list[Request] = []
        for number, edge in enumerate(self.edges):
            chance = random.Random(f"{self.seed} {self.rate} {number}")  # another rate is another stream
            draw, gap = chance.random, 1.0 / self.rate
            poisson = self.arrivals == "poisson"
            time_s = chance.expovariate(self.rate) if poisson else draw() * gap
            while time_s < self.until_s:
                jitter = draw() - 0.5 if self.fifo else 20.0 * draw()
                found.append(
                    Request(time_s, number, 1 + int(draw() * AMOUNT_MAX), edge.delay_s + DELAY_S * jitter)
                )
                time_s += chance.expovariate(self.rate) if poisson else gap
        found.sort()
        return tuple(found)

    def but(self, **changes: object) -> Workload:
        """The same with other settings."""
        return replace(self, **changes)  # type: ignore[arg-type]


def _pairs(topology: Topology, nodes: int) -> list[tuple[int, int]]:
    match topology:
        case "mesh":
            return [(a, b) for b in range(nodes) for a in range(nodes) if a != b]
        case "ring":
            return [(a, (a + 1) % nodes) for a in range(nodes)]
        case "fan-in":
            return [(a, 0) for a in range(1, nodes)]
        case "layers":
            thirds = [range(nodes * k // 3, nodes * (k + 1) // 3) for k in range(3)]
            return [(a, b) for upper, lower in pairwise(thirds) for b in lower for a in upper]
