"""Seeds and mutants: no seed breaks the protocol, and every rule that is switched off is missed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import pytest

from snapkafka.errors import DependencyMissingError
from snapkafka.protocol import APP_RUNS_WITHOUT, OUT_OF_ORDER, sent
from snapkafka.sim import WorldPlan, acyclic, make_plan, run
from snapkafka.sim.__main__ import main
from tests.sim.campaign import RULES, campaign
from tests.sim.mutants.alignment import ALIGNED, ALIGNED_LIVENESS, ALIGNED_VERDICTS
from tests.sim.mutants.lost import LOST, LOST_LIVENESS, LOST_VERDICTS
from tests.sim.mutants.mutant import EXPLORED, SEEDS, Mutant
from tests.sim.mutants.outside import OUTSIDE, RENEWED
from tests.sim.mutants.plans import (
    aborting_while_aligned,
    disordered,
    faults,
    late,
    losing,
    relayed,
    relays_off,
    renewed,
    skipping,
    stripped,
    unanswered,
    unnoticed,
    unsettled,
    windows,
    without,
)
from tests.sim.mutants.rules import MUTANTS, STRIPPED, VERDICTS, WITHOUT
from tests.sim.mutants.search import caught_by

#: `make prove` runs 100,000.
CAMPAIGN = 150
#: The mutants that a run in a moment catches.
NOT_LONG = (
    *(MUTANTS + OUTSIDE + STRIPPED + VERDICTS + RENEWED + LOST + LOST_LIVENESS + LOST_VERDICTS),
    *(ALIGNED + ALIGNED_LIVENESS + ALIGNED_VERDICTS),
)
#: Seeds of worlds in which the ledger does not always answer.
UNANSWERED = 120
#: Seeds of worlds in which sends have no result.
UNSETTLED = 20
#: Each showed something wrong once, in the protocol or in what judges it.
PINNED = {
    31: "an input that came back was not known to be replayed",
    49: "a process of a ledger that was gone was taken for that of its number in the new one",
    91: "an event torn by a reply was torn for none of the snapshots that its cut served",
    551: "a torn run was mistaken for another run of its event",
    843: "a replay by one of two agents went unnoticed",
    979: "an epoch that was aborted in a ledger that was gone was no epoch in the new one either",
    2198: "a process that was about to join kept the epoch of a ledger that was gone",
    5274: "what an event sent that had started under a ledger that was gone was taken for nobody's",
    8054: "so was what it had sent before, and had not left",
    2727: "an event was torn after its input had moved on, and nobody listed it",
    181: "who went on with an event of a ledger that was gone was taken for no earlier reader of its input",
    103618: "a replay under an identity that a lost tail has hidden was held against a snapshot",
    26099: "what the dead sent to a partition added of late was in flight to one of its readers only",
    85018: "who was taken for dead went on with its event, and what that sent was held against the next reader",
    5817: "what a process wrote without a result before it was declared dead was in memory, and not in its state",
    15111: "an epoch of a ledger that was gone, read from a global table, was taken for one of the new ledger",
    700117: "a range that one app had recorded was held against another one that reads the same partition",
}


@pytest.mark.timeout(1200)
def test_no_seed_breaks_it_and_every_rule_has_work_to_do() -> None:
    """No captured snapshot is inconsistent unless its verdict says so; without faults every snapshot is captured."""
    report = campaign(0, CAMPAIGN, jobs=os.cpu_count() or 1)
    assert report.violations == []
    assert report.seeds == CAMPAIGN
    counts = report.counts
    idle = [rule for rule, names in RULES.items() if not sum(counts[name] for name in names)]
    assert idle == []
    for name in (
        "crashes",
        "rebalances",
        "zombies",
        "duplicates",
        "failed_sends",
        "stopped_apps",
        "partitions_added",
    ):
        assert counts[name] > 5, name
    for name in (
        "in_flight",
        "in_flight_of_left",
        "ledgers_recreated",
        "twin_triggers",
        "retries",
        "forged",
        "copied",
        "absences",
        "timed_out",
        "landed_late",
        "queued_again",
        "later_looks",
        "later_looks_over_a_cut",
        "changes_in_place",
        "iterated",
    ):
        assert counts[name] > 5, name
    assert counts["captured"] > CAMPAIGN


def test_records_that_a_reader_passes_are_listed_as_never_read() -> None:
    """R3: those, and no others."""
    counts: Counter[str] = Counter()
    for seed in range(40):
        outcome = run(seed, skipping(make_plan(seed)))
        assert outcome.violations == [], seed
        counts += outcome.counts
    assert counts["skipped"] > 100
    assert counts["found: never-read"] > 100


@pytest.mark.nightly
def test_records_that_are_handed_out_after_later_ones_spoil_a_snapshot_and_it_says_so() -> None:
    """R3. Some come while it is open, and it fails; some after it was captured, and nobody can prove it any more."""
    counts: Counter[str] = Counter()
    for seed in range(150):
        outcome = run(seed, disordered(make_plan(seed)))
        assert outcome.violations == [], seed
        counts += outcome.counts
    assert counts["out_of_order"] > 500
    assert counts[f"failed: {OUT_OF_ORDER}"] > 100
    assert counts["UNVERIFIABLE"] > 0
    assert counts["VERIFIED"] > 200


@pytest.mark.nightly
def test_what_goes_on_without_an_answer_of_the_ledger_spoils_no_snapshot_that_counts() -> None:
    """R4, R15. Red records are taken in though nobody could read of their trigger, and inputs run unannounced, also
    where it is not even known yet where they started: what is mixed by that is aborted by name."""
    counts: Counter[str] = Counter()
    for seed in range(UNANSWERED):
        outcome = run(seed, unanswered(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    assert counts["silent_ledgers"] > UNANSWERED // 3
    assert counts["unannounced"] > UNANSWERED // 3
    assert counts["late_told"] > UNANSWERED // 3
    assert counts["failed: contaminated"] > UNANSWERED // 5
    assert counts["captured"] > UNANSWERED // 2


def test_r10_workers_without_snapkafka_spoil_no_snapshot_that_counts() -> None:
    """They start without it, say `Hello` late, or stand down: the snapshot fails, or nobody can prove it."""
    _without(range(16))


@pytest.mark.nightly
def test_r10_workers_without_snapkafka_in_many_worlds() -> None:
    _without(range(1_500))


def _without(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(seed, without(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    for name in ("bare_sends", "bare_starts", "late_hellos", "stood_down", f"failed: {APP_RUNS_WITHOUT}"):
        assert counts[name] >= len(seeds) // 8, name
    assert counts["VERIFIED"] > len(seeds) // 2


@pytest.mark.parametrize("seeds", [range(24), pytest.param(range(600), marks=pytest.mark.nightly)], ids=len)
def test_windows_that_expire_spoil_no_snapshot(seeds: range) -> None:
    """R6: who reads a window in white that has expired in red is torn; a window that expired before the cut tears
    nobody."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(seed, windows(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    for name in ("windows_expired", "torn", "captured"):
        assert counts[name] >= len(seeds), name


@pytest.mark.parametrize(
    "seeds", [range(30, 36), pytest.param(range(400), marks=pytest.mark.nightly)], ids=len
)
def test_workers_that_join_late_are_in_no_wrong_snapshot(seeds: range) -> None:
    """R10, R15: the ledger takes a `Hello` long after its worker has begun to work; all that it did until then bears no
    header. What is open or was captured meanwhile fails or is unverifiable, and later snapshots hold all of it."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        outcome = run(seed, late(replace(make_plan(seed), retries=0)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    assert counts["bare_sends"] > len(seeds)
    assert counts["VERIFIED"] > len(seeds)


@pytest.mark.parametrize("mutant", WITHOUT, ids=lambda mutant: mutant.name.replace(" ", "-"))
@pytest.mark.nightly
def test_r10_a_rule_about_workers_without_snapkafka_is_missed(mutant: Mutant) -> None:
    assert caught_by(mutant, mutant.seed) is not None, mutant.seed


@pytest.mark.parametrize(
    ("plan", "opened"),
    [
        (relayed, 10),
        (relays_off, 200),
        (lambda plan: replace(relayed(plan), faults={}), 0),
    ],
    ids=["hangs", "off", "sound"],
)
def test_r2_a_relay_out_of_scope_is_named_unless_it_turned_red_as_well(
    plan: Callable[[WorldPlan], WorldPlan], opened: int
) -> None:
    """Design, section 12: the ledger hangs for it, it is switched off; else the snapshot is as good as
    any other."""
    counts: Counter[str] = Counter()
    for seed in range(60):
        outcome = run(seed, plan(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    assert counts["VERIFIED_OPEN"] >= opened
    assert bool(counts["VERIFIED_OPEN"]) == bool(opened)
    assert counts["VERIFIED"] > 50


def test_r7_a_topic_that_is_recreated_while_its_sender_runs_accuses_nobody() -> None:
    """Design, section 12: ends and positions belong to a topic id. The snapshot that it happens to cannot be proven;
    once the sender has sent there again, the next ones are."""
    counts: Counter[str] = Counter()
    for seed in range(60):
        outcome = run(seed, renewed(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    assert counts["topics_recreated"] > 60
    assert counts["INCONSISTENT"] == 0
    assert counts["UNVERIFIABLE"] > 60
    assert counts["VERIFIED"] > 40


def test_v4_headers_that_are_removed_on_the_way_make_no_good_verdict() -> None:
    """V4 (design, section 11): one that was received leaves a snapshot unverifiable, one in flight fails it."""
    counts: Counter[str] = Counter()
    for seed in range(20):
        outcome = run(seed, stripped(replace(make_plan(seed), scope=())))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    assert counts["found: unstamped-received"] > 60
    assert counts["found: unstamped"] > 10
    assert counts["VERIFIED"] == counts["stripped_unseen"], (
        "only of who had sent nothing there nobody can see it"
    )


def test_sends_without_a_result_and_copies_with_headers_accuse_no_sound_snapshot() -> None:
    """R7, R8, R15 (design, section 11): what landed counts as sent, a copy is a note, what is lost is in the verdict;
    and so it is with a memory of failed sends that overflows at once."""
    counts: Counter[str] = Counter()
    for seed in range(UNSETTLED):
        outcome = run(seed, unsettled(replace(make_plan(seed), scope=())))
        assert outcome.violations == [], (seed, outcome.violations)
        counts += outcome.counts
    for name in ("timed_out", "queued_again", "found: landed", "found: copy"):
        assert counts[name] > UNSETTLED // 2, (name, counts)
    for name in ("landed_late", "found: send-failed", "failed: send-unsettled", "VERIFIED"):
        assert counts[name] > UNSETTLED // 5, (name, counts)


@pytest.mark.parametrize("ranges", [1, 2])
def test_r15_a_memory_of_failed_sends_that_overflows_accuses_nobody(
    monkeypatch: pytest.MonkeyPatch, ranges: int
) -> None:
    monkeypatch.setattr(sent, "RANGES_MAX", ranges)
    failed = 0
    for seed in range(20):
        outcome = run(seed, faults(fail_send=0.1)(make_plan(seed)))
        assert outcome.violations == [], (seed, outcome.violations)
        failed += outcome.counts["failed_sends"]
    assert failed > 50


def test_r11_a_ledger_that_loses_its_tail_spoils_no_snapshot_that_counts() -> None:
    """Some have read what is lost, some have not; some read on where it has grown again, and others join meanwhile."""
    _losing(range(20))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_r11_a_ledger_that_loses_its_tail_in_many_worlds() -> None:
    _losing(range(100))


def _losing(seeds: range) -> None:
    counts: Counter[str] = Counter()
    for seed in seeds:
        for plan in (losing, unnoticed):
            outcome = run(seed, plan(make_plan(seed)))
            assert outcome.violations == [], (plan.__name__, seed, outcome.violations)
            counts += outcome.counts
    for name in ("ledgers_cut_short", "losses_noticed", "TailLost", "failed: ledger-cut-short", "captured"):
        assert counts[name] >= len(seeds), name
    assert counts["VERIFIED"] > len(seeds)
    assert counts["UNVERIFIABLE"] > 0


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param((21, 37, 283), id="three-that-accused"),
        pytest.param(range(1000), id="all", marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
@pytest.mark.parametrize("align", [True, False])
def test_r10_an_aborted_transaction_undoes_nothing_that_an_earlier_one_has_committed(
    seeds: Sequence[int], align: bool
) -> None:
    """Positions are committed later than effects in these worlds, so an event may run again after an abort."""
    aborted = 0
    for seed in seeds:
        found = run(seed, replace(aborting_while_aligned(make_plan(seed)), align=align))
        assert found.violations == [], (seed, found.violations)
        aborted += found.counts["aborted_transactions"]
    assert aborted > len(seeds)


#: A new reader sent in red before its predecessor had closed, and others waited for ever behind that.
MOVED_WHILE_HELD: Final = 385
#: A sender did not know the outcome of a send, and its marker was taken for the place of a record.
UNKNOWN_OUTCOME: Final = 164


@pytest.mark.parametrize(
    "seeds",
    [
        (*range(30), UNKNOWN_OUTCOME, MOVED_WHILE_HELD),
        pytest.param(range(30, 400), marks=pytest.mark.nightly),
    ],
    ids=("some", "many"),
)
def test_r16_aligned_snapshots_have_nothing_in_flight_whatever_goes_wrong(seeds: Sequence[int]) -> None:
    """Also in worlds with cycles, which fail by name; in the others the last snapshot of each is aligned."""
    counts: Counter[str] = Counter()
    for seed in seeds:
        plan = make_plan(seed)
        for world in (acyclic(plan), replace(plan, align=True)):
            outcome = run(seed, world)
            assert outcome.violations == [], seed
            counts += outcome.counts
    for name in ("aligned", "not_aligned", "inputs_held", "records_held", "failed: alignment-cycle"):
        assert counts[name] > 0, name
    assert counts["aligned"] > len(seeds)


@pytest.mark.parametrize("seed", PINNED, ids=str)
def test_a_seed_that_once_showed_something(seed: int) -> None:
    outcome = run(seed)
    assert (outcome.violations, outcome.condemned) == ([], [])


def test_every_rule_has_a_seed_that_misses_it() -> None:
    assert {mutant.name for mutant in (*NOT_LONG, *WITHOUT)} == SEEDS.keys() | EXPLORED


@pytest.mark.parametrize(
    "mutant",
    [mutant for mutant in NOT_LONG if mutant.name not in EXPLORED],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_a_rule_that_is_switched_off_is_missed(mutant: Mutant) -> None:
    """By the causal checker, or by a verdict that is wrong, and not by an assertion; the same run of the protocol as it
    is breaks nothing."""
    violation = caught_by(mutant, mutant.seed)
    assert violation is not None, (
        f"seed {mutant.seed} does not catch it: python -m tests.sim mutate finds one"
    )


def test_one_seed_is_the_same_byte_for_byte() -> None:
    traces = [_python("snapkafka.sim", "--seed", "12", hashseed=hashseed).stdout for hashseed in ("0", "1")]
    assert traces[0] == traces[1]
    assert traces[0].count("\n") > 300


def test_the_campaign_as_data() -> None:
    done = _python("tests.sim", "campaign", "--seeds", "30", "--from", "5", "--jobs", "2", "--json")
    assert done.returncode == 0
    data = json.loads(done.stdout)
    assert data["seeds"] == 30
    assert data["violations"] == []
    assert {
        "captured",
        "aborted",
        "crashes",
        "rebalances",
        "in_flight",
        "torn",
        "lost_reports",
        "rules",
    } <= data.keys()


@pytest.mark.parametrize(
    "arguments",
    [
        ("snapkafka.sim", "--seed", "many"),
        ("snapkafka.sim", "--what"),
        ("tests.sim", "campaign", "--seeds", "x"),
        ("tests.sim", "mutate", "--seeds", "x"),
        ("tests.sim", "what"),
    ],
)
def test_a_bad_argument_is_status_2(arguments: tuple[str, ...]) -> None:
    done = _python(*arguments)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_outside_a_checkout_a_verb_names_it_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "studies.compare.command", None)
    assert main(["compare", "--help"]) == DependencyMissingError.exit_status
    reported = "error: `compare` is not in the package: run it in a checkout of snapkafka\n"
    assert capsys.readouterr().err == reported


def _python(module: str, *arguments: str, hashseed: str = "0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONHASHSEED": hashseed},
        timeout=120,
    )
