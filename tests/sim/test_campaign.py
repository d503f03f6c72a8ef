"""Seeds and mutants: no seed breaks the protocol, and every rule that is switched off is missed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from snapkafka.checks import CutView
from snapkafka.protocol.records import APP_RUNS_WITHOUT, OUT_OF_ORDER
from snapkafka.sim import make_plan, played, run
from snapkafka.sim.judge import causal
from snapkafka.sim.runs import truth_of
from tests.sim.campaign import campaign
from tests.sim.mutants import plans
from tests.sim.mutants.plans import Plan
from tests.sim.mutants.search import caught_by
from tests.sim.mutants.table import MUTANTS, Mutant

#: `make prove` runs 100,000.
CAMPAIGN = 250
#: What happens to the worlds of a campaign.
OFTEN = """
    crash rebalances zombies duplicate fail-send partition in_flight in_flight_of_left recreate retries forge
    silent-ledger impatient time-out land-late queue-again later_looks later_looks_over_a_cut changes_in_place iterated
"""


@pytest.mark.timeout(1200)
def test_no_seed_breaks_it_and_every_rule_has_work_to_do() -> None:
    """No captured snapshot is inconsistent unless its verdict says so; without faults every snapshot is captured."""
    report = campaign(0, CAMPAIGN, jobs=os.cpu_count() or 1)
    assert report.violations == []
    assert report.seeds == CAMPAIGN
    counts = report.counts
    assert all(report.rules.values()), report
    for name in OFTEN.split():
        assert counts[name] > 5, name
    assert counts["stopped_apps"] > 2, "each is looked at once"
    assert counts["captured"] > CAMPAIGN


class Kind(NamedTuple):
    """Worlds of a plan: their seeds, more seeds for the night, how often per seed what they are about happens, and what
    else is so."""

    plan: Plan
    seeds: Sequence[int]
    nightly: Sequence[int]
    per_seed: Mapping[str, float]
    also: Callable[[Counter[str]], bool] = lambda counts: True


WITHOUT_SNAPKAFKA = ("bare_sends", "bare", "late_hellos", "stand-down", f"failed: {APP_RUNS_WITHOUT}")
LOST_TAIL = ("cut-short", "losses_noticed", "TailLost", "failed: ledger-cut-short", "captured")
LOST_TAIL_PER_SEED = dict.fromkeys(LOST_TAIL, 0.3) | {"VERIFIED": 0.2}
KINDS = {
    # R3: those that a reader passes are listed as never read, and no others.
    "passed": Kind(plans.skipping, range(40), (), {"skip": 2.5, "found: never-read": 2.5}),
    # R3: records that are handed out after later ones. Some come while a snapshot is open, and it fails; some after
    # it was captured, and nobody can prove it any more.
    "disordered": Kind(
        plans.disordered,
        (*range(24), 29),
        range(150),
        {"disorder": 3.3, f"failed: {OUT_OF_ORDER}": 0.6, "UNVERIFIABLE": 0.005, "VERIFIED": 1.3},
    ),
    # R4, R15: red records are taken in though nobody could read of their trigger, and inputs run unannounced: what is
    # mixed by that is aborted by name.
    "unanswered": Kind(
        plans.unanswered,
        range(24),
        range(120),
        {"silent-ledger": 0.1, "impatient": 0.33, "failed: contaminated": 0.3, "captured": 0.5},
    ),
    # R10: workers start without snapkafka, say `Hello` late, or stand down: the snapshot fails, or is unproven.
    "without": Kind(
        plans.without, range(17), range(1_500), dict.fromkeys(WITHOUT_SNAPKAFKA, 0.12) | {"VERIFIED": 0.5}
    ),
    # R8: nothing is doubted of who left in order.
    "in order": Kind(plans.in_order, range(13), (), {"stop": 1.01, "VERIFIED": 0.5}),
    # R15: what was run by a worker that stood down is run again by another one.
    "taken over": Kind(
        plans.taken_over,
        range(74, 84),
        range(1_500),
        {"stand-down": 1.01, "VERIFIED": 0.5, "UNVERIFIABLE": 0.1},
    ),
    # R6: what an app without snapkafka answers by, it may have read in red.
    "answered without": Kind(plans.answered, range(24), range(400), {"torn": 0.5, "captured": 1.0}),
    # R6: who reads a window in white that has expired in red is torn; one that expired before the cut tears nobody.
    "windows": Kind(plans.windows, range(24), range(600), dict.fromkeys(("window", "torn", "captured"), 1.0)),
    # R10, R15: the ledger takes a `Hello` long after its worker has begun; what it did until then bears no header.
    "late": Kind(
        lambda plan: plans.late(replace(plan, retries=0)),
        range(30, 40),
        range(400),
        {"bare_sends": 1.01, "VERIFIED": 1.01},
    ),
    # R2: a relay out of scope, for which the ledger hangs, is named, and so is one that is switched off; if it turned
    # red as well the snapshot is as good as any other.
    "relay hangs": Kind(plans.relayed, range(60), (), {"VERIFIED_OPEN": 10 / 60, "VERIFIED": 0.84}),
    "relay off": Kind(plans.relays_off, range(60), (), {"VERIFIED_OPEN": 200 / 60, "VERIFIED": 0.84}),
    "relay sound": Kind(
        lambda plan: replace(plans.relayed(plan), faults={}),
        range(60),
        (),
        {"VERIFIED": 0.84},
        lambda counts: not counts["VERIFIED_OPEN"],
    ),
    # R7 (design, section 12): ends and positions belong to a topic id. The snapshot that a recreation happens to cannot
    # be proven; once the sender has sent there again, the next ones are.
    "renewed": Kind(
        plans.renewed,
        range(60),
        (),
        {"recreate-topic": 1.01, "UNVERIFIABLE": 1.01, "VERIFIED": 0.67},
        lambda counts: not counts["INCONSISTENT"],
    ),
    # R7, R8, R15 (design, section 11): what landed counts as sent, a copy is a note, what is lost is in the verdict.
    "unsettled": Kind(
        lambda plan: plans.unsettled(replace(plan, scope=())),
        range(20),
        (),
        dict.fromkeys(("time-out", "queue-again", "found: landed", "found: copy"), 0.51)
        | dict.fromkeys(("land-late", "found: send-failed", "failed: send-unsettled", "VERIFIED"), 0.21),
    ),
    # V4 (design, section 11): where headers are removed, one that was received leaves a snapshot unverifiable, one in
    # flight fails it. Only of who had sent nothing there nobody can see it.
    "stripped": Kind(
        lambda plan: plans.stripped(replace(plan, scope=())),
        range(20),
        (),
        {"found: unstamped-received": 3.01, "found: unstamped": 0.51},
        lambda counts: counts["VERIFIED"] == counts["stripped_unseen"],
    ),
    # R11: some have read what a ledger has lost, some have not; some read on where it has grown again.
    "losing": Kind(plans.losing, range(20), range(100), LOST_TAIL_PER_SEED),
    "losing unnoticed": Kind(
        plans.unnoticed, range(20, 40), range(100), LOST_TAIL_PER_SEED | {"UNVERIFIABLE": 0.05}
    ),
    # R10: positions are committed later than effects, so an event may run again after an abort.
    "aborting": Kind(
        lambda plan: replace(plans.aligned_slowly(plan), faults={"abort": 0.05}, exactly_once=True),
        range(8),
        range(1000),
        {"abort": 1.01},
    ),
    # R2: processes that hand over their state cut in that instant; others cut as ever.
    "states": Kind(plans.handing_over, range(60), range(60, 400), {"states_given": 0.5, "VERIFIED": 0.3}),
    # R16: aligned snapshots have nothing in flight, whatever goes wrong.
    "aligned": Kind(
        plans.acyclic,
        range(24),
        range(30, 400),
        {"aligned": 1.01, "failed: not-aligned": 0.1, "inputs_held": 0.02, "records_held": 0.02},
    ),
    "aligned, cycles": Kind(
        lambda plan: replace(plan, align=True), range(24), range(30, 400), {"failed: not-aligned": 0.1}
    ),
}
NIGHTLY = (pytest.mark.nightly, pytest.mark.timeout(3600))


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        *((name, kind.seeds) for name, kind in KINDS.items() if kind.seeds),
        *(pytest.param(name, kind.nightly, marks=NIGHTLY) for name, kind in KINDS.items() if kind.nightly),
    ],
)
def test_no_snapshot_of_these_worlds_is_wrong(name: str, seeds: Sequence[int]) -> None:
    """What happens to it is named, or its verdict says so."""
    kind, counts = KINDS[name], Counter[str]()
    for seed in seeds:
        outcome = run(seed, kind.plan(make_plan(seed)))
        assert outcome.violations == [], seed
        counts += outcome.counts
    for what, share in kind.per_seed.items():
        assert counts[what] >= share * len(seeds), what
    assert kind.also(counts)


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(mutant, marks=[pytest.mark.nightly] if mutant.nightly else [])
        for mutant in MUTANTS
        if mutant.seed is not None
    ],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_a_rule_that_is_switched_off_is_missed(mutant: Mutant) -> None:
    """By the causal checker, or by a verdict that is wrong, and not by an assertion; the same run of the protocol as it
    is breaks nothing."""
    assert mutant.seed is not None
    violation = caught_by(mutant, mutant.seed)
    assert violation is not None, (
        f"seed {mutant.seed} does not catch it: python -m tests.sim mutate finds one"
    )


def test_one_seed_is_the_same_byte_for_byte() -> None:
    command = [sys.executable, "-m", "snapkafka.sim", "--seed", "12"]
    traces = [
        subprocess.check_output(command, text=True, timeout=120, env=os.environ | {"PYTHONHASHSEED": it})
        for it in "01"
    ]
    assert traces[0] == traces[1]
    assert traces[0].count("\n") > 300


def test_a_snapshot_without_an_input_that_was_read_is_seen() -> None:
    """R11: Captured: every expected input cut. One that nobody expected would be missed by nobody else."""
    missed = 0
    for seed in range(20):
        world, _ = played(seed)
        for epoch, snapshot in world.fold.snapshots.items():
            if snapshot.captured_at is None:
                continue
            captured = world.fold.captured(epoch)
            assert causal(truth_of(world, CutView(captured), replays=True)) == []
            for lost in captured.inputs:
                less = CutView(replace(captured, inputs=tuple(i for i in captured.inputs if i is not lost)))
                wrong = causal(truth_of(world, less, replays=True))
                missed += any("and its input is not" in violation.what for violation in wrong)
    assert missed > 20, "the inputs that had been read are missed"
