"""The rules, each switched off: a simulator is worth as much as it notices.

A mutant breaks one rule in the machine, in the fold, in a driver's duty or in a check. `mutate` runs seeds until the
causal checker finds an inconsistent snapshot; or, of a rule that does not serve consistency, until no snapshot is
captured any more (`LIVENESS`), or a verdict is wrong (`VERDICT`). A rule whose removal goes unnoticed is either not
needed or not tested.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
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


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken rule: the defect, its patch, and the plan that reveals it sooner.

    `seed`: one that is known to catch it; None: too rare for random worlds, as a process that is wrongly taken for dead
    is mostly still a member of its group, and a snapshot whose inputs move mostly fails by name. `small`: the small
    world in which the exhaustive search catches it; `path`: the choices that lead there, where it takes many. `by`:
    what catches it. `whole`: what makes the plan whole again, where it is the plan that breaks. `nightly`: it takes
    long.
    """

    what: str
    patch: Patch
    plan: Plan = as_it_is
    seed: int | None = None
    small: str = ""
    path: str = ""
    by: frozenset[str] = CAUSAL
    whole: Plan = as_it_is
    nightly: bool = False

    @property
    def name(self) -> str:
        return self.what.partition(":")[0]


stuck = partial(Mutant, by=LIVENESS)
wrong = partial(Mutant, by=VERDICT)

WHITE_RUNNING: Final = "        and not colours.white_running(cut.epoch)\n"
WHITE_UNACKED: Final = "        and not colours.white_unacked(cut.epoch)\n"
CLOSES_BEFORE_EVENTS: Final = both(
    edit(closing, "ready", WHITE_RUNNING, ""),
    edit(closing, "ask_markers", " or colours.white_running(cut.epoch)", ""),
)
COUNTS_WHAT_FAILED: Final = edit(
    Sender,
    "_lose",
    "self.world.history.fail(record.step)",
    "",
    "self._reported_failure(sending)",
    "pass",
    "outcome, reason=why",
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
    Mutant("R2 agent: takes in red while white", unmet("fetch"), deaf(), 15, "cut"),
    Mutant(
        "R2 table: takes in red while white", unmet("global", "recovery"), deaf(rebalance=0.03), 29, "global"
    ),
    Mutant("R2 reply: taken in red while white", unmet("reply"), deaf(), 7, "reply"),
    Mutant(
        "R3 order: handed out after a later one", always(Work, "_void", ()), plans.disordered, 0, "disorder"
    ),
    Mutant(
        "R5 colour: effects have that of the process",
        edit(Colours, "enter", "self.running.get(event, -1) if event is not None else -1", "self.epoch"),
        sober,
        6,
        "closing",
    ),
    Mutant(
        "R6 torn: not noticed",
        both(always(Colours, "touch", []), always(Colours, "tear", [])),
        sober,
        0,
        "torn",
    ),
    Mutant("R6 overwritten: what red has read, in white", READS_UNNOTICED, sober, 15, "torn"),
    Mutant("R6 held: noticed at the look-up only", always(Held, "hold"), plans.looks, 3, "held"),
    Mutant("R6 changed: from where it is set on", CHANGES_UNNOTICED, plans.looks, 33, "held"),
    Mutant(
        "R6 iterated: noticed at the first step only", always(Held, "iterate"), plans.looks, 2, "iterated"
    ),
    Mutant("R7 event: reports before the last white one", CLOSES_BEFORE_EVENTS, sober, 7, "closing"),
    Mutant(
        "R7 ack: reports before the last white one",
        edit(closing, "ready", WHITE_UNACKED, ""),
        sober,
        7,
        "closing",
    ),
    Mutant(
        "R7 transaction: counts before its commit",
        always(Sender, "acknowledged", True),
        plans.in_transactions,
        3,
        "transactions",
    ),
    Mutant(
        "R7 aborted: a white send taken back fails nothing",
        edit(
            Work,
            "settled",
            "Colours.unstamp(sent, taken_back)",
            "Colours.unstamp(sent, taken_back)\n        return self._advance()",
        ),
        plans.aborting,
        9,
        "aborted",
    ),
    Mutant("R7 failed: counts as acknowledged", COUNTS_WHAT_FAILED, faults(fail_send=0.05), 2, "fenced"),
    Mutant(
        "R7 unknown: white in a partition that nobody named",
        always(closing, "_unknown", ()),
        plans.growing,
        19,
    ),
    Mutant("R7 report: at the cut", always(closing, "ready", True), sober, 5, "cut"),
    Mutant("R8 end: of ranges, one too early", shifted(ends=-1), sober, 6, "cut"),
    Mutant("R8 start: of ranges, one too early", shifted(positions=-1), sober, 0, "cut"),
    Mutant("R8 late start: of ranges, one too late", shifted(positions=1), sober, 6, "cut"),
    Mutant(
        "R8 left: such senders are forgotten",
        edit(CutView, "in_channel", "return record.offset < source.log_end", "return False"),
        faults(stop=0.01, crash=0.01),
        13,
        "left",
    ),
    Mutant(
        "R9 moved: while a snapshot is open", always(LedgerState, "_moved"), plans.unreported, 0, "red-input"
    ),
    Mutant(
        "R9 history: earlier readers are forgotten",
        patching(ledger_fold, "add_reader", lambda _: lambda readers, latest: (latest,)),
        faults(crash=0.02, rebalance=0.03),
        0,
    ),
    Mutant(
        "R9 stale: a report of another assignment",
        edit(LedgerState, "_report", "if moved or record.assigned != view.assigned:", "if False:"),
        small="expelled",
    ),
    Mutant(
        "R9 unassigned: an input that nobody has",
        edit(LedgerState, "_complete", "snapshot.expected - earlier.keys()", "set()"),
        small="unassigned",
    ),
    Mutant(
        "R11 born: a late joiner, white",
        edit(
            WorkerProtocol, "_recognised", "if self.ledger.highest_epoch > self.colours.epoch:", "if False:"
        ),
        small="born",
    ),
    Mutant(
        "R12 back: who was taken for dead, unnoticed",
        always(LedgerState, "_came_back"),
        small="zombie",
        path=CAME_BACK,
    ),
    Mutant(
        "R10 undone: all that ran before a revocation",
        edit(cut.Positions, "take", "offset if undone_from is None else ", ""),
        small="went-back",
    ),
    Mutant(
        "V5 replay: not looked for",
        patching(runs, "CHECKS", lambda them: tuple(it for it in them if it != "V5")),
        small="replay",
    ),
    Mutant("hear nothing: no markers, no headers", unmet(*ALL_WAYS), sober, 64, "cut"),
    Mutant(
        "hear markers: headers ignored",
        edit(
            Process,
            "meets",
            "if not self.is_ours(record):",
            "if not (self.is_ours(record) and record.marker):",
        ),
        lambda plan: replace(sober(plan), hear=frozenset({"markers"})),
        7,
        "cut",
        whole=lambda plan: replace(plan, hear=plans.HEARD),
    ),
    # Of workers that run without taking part, of processes and topics that are not part of a snapshot, of records
    # without a header, of windows that expire: the exhaustive search has none of them.
    Mutant(
        "R10 seen: an app with members as stopped",
        both(unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran")),
        plans.relays_unseen,
        163,
        nightly=True,
    ),
    Mutant(
        "R10 wakes: before the capture, unseen",
        unasked(stopped_app, "_ran"),
        plans.relays_that_wake,
        16,
        nightly=True,
    ),
    Mutant(
        "R10 down: who stands down has left",
        both(RUNS_ON_UNNOTICED, unasked(stopped_app, "_require_empty"), unasked(stopped_app, "_ran")),
        plans.without,
        1,
        nightly=True,
    ),
    Mutant(
        "R10 uncounted: writes before a late Hello",
        edit(Work, "settled", "sent.bare_end = max(sent.bare_end, offset + 1)", "pass"),
        plans.late,
        32,
        nightly=True,
    ),
    Mutant(
        "R2 outsider: what it sent is in no verdict", always(runs, "outside_senders", []), plans.relayed, 77
    ),
    Mutant(
        "R2 beside: whoever had joined counts as red",
        patching(captured_snapshot.Outsider, "harmless", lambda _: property(lambda self: True)),
        plans.relayed,
        77,
    ),
    Mutant("R10 outside: groups there are not asked", always(World, "run_without", ()), plans.relays_off, 42),
    Mutant(
        "R12 dead: somebody reports for them",
        patching(LedgerState, "_leave", report_for_the_dead),
        faults(crash=0.01, expire=0.02),
        99,
    ),
    Mutant("V1 zombie: its late records are not seen", unseen("left-late"), plans.leaving_unseen, 588),
    Mutant("R6 expired: a window, in red, unnoticed", always(Runner, "note_expiry"), plans.windows, 27),
    Mutant("V4 unstamped: one that was received passes", unseen("unstamped-received"), plans.stripped, 16),
    Mutant("R15 bare: a record, unreported", always(Work, "left_unstamped", ()), plans.outgrown, 1),
    Mutant("R15 bare in flight: nobody minds", always(unstamped, "in_flight"), plans.outgrown, 3),
    Mutant(
        "R16 hold: who aligns takes in red before its cut",
        edit(WorkerProtocol, "_red_met", "[HoldRecord(epoch=event.epoch)]", "[]"),
        plans.aligned_slowly,
        13,
    ),
    # Without these no snapshot is captured any more.
    stuck("R2 forged: an epoch is believed", BELIEVES, faults(forge=0.01), 1, nightly=True),
    stuck(
        "R11 noticed: a lost tail, by nobody",
        edit(Process, "choices", "if self.lost is not None and not self.hung:", "if False:"),
        plans.losing,
        2,
    ),
    stuck(
        "R11 refused: a cut ledger takes snapshots again",
        edit(LedgerState, "_trigger", "if self.loss:", "if False:"),
        plans.losing,
        2,
    ),
    stuck("R16 ends: cut before the barriers are reached", always(cut.Positions, "behind"), plans.aligned, 6),
    stuck(
        "R16 senders: cut before their reports", always(aligner.Aligner, "waits_for", ""), plans.aligned, 4
    ),
    stuck(
        "R16 together: goes on before the others reported",
        always(aligner, "holds_after", False),
        plans.aligned,
        55,
    ),
    stuck("R16 marker: taken for the barrier", always(aligner.Aligner, "is_ahead", False), plans.aligned, 0),
    stuck("R16 let go: what is held stays", always(Process, "let_go"), plans.aligned, 2),
    # Without these a snapshot that is sound is accused, or one passes of which a process reports that something is
    # lost.
    wrong("R3 skipped: what a reader passes, unreported", always(cut.Positions, "moved"), plans.skipping, 0),
    wrong(
        "R8 asked: ends from before a sender left count",
        always(LedgerState, "_left_since", False),
        plans.asking_early,
        49,
    ),
    wrong(
        "V1 copy: held against who sent it first",
        always(CutView, "is_copy", False),
        faults(queue_again=0.05),
        4,
    ),
    wrong(
        "V1 landed: after a time-out, counts as never sent",
        patching(gather, "gather", forget_the_unacknowledged),
        plans.unsettled,
        5,
    ),
    wrong(
        "V1 many: earliest failed sends are forgotten",
        patching(sent, "_joined", lambda _: lambda ranges: ranges[-1:]),
        faults(fail_send=0.1),
        8,
    ),
    wrong(
        "V1 lost: a refused table write is in no verdict", unseen("send-failed"), faults(fail_send=0.05), 20
    ),
    wrong(
        "V5 twice: events that ran so are not listed",
        unseen("ran-twice"),
        faults(crash=0.02, rebalance=0.03),
        0,
    ),
    wrong(
        "V1 undone: with its transaction, counts as lost",
        edit(CutView, "unacknowledged", "if lost and item.undone:", "if False:"),
        plans.fenced,
        3,
    ),
    wrong("R7 recreated: ends of a topic stand for ever", always(sent.Sent, "_begin_anew"), plans.renewed, 4),
    wrong(
        "V5 recreated: causes there are judged as before",
        always(facts.Stated, "old_topics", ()),
        plans.renewed,
        0,
    ),
    wrong(
        "R11 latest: topics as the last to join found them",
        patching(facts, "joined_by", lambda _: lambda state, snapshot: whoever_joined(state)),
        plans.renewed,
        0,
    ),
    wrong(
        "R11 lost: a snapshot of after the loss stands",
        edit(LedgerState, "_tail_lost", "snapshot.contaminated = ", "_ = "),
        plans.unnoticed,
        29,
    ),
    wrong(
        "R16 in flight: whatever was to be aligned is",
        always(alignment, "in_flight"),
        plans.aligned_slowly,
        1,
    ),
)
