"""Never a false accusation: runs of the simulator on a real broker, in which everything happens that happens to honest
systems, and nothing is held against any of them. And runs that are broken, which the same job does accuse."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, get_args, get_type_hints

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import Job, cluster, opened
from snapkafka.checks import KINDS, CheckOutcome, CutView, LogBounds, Status, Weight, Witness, reading_ranges
from snapkafka.kafka import Connection
from snapkafka.protocol import Captured
from snapkafka.testing import EmbeddedKafka
from tests.spark.reading import settings_of
from tests.worlds.cleaned_log import promised
from tests.worlds.list_checks import v1, v2, v4, v5

from . import real_logs
from .real_logs import HOUR, Written
from .simulated_logs import PARTS
from .simulated_runs import BROKEN, broken, healthy, recoloured
from .small_logs import World, captured, together
from .two_engines import verified_by_both

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

#: Runs of every day: a few seconds each. More show more, and belong to the nightly tests.
SHORT: Final = 8
#: What has to be in some runs, else that nobody accuses them shows nothing.
HAPPENS = (
    "retries",
    "asked for again",
    "transactions",
    "aborted transactions",
    "compaction",
    "rebalances",
    "tombstones",
    "torn events",
    "replays",
    "left",
    "in flight",
)


@dataclass
class Played:
    """What was written, and what became of it."""

    bootstrap: str
    sound: list[Written]
    broken: list[Written]
    counts: Counter[str]
    began_ms: int


@pytest.fixture(
    scope="module",
    params=[
        SHORT,
        pytest.param(50),
        pytest.param(200, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
    ids=lambda runs: f"{runs}-runs",
)
def runs(request: pytest.FixtureRequest) -> Iterator[Played]:
    count: int = request.param
    made = healthy(count + 1)
    damaged = next(run for run in reversed(made) if recoloured(run))
    made.remove(damaged)
    wrong = [damaged, *(broken(name, count + n) for n, name in enumerate(BROKEN, 2))]
    properties = {"log.cleaner.backoff.ms": "200", "log.index.size.max.bytes": "65536"}
    with EmbeddedKafka(properties=properties) as broker:
        began_ms = time.time_ns() // 1_000_000 - HOUR
        written = real_logs.write(
            broker.bootstrap, [*made, *wrong], lambda run: run.n % 2 == 0 and run in made
        )
        sound, not_sound = written[:count], written[count:]
        real_logs.await_cleaner(broker, sound)
        yield Played(broker.bootstrap, sound, not_sound, _counted(broker.bootstrap, sound), began_ms)


def _counted(bootstrap: str, sound: list[Written]) -> Counter[str]:
    """In how many runs there is what."""
    counts = Counter(kind for one in sound for kind in one.run.kinds)
    kept = real_logs.there(bootstrap, (tp for one in sound for tp in one.leaps))
    for one in sound:
        of_tables = {(r.tp, r.offset) for r in one.records if r.tp in one.leaps}
        one.taken = of_tables - kept
        counts["compaction"] += bool(one.taken)
        counts["records compacted"] += len(one.taken)
        counts["tombstones"] += one.deletions > 0
        counts["records"] += sum(map(len, one.offsets.values()))
    return counts


def _whole(runs: list[Written]) -> World:
    return together(
        [
            World(
                records=one.records,
                bounds={
                    tp: LogBounds(start=0, end=offsets[-1] + 1)
                    for tp, offsets in one.offsets.items()
                    if offsets
                },
                **_parts(one.captured),
            )
            for one in runs
        ]
    )


def _parts(cut: Captured) -> dict[str, Any]:
    return {part: list(getattr(cut, part)) for part in PARTS}


def _verified(spark: SparkSession, played: Played, runs: list[Written]) -> dict[str, CheckOutcome]:
    """All of them as if they were one system; a difference of the two engines in findings or rows is an error."""
    connection = Connection(bootstrap=played.bootstrap)
    cut = promised(captured(_whole(runs)), uncompacted_ms=real_logs.LAG_MS)
    looked = cluster.ask_once(
        connection,
        lambda admin: cluster.look(admin, cut, isolation="read_committed", triggered_ms=played.began_ms),
    )
    settings = settings_of(real_logs.LEDGER, bootstrap=played.bootstrap, isolation="read_committed")
    work = Job(spec=settings.spec, notify=lambda line: None, progress=lambda working: None, engine=opened)
    with TemporaryDirectory() as folder:
        checked = verified_by_both(spark, work, asyncio.run(looked), settings, Path(folder))
    return {found.check: found for found in checked.outcomes}


@pytest.fixture(autouse=True)
def everything_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the first twenty."""
    for module in ("snapkafka.checks.witness", "snapkafka.assembly.spark.verify.rules"):
        monkeypatch.setattr(f"{module}.WITNESSES_MAX", 10**6)


def _numbers(kind: type) -> Iterator[tuple[type, str]]:
    """List the fields of a record, and of all that is in it, that hold whole numbers."""
    for name, hint in get_type_hints(kind).items():
        for part in (hint, *get_args(hint)):
            if part is int:
                yield kind, name
            elif is_dataclass(part) and isinstance(part, type):
                yield from _numbers(part)


def test_every_number_in_a_snapshot_is_moved_to_the_broker_s_offsets_or_is_no_offset() -> None:
    """A new field that nobody moves would accuse what is sound."""
    known = {kind: {*real_logs.AT.get(kind, ()), *real_logs.ENDS.get(kind, ())} for kind in real_logs.MOVED}
    parts = [get_args(get_type_hints(Captured)[part])[0] for part in PARTS]
    numbers = {found for part in parts for found in _numbers(part)}
    assert {kind for kind, _ in numbers} >= real_logs.MOVED
    unknown = {
        (kind.__name__, name)
        for kind, name in numbers
        if name not in known.get(kind, ()) and name not in real_logs.NO_OFFSETS
    }
    assert unknown == set()


def test_nothing_is_held_against_what_is_sound(spark: SparkSession, runs: Played) -> None:
    outcomes = _verified(spark, runs, runs.sound)
    cleaned = {tp.topic for one in runs.sound for tp in one.leaps}
    for name, found in outcomes.items():
        if name in (
            "V1",
            "V3",
        ):  # the cleaner may take a value that the cut has, or what a sender does not know of
            assert found.status is not Status.FAILED, (name, found.witnesses)
            assert {witness.topic for witness in found.witnesses} <= cleaned, (name, found.witnesses)
        else:
            assert found.status is Status.PASSED, (name, found.witnesses)
    assert {_place(w) for w in outcomes["V1"].notes + outcomes["V5"].notes} == _in_lists(
        runs.sound, Weight.NOTE
    )
    few = len(runs.sound) // 75
    assert len(runs.sound) == SHORT or all(runs.counts[name] > few for name in HAPPENS), runs.counts


def test_what_is_broken_is_accused(spark: SparkSession, runs: Played) -> None:
    outcomes = _verified(spark, runs, runs.broken)
    accused = {
        _place(w) for found in outcomes.values() if found.status is Status.FAILED for w in found.witnesses
    }
    assert accused == _in_lists(runs.broken, Weight.FAILS)
    for one in runs.broken:
        assert any(place[1] in {tp.topic for tp in one.offsets} for place in accused), one.run.what


def _place(witness: Witness) -> tuple[str, str, int, int]:
    return witness.check, witness.topic, witness.partition, witness.offset


def _in_lists(runs: list[Written], weight: Weight) -> set[tuple[str, str, int, int]]:
    """What the checks on lists find."""
    whole = _whole(runs)
    view = CutView(captured(whole), whole.bounds)
    ranges = {item[:2]: item for item in reading_ranges(view)}
    records = [
        r for r in whole.records if r[:2] in ranges and ranges[r[:2]].start <= r.offset < ranges[r[:2]].end
    ]
    found = [finding for check in (v1, v2, v4, v5) for finding in check(view, records)]
    return {(KINDS[f.kind].check, *f[1:4]) for f in found if KINDS[f.kind].weight is weight}
