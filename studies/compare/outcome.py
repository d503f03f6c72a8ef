"""One run of one method, and its cost compared with the same workload without a snapshot."""

from __future__ import annotations

import gc
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from .check import problems
from .methods import METHODS, Method, Nothing
from .workload import Workload
from .world import World

#: When and on which channel a message was asked for -> seconds until it was worked off.
Latencies = dict[tuple[float, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one method on one workload.

    Attributes:
        ended: whether there is a snapshot.
        problems: why there is none, or what is wrong with it.
        took_s: from the request of the snapshot until all of it is known.
        p50_ratio, p99_ratio: latency of the messages requested during the snapshot, compared with no snapshot;
            infinite if some never arrived.
        added_p99_s: the additional delay of a message, compared with no snapshot.
        longest_stop_s: the longest time that the snapshot stopped an input of a process.
        messages_bytes, state_bytes, records_bytes: the maximum of each that one node held.
        mean_bytes: of messages and records, the mean over the receiving processes.
        peak_bytes: the total of the fullest node; `at_observer`: it is the observer.
        control_bytes, network_messages_bytes, network_state_bytes: sent for the snapshot.
        standing_bytes: the permanent overhead of the method on the messages since the trigger.
    """

    method: str
    ended: bool
    problems: tuple[str, ...]
    took_s: float
    p50_ratio: float
    p99_ratio: float
    added_p99_s: float
    longest_stop_s: float
    messages_bytes: int
    state_bytes: int
    records_bytes: int
    mean_bytes: float
    peak_bytes: int
    at_observer: bool
    control_bytes: int
    network_messages_bytes: int
    network_state_bytes: int
    standing_bytes: int

    @property
    def holds(self) -> bool:
        """Whether there is a snapshot, and it is a consistent state with the right sum of money."""
        return self.ended and not self.problems

    @property
    def channel_bytes(self) -> int:
        """The bytes that the fullest node held to know the channels: messages, or records about them."""
        return self.messages_bytes + self.records_bytes

    @property
    def network_bytes(self) -> int:
        """The bytes sent, without the copies of states."""
        return self.control_bytes + self.network_messages_bytes

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON, which knows no infinity: null stands for it, and for what was not compared."""
        fields = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()
        }
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in fields.items()} | {
            "holds": self.holds
        }


def run_all(load: Workload, methods: tuple[type[Method], ...] = METHODS) -> list[Outcome]:
    """Run the workload without a snapshot, then with each method."""
    without = _ran(load, Nothing)
    return [run(load, method, without.latencies_s) for method in methods]


def _ran(load: Workload, method: type[Method]) -> World:
    """Run a world to its end. There is no garbage in it before, so collection is off."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        world = World(load, method)
        world.run()
    finally:
        if collecting:
            gc.enable()
    return world


def run(load: Workload, method: type[Method], without_s: Latencies | None = None) -> Outcome:
    """Run the workload with one method. `without_s`: latencies without a snapshot, if they are to be compared."""
    world = _ran(load, method)
    snapshot = world.method.snapshot
    if snapshot is None:
        found = [world.method.stuck()]
    else:
        assert world.idle, "a snapshot that is complete lets everybody go on"
        found = problems(world, snapshot)
    meter = world.meter
    node, peak = meter.fullest()
    receivers = {edge.receiver for edge in load.edges}
    outcome = Outcome(
        method=method.name,
        ended=snapshot is not None,
        problems=tuple(found),
        took_s=math.inf if snapshot is None else snapshot.finished_s - world.trigger_s,
        p50_ratio=math.nan,
        p99_ratio=math.nan,
        added_p99_s=math.nan,
        longest_stop_s=max(p.longest_stop_s for p in world.processes) if snapshot is not None else math.inf,
        messages_bytes=meter.peak("messages"),
        state_bytes=meter.peak("state"),
        records_bytes=meter.peak("records"),
        mean_bytes=meter.mean("messages", receivers) + meter.mean("records", receivers),
        peak_bytes=peak,
        at_observer=node == load.nodes,
        control_bytes=meter.network["control"],
        network_messages_bytes=meter.network["messages"],
        network_state_bytes=meter.network["state"],
        standing_bytes=method.tag_bytes * world.sent_since_trigger,
    )
    return outcome if without_s is None else _against(outcome, world.latencies_s, without_s)


def _against(outcome: Outcome, with_s: Latencies, without_s: Latencies) -> Outcome:
    if len(with_s) < len(without_s):
        return replace(outcome, p50_ratio=math.inf, p99_ratio=math.inf, added_p99_s=math.inf)
    here, there = sorted(with_s.values()), sorted(without_s.values())
    added = sorted(taken - without_s[asked] for asked, taken in with_s.items())
    return replace(
        outcome,
        p50_ratio=_share(here, 0.5) / _share(there, 0.5),
        p99_ratio=_share(here, 0.99) / _share(there, 0.99),
        added_p99_s=_share(added, 0.99),
    )


def _share(ordered: list[float], share: float) -> float:
    """Return the smallest value that at least `share` of all do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
