"""The cost of a method in memory and on the network: bytes that are really held and really sent."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, Literal

#: What memory is held for: recorded messages, a copy of the state, records of the ledger.
Kind = Literal["messages", "state", "records"]
#: What is sent beyond the messages themselves: markers, requests and answers, records of the ledger; recorded
#: messages; copies of the state.
Part = Literal["control", "messages", "state"]

KINDS: Final[tuple[Kind, ...]] = ("messages", "state", "records")


class Meter:
    """Counts per node (the last one is the observer's), with the maximum that each node held at once."""

    def __init__(self, nodes: int) -> None:
        self._held: dict[Kind, list[int]] = {kind: [0] * nodes for kind in KINDS}
        self._peaks: dict[Kind, list[int]] = {kind: [0] * nodes for kind in KINDS}
        self.network: dict[Part, int] = {"control": 0, "messages": 0, "state": 0}

    def hold(self, node: int, kind: Kind, size: int) -> None:
        """Let a buffer of `node` grow by `size` bytes (shrink, if negative)."""
        held = self._held[kind]
        held[node] += size
        if held[node] > self._peaks[kind][node]:
            self._peaks[kind][node] = held[node]

    def send(self, part: Part, size: int) -> None:
        """Count bytes that go over the network."""
        self.network[part] += size

    def held(self, node: int, kind: Kind) -> int:
        """Return the bytes that `node` holds now."""
        return self._held[kind][node]

    def peak(self, kind: Kind) -> int:
        """Return the maximum over all nodes."""
        return max(self._peaks[kind])

    def mean(self, kind: Kind, nodes: Collection[int]) -> float:
        """Return the mean of these nodes' maxima."""
        return sum(self._peaks[kind][node] for node in nodes) / len(nodes)

    def fullest(self) -> tuple[int, int]:
        """Return the node with the highest total, and that total."""
        totals = [sum(peaks) for peaks in zip(*self._peaks.values(), strict=True)]
        return max(range(len(totals)), key=totals.__getitem__), max(totals)
