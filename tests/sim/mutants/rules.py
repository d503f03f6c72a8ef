"""The rules, each switched off: a simulator is worth as much as it notices.

A mutant breaks one rule in the machine, in the fold, in a driver's duty or in a check. `mutate` runs seeds until the
causal checker finds an inconsistent snapshot. A rule whose removal goes unnoticed is either not needed or not tested.

Some rules do not serve consistency, so no causal checker can notice their absence: see `LIVENESS` and `VERDICTS`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from snapkafka.checks import stopped_app, view
from snapkafka.protocol import (
    Colours,
    cut,
    gather,
    hot_path,
    ledger_state,
    sent,
    unstamped,
    worker,
)
from snapkafka.protocol.held import Held
from snapkafka.sim import Process, runs
from snapkafka.sim.world.executions import Runner
from snapkafka.sim.world.sending import Sender

from . import broken
from .broken import both, patching
from .mutant import Mutant
from .plans import (
    aborting,
    alone,
    asking_early,
    deaf,
    disordered,
    faults,
    fenced,
    in_transactions,
    late,
    leaving_unseen,
    looks,
    outgrown,
    relays_that_wake,
    relays_unseen,
    skipping,
    sober,
    stripped,
    unreported,
    unsettled,
    windows,
    without,
)

#: Each is caught by the causal checker.
MUTANTS: Final[tuple[Mutant, ...]] = (
    Mutant("R2 agent", "an agent takes in red while its process is white", broken.unmet("fetch"), deaf()),
    Mutant(
        "R2 global table",
        "a table takes in red while its process is white",
        broken.unmet("global", "recovery"),
        deaf(rebalance=0.03),
    ),
    Mutant("R2 reply", "a reply is taken in red while its process is white", broken.unmet("reply"), deaf()),
    Mutant(
        "R3 order",
        "a record is handed out after a later one, and nobody minds",
        patching(hot_path.Work, "_void", lambda _: lambda self, event: ()),
        disordered,
    ),
    Mutant(
        "R5 colour",
        "effects have the colour of the process",
        patching(Colours, "enter", broken.colour_of_the_process),
        sober,
    ),
    Mutant(
        "R6 torn",
        "a torn event is not noticed",
        both(
            patching(Colours, "touch", lambda _: lambda self, *a, **k: []),
            patching(Colours, "tear", lambda _: lambda self, *a, **k: []),
        ),
        sober,
    ),
    Mutant(
        "R6 overwritten",
        "what red has read is overwritten in white",
        patching(
            Colours,
            "touch",
            lambda touch: (
                lambda self, event, table, key, *, write: (
                    touch(self, event, table, key, write=write)
                    if write
                    else self.tear(event, self._touched.get((table, key), (-1, -1))[0], table)
                )
            ),
        ),
        sober,
    ),
    Mutant(
        "R6 held",
        "what changes in place is noticed where it is looked up only",
        patching(Held, "hold", lambda _: lambda self, event, key, *, unrecorded: None),
        looks,
    ),
    Mutant(
        "R6 changed",
        "a change in place counts from where it is set",
        patching(
            Colours,
            "hold",
            lambda hold: (
                lambda self, event, table, key, *, unrecorded: hold(self, event, table, key, unrecorded=False)
            ),
        ),
        looks,
    ),
    Mutant(
        "R6 iterated",
        "an iteration of a table is noticed at the first step only",
        patching(Held, "iterate", lambda _: lambda self, event, table: None),
        looks,
    ),
    Mutant("R7 event", "closes before the last white event", broken.closes_early(running=False), sober),
    Mutant(
        "R7 ack", "closes before the last white acknowledgement", broken.closes_early(unacked=False), sober
    ),
    Mutant(
        "R7 transaction",
        "a white send counts before its transaction is committed",
        patching(Sender, "acknowledged", lambda _: staticmethod(lambda sending: True)),
        in_transactions,
    ),
    Mutant(
        "R7 aborted",
        "a white send that its transaction takes back fails no snapshot",
        patching(hot_path.Work, "settled", broken.takes_back_unnoticed),
        aborting,
    ),
    Mutant(
        "R7 failed",
        "a white send that failed counts as acknowledged",
        patching(Sender, "_lose", broken.counts_all_the_same),
        faults(fail_send=0.05),
    ),
    Mutant(
        "R7 report",
        "a process reports at its cut",
        patching(worker.WorkerProtocol, "_cut", broken.reports_at_once),
        sober,
    ),
    Mutant("R8 end", "ranges end one too early", broken.shifted(ends=-1), sober),
    Mutant("R8 start", "ranges start one too early", broken.shifted(positions=-1), sober),
    Mutant("R8 late start", "ranges start one too late", broken.shifted(positions=1), sober),
    Mutant(
        "R8 left",
        "senders that left are forgotten",
        patching(view.CutView, "in_channel", broken.forget_the_left),
        faults(stop=0.01, crash=0.01),
    ),
    Mutant(
        "R9 moved",
        "an input is assigned while a snapshot is open, and nobody minds",
        patching(ledger_state.LedgerState, "_moved", lambda _: lambda self, offset, view: None),
        unreported,
    ),
    Mutant(
        "R9 stale",
        "a report counts whatever its process has by then",
        patching(ledger_state.LedgerState, "_report", broken.stale_counts),
    ),
    Mutant(
        "R9 unassigned",
        "an input that nobody has is in no cut",
        patching(ledger_state.LedgerState, "_complete", broken.inputs_do_not_matter),
    ),
    Mutant(
        "R11 born",
        "a late joiner is born white",
        patching(worker.WorkerProtocol, "_recognised", broken.born_white),
        alone(apps=1, workers=2, slow={"ledger": 0.02}, stop=0.02, restart=0.2),
    ),
    Mutant(
        "R12 back",
        "who was taken for dead comes back unnoticed",
        patching(ledger_state.LedgerState, "_came_back", broken.nobody_came_back),
        alone(apps=2, workers=1, slow={"ledger": 0.05, "stamp": 0.02}, expire=0.1),
    ),
    Mutant(
        "R10 undone",
        "what ran before inputs were revoked counts as undone, as after an aborted transaction",
        patching(cut.Positions, "take", broken.forgets_what_ran),
        faults(crash=0.01, rebalance=0.02),
    ),
    Mutant(
        "V5 replay",
        "the verdict is blind to replays",
        patching(runs, "CHECKS", broken.without("V5")),
        faults(crash=0.01, rebalance=0.02),
    ),
    Mutant(
        "hear nothing",
        "markers and headers both off",
        broken.unmet("fetch", "global", "recovery", "reply"),
        sober,
    ),
    Mutant(
        "hear markers",
        "headers ignored",
        patching(Process, "meet", broken.no_headers),
        lambda plan: replace(sober(plan), hear=frozenset({"markers"})),
        lambda plan: replace(plan, hear=frozenset({"ledger", "markers", "headers"})),
    ),
)

#: Of workers that run without taking part. Caught by the causal checker in random worlds; the exhaustive search has no
#: such workers.
WITHOUT: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R10 seen",
        "an app that has members is taken for a stopped one",
        both(
            patching(stopped_app, "_require_empty", broken.nothing_happens),
            patching(stopped_app, "_ran", broken.nothing_happens),
        ),
        relays_unseen,
    ),
    Mutant(
        "R10 wakes",
        "a stopped app wakes between the look of who triggers and the capture, and assembly does not look again",
        patching(stopped_app, "_ran", broken.nothing_happens),
        relays_that_wake,
    ),
    Mutant(
        "R10 down",
        "who stands down is one that left",
        both(
            patching(ledger_state.LedgerState, "_bye", broken.goes_on_unnoticed),
            patching(stopped_app, "_require_empty", broken.nothing_happens),
            patching(stopped_app, "_ran", broken.nothing_happens),
        ),
        without,
    ),
    Mutant(
        "R10 uncounted",
        "table writes from before a late Hello are not counted",
        patching(hot_path.Work, "settled", broken.counts_nothing_bare),
        late,
    ),
)

#: Of the dead, of ends that are not known, of records without a header (removed on
#: the way, or too large with it), and of windows that expire. Caught by the causal checker, too; the exhaustive search
#: has none of them.
STRIPPED: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R12 dead",
        "somebody reports for the dead",
        patching(ledger_state.LedgerState, "_leave", broken.report_for_the_dead),
        faults(crash=0.01, expire=0.02),
    ),
    Mutant(
        "V1 zombie",
        "the verdict is blind to what a process that left has sent past the end that is known",
        broken.unseen("left-late"),
        leaving_unseen,
    ),
    Mutant(
        "R6 expired",
        "a window that expires in red is read in white",
        patching(Runner, "note_expiry", lambda _: lambda self, name, key: None),
        windows,
    ),
    Mutant(
        "V4 unstamped",
        "a received record without its header passes",
        broken.unseen("unstamped-received"),
        stripped,
    ),
    Mutant(
        "R15 bare",
        "a record leaves without a header, and nobody reports it",
        patching(hot_path.Work, "left_unstamped", lambda _: lambda self, tp: ()),
        outgrown,
    ),
    Mutant(
        "R15 bare in flight",
        "a record without a header is in flight, and nobody minds",
        patching(unstamped, "in_flight", lambda _: lambda snapshot, processes: None),
        outgrown,
    ),
)

#: Rules that keep snapshots coming, not consistent: what they hold off is caught by the liveness phase.
LIVENESS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R2 forged",
        "a forged epoch is believed",
        patching(worker.WorkerProtocol, "_met", broken.believe),
        faults(forge=0.01),
    ),
)

#: Rules that keep a verdict right: without them a snapshot that is sound is accused, or one passes of which a process
#: reports that something is lost.
VERDICTS: Final[tuple[Mutant, ...]] = (
    Mutant(
        "R3 skipped",
        "a reader does not report what it has passed",
        patching(cut.Positions, "moved", lambda _: lambda self, seen: None),
        skipping,
    ),
    Mutant(
        "R8 asked",
        "the trigger's log ends count for a sender that left after they were asked for",
        patching(ledger_state.LedgerState, "_left_since", lambda _: lambda self, asked_at: False),
        asking_early,
    ),
    Mutant(
        "V1 copy",
        "a record that was queued again with its headers is held against who sent it first",
        patching(view.CutView, "is_copy", lambda _: lambda self, record: False),
        faults(queue_again=0.05),
    ),
    Mutant(
        "V1 landed",
        "a send that timed out counts as never sent, wherever it lies",
        patching(gather, "gather", broken.forget_the_unacknowledged),
        unsettled,
    ),
    Mutant(
        "V1 many",
        "of the sends that failed the earliest are forgotten",
        patching(sent, "_joined", lambda _: lambda ranges: ranges[-1:]),
        faults(fail_send=0.1),
    ),
    Mutant(
        "V1 lost",
        "a table write that was refused, with nothing after it, is in no verdict",
        broken.unseen("send-failed"),
        faults(fail_send=0.05),
    ),
    Mutant(
        "V5 twice",
        "events that ran twice before the cut are not listed",
        broken.unseen("ran-twice"),
        faults(crash=0.02, rebalance=0.03),
    ),
    Mutant(
        "V1 undone",
        "what an event undid with its transaction counts as lost",
        patching(
            view.CutView,
            "unacknowledged",
            lambda original: lambda self, process, tp, lost=False: original(self, process, tp),
        ),
        fenced,
    ),
)
