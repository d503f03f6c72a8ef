"""Steps of one process, in words."""

from __future__ import annotations

from typing import Final

from snapkafka.protocol import Cause, InputsRevoked
from snapkafka.protocol.colours import Torn

from .world import A, B, Process, World, settle

#: No event: a timer, or a task that was never one.
NOBODYS: Final = "-"


class Play:
    """A process that does what it is told, and one beside it.

    `cut`: it cuts for the next snapshot, which has its place as a number, from 1; 0 stands for white. Events are told
    by their offsets. `start 0 1`, `end 0`, `batch 0 1`; `write 0 t k`, `read 0 t k`, `all 0 t` (reads a whole table),
    `rewritten t`, `got t k 1` (from the changelog, in that colour); `hold 0 t k`, `change 0 t k` (a value that may
    change in place), `iterate 0 t`; `reply 0 1` (of that colour), `worked 0 1` (in the course of that
    one); `give 3` (a rebalance: it starts there). `white 0`, `red 0`: it has that colour by now. `calm`: nothing can be
    torn.
    """

    def __init__(self, world: World, p: Process, q: Process) -> None:
        self.world, self.p, self.q, self.machine = world, p, q, p.machine
        self.epochs, self.events = [0], set[Cause]()

    def run(self, steps: str) -> None:
        for step in steps.strip().split("; "):
            self.do(step.split())

    def finish(self) -> None:
        """End all that runs; each snapshot is decided then."""
        for event in self.events:
            self.p.end(event)
        self.p.ack()
        settle(self.p, self.q)

    def event(self, offset: str) -> Cause:
        event = Cause("agent", A, int(offset))
        self.events.add(event)
        return event

    def work(self, offset: str) -> Cause | None:
        return None if offset == NOBODYS else Cause("agent", A, int(offset))

    def torn(self, torn: list[Torn]) -> None:
        self.p.do(self.machine.torn(torn))

    def do(self, step: list[str]) -> None:
        colours = self.machine.colours
        match step:
            case ["cut"]:
                self.epochs.append(self.world.take(self.p, self.q, name=f"s{len(self.epochs)}"))
            case ["calm"]:
                assert not colours.tearing
            case ["start" | "end" | "run" as what, *offsets]:
                for event in map(self.event, offsets):
                    if what != "end":
                        self.p.do(self.machine.event_started(event))
                    if what != "start":
                        self.p.end(event)
            case ["batch", *offsets]:
                self.p.do(self.machine.batch_started([self.event(offset) for offset in offsets]))
            case ["write" | "read" as how, offset, table, key]:
                self.torn(colours.touch(self.work(offset), table, key, write=how == "write"))
            case ["all", offset, table]:
                self.torn(colours.touch_whole(self.work(offset), table))
            case ["rewritten", table]:
                self.torn(colours.rewritten(table))
            case ["got", table, key, snapshot]:
                self.torn(colours.received(table, key, self.epochs[int(snapshot)]))
            case ["hold" | "change" as how, offset, table, key]:
                self.torn(colours.hold(self.event(offset), table, key, unrecorded=how == "change"))
            case ["iterate", offset, table]:
                self.torn(colours.iterate(self.event(offset), table))
            case ["reply", offset, snapshot]:
                epoch = None if snapshot == "bare" else self.epochs[int(snapshot)]
                self.torn(colours.tear(self.event(offset), epoch))
            case ["worked", offset, by]:
                author = self.work(by)
                self.torn(
                    colours.tear(self.event(offset), None if author is None else colours.running.get(author))
                )
            case ["give", position]:
                self.p.feed(InputsRevoked())
                self.p.give(A, positions={A: int(position)}, generation=2)
                settle(self.p, self.q)
            case ["send", offset]:
                self.p.send(B, self.event(offset), ack=False)
            case ["white" | "red" as colour, offset]:
                epoch = self.epochs[-1] if colour == "red" else 0
                assert self.p.send(B, self.event(offset)).epoch == epoch
            case _:
                raise AssertionError(f"there is no step {step}")
