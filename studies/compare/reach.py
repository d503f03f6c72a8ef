"""Sizes that cannot be run: measured in real buffers at a hundredth of the size and less, and extrapolated by a line.

There are two systems: the requested mesh (100 processes, 9,900 channels, unless set otherwise), and one process that
receives 500,000 messages a second with a marker 10 s late.

A method that keeps or forwards messages needs memory for the messages that arrive at a node while its markers are
late: the line is drawn over those bytes, from one node of the mesh with all of its incoming channels, at up to 1/100
of the rate, and from the whole mesh at a fraction of a message a second. One observer gets the messages that all nodes
forward.

The memory of snapkafka does not depend on rate or delay (runs that differ in both must agree to the byte, or nearly),
but every process holds the records of all: n processes with n - 1 entries each. So the line per process of the system
is drawn over n, from whole meshes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from .fitting import T_999, Line, Point, fit
from .methods import Fork, Method, Observer, Offsets, StopTheWorld, Textbook
from .outcome import Outcome, run
from .workload import Workload

#: Shares of the real rate at which one node is run; the methods that keep messages go as far as 1/100.
SHARES: Final = (0.0005, 0.001, 0.0025, 0.01)
SHARES_FEW: Final = (0.0005, 0.001, 0.0015, 0.002)
#: Nothing grows with stop-the-world, and with snapkafka: these show it.
SHARES_FLAT: Final = (0.0001, 0.0005, 0.001)
#: One node at 1/100 sees so many messages at most; where it would be more, or hardly any, the shares are others.
NODE_MESSAGES_MAX: Final = 500_000
NODE_MESSAGES_MIN: Final = 20_000
#: And the whole mesh, at a rate to suit: so many that each node gets some.
MESH_MESSAGES: Final = 20_000
MESH_MESSAGES_FLAT: Final = 4_000
#: Whole meshes for snapkafka, and those for where no large one is asked for.
SIZES: Final = (10, 20, 30)
SIZES_SMALL: Final = (4, 8, 12)
#: Only the channels count here.
STATE_BYTES: Final = 8192

ONE_RATE: Final = 500_000.0
ONE_LATE_S: Final = 10.0

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """One method at the real size: `times` the line at `x`, with a 95 % interval; bytes on the fullest node."""

    method: str
    x: float
    times: int
    line: Line
    over: str

    @property
    def bytes(self) -> float:
        return self.times * self.line.at(self.x)

    @property
    def largest(self) -> float:
        """The most that a node held in a run."""
        per = self.over.startswith("process")
        return max(point.y * point.x if per else point.y for point in self.line.points)

    @property
    def interval(self) -> tuple[float, float]:
        low, high = self.line.interval(self.x)
        return self.times * low, self.times * high

    def as_json(self) -> dict[str, Any]:
        low, high = self.interval
        return {
            "method": self.method,
            "bytes": round(self.bytes),
            "low": round(low),
            "high": round(high),
            "line": {
                "over": self.over,
                "slope": round(self.line.slope, 6),
                "intercept": round(self.line.intercept, 1),
                "times": self.times,
            },
            "points": [{"x": round(p.x), "y": round(p.y), "run": p.what} for p in self.line.points],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """One system at its real size. `nominal_bytes`: arriving at a node while its markers are late."""

    title: str
    nominal_bytes: float
    methods: tuple[Reached, ...]
    violations: tuple[str, ...]

    def of(self, method: type[Method]) -> Reached:
        """Return the result of one method."""
        return next(reached for reached in self.methods if reached.method == method.name)

    def as_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "nominal_bytes": round(self.nominal_bytes),
            "methods": [reached.as_json() for reached in self.methods],
        }


class _Survey:
    """A series of runs, with the problems in them."""

    def __init__(self, title: str, real: Workload, say: Say) -> None:
        self.title, self.real, self.say = title, real, say
        self.what = title.partition(" at ")[0]
        self.nominal = real.under_way_bytes
        self.reached: list[Reached] = []
        self.violations: list[str] = []

    def outcome(self, method: type[Method], load: Workload) -> Outcome:
        outcome = run(load, method)
        self.violations += [f"{self.title}: {method.name}: {problem}" for problem in outcome.problems]
        return outcome

    def over_load(self, method: type[Method], loads: Iterable[Workload], *, times: int = 1) -> None:
        """Fit the line over the bytes that arrive at a node while its markers are late."""
        self.say(f"{self.what}: {method.name}")
        points = []
        for load in loads:
            outcome = self.outcome(method, load)
            held = outcome.messages_bytes if method is Observer else outcome.mean_bytes
            what = f"{load.topology}, {len(load.edges)} channels at {load.rate:.4g} msg/s"
            points.append(Point(load.under_way_bytes, held, what))
        reached = Reached(
            method=method.name,
            x=self.nominal,
            times=times,
            line=fit(points),
            over="byte that is late at a node",
        )
        self.reached.append(reached)
        if method is Textbook:
            low, high = reached.line.interval(self.nominal, T_999)
            if not low <= self.nominal <= high:
                what = f"the textbook method should need {self.nominal:.4g} B, not {low:.4g} to {high:.4g}"
                self.violations.append(f"{self.title}: {what}")
        if method is Offsets:
            self.must_agree([held for _, held, _ in points])

    def over_size(self) -> None:
        """Fit the line of snapkafka on a mesh, per process of the system, over their number."""
        nodes = self.real.nodes
        self.say(f"{self.what}: {Offsets.name}")
        sizes = SIZES if nodes >= 3 * SIZES[-1] else SIZES_SMALL
        points = []
        for size in sizes:
            load = self.real.but(
                nodes=size, rate=self.whole_rate(size, MESH_MESSAGES_FLAT), late_s=min(1.0, self.real.late_s)
            )
            held = self.outcome(Offsets, load).records_bytes
            what = f"mesh, {len(load.edges)} channels at {load.rate:.4g} msg/s"
            points.append(Point(size, held / size, what))
            if size == sizes[0]:
                other = [load.but(rate=4 * load.rate), load.but(late_s=2 * load.late_s)]
                self.must_agree([held, *(self.outcome(Offsets, each).records_bytes for each in other)])
        line = fit(points)
        self.reached.append(
            Reached(method=Offsets.name, x=nodes, times=nodes, line=line, over="process of the mesh")
        )

    def whole_rate(self, nodes: int, messages: int) -> float:
        """Return a rate so low that the whole mesh sees so many messages."""
        return min(self.real.rate, messages / (nodes * (nodes - 1) * self.real.until_s))

    def must_agree(self, held: list[float]) -> None:
        if max(held) > 1.01 * min(held):
            self.violations.append(f"{self.title}: what snapkafka needs depends on rate or delay: {held}")

    def result(self) -> Reach:
        return Reach(
            title=self.title,
            nominal_bytes=self.nominal,
            methods=tuple(self.reached),
            violations=tuple(self.violations),
        )


def reach_mesh(nodes: int, rate: float, size: int, late_s: float, seed: int, say: Say) -> Reach:
    """Survey a mesh in which every marker is late."""
    real = Workload(
        nodes=nodes, rate=rate, message_bytes=size, late_s=late_s, seed=seed, state_bytes=STATE_BYTES
    )
    title = (
        f"mesh of {nodes:,} processes, {len(real.edges):,} channels at {rate:,.0f} msg/s of {size} B, "
        f"markers {late_s:g} s late"
    )
    survey = _Survey(title, real, say)
    whole = real.but(rate=survey.whole_rate(nodes, MESH_MESSAGES))
    many = _of_one_node(real, SHARES)
    few = _of_one_node(real, SHARES_FEW)
    survey.over_load(StopTheWorld, _of_one_node(real, SHARES_FLAT))
    survey.over_load(Textbook, [whole, *many])
    survey.over_load(Observer, few, times=nodes)
    survey.over_load(Fork, few)
    survey.over_size()
    return survey.result()


def reach_one(size: int, seed: int, say: Say) -> Reach:
    """Survey one process with one incoming channel, faster than anything else here."""
    real = Workload(
        topology="fan-in",
        nodes=2,
        rate=ONE_RATE,
        message_bytes=size,
        late_s=ONE_LATE_S,
        seed=seed,
        state_bytes=STATE_BYTES,
    )
    title = f"one process at {ONE_RATE:,.0f} msg/s of {size} B, marker {ONE_LATE_S:g} s late"
    survey = _Survey(title, real, say)
    few = [real.but(rate=ONE_RATE * share) for share in SHARES_FEW]
    flat = [real.but(rate=ONE_RATE * share) for share in SHARES_FLAT]
    survey.over_load(StopTheWorld, flat)
    survey.over_load(Textbook, [real.but(rate=ONE_RATE * share) for share in SHARES])
    survey.over_load(Observer, few)
    survey.over_load(Fork, few)
    survey.over_load(Offsets, flat)
    return survey.result()


def _of_one_node(real: Workload, shares: tuple[float, ...]) -> list[Workload]:
    """Return one node of the mesh with all of its incoming channels, at shares of the rate."""
    node = real.but(topology="fan-in")
    top = len(node.edges) * node.rate * SHARES[-1] * node.until_s
    factor = min(NODE_MESSAGES_MAX / top, max(1.0, NODE_MESSAGES_MIN / top), 1 / SHARES[-1])
    return [node.but(rate=node.rate * share * factor) for share in shares]
