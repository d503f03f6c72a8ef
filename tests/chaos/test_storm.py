"""Two minutes and a half of what happens on a cluster; `make chaos` has twenty; `SEED=n make chaos` is another one."""

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from snapkafka.checks import LogBounds, LogRecord, Verdict
from snapkafka.demo.settings import CHANGELOG_SETTINGS
from snapkafka.protocol import SnapshotView, TopicPartition
from snapkafka.protocol.records import Trigger
from snapkafka.protocol.snapshots import Failure
from tests.chaos.faults import ENV
from tests.chaos.judge import KINDS, Log, judged, problems
from tests.chaos.storm import BROKER, CAPTURED, GAP_S, Fault, Storm, bugs_in, storm
from tests.e2e.parts import live

MINUTES: Final = float(os.environ.get("MINUTES", "2.5"))
SEED: Final = int(os.environ.get("SEED", "1985"))
EARNEST: Final = MINUTES >= 10


@pytest.mark.nightly
@pytest.mark.timeout(MINUTES * 360)
def test_a_storm_of_faults(namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every snapshot is captured and verified, or failed by a reason that names the culprit; none hangs; the next good
    one comes within 15 s of a fault; four of five are captured. All in the time of a calm machine, see `CALM_S`."""
    monkeypatch.setitem(CHANGELOG_SETTINGS, "min.compaction.lag.ms", "0")
    with live(namespace, env=lambda *_: ENV, properties=BROKER) as system:
        found = storm(system, seed=SEED, seconds=MINUTES * 60)
        print(*found.reported(), *found.crashed, *Counter(found.outcomes).items(), sep="\n")
        codes = Counter(view.failure.code for view in found.views.values() if view.failure is not None)
        print(f"{found.share:.1%} captured, slow {found.slowness:.1f} times", codes)
        system.rest()
        verdicts = judged(system, found, at_most=60 if EARNEST else 16)
        print(Counter(verdict.value for verdict, _ in verdicts.values()))
        faults, good = (10 * MINUTES, len(verdicts) * 8 // 10) if EARNEST else (48 * MINUTES / GAP_S, 10)
        assert problems(found, verdicts, faults=round(faults), good=good) == []


# -- the judge of storms ---------------------------------------------------------------------------------------


def a_fine_storm() -> tuple[Storm, dict[int, tuple[Verdict, Counter[str]]]]:
    """Every kind of fault, ten snapshots, all of them captured."""
    views = {epoch: SnapshotView(
        epoch=epoch, trigger=Trigger(n=epoch, id=str(epoch)), required=frozenset(), left=frozenset(), expected=set(),
        apps={}, captured_at=epoch + 1,
    ) for epoch in range(1, 11)}  # fmt: skip
    found = Storm(
        faults=[Fault(kind, "it", 1_000, 1_001) for kind in sorted(KINDS)],
        outcomes=[CAPTURED] * len(views),
        views=views,
        began_ms=dict.fromkeys(views, 2_000),
        captured_ms=dict.fromkeys(views, 2_100),
    )
    return found, dict.fromkeys(views, (Verdict.VERIFIED, Counter[str]()))


def test_whatever_is_wrong_in_a_storm_is_said() -> None:
    """And nothing of a fine one."""
    found, verdicts = a_fine_storm()
    assert problems(found, verdicts, faults=len(KINDS), good=10) == []
    verdicts[3] = (Verdict.UNVERIFIABLE, Counter({"left-late": 1}))
    assert problems(found, verdicts, faults=9, good=9) == []

    found, verdicts = a_fine_storm()
    assert problems(found, verdicts, faults=len(KINDS) + 1, good=11) == [
        f"only {len(KINDS)} faults",
        "only 10 of 10 that were judged are good",
    ]
    found.bugs = ["accounts-1: snapkafka: failed to read the ledger"]
    assert problems(found, verdicts, faults=1, good=1) == found.bugs
    found, verdicts = a_fine_storm()
    found.faults = [fault for fault in found.faults if fault.kind != "kill"]
    assert problems(found, verdicts, faults=1, good=1) == ["no fault of kind kill"]

    found, verdicts = a_fine_storm()
    found.views[2].captured_at = None
    assert problems(found, verdicts, faults=1, good=1) == ["epoch 2 hangs"]
    found.views[2].failure = Failure(code="ttl", reason="why", culprit="")
    assert "nobody is named" in problems(found, verdicts, faults=1, good=1)[0]

    found, verdicts = a_fine_storm()
    found.faults[0] = replace(found.faults[0], done_ms=-20_000)
    assert "no good snapshot within 15 s" in problems(found, verdicts, faults=1, good=1)[0]
    found.slowness = 2.0
    assert problems(found, verdicts, faults=1, good=1) == []
    found, verdicts = a_fine_storm()
    found.outcomes += ["nobody there"] * 3
    assert problems(found, verdicts, faults=1, good=1) == ["only 77% were captured"]

    found, verdicts = a_fine_storm()
    verdicts[1] = (Verdict.INCONSISTENT, Counter({"left-late": 1}))
    verdicts[2] = (Verdict.UNVERIFIABLE, Counter({"gap-explained": 1}))
    assert len(problems(found, verdicts, faults=1, good=1)) == 2


def test_bugs_of_ours_are_distinguished_from_what_the_world_causes(tmp_path: Path) -> None:
    (tmp_path / "accounts-1.txt").write_text(
        "[ERROR] snapkafka: failed to join (BrokerUnavailableError('away')); this worker goes on\n"
        "[ERROR] snapkafka: failed to handle a record from after a cut (KeyError(1)); this worker goes on\n"
    )
    (bug,) = bugs_in(tmp_path)
    assert bug.startswith("accounts-1: [ERROR] snapkafka: failed to handle a record from after a cut")


def test_a_judge_that_has_not_read_the_whole_log_judges_nobody() -> None:
    """It accused sixteen sound snapshots of a storm once: a reset to the end undid its going to the beginning."""
    log, tp = Log(), TopicPartition("in", 0)
    log.bounds = {tp: LogBounds(start=3, end=6), TopicPartition("empty", 0): LogBounds(start=7, end=7)}
    assert log.unread({"in", "empty"}) == [tp]
    log.records[tp] = [LogRecord(*tp, offset) for offset in (3, 4, 5, 6)]
    assert log.unread({"in", "empty"}) == []
    for lost in range(3):
        del (kept := list(log.records[tp]))[lost]
        some = Log()
        some.bounds, some.records[tp] = log.bounds, kept
        assert some.unread({"in"}) == [tp]
