"""Copy-on-write fork: the operating system keeps the state of the instant while the process runs on.

At its cut a process forks. The child shares all pages and writes them to storage; a page that the parent writes
meanwhile is copied first (K. Li, J. F. Naughton, J. S. Plank, Low-Latency, Concurrent Checkpointing for Parallel
Programs, IEEE TPDS 5(8), 1994; Redis saves this way). So the stop grows only with the page table, and the memory with
the written pages, not with the state. It does not cover channels: for those this method works like the textbook, and
costs as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from studies.compare.process import PAGE_BYTES

from .textbook import Textbook

if TYPE_CHECKING:
    from studies.compare.process import Process
    from studies.compare.world import World

#: Copying the page table of 1 GB takes about 10 ms (what Redis documents for physical machines).
FORK_S_PER_BYTE: Final = 0.010 / 1e9
#: A page fault and the copying of 4 KB.
PAGE_COPY_S: Final = 1e-6


class Fork(Textbook):
    name = "copy-on-write fork"
    recovery = "all states and all recorded messages, put back into their channels"

    def record_state(self, process: Process) -> None:
        scale = self.world.load.scale
        process.stall(len(process.image) * FORK_S_PER_BYTE / scale)
        child = _Child(self.world, process)
        self.meter.hold(process.number, "state", 0)
        self.world.at(self.world.now + self.storing_s(len(process.image)), self._written, child)

    def _written(self, child: _Child) -> None:
        """End the child, which has written everything, with the pages that it kept."""
        image = child.image()
        child.end()
        self.state_done(child.process, image)


class _Child:
    """The image of the instant: copies of the pages that changed since; the others are still the parent's."""

    def __init__(self, world: World, process: Process) -> None:
        self.process = process
        self._world = world
        self._copies: dict[int, bytes] = {}
        process.before_write = self._before_write

    def _before_write(self, page: int) -> None:
        if page not in self._copies:
            at = page * PAGE_BYTES
            self._copies[page] = bytes(self.process.image[at : at + PAGE_BYTES])
            self._world.meter.hold(self.process.number, "state", PAGE_BYTES)
            self.process.stall(PAGE_COPY_S / self._world.load.scale)

    def image(self) -> bytes:
        image = bytearray(self.process.image)
        for page, copy in self._copies.items():
            image[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = copy
        return bytes(image)

    def end(self) -> None:
        self.process.before_write = None
        self._world.meter.hold(self.process.number, "state", -PAGE_BYTES * len(self._copies))
