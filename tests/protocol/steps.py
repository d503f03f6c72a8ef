"""Steps of one process, in words."""

from __future__ import annotations

from typing import Final

from snapkafka.protocol import Cause, InputsRevoked

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
            what, *words = step.split()
            do = getattr(self, f"do_{what}", None)
            assert do is not None, f"there is no step {step}"
            do(*words)

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

    def do_cut(self) -> None:
        self.epochs.append(self.world.trigger(f"s{len(self.epochs)}"))
        settle(self.p, self.q)

    def do_calm(self) -> None:
        assert not self.machine.colours.tearing

    def do_start(self, *offsets: str) -> None:
        for offset in offsets:
            self.p.do(self.machine.event_started(self.event(offset)))

    def do_end(self, *offsets: str) -> None:
        for offset in offsets:
            self.p.end(self.event(offset))

    def do_run(self, *offsets: str) -> None:
        for offset in offsets:
            self.do_start(offset)
            self.do_end(offset)

    def do_batch(self, *offsets: str) -> None:
        self.p.do(self.machine.batch_started([self.event(offset) for offset in offsets]))

    def do_write(self, offset: str, table: str, key: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.touch(self.work(offset), table, key, write=True)))

    def do_read(self, offset: str, table: str, key: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.touch(self.work(offset), table, key, write=False)))

    def do_all(self, offset: str, table: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.touch_whole(self.work(offset), table)))

    def do_rewritten(self, table: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.rewritten(table)))

    def do_got(self, table: str, key: str, snapshot: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.received(table, key, self.epochs[int(snapshot)])))

    def do_hold(self, offset: str, table: str, key: str) -> None:
        self.p.do(
            self.machine.torn(self.machine.colours.hold(self.event(offset), table, key, unrecorded=False))
        )

    def do_change(self, offset: str, table: str, key: str) -> None:
        self.p.do(
            self.machine.torn(self.machine.colours.hold(self.event(offset), table, key, unrecorded=True))
        )

    def do_iterate(self, offset: str, table: str) -> None:
        self.p.do(self.machine.torn(self.machine.colours.iterate(self.event(offset), table)))

    def do_reply(self, offset: str, snapshot: str) -> None:
        epoch = None if snapshot == "bare" else self.epochs[int(snapshot)]
        self.p.do(self.machine.torn(self.machine.colours.tear(self.event(offset), epoch)))

    def do_worked(self, offset: str, by: str) -> None:
        colours, event = self.machine.colours, self.work(by)
        by_colour = None if event is None else colours.running.get(event)
        self.p.do(self.machine.torn(colours.tear(self.event(offset), by_colour)))

    def do_give(self, position: str) -> None:
        self.p.feed(InputsRevoked())
        self.p.give(A, positions={A: int(position)}, generation=2)
        settle(self.p, self.q)

    def do_send(self, offset: str) -> None:
        self.p.send(B, self.event(offset), ack=False)

    def do_white(self, offset: str) -> None:
        assert self.p.send(B, self.event(offset)).epoch == 0

    def do_red(self, offset: str) -> None:
        assert self.p.send(B, self.event(offset)).epoch == self.epochs[-1]
