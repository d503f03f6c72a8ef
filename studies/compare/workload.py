"""One workload, the same for every method: the connections, the transfers with their times, the late channels.

The application moves money. Every process holds a balance; external requests, a fixed or a Poisson stream per channel,
make it transfer an amount to the process at the other end. A message is a transfer in flight, so the sum of all
balances and all messages in flight never changes: every snapshot is checked against that.

A channel is *late* if its messages are taken in `late_s` later: it has a backlog of that age. A marker on it is late
by as much, and messages sent before the marker keep arriving for that long after the receiver's cut.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal, NamedTuple

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
    """A channel, and how long its messages are in flight."""

    sender: int
    receiver: int
    delay_s: float
    late: bool


class Request(NamedTuple):
    """An external request to move `amount` along channel `edge` at `time_s`; the message takes `delay_s`."""

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
        late: the late channels: "all", "one" incoming channel of each process, or "none".
        capacity_rate: the rate for which the service times are chosen (0: `rate`): a node is `busy` for that share of
            its time at this rate.
        fifo: False: messages overtake each other in flight.
        scale: 1/100 means that rates, sizes of state and speeds of machines are all a hundredth of the real ones, so
            that times are real. The cost of a message or a page takes a hundred times longer.
        state_bytes: the state of a process, at this scale.
        after_s: how long requests continue after the snapshot began and late messages have arrived.
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
        """When the snapshot is requested: the late channels are filled by then."""
        return BEFORE_S + (self.late_s if self.late != "none" else 0.0)

    @property
    def until_s(self) -> float:
        """When the last requests come."""
        return self.trigger_s + self.window_s

    @property
    def window_s(self) -> float:
        """For how long from the trigger on the latency of requested messages counts."""
        return (self.late_s if self.late != "none" else 0.0) + self.after_s

    @cached_property
    def service_s(self) -> float:
        """The time that a process spends on one message, sent or received."""
        degrees = Counter(node for edge in self.edges for node in (edge.sender, edge.receiver))
        return self.busy / (max(degrees.values()) * (self.capacity_rate or self.rate))

    @property
    def under_way_bytes(self) -> float:
        """The bytes that arrive at one node while its late markers are in flight: rate, size, delay, incoming
        channels."""
        late = Counter(edge.receiver for edge in self.edges if edge.late)
        return max(late.values(), default=0) * self.rate * self.message_bytes * self.late_s

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """The channels. If one incoming channel of a process is late, it is the first."""
        edges: list[Edge] = []
        has_late: set[int] = set()
        for sender, receiver in _pairs(self.topology, self.nodes):
            late = self.late == "all" or (self.late == "one" and receiver not in has_late)
            has_late.add(receiver)
            edges.append(Edge(sender, receiver, self.late_s if late else DELAY_S, late))
        return tuple(edges)

    @cached_property
    def hears_s(self) -> tuple[float, ...]:
        """The delays until each process learns of the trigger over a control connection."""
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
        """Return the same workload with other settings."""
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
