"""The rules, each switched off: a simulator is worth as much as it notices.

A mutant breaks one rule in the machine, in the fold, in a driver's duty or in a check. `mutate` runs seeds until the
causal checker finds an inconsistent snapshot; or, of a rule that does not serve consistency, until no snapshot is
captured any more (`LIVENESS`), or a verdict is wrong (`VERDICT`). A rule whose removal goes unnoticed is either not
needed or not tested.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from snapkafka.checks import stopped_app
from snapkafka.checks.view import CutView
from snapkafka.protocol import aligner, alignment, captured_snapshot, closing, cut, gather, ledger_fold, sent
from snapkafka.protocol.colours import Colours
from snapkafka.protocol.hot_path import Work
from snapkafka.protocol.ledger_state import LedgerState
from snapkafka.protocol.membership import Member
from snapkafka.protocol.snapshots import Part
from snapkafka.protocol.tearing import Held
from snapkafka.protocol.worker import WorkerProtocol
from snapkafka.sim import Process, World, runs
from snapkafka.sim.world.driver import Driver
from snapkafka.sim.world.executions import Runner

from . import plans
from .patches import (
    Patch,
    always,
    both,
    edit,
    patching,
    recorded_by_all,
    report_for_the_dead,
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
#: reports as lost is not in it, or it holds another state than was handed over.
VERDICT: Final = frozenset({"accused", "doubted", "lost", "unlisted", "aligned", "state"})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule: the defect, the plan that reveals it sooner, and its patch.

    `seed`: one that is known to catch it; None: too rare for random worlds, as a process that is wrongly taken for dead
    is mostly still a member of its group, and a snapshot whose inputs move mostly fails by name. `small`: the small
    world in which the exhaustive search catches it; `path`: the choices that lead there, where it takes many. `by`:
    what catches it. `nightly`: it takes long.
    """

    what: str
    plan: Plan = as_it_is
    seed: int | None = None
    small: str = ""
    path: str = ""
    by: frozenset[str] = CAUSAL
    nightly: bool = False
    patch: Patch = nullcontext

    def patched(self, patch: Patch) -> Mutant:
        return replace(self, patch=patch)

    @property
    def name(self) -> str:
        return self.what.partition(":")[0]


stuck = partial(Mutant, by=LIVENESS)
wrong = partial(Mutant, by=VERDICT)


def sent_in_white(**values: str) -> Patch:
    """Let a snapshot state something else of what each process has sent."""
    given = ", ".join(f"{name}={value}" for name, value in values.items())
    return edit(
        gather,
        "_sender_ends",
        "yield SenderEnd(",
        "yield replace(SenderEnd(",
        "(sent))",
        f"(sent)), {given})",
    )


def starting(later: int) -> Patch:
    """Let ranges start somewhere else."""
    agents = f"tuple(replace(it, offset=max(0, it.offset + {later})) for it in agents)"
    position = f"max(0, position + {later})"
    return edit(
        gather,
        "_input_cuts",
        "agents=agents",
        f"agents={agents}",
        "position=position",
        f"position={position}",
    )


CLOSES_BEFORE_EVENTS: Final = both(
    edit(Colours, "white_left", "t.running or ", ""),
    edit(closing, "ask_markers", " or colours.white_running(cut.epoch)", ""),
)
COUNTS_WHAT_FAILED: Final = edit(
    Driver,
    "_lose",
    "world.history.fail(record.step)",
    "",
    "world.failed[record.ledger, record.process, tp, record.seq] = record.epoch",
    "pass",
    'outcome, reason="by chance"',
    "SendOutcome.ACKED, offset=max(sending.offset, 0)",
)
RUNS_ON_UNNOTICED: Final = patching(
    LedgerState, "_bye", lambda bye: lambda self, at, record: bye(self, at, replace(record, goes_on=False))
)
BELIEVES: Final = edit(
    WorkerProtocol,
    "_met",
    "if epoch > self.ledger.end:",
    "if False:",
    "may and self.ledger.is_epoch(epoch)",
    "True",
)
OF_EARLIER: Final = "any(event in earlier.running for earlier in self.earlier)"
READS_UNNOTICED: Final = edit(Colours, "touch", "(written, max(read, epoch))", "(written, read)")
CHANGES_UNNOTICED: Final = edit(
    Colours, "hold", "unrecorded=unrecorded", "unrecorded=False", "if unrecorded else", "if False else"
)
ALL_WAYS: Final = ("fetch", "global", "recovery", "reply")
#: a writes x, and sends what it has read there; it is taken for dead, and joins again before its write is in the log.
CAME_BACK: Final = (
    "p0 start a.A A[0]; p0 step a.A A[0]@0; p0 step a.A A[0]@0; "
    "p0 start a.A A[0]; p0 step a.A A[0]@1; p0 step a.A A[0]@1; p0 step a.A A[0]@1; "
    "trigger; p1 start b.B B[0]; p1 expire 5; trigger; p0 ledger; p0 ledger; p0 stamp; "
    "p1 step b.B B[0]@0; p1 step b.B B[0]@0"
)

MUTANTS: Final[tuple[Mutant, ...]] = (
    # What the causal checker catches in random worlds and in small ones.
    Mutant("R2 agent: takes in red while white", deaf(), 40, "cut").patched(unmet("fetch")),
    Mutant("R2 table: takes in red while white", deaf(rebalance=0.03), 44, "global").patched(
        unmet("global", "recovery")
    ),
    Mutant("R2 reply: taken in red while white", deaf(), 39, "reply").patched(unmet("reply")),
    Mutant("R3 order: handed out after a later one", plans.disordered, 0, "disorder").patched(
        always(Work, "_void", ())
    ),
    Mutant("R5 colour: effects have that of the process", sober, 12, "closing").patched(
        edit(Colours, "enter", "self.running.get(event, -1) if event is not None else -1", "self.epoch")
    ),
    Mutant("R6 torn: not noticed", sober, 7, "torn").patched(
        both(always(Colours, "touch", []), always(Colours, "tear", []))
    ),
    Mutant("R6 overwritten: what red has read, in white", sober, 82, "torn").patched(READS_UNNOTICED),
    Mutant("R6 reply: without a header, taken for white", plans.answered, 813).patched(
        edit(Colours, "tear", "by = self.epoch if by is None else by", "by = 0 if by is None else by")
    ),
    Mutant("R6 served: torn for the last snapshot of its cut only", sober, 6).patched(
        edit(Part, "torn", "torn.was < epoch <= torn.met", "epoch == torn.met")
    ),
    Mutant("R6 held: noticed at the look-up only", plans.looks, 5, "held").patched(always(Held, "hold")),
    Mutant("R6 changed: from where it is set on", plans.looks, 11, "held").patched(CHANGES_UNNOTICED),
    Mutant("R6 iterated: noticed at the first step only", plans.looks, 3, "iterated").patched(
        always(Held, "iterate")
    ),
    Mutant("R7 event: reports before the last white one", sober, 7, "closing").patched(CLOSES_BEFORE_EVENTS),
    Mutant("R7 ack: reports before the last white one", sober, 12, "closing").patched(
        edit(Colours, "white_left", "t.running or t.unacked", "t.running")
    ),
    Mutant("R7 transaction: counts before its commit", plans.in_transactions, 16, "transactions").patched(
        always(Driver, "acknowledged", True)
    ),
    Mutant("R7 aborted: a white send taken back fails nothing", plans.aborting, 80, "aborted").patched(
        edit(
            Work,
            "settled",
            "sent.unused(seq - count + 1, seq)",
            "sent.unused(seq - count + 1, seq)\n        return self._advance()",
        )
    ),
    Mutant("R7 failed: counts as acknowledged", faults(fail_send=0.05), 0, "fenced").patched(
        COUNTS_WHAT_FAILED
    ),
    Mutant("R7 unknown: white in a partition that nobody named", plans.growing, 4).patched(
        always(closing, "unknown_partitions", ())
    ),
    Mutant("R7 report: at the cut", sober, 5, "cut").patched(always(closing, "ready", True)),
    Mutant("R8 end: of ranges, one too early", sober, 6, "cut").patched(
        sent_in_white(white_end="max(0, sent.white_end - 1)")
    ),
    Mutant("R8 start: of ranges, one too early", sober, 0, "cut").patched(starting(-1)),
    Mutant("R8 late start: of ranges, one too late", sober, 6, "cut").patched(starting(1)),
    Mutant("R8 left: such senders are forgotten", faults(stop=0.01, crash=0.01), 13, "left").patched(
        edit(CutView, "sent_before", "return record.offset < source.log_end", "return False")
    ),
    Mutant("R9 moved: while a snapshot is open", plans.unreported, 19, "red-input").patched(
        always(LedgerState, "_moved")
    ),
    Mutant("R9 history: earlier readers are forgotten", faults(crash=0.02, rebalance=0.03), 18).patched(
        patching(ledger_fold, "add_reader", lambda _: lambda readers, latest: (latest,))
    ),
    Mutant("R9 stale: a report of another assignment", small="expelled").patched(
        edit(LedgerState, "_report", "if moved or record.assigned != view.assigned:", "if False:")
    ),
    Mutant("R9 unassigned: an input that nobody has", small="unassigned").patched(
        edit(LedgerState, "_complete", "snapshot.expected - earlier.keys()", "set()")
    ),
    Mutant("R11 born: a late joiner, white", small="born").patched(
        edit(WorkerProtocol, "_recognised", "if self.ledger.highest_epoch > self.colours.epoch:", "if False:")
    ),
    Mutant("R12 back: who was taken for dead, unnoticed", small="zombie", path=CAME_BACK).patched(
        always(LedgerState, "_came_back")
    ),
    Mutant("R12 effects: of events of an earlier id, nobody's", plans.reborn, 117).patched(
        both(edit(Work, "send_entered", OF_EARLIER, "False"), edit(Work, "send_at_once", OF_EARLIER, "False"))
    ),
    Mutant("R11 successor: of a lost ledger, no earlier reader", plans.reborn, 18).patched(
        edit(gather, "_with_successors", "was == SOMEBODY or ", "")
    ),
    Mutant("R10 since: what started before its inputs were announced", plans.unanswered, 0).patched(
        edit(cut.Positions, "assign", "max(rule.offset, since.get(item, 0))", "rule.offset")
    ),
    Mutant("R15 absent: cuts as if it had read the ledger", plans.unanswered_slowly, 155).patched(
        edit(WorkerProtocol, "handle", "self.absent = not event.over", "self.absent = False")
    ),
    Mutant("R10 undone: all that ran before a revocation", small="went-back").patched(
        edit(cut.Positions, "take", "offset if undone_from is None else ", "")
    ),
    Mutant("V5 replay: not looked for", small="replay").patched(
        patching(runs, "CHECKS", lambda them: tuple(it for it in them if it != "V5"))
    ),
    Mutant("hear nothing: no markers, no headers", sober, 7, "cut").patched(unmet(*ALL_WAYS)),
    Mutant("hear markers: headers ignored", plans.unread, 3, "cut").patched(
        edit(
            Process,
            "meets",
            "if not self.is_ours(record):",
            "if not (self.is_ours(record) and record.marker):",
        )
    ),
    # Of workers that run without taking part, of processes and topics that are not part of a snapshot, of records
    # without a header, of windows that expire: the exhaustive search has none of them.
    Mutant("R10 seen: an app with members as stopped", plans.relays_unseen, 163, nightly=True).patched(
        both(unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran"))
    ),
    Mutant("R10 wakes: before the capture, unseen", plans.relays_that_wake, 7, nightly=True).patched(
        unasked(stopped_app, "_ran")
    ),
    Mutant("R10 down: who stands down has left", plans.without, 4, nightly=True).patched(
        both(RUNS_ON_UNNOTICED, unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran"))
    ),
    Mutant("R10 uncounted: writes before a late Hello", plans.late, 10, nightly=True).patched(
        edit(Work, "settled", "sent.bare_end = max(sent.bare_end, offset + 1)", "pass")
    ),
    Mutant("R2 outsider: what it sent is in no verdict", plans.relayed, 3).patched(
        always(runs, "outside_senders", [])
    ),
    Mutant("R2 answers: those of an outsider are in no verdict", seed=77577).patched(
        always(WorkerProtocol, "takes_from", None)
    ),
    Mutant("R2 beside: whoever had joined counts as red", plans.relayed, 3).patched(
        patching(captured_snapshot.Outsider, "harmless", lambda _: property(lambda self: True))
    ),
    Mutant("R10 outside: groups there are not asked", plans.relays_off, 22).patched(
        always(World, "run_without", ())
    ),
    Mutant("R12 dead: somebody reports for them", faults(crash=0.01, expire=0.02), 3).patched(
        patching(LedgerState, "_leave", report_for_the_dead)
    ),
    Mutant("V1 zombie: its late records are not seen", plans.leaving_unseen, 24).patched(unseen("left-late")),
    Mutant("R6 expired: a window, in red, unnoticed", plans.windows, 27).patched(
        always(Runner, "note_expiry")
    ),
    Mutant("V4 unstamped: one that was received passes", plans.stripped, 2).patched(
        unseen("unstamped-received")
    ),
    Mutant("R15 bare: a record, unreported", plans.outgrown, 8).patched(always(Work, "left_unstamped", ())),
    Mutant("R15 bare in flight: nobody minds", plans.outgrown, 0).patched(
        always(ledger_fold, "unstamped_in_flight")
    ),
    Mutant("R15 again: nobody minds", plans.taken_over, 76).patched(always(gather, "_may_run_again", "")),
    Mutant("R16 hold: who aligns takes in red before its cut", plans.aligned_slowly, 28).patched(
        edit(WorkerProtocol, "_red_met", "[Hold(epoch=event.epoch)]", "[]")
    ),
    # Without these no snapshot is captured any more.
    stuck("R2 forged: an epoch is believed", faults(forge=0.01), 0, nightly=True).patched(BELIEVES),
    stuck("R11 anew: keeps its epoch in another ledger", faults(recreate=0.01), 0).patched(
        edit(Member, "_new_life", "Colours(self.ledger.highest_epoch)", "Colours(self.colours.epoch)")
    ),
    stuck("R11 joining: while the ledger is recreated", faults(recreate=0.01), 0).patched(
        edit(Member, "_new_life", " and self._hello_n is None", "")
    ),
    stuck("R11 foreign: epochs of a ledger that is gone", faults(recreate=0.01), 67).patched(
        edit(Driver, "is_ours", " and record.ledger == self.world.broker.ledger_id", "")
    ),
    stuck("R11 noticed: a lost tail, by nobody", plans.losing, 2).patched(
        edit(Process, "choices", "if self.lost is not None and not self.hung:", "if False:")
    ),
    stuck("R11 refused: a cut ledger takes snapshots again", plans.losing, 2).patched(
        edit(LedgerState, "_refusal", "if self.loss:", "if False:")
    ),
    stuck("R16 ends: cut before the barriers are reached", plans.aligned, 6).patched(
        always(cut.Positions, "behind")
    ),
    stuck("R16 senders: cut before their reports", plans.aligned, 4).patched(
        always(aligner.Aligner, "waits_for", "")
    ),
    stuck("R16 together: goes on before the others reported", plans.aligned, 81).patched(
        always(aligner, "holds_after", False)
    ),
    stuck("R16 marker: taken for the barrier", plans.aligned, 0).patched(
        always(aligner.Aligner, "is_ahead", False)
    ),
    stuck("R16 let go: what is held stays", plans.aligned, 4).patched(always(Process, "let_go")),
    # Without these a snapshot that is sound is accused, or one passes of which a process reports that something is
    # lost.
    wrong("R3 skipped: what a reader passes, unreported", plans.skipping, 0).patched(
        always(cut.Positions, "moved")
    ),
    wrong("R8 asked: ends from before a sender left count", plans.asking_early, 14).patched(
        edit(LedgerState, "_outdated", "0 <= snapshot.trigger.asked_at <= self.left_at", "False")
    ),
    wrong("V1 copy: held against who sent it first", faults(queue_again=0.05), 4).patched(
        always(CutView, "is_copy", False)
    ),
    wrong("V4 recorded: by one app, held against another one", sober, 7).patched(
        patching(CutView, "recorded", recorded_by_all)
    ),
    wrong("V1 landed: after a time-out, counts as never sent", plans.unsettled, 5).patched(
        sent_in_white(unacknowledged="()", landed_end="0")
    ),
    wrong("V1 many: earliest failed sends are forgotten", faults(fail_send=0.1), 8).patched(
        patching(sent, "_joined", lambda _: lambda ranges: ranges[-1:])
    ),
    wrong("V1 lost: a refused table write is in no verdict", faults(fail_send=0.05), 8).patched(
        unseen("send-failed")
    ),
    wrong("V5 twice: events that ran so are not listed", faults(crash=0.02, rebalance=0.03), 0).patched(
        unseen("ran-twice")
    ),
    wrong("V1 undone: with its transaction, counts as lost", plans.fenced, 3).patched(
        edit(CutView, "unacknowledged", "if lost and item.undone:", "if False:")
    ),
    wrong("R7 recreated: ends of a topic stand for ever", plans.renewed, 31).patched(
        always(sent.Sent, "_begin_anew")
    ),
    wrong("V5 recreated: causes there are judged as before", plans.renewed, 0).patched(
        always(gather.Stated, "old_topics", ())
    ),
    wrong("R11 latest: topics as the last to join found them", plans.renewed, 0).patched(
        patching(gather.Stated, "__init__", whoever_joined)
    ),
    wrong("R11 lost: a snapshot of after the loss stands", plans.unnoticed, 20).patched(
        edit(LedgerState, "_tail_lost", "snapshot.contaminated = ", "_ = ")
    ),
    wrong("R2 state: cut before it is handed over", plans.handing_over, 0).patched(
        edit(aligner.Aligner, "due", "elif item.state is False:", "elif False:")
    ),
    wrong("R2 unasked: cut without any", plans.handing_over, 0).patched(
        edit(WorkerProtocol, "_begin_to_wait", "elif self._asks_state:", "elif False:")
    ),
    wrong("R16 in flight: whatever was to be aligned is", plans.aligned_slowly, 0).patched(
        always(alignment, "in_flight")
    ),
)
