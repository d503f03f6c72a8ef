"""Crash at any instant: the process is killed between each two steps of cut and closing."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapkafka.protocol import SnapshotView
from snapkafka.testing import Broker

from .lane import Lane, lane
from .steps import STEPS, all_names, known_names

LANES = 4
#: A process may have closed before it reads its own markers, and its own report, whose acknowledgement is enough.
MAY_BE_CLOSED = {"fed MarkerMet", "fed ChannelEnded", "fed LedgerRead Report"}


def test_no_action_or_event_is_forgotten() -> None:
    assert known_names() == all_names()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_killed_between_each_two_steps_of_cut_and_closing(
    kafka: Broker, namespace: str, tmp_path: Path
) -> None:
    """At each step a worker dies in mid-snapshot; that snapshot fails by the name of the dead, or is captured if all
    was written; the next one is captured; every one that is captured is borne out by the log."""

    def run(number: int) -> tuple[dict[str, SnapshotView], Counter[str]]:
        (tmp_path / str(number)).mkdir()
        with lane(kafka, f"{namespace}-{number}", tmp_path / str(number)) as one:
            one.take_good("first")
            for step in STEPS[number::LANES]:
                one.die_at(step)
            return one.deaths, judged(one)

    with ThreadPoolExecutor(LANES) as pool:
        found = list(pool.map(run, range(LANES)))
    deaths = {step: view for died, _ in found for step, view in died.items()}
    counts = sum((counted for _, counted in found), Counter[str]())
    print(*(f"{step}: {view.failure or 'captured'}" for step, view in deaths.items()), counts, sep="\n")
    assert deaths.keys() == set(STEPS)
    for step, view in deaths.items():
        assert view.failure is None or view.failure.culprit, f"{step}: nobody is named: {view.failure}"
    captured = {step for step, view in deaths.items() if view.failure is None}
    assert "fed LedgerRead Report" in captured, "it was in the ledger"
    assert captured <= {"fed LedgerRead Report", *MAY_BE_CLOSED}, "captured without a Report"
    assert counts["in flight"], "nothing was on its way in any snapshot: the test shows nothing"
    assert counts["ran again"], "no event ran again: the test shows nothing about replays"


def judged(one: Lane) -> Counter[str]:
    """Every captured snapshot is good by the log; what was seen in them."""
    log = one.log()
    verdicts = one.verdicts(log)
    bad = {epoch: reported for epoch, reported in verdicts.items() if not reported[0].good}
    assert not bad, bad
    counts = Counter(verdict.value for verdict, _ in verdicts.values())
    counts["in flight"] = one.in_flight(log)
    counts["ran again"] = one.ran_again(log)
    return counts
