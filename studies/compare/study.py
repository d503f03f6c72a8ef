"""The runs of `compare`: two scenes for the tables, the requirements of each method, sweeps, and the reach.

* The mesh, with cycles, every marker late: a part of the requested one, small enough to be run whole.
* Three layers without a cycle, one incoming channel of each process late: a straggler, which shows the cost of methods
  that wait. Load and delay are swept here, because here every method ends.
* Properties are found by running: without FIFO, does the check still pass? On a ring, does it end?
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from .methods import METHODS, Alignment, Method
from .outcome import Outcome, run, run_all
from .reach import Reach, reach_mesh, reach_one
from .workload import Workload

#: So many messages a run of the mesh may have, and one of the layers; the scale follows: 1, 1/2, 1/5, 1/10, 1/20, ...
MESH_MESSAGES_MAX: Final = 50_000
LAYER_MESSAGES_MAX: Final = 10_000
MESH_NODES_MAX: Final = 5
LAYER_NODES: Final = 6
FACTORS: Final = (0.25, 0.5, 1.0, 1.5)
PROBE_SEEDS: Final = 3
#: The state of a process at its real size; and so much is really allocated at most.
STATE_BYTES: Final = 100 << 20
STATE_BYTES_MAX: Final = 4 << 20

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The requested system, at its real size."""

    nodes: int = 100
    rate: float = 50_000.0
    bytes: int = 200
    late_s: float = 2.0
    seed: int = 1985


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One workload, and the outcome of each method on it."""

    title: str
    load: Workload
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Property:
    """The requirements of a method, as found by running it."""

    method: str
    needs_fifo: bool
    without_fifo: str
    works_with_cycles: bool
    on_a_cycle: str
    recovery: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """The layers again, with other loads (`over` "rate", msg/s per channel) or other delays ("late", seconds)."""

    over: str
    scenes: tuple[tuple[float, Scene], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """The whole study. `violations`: expectations that do not hold."""

    asked: Asked
    scenes: tuple[Scene, ...]
    properties: tuple[Property, ...]
    sweeps: tuple[Sweep, ...]
    reaches: tuple[Reach, ...]
    violations: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return everything that the tables and the pictures show."""
        asked = self.asked
        return {
            "seed": asked.seed,
            "nodes": asked.nodes,
            "rate": asked.rate,
            "bytes": asked.bytes,
            "late": asked.late_s,
            "tables": [_scene_json(scene) for scene in self.scenes],
            "properties": [
                {
                    "method": p.method,
                    "needs_fifo": p.needs_fifo,
                    "without_fifo": p.without_fifo,
                    "works_with_cycles": p.works_with_cycles,
                    "on_a_cycle": p.on_a_cycle,
                    "recovery_needs": p.recovery,
                }
                for p in self.properties
            ],
            "sweeps": {
                sweep.over: [{"at": at} | _scene_json(scene) for at, scene in sweep.scenes]
                for sweep in self.sweeps
            },
            "reach": [reach.as_json() for reach in self.reaches],
            "violations": list(self.violations),
        }


def make_study(asked: Asked, say: Say = lambda _: None) -> Study:
    """Run everything; call `say` with each next step."""
    base = Workload(
        rate=asked.rate,
        message_bytes=asked.bytes,
        late_s=asked.late_s,
        seed=asked.seed,
        state_bytes=STATE_BYTES,
    )
    say("the mesh, every marker late")
    mesh = _scene(
        "a mesh, every marker late", base.but(nodes=min(asked.nodes, MESH_NODES_MAX)), MESH_MESSAGES_MAX
    )
    layers = base.but(topology="layers", nodes=LAYER_NODES, late="one", capacity_rate=asked.rate)
    sweeps = _sweeps(layers, asked, say)
    straggler = next(scene for at, scene in sweeps[0].scenes if at == asked.rate)
    say("without FIFO, and on a ring")
    properties = tuple(_property(method, asked.seed) for method in METHODS)
    reaches = (
        reach_mesh(asked.nodes, asked.rate, asked.bytes, asked.late_s, asked.seed, say),
        reach_one(asked.bytes, asked.seed, say),
    )
    scenes = (mesh, straggler)
    violations = [
        f"{scene.title}: {what}"
        for scene in (mesh, *(scene for sweep in sweeps for _, scene in sweep.scenes))
        for what in _unexpected(scene)
    ]
    violations += [f"a ring: {p.method}: {p.on_a_cycle}" for p in properties if _cycle_surprises(p)]
    violations += [what for reach in reaches for what in reach.violations]
    return Study(
        asked=asked,
        scenes=scenes,
        properties=properties,
        sweeps=sweeps,
        reaches=reaches,
        violations=tuple(violations),
    )


def _scene(title: str, real: Workload, messages_max: int) -> Scene:
    load = _scaled(real, messages_max)
    return Scene(title=title, load=load, outcomes=tuple(run_all(load)))


def _scaled(real: Workload, messages_max: int) -> Workload:
    """Return the workload at the largest scale at which a run is short."""
    messages = len(real.edges) * real.rate * real.until_s
    scales = (1 / (step * 10**power) for power in itertools.count() for step in (1, 2, 5))
    return _at_scale(real, next(scale for scale in scales if messages * scale <= messages_max))


def _at_scale(real: Workload, scale: float) -> Workload:
    return real.but(
        rate=real.rate * scale,
        capacity_rate=real.capacity_rate * scale,
        scale=scale,
        state_bytes=min(STATE_BYTES_MAX, int(real.state_bytes * scale)),
    )


def _sweeps(layers: Workload, asked: Asked, say: Say) -> tuple[Sweep, Sweep]:
    title = "three layers, one incoming channel of each process late"
    say(f"{title}: {asked.rate:g} msg/s, {asked.late_s:g} s")
    middle = _scene(title, layers, LAYER_MESSAGES_MAX)
    rates: list[tuple[float, Scene]] = []
    delays: list[tuple[float, Scene]] = []
    for factor in FACTORS:
        if factor == 1.0:
            rates.append((asked.rate, middle))
            delays.append((asked.late_s, middle))
            continue
        rate, late_s = asked.rate * factor, asked.late_s * factor
        say(f"{title}: {rate:g} msg/s; {late_s:g} s")
        rates.append((rate, _at_scale_of(middle, title, layers.but(rate=rate))))
        delays.append((late_s, _at_scale_of(middle, title, layers.but(late_s=late_s))))
    return Sweep(over="rate", scenes=tuple(rates)), Sweep(over="late", scenes=tuple(delays))


def _at_scale_of(middle: Scene, title: str, real: Workload) -> Scene:
    load = _at_scale(real, middle.load.scale)
    return Scene(title=title, load=load, outcomes=tuple(run_all(load)))


def _property(method: type[Method], seed: int) -> Property:
    """Run it with messages that overtake each other, and on a ring."""
    small = Workload(rate=300.0, late="none", state_bytes=65_536, after_s=0.1, seed=seed)
    lost = ""
    for more in range(PROBE_SEEDS):
        unordered = run(small.but(topology="layers", nodes=6, fifo=False, seed=seed + more), method)
        lost = lost or next(iter(unordered.problems), "")
    ring = run(small.but(topology="ring", nodes=4), method)
    stopped = next(iter(ring.problems), "")
    return Property(
        method=method.name,
        needs_fifo=bool(lost),
        without_fifo=lost or "consistent",
        works_with_cycles=ring.holds,
        on_a_cycle=stopped or "consistent",
        recovery=method.recovery,
    )


def _unexpected(scene: Scene) -> list[str]:
    """List unexpected results: every method must conserve money; only alignment may not end on a cycle, and must
    report it."""
    found = []
    for outcome in scene.outcomes:
        deadlock_expected = outcome.method == Alignment.name and scene.load.topology in ("mesh", "ring")
        if deadlock_expected and outcome.ended:
            found.append(f"{outcome.method}: ended on a cycle, which it cannot")
        elif not deadlock_expected and not outcome.holds:
            found += [f"{outcome.method}: {problem}" for problem in outcome.problems]
    return found


def _cycle_surprises(found: Property) -> bool:
    return found.works_with_cycles == (found.method == Alignment.name)


def _scene_json(scene: Scene) -> dict[str, Any]:
    load = scene.load
    return {
        "title": scene.title,
        "topology": load.topology,
        "nodes": load.nodes,
        "channels": len(load.edges),
        "rate": load.rate,
        "bytes": load.message_bytes,
        "late": load.late_s,
        "scale": load.scale,
        "state_bytes": load.state_bytes,
        "rows": [outcome.as_json() for outcome in scene.outcomes],
    }
