"""Crash at any instant: the process is killed between each two steps of cut and closing, and started again each time,
with a snapshot before and after each death."""

import re
import signal
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, get_args

import pytest

from snapkafka.checks import GOOD, CutView
from snapkafka.protocol import Event, SnapshotView
from snapkafka.protocol.actions import Action
from snapkafka.testing import wait_until
from tests.driver.live import Feed, Live
from tests.observing import Place

from .judge import read_log, verdict_of
from .steps import ELSEWHERE, STEPS

LANES = 4
RATE = 40.0
#: Who lives closes within it also on a slow machine with four lanes.
TTL_MS = 10_000
#: Who dies when its report is written may be busy as well, for all that anybody knows: it is the next snapshot that
#: finds no sign of it and says that it is dead (R12), which one more may meet.
ATTEMPTS = 3
STEP_S = 60.0
#: A process may have closed before it reads its own markers, and its own report, whose acknowledgement is enough.
MAY_BE_CLOSED = {"fed MarkerMet", "fed ChannelEnded", "fed LedgerRead Report"}


def test_no_action_or_event_is_forgotten() -> None:
    """Every type is a step, or none for a reason."""
    known = {step.split()[1] for step in STEPS} | {kind.__name__ for kind in ELSEWHERE}
    assert known == {kind.__name__ for kind in (*get_args(Action), *get_args(Event))}


class Lane(Live):
    """One app that dies at step after step, and what came of it."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.order = self.system.folder / "order"
        self.captured: list[int] = []  # epochs
        self.deaths: dict[str, SnapshotView] = {}  # what became of the snapshot, by step

    def start_one(self) -> None:
        self.start("tests.chaos.dying", FEATURES_KIND="counting", DYING_ORDER=str(self.order))

    def die_at(self, step: str) -> None:
        """Let the worker die there in mid-snapshot, start the next, and take snapshots until one is captured."""
        (worker,) = self.system.workers
        dead = set(self.observer.state.processes)
        self.order.write_text(f"{self.observer.state.end} {step}")
        epoch = self.observer.ask(f"dying-{len(self.deaths)}", ttl_ms=TTL_MS)
        wait_until(f"death at: {step}", lambda: worker.status is not None, timeout_s=STEP_S)
        assert worker.status == -signal.SIGKILL, worker.last_lines()
        assert not self.order.exists(), f"it died, but not at: {step}"
        self.system.kill(worker)
        self.start_one()
        self.await_successor(dead)
        self.deaths[step] = self.observer.decided(epoch, STEP_S)
        self.take_good(f"after-{len(self.deaths)}")

    def take_good(self, name: str) -> None:
        """A snapshot, and another if the first waits in vain for somebody dead whom it names."""
        for attempt in range(ATTEMPTS):
            view = self.take(f"{name}-{attempt}", ttl_ms=TTL_MS, timeout_s=STEP_S)
            if view.failure is None:
                self.captured.append(view.epoch)
                return
            named = re.match(r"process (\d+)\b", view.failure.culprit)
            living = max(self.observer.state.processes)
            assert named and int(named[1]) != living, f"not by the name of one that is dead: {view.failure}"
        raise AssertionError(f"{view.failure}\n{self.system.workers[-1].last_lines(40)}")

    def judged(self) -> Counter[str]:
        """Every captured snapshot is good by the log, those in which the worker died after all was written among them;
        what was seen: verdicts, messages on their way, and events that had effects by more than one process."""
        state, log = self.observer.state, read_log(self.observer)
        died = [view.epoch for view in self.deaths.values() if view.failure is None]
        verdicts = {epoch: verdict_of(state, log, epoch) for epoch in (*self.captured, *died)}
        bad = {epoch: reported for epoch, reported in verdicts.items() if reported[0] not in GOOD}
        assert not bad, bad
        counts = Counter(verdict.value for verdict, _ in verdicts.values())
        for view in (CutView(state.captured(epoch)) for epoch in self.captured):
            counts["in flight"] += sum(
                view.in_channel(record, source)
                for tp, sources in view.inputs.items()
                for record in log.records[tp]
                for source in sources
            )
        by_cause = defaultdict[object, set[int]](set)
        for record in (record for records in log.records.values() for record in records):
            by_cause[record.cause].add(record.process)
        counts["ran again"] = sum(len(by) > 1 for cause, by in by_cause.items() if cause is not None)
        return counts


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_killed_between_each_two_steps(place: Place) -> None:
    """At each step a worker dies in mid-snapshot; that snapshot fails by the name of the dead, or is captured if all
    was written; the next one is captured; every one that is captured is borne out by the log."""

    def run(number: int) -> tuple[dict[str, SnapshotView], Counter[str]]:
        folder, name = place.folder / str(number), f"{place.namespace}-{number}"
        folder.mkdir()
        with Lane.running(Place(place.bootstrap, name, folder), app=name) as lane:
            lane.start_one()
            lane.await_workers()
            with Feed(place.bootstrap, lane.topic("in-going"), RATE) as feed:
                lane.until("requests to flow", lambda: len(feed.places) > RATE, 30)
                lane.take_good("first")
                for step in STEPS[number::LANES]:
                    lane.die_at(step)
                return lane.deaths, lane.judged()

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
    assert captured <= MAY_BE_CLOSED, "captured without a Report"
    assert counts["in flight"], "nothing was on its way in any snapshot: the test shows nothing"
    assert counts["ran again"], "no event ran again: the test shows nothing about replays"
