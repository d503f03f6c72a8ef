"""However a log is divided, and whatever is left out of it, the checks find what they find in the whole."""

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from snapkafka.checks import (
    KINDS,
    LOG_CHECKS,
    CutLog,
    CutView,
    Finding,
    LogBounds,
    LogRecord,
    Source,
    Status,
    Wanted,
    Weight,
    find,
    listed,
    reading_ranges,
    run,
    sequences,
    summary,
)
from snapkafka.checks.stretch import blocks_of
from snapkafka.protocol.captured_snapshot import SenderEnd
from snapkafka.protocol.offsets import SeqRange
from tests.spark.damaged_logs import EVERY_KIND, Damaged, damaged
from tests.spark.simulated_logs import BROKEN, broken, consistent
from tests.spark.small_logs import World, captured, damage, history, together
from tests.worlds.little_log import CAPTURED, LOG, OUT, STATE, TP
from tests.worlds.oracle import Divided, Whole

SEEDS = 30


def _damaged(world: World) -> Damaged:
    view = CutView(captured(world), world.bounds)
    return Damaged(view, world.records, reading_ranges(view))


def _findings(snapshot: Damaged, source: Source) -> tuple[Counter[Finding], object]:
    log = CutLog(snapshot.view, source, **snapshot.around_it)
    return Counter(it for check in LOG_CHECKS for it in find(check, log)), run(log)


def _agree(snapshot: Damaged, seed: int) -> Counter[Finding]:
    records = snapshot.within(snapshot.read)
    expected, outcomes = _findings(snapshot, Whole(snapshot.view, records))
    for share in (0, 0.2):
        source = Divided(snapshot.view, records, random.Random(seed), share)
        found, found_outcomes = _findings(snapshot, source)
        assert (found - expected, expected - found) == (Counter(), Counter()), (seed, share)
        assert found_outcomes == outcomes, (seed, share)
    return expected


def test_damage_of_every_kind_is_found_in_stretches_as_in_the_whole() -> None:
    snapshot = damaged(EVERY_KIND)
    assert len(_agree(snapshot, 1)) > 500, "else agreeing means little"


@pytest.mark.parametrize("worlds", [40, pytest.param(600, marks=pytest.mark.nightly)])
def test_any_damage_is(worlds: int) -> None:
    seed = random.randrange(10**9)
    rng = random.Random(seed)
    _agree(_damaged(together([damage(rng, history(rng, n)) for n in range(1, worlds + 1)])), seed)


def test_what_simulated_systems_leave_is() -> None:
    found = Counter[str]()
    sound = [snapshot for seed in range(SEEDS) for snapshot in consistent(seed)]
    for n, snapshot in enumerate([*sound, *map(broken, BROKEN)]):
        kinds = {it.kind for it in _agree(snapshot, n)}
        found.update(kinds)
        assert any(KINDS[kind].weight is Weight.FAILS for kind in kinds) == (n >= len(sound)), (n, kinds)
    assert len(found) > 3, found


def test_compacted_changelogs_with_records_that_come_again_are() -> None:
    """A run goes on over what compaction took, unless a seq that comes again may lie there."""
    rng, seen = random.Random(7), Counter[str]()
    sent = replace(CAPTURED.senders[1], white_end=60, last_seq=49)
    refused = SeqRange(first=20, last=22)
    for n in range(300):
        log = [LogRecord(*STATE, seq, 1, 0, seq, key_hash=seq % 7) for seq in range(50) if rng.random() < 0.6]
        first, count = rng.randrange(45), rng.randrange(5)
        log += [LogRecord(*STATE, 50 + k, 1, 0, first + k) for k in range(count)]
        senders = (replace(sent, unacknowledged=(refused,) if n % 5 == 0 else ()),)
        changelog = replace(CAPTURED.changelogs[0], end=60)
        cut = replace(CAPTURED, inputs=(), recorded=(), senders=senders, changelogs=(changelog,))
        view = CutView(cut, {STATE: LogBounds(start=0, end=60)})
        found = _agree(Damaged(view, log, reading_ranges(view)), n)
        seen.update(it.kind for it in found)
        if count == 0 and n % 5:
            assert len(listed(view, log).records) <= 2
    assert seen.keys() >= {"duplicate", "disorder", "gap-failed"}, seen


def _never(*given: object, **more: object) -> bool:
    return False


@pytest.mark.parametrize(
    ("of", "name", "broken_one"),
    [
        (summary._Summary, "_accusable", _never),
        (summary._Summary, "_accuses", _never),
        (summary._Summary, "_watched", lambda *given: []),
        (summary._Summary, "_end", _never),
        (summary._Summary, "_goes_on", lambda self, found, run, *given: run.row is not None),
        (summary, "places_due", lambda *given: set()),
        (sequences.CutLog, "_seqs_wanted", lambda *given: {}),
        (sequences.CutLog, "_causes_wanted", lambda *given: {}),
        (sequences.CutLog, "_places_wanted", lambda *given: {}),
    ],
)
def test_each_choice_of_records_is_needed(
    monkeypatch: pytest.MonkeyPatch, of: object, name: str, broken_one: Callable[..., object]
) -> None:
    snapshot = damaged(EVERY_KIND)
    monkeypatch.setattr(of, name, broken_one)
    with pytest.raises(AssertionError):
        _agree(snapshot, 1)


@pytest.mark.parametrize("bound", ["white_end", "left_end", "closed_end", "state_end"])
def test_each_bound_divides(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """Without it records of two colours would be counted as one."""
    snapshot = damaged(EVERY_KIND)
    real, bounds_in = getattr(CutView, bound), summary.bounds_in

    def without(view: CutView, tp: Any) -> set[int]:
        ends = {real(view, p, tp) for p in view.processes} if bound == "white_end" else {real(view, tp)}
        return bounds_in(view, tp) - ends

    monkeypatch.setattr(summary, "bounds_in", without)
    monkeypatch.setattr(summary, "places_due", lambda *given: set())
    with pytest.raises(AssertionError):
        _agree(snapshot, 1)


def test_a_sound_log_is_a_handful_of_records() -> None:
    end = replace(CAPTURED.senders[0], white_end=10_000, last_seq=9_999, marker=-1)
    source = replace(CAPTURED.inputs[0], position=9_000, noted=9_000, log_end=10_000)
    view = CutView(replace(CAPTURED, senders=(end,), inputs=(source,), changelogs=(), recorded=()))
    log = listed(view, [LogRecord(*TP, n, 1, 0, n) for n in range(10_000)])
    assert [finding for check in LOG_CHECKS for finding in find(check, log)] == []
    assert len(log.records) <= 3
    assert sum(group.count for group in log.groups) == 10_000


def test_red_effects_of_events_that_were_started_are_kept_each() -> None:
    """However many of them follow each other."""
    end = SenderEnd(process=1, topic=OUT.topic, partition=OUT.partition, white_end=2, last_seq=1, marker=20)
    source = replace(CAPTURED.inputs[0], position=9_000, noted=9_000, log_end=10_000, steady=True)
    view = CutView(replace(CAPTURED, senders=(end,), inputs=(source,), changelogs=(), recorded=()))
    red = [LogRecord(*OUT, n, 1, CAPTURED.epoch, n, cause=(TP, n)) for n in range(2, 20)]
    (stretch,) = Divided(view, red, random.Random(0), 0).stretches(Wanted())
    assert [it.record for it in stretch.kept] == red


def test_after_too_many_records_those_that_are_due_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has not been kept is not taken for missing."""
    monkeypatch.setattr(summary, "KEPT_MAX", 2)
    view = CutView(CAPTURED)
    again = [record._replace(seq=0) for record in LOG[:4]]
    log = CutLog(view, Divided(view, [*again, *LOG[4:]], random.Random(0), 1))
    assert log.stretches[TP].crowded or len(log.stretches[TP].kept) > 2
    divided = again, [it for it in LOG[4:] if it.tp == TP]
    parts = [summary.stretch_of(view, TP, partial(blocks_of, records)) for records in divided]
    assert [part.crowded for part in parts] == [True, False]
    monkeypatch.setattr(Divided, "stretches", lambda self, wanted: iter(parts))
    assert "last-missing" not in {
        it.kind for it in find("V4", CutLog(view, Divided(view, [], random.Random(0), 0)))
    }


def test_of_too_many_records_the_first_are_judged_and_nothing_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "KEPT_MAX", 3)
    view = CutView(CAPTURED)
    wrong = [LogRecord("in", 0, 10 + n, 1, 0, 10 + n, cause=(TP, 0)) for n in range(20)]
    outcomes = {it.name: it for it in run(listed(view, [*LOG, *wrong])).outcomes}
    assert {check: it.status for check, it in outcomes.items() if check != "V3"} == {
        "V1": Status.FAILED,
        **dict.fromkeys(("V2", "V4", "V5"), Status.UNVERIFIABLE),
    }
    assert {it.kind for it in outcomes["V1"].witnesses} == {"white-after-end"}
