"""The rules, each switched off: a simulator is worth as much as it notices.

A mutant breaks one rule in the machine, in the fold, in a driver's duty or in a check. `mutate` runs seeds until the
causal checker finds an inconsistent snapshot; or, of a rule that does not serve consistency, until no snapshot is
captured any more (`LIVENESS`), or a verdict is wrong (`VERDICT`). A rule whose removal goes unnoticed is either not
needed or not tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from snapkafka.checks import stopped_app
from snapkafka.checks.view import CutView
from snapkafka.protocol import (
    Colours,
    LedgerState,
    WorkerProtocol,
    aligner,
    alignment,
    captured_snapshot,
    closing,
    cut,
    facts,
    gather,
    ledger_fold,
    sent,
    unstamped,
)
from snapkafka.protocol.held import Held
from snapkafka.protocol.hot_path import Work
from snapkafka.protocol.lost_tail import LostTails
from snapkafka.sim import Process, World, runs
from snapkafka.sim.world.executions import Runner
from snapkafka.sim.world.sending import Sender

from . import plans
from .patches import (
    Patch,
    always,
    both,
    edit,
    forget_the_unacknowledged,
    patching,
    report_for_the_dead,
    shifted,
    unasked,
    unmet,
    unseen,
    whoever_joined,
)
from .plans import Plan, as_it_is, deaf, faults, sober

#: What the causal checker says; anything else (an assertion, a time-out) does not count as having caught a mutant.
CAUSAL: Final = frozenset({"whole", "consistent", "channels"})
LIVENESS: Final = CAUSAL | {"liveness"}
#: What is wrong with a verdict: a sound snapshot is accused, or doubted for what its event undid, or what a process
#: reports as lost is not in it.
VERDICT: Final = frozenset({"accused", "doubted", "lost", "unlisted", "aligned"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken rule: the defect, its patch, and the plan that reveals it sooner.

    `seed`: one that is known to catch it; None: too rare for random worlds, as a process that is wrongly taken for dead
    is mostly still a member of its group, and a snapshot whose inputs move mostly fails by name. `small`: the small
    world in which the exhaustive search catches it, and the order in which that found it soonest; or, where it takes
    many, the choices that lead there. `by`: what catches it. `whole`: what makes the plan whole again, where it is the
    plan that breaks. `nightly`: it takes long.
    """

    name: str
    what: str
    patch: Patch
    plan: Plan = as_it_is
    seed: int | None = None
    small: tuple[str, int | str] | None = None
    by: frozenset[str] = CAUSAL
    whole: Plan = as_it_is
    nightly: bool = False


def _row(
    name: str, what: str, patch: Patch, plan: Plan, seed: int | None = None, *small: str | int, **more: object
) -> Mutant:
    place = (str(small[0]), small[1]) if small else None
    return Mutant(name=name, what=what, patch=patch, plan=plan, seed=seed, small=place, **more)  # type: ignore[arg-type]


WHITE_RUNNING: Final = "        and not colours.white_running(cut.epoch)\n"
WHITE_UNACKED: Final = "        and not colours.white_unacked(cut.epoch)\n"
CLOSES_BEFORE_EVENTS: Final = both(
    edit(closing, "ready", {WHITE_RUNNING: ""}),
    edit(closing, "ask_markers", {" or colours.white_running(cut.epoch)": ""}),
)
COUNTS_WHAT_FAILED: Final = edit(
    Sender,
    "_lose",
    {
        "self.world.history.fail(record.step)": "",
        "self._reported_failure(sending)": "pass",
        "outcome, reason=why": "SendOutcome.ACKED, offset=max(sending.offset, 0)",
    },
)
RUNS_ON_UNNOTICED: Final = patching(
    LedgerState, "_bye", lambda bye: lambda self, at, record: bye(self, at, replace(record, goes_on=False))
)
FORGETS_ITS_LOSSES: Final = edit(
    WorkerProtocol,
    "_ledger_cut_short",
    {"*self.ledger.tails.named_from(event.since),": "", "*self._losses.values(),": ""},
)
BELIEVES: Final = edit(
    WorkerProtocol,
    "_met",
    {"if epoch > self.ledger.end:": "if False:", "may and self.ledger.is_epoch(epoch)": "True"},
)
READS_UNNOTICED: Final = edit(Colours, "touch", {"(written, max(read, epoch))": "(written, read)"})
CHANGES_UNNOTICED: Final = edit(
    Colours, "hold", {"unrecorded=unrecorded": "unrecorded=False", "if unrecorded else": "if False else"}
)
ALL_WAYS: Final = ("fetch", "global", "recovery", "reply")
#: a writes x, and sends what it has read there; it is taken for dead, and joins again before its write is in the log.
CAME_BACK: Final = (
    "p0 start a.A A[0]; p0 step a.A A[0]@0; p0 step a.A A[0]@0; "
    "p0 start a.A A[0]; p0 step a.A A[0]@1; p0 step a.A A[0]@1; p0 step a.A A[0]@1; "
    "trigger; p1 start b.B B[0]; p1 expire 5; trigger; p0 ledger; p0 ledger; p0 stamp; "
    "p1 step b.B B[0]@0; p1 step b.B B[0]@0"
)

# fmt: off
MUTANTS: Final[tuple[Mutant, ...]] = (
    # What the causal checker catches in random worlds and in small ones.
    _row("R2 agent", "an agent takes in red while its process is white",
         unmet("fetch"), deaf(), 15, "cut", 6),
    _row("R2 global table", "a table takes in red while its process is white",
         unmet("global", "recovery"), deaf(rebalance=0.03), 29, "global", 2),
    _row("R2 reply", "a reply is taken in red while its process is white",
         unmet("reply"), deaf(), 7, "reply", 2),
    _row("R3 order", "a record is handed out after a later one, and nobody minds",
         always(Work, "_void", ()), plans.disordered, 0, "disorder", 0),
    _row("R5 colour", "effects have the colour of the process",
         edit(Colours, "enter", {"self.running.get(event, -1) if event is not None else -1": "self.epoch"}),
         sober, 6, "closing", 0),
    _row("R6 torn", "a torn event is not noticed",
         both(always(Colours, "touch", []), always(Colours, "tear", [])), sober, 0, "torn", 0),
    _row("R6 overwritten", "what red has read is overwritten in white",
         READS_UNNOTICED, sober, 15, "torn", 0),
    _row("R6 held", "what changes in place is noticed where it is looked up only",
         always(Held, "hold"), plans.looks, 3, "held", 0),
    _row("R6 changed", "a change in place counts from where it is set",
         CHANGES_UNNOTICED, plans.looks, 33, "held", 0),
    _row("R6 iterated", "an iteration of a table is noticed at the first step only",
         always(Held, "iterate"), plans.looks, 2, "iterated", 0),
    _row("R7 event", "reports before the last white event",
         CLOSES_BEFORE_EVENTS, sober, 7, "closing", 0),
    _row("R7 ack", "reports before the last white acknowledgement",
         edit(closing, "ready", {WHITE_UNACKED: ""}), sober, 7, "closing", 0),
    _row("R7 transaction", "a white send counts before its transaction is committed",
         always(Sender, "acknowledged", True), plans.in_transactions, 3, "transactions", 0),
    _row("R7 aborted", "a white send that its transaction takes back fails no snapshot",
         edit(Work, "settled", {"Colours.unstamp(sent, taken_back)": "Colours.unstamp(sent, taken_back)\n"
                                "        return self._advance()"}), plans.aborting, 9, "aborted", 0),
    _row("R7 failed", "a white send that failed counts as acknowledged",
         COUNTS_WHAT_FAILED, faults(fail_send=0.05), 2, "fenced", 5),
    _row("R7 unknown", "white records in a partition that nobody has named as an input fail no snapshot",
         always(closing, "_unknown", ()), plans.growing, 19),
    _row("R7 report", "a process reports at its cut",
         always(closing, "ready", True), sober, 5, "cut", 0),
    _row("R8 end", "ranges end one too early",
         shifted(ends=-1), sober, 6, "cut", 0),
    _row("R8 start", "ranges start one too early",
         shifted(positions=-1), sober, 0, "cut", 0),
    _row("R8 late start", "ranges start one too late",
         shifted(positions=1), sober, 6, "cut", 0),
    _row("R8 left", "senders that left are forgotten",
         edit(CutView, "in_channel", {"return record.offset < source.log_end": "return False"}),
         faults(stop=0.01, crash=0.01), 13, "left", 5),
    _row("R9 moved", "an input is assigned while a snapshot is open, and nobody minds",
         always(LedgerState, "_moved"), plans.unreported, 0, "red-input", 5),
    _row("R9 history", "the earlier readers of an input are forgotten",
         patching(ledger_fold, "add_reader", lambda _: lambda readers, latest: (latest,)),
         faults(crash=0.02, rebalance=0.03), 0),
    _row("R9 stale", "a report counts whatever its process has by then",
         edit(LedgerState, "_report", {"if moved or record.assigned != view.assigned:": "if False:"}),
         as_it_is, None, "expelled", 6),
    _row("R9 unassigned", "an input that nobody has is in no cut",
         edit(LedgerState, "_complete", {"snapshot.expected - earlier.keys()": "set()"}),
         as_it_is, None, "unassigned", 3),
    _row("R11 born", "a late joiner is born white",
         edit(WorkerProtocol, "_recognised",
              {"if self.ledger.highest_epoch > self.colours.epoch:": "if False:"}),
         as_it_is, None, "born", 0),
    _row("R12 back", "who was taken for dead comes back unnoticed",
         always(LedgerState, "_came_back"), as_it_is, None, "zombie", CAME_BACK),
    _row("R10 undone", "what ran before inputs were revoked counts as undone, as after an aborted transaction",
         edit(cut.Positions, "take", {"offset if undone_from is None else ": ""}), as_it_is, None, "went-back", 3),
    _row("V5 replay", "the verdict is blind to replays",
         patching(runs, "CHECKS", lambda them: tuple(it for it in them if it != "V5")), as_it_is, None, "replay", 4),
    _row("hear nothing", "markers and headers both off",
         unmet(*ALL_WAYS), sober, 64, "cut", 6),
    _row("hear markers", "headers ignored",
         edit(Process, "meets", {"if not self.is_ours(record):": "if not (self.is_ours(record) and record.marker):"}),
         lambda plan: replace(sober(plan), hear=frozenset({"markers"})), 7, "cut", 6,
         whole=lambda plan: replace(plan, hear=plans.HEARD)),
    # Of workers that run without taking part, of processes and topics that are not part of a snapshot, of records
    # without a header, of windows that expire: the exhaustive search has none of them.
    _row("R10 seen", "an app that has members is taken for a stopped one",
         both(unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran")),
         plans.relays_unseen, 163, nightly=True),
    _row("R10 wakes", "a stopped app wakes before the capture, and assembly does not look again",
         unasked(stopped_app, "_ran"), plans.relays_that_wake, 16, nightly=True),
    _row("R10 down", "who stands down is one that left",
         both(RUNS_ON_UNNOTICED, unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran")),
         plans.without, 1, nightly=True),
    _row("R10 uncounted", "table writes from before a late Hello are not counted",
         edit(Work, "settled", {"sent.bare_end = max(sent.bare_end, offset + 1)": "pass"}),
         plans.late, 32, nightly=True),
    _row("R2 outsider", "what was received of a process that is not part of the snapshot is in no verdict",
         always(runs, "outside_senders", []), plans.relayed, 77),
    _row("R2 beside", "whoever had joined counts as red for the snapshot",
         patching(captured_snapshot.Outsider, "harmless", lambda _: property(lambda self: True)),
         plans.relayed, 77),
    _row("R10 outside", "the group of an app out of scope is not asked whether it runs without snapkafka",
         always(World, "run_without", ()), plans.relays_off, 42),
    _row("R12 dead", "somebody reports for the dead",
         patching(LedgerState, "_leave", report_for_the_dead), faults(crash=0.01, expire=0.02), 99),
    _row("V1 zombie", "the verdict is blind to what a process that left has sent past the end that is known",
         unseen("left-late"), plans.leaving_unseen, 588),
    _row("R6 expired", "a window that expires in red is read in white",
         always(Runner, "note_expiry"), plans.windows, 27),
    _row("V4 unstamped", "a received record without its header passes",
         unseen("unstamped-received"), plans.stripped, 16),
    _row("R15 bare", "a record leaves without a header, and nobody reports it",
         always(Work, "left_unstamped", ()), plans.outgrown, 1),
    _row("R15 bare in flight", "a record without a header is in flight, and nobody minds",
         always(unstamped, "in_flight"), plans.outgrown, 3),
    _row("R11 numbers", "numbers of a tail that is lost are used again",
         always(LostTails, "hides", False), plans.losing, 3),
    _row("R11 again", "a loss whose record is lost in turn is not stated again",
         FORGETS_ITS_LOSSES, plans.losing_often, 8),
    _row("R16 hold", "a process that aligns takes in red before it cuts",
         edit(WorkerProtocol, "_red_met", {"[HoldRecord(epoch=event.epoch)]": "[]"}), plans.aligned_slowly, 13),
    # Without these no snapshot is captured any more.
    _row("R2 forged", "a forged epoch is believed",
         BELIEVES, faults(forge=0.01), 1, by=LIVENESS, nightly=True),
    _row("R11 noticed", "nobody notices that the ledger has lost its tail",
         edit(Process, "choices", {"if self.lost is not None and not self.hung:": "if False:"}),
         plans.losing, 2, by=LIVENESS),
    _row("R16 ends", "a process cuts before it has read up to the barriers",
         always(cut.Positions, "behind"), plans.aligned, 6, by=LIVENESS),
    _row("R16 senders", "a process cuts before those that send to it have reported",
         always(aligner.Aligner, "waits_for", ""), plans.aligned, 4, by=LIVENESS),
    _row("R16 together", "a process goes on before all who send to the same topics have reported",
         always(aligner, "holds_after", False), plans.aligned, 55, by=LIVENESS),
    _row("R16 marker", "a marker is taken for the barrier of its partition",
         always(aligner.Aligner, "is_ahead", False), plans.aligned, 0, by=LIVENESS),
    _row("R16 let go", "what is held back never goes on",
         always(Process, "let_go"), plans.aligned, 2, by=LIVENESS),
    # Without these a snapshot that is sound is accused, or one passes of which a process reports that something is
    # lost.
    _row("R3 skipped", "a reader does not report what it has passed",
         always(cut.Positions, "moved"), plans.skipping, 0, by=VERDICT),
    _row("R8 asked", "the trigger's log ends count for a sender that left after they were asked for",
         always(LedgerState, "_left_since", False), plans.asking_early, 49, by=VERDICT),
    _row("V1 copy", "a record that was queued again with its headers is held against who sent it first",
         always(CutView, "is_copy", False), faults(queue_again=0.05), 4, by=VERDICT),
    _row("V1 landed", "a send that timed out counts as never sent, wherever it lies",
         patching(gather, "gather", forget_the_unacknowledged), plans.unsettled, 5, by=VERDICT),
    _row("V1 many", "of the sends that failed the earliest are forgotten",
         patching(sent, "_joined", lambda _: lambda ranges: ranges[-1:]), faults(fail_send=0.1), 8, by=VERDICT),
    _row("V1 lost", "a table write that was refused, with nothing after it, is in no verdict",
         unseen("send-failed"), faults(fail_send=0.05), 20, by=VERDICT),
    _row("V5 twice", "events that ran twice before the cut are not listed",
         unseen("ran-twice"), faults(crash=0.02, rebalance=0.03), 0, by=VERDICT),
    _row("V1 undone", "what an event undid with its transaction counts as lost",
         edit(CutView, "unacknowledged", {"if lost and item.undone:": "if False:"}), plans.fenced, 3, by=VERDICT),
    _row("R7 recreated", "ends of a topic that was recreated stand for ever",
         always(sent.Sent, "_begin_anew"), plans.renewed, 4, by=VERDICT),
    _row("V5 recreated", "causes in a topic that was recreated since, and ends of it, are judged as of the same one",
         always(facts.Stated, "old_topics", ()), plans.renewed, 0, by=VERDICT),
    _row("R11 latest", "topics have the ids that who joined last has found, whenever that was",
         patching(facts, "joined_by", lambda _: lambda state, snapshot: whoever_joined(state)),
         plans.renewed, 0, by=VERDICT),
    _row("R11 hidden", "of two processes with one number the second counts as the first",
         always(LedgerState, "_hide"), plans.unnoticed, 12, by=VERDICT),
    _row("R16 in flight", "every snapshot that was to be aligned counts as aligned",
         always(alignment, "in_flight"), plans.aligned_slowly, 1, by=VERDICT),
)
# fmt: on
