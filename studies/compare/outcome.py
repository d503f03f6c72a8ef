"""One run of one method, and what it cost against the same workload without a snapshot."""

from __future__ import annotations

import gc
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from .check import problems
from .methods import METHODS, Method, Nothing
from .workload import Workload
from .world import World

__all__ = ["Outcome", "run", "run_all"]

#: When and on which channel a message was asked for -> seconds until it was worked off.
Latencies = dict[tuple[float, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Hold what one method did on one workload.

    Attributes:
        ended: there is a snapshot.
        problems: why there is not one, or what is wrong with it.
        took_s: from asking for the snapshot until all of it is known.
        p50_ratio, p99_ratio: latency of the messages asked for during the snapshot, against no snapshot; infinite
            where some never arrived.
        added_p99_s: by how much the same message was later than without a snapshot.
        longest_stop_s: the longest time that an input of a process stood still for the snapshot.
        messages_bytes, state_bytes, records_bytes: the most that one node held of each.
        mean_bytes: of messages and records, the mean over the processes that something is sent to.
        peak_bytes: all that the fullest node held; `at_observer`: that is the observer.
        control_bytes, network_messages_bytes, network_state_bytes: what was sent for the snapshot.
        standing_bytes: what the messages since the trigger carried for the method, as they always do.
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
        """There is a snapshot, and it is a consistent state with all the money in it."""
        return self.ended and not self.problems

    @property
    def channel_bytes(self) -> int:
        """Return what the fullest node held to know the channels: messages, or records about them."""
        return self.messages_bytes + self.records_bytes

    @property
    def network_bytes(self) -> int:
        """All that was sent, without the copies of states."""
        return self.control_bytes + self.network_messages_bytes

    def as_json(self) -> dict[str, Any]:
        """JSON knows no infinity: null stands for it, and for what was not compared."""
        fields = {
            k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in asdict(self).items()
        }
        return {k: round(v, 6) if isinstance(v, float) else v for k, v in fields.items()} | {
            "holds": self.holds
        }


def run_all(load: Workload, methods: tuple[type[Method], ...] = METHODS) -> list[Outcome]:
    """The workload without a snapshot, then under each method."""
    without = _ran(load, Nothing)
    return [run(load, method, without.latencies_s) for method in methods]


def _ran(load: Workload, method: type[Method]) -> World:
    """A world that has come to rest. Nothing in it is garbage before, so nobody need look for any."""
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
    """The workload under one method. `without_s`: latencies without a snapshot, if they shall be compared."""
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
    """The smallest value that at least `share` of all do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
