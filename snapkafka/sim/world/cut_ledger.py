"""The loss of the simulated ledger's tail: acknowledged records, some of them read.

A process that had read or written beyond the new end notices that at some later step, and not before: until then it
goes on, with all that it has read in mind, and reads on where the ledger has grown past that place again. Then it says
so, and takes no part any more.

The protocol promises nothing where all who had seen the last records of the tail have ended: then it is unknown which
numbers were used. So a process that has not reported its loss does not crash here, and no tail is lost of which the
living have seen less than the dead, nor one that says of a loss.
"""

from __future__ import annotations

from typing import Final

from snapkafka.protocol.ledger_state import LedgerState

from .world import World

#: So many records are lost at once, as far as there are so many: mostly few.
TAILS: Final = (1, 2, 4, 8, 16, 25)


def cut_short(world: World) -> bool:
    """Let the ledger lose its tail; return whether it did."""
    ledger, fold = world.broker.ledger, world.fold
    if len(ledger) < 2 or fold.loss:
        return False
    since = max(1, len(ledger) - world.rng.choice(TAILS))
    seen = max((process.seen for process in world.processes), default=0)
    stamped = (n for log in world.broker.logs.values() for r in log for n in (r.process + 1, r.epoch))
    used = max((n for n in stamped if n <= len(ledger)), default=0)
    if max(used, *(p + 1 for p in fold.processes), fold.highest_epoch, 0) > max(seen, since):
        return False
    world.count("ledgers_cut_short")
    world.say(f"the ledger ends at {since} again")
    del ledger[since:]
    world.fold = LedgerState()
    for offset, record in enumerate(ledger):
        world.fold.apply(offset, record)
    world.due = {place: due for place, due in world.due.items() if place[1] <= since}
    world.asked = None
    for process in world.processes:
        if process.seen > since:
            process.lost = since if process.lost is None else min(process.lost, since)
    return True
