"""Never a false accusation: runs of the simulator on a real broker, in which everything happens that happens to honest
systems, and nothing is held against any of them. And runs that are broken, which the same job does accuse."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import cluster
from snapkafka.checks import KINDS, CutView, Status, Weight, reading_ranges
from snapkafka.kafka import Connection
from snapkafka.manifest import CheckEntry, WitnessEntry
from snapkafka.testing import EmbeddedKafka
from tests.spark.reading import settings_of
from tests.worlds.cleaned_log import HOUR, promised
from tests.worlds.list_checks import v1, v2, v4, v5

from .engines import verified_by_both
from .simulated_logs import BROKEN, broken, healthy
from .small_logs import World, captured, together
from .written_logs import LAG_MS, LEDGER, write

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

#: Runs of every day: a few seconds each. More show more, and belong to the nightly tests.
SHORT: Final = 8
#: What has to be in some runs, else that nobody accuses them shows nothing.
HAPPENS = (
    *("retries", "asked for again", "transactions", "aborted transactions", "rebalances"),
    *("torn events", "replays", "left", "in flight"),
)


@dataclass
class Played:
    """What was written, and how often there is what in it."""

    bootstrap: str
    sound: list[World]
    broken: list[World]
    counts: Counter[str]
    began_ms: int


@pytest.fixture(
    scope="module",
    params=[SHORT, 50, pytest.param(200, marks=pytest.mark.timeout(3600))],
    ids=lambda runs: f"{runs}-runs",
)
def runs(request: pytest.FixtureRequest) -> Iterator[Played]:
    count: int = request.param
    made = healthy(count + 1)
    damaged = next(world for world, _ in reversed(made) if recoloured(world))
    sound = [(world, kinds) for world, kinds in made if world is not damaged]
    wrong = [damaged, *(broken(name, n) for n, name in enumerate(BROKEN, 50_000))]
    with EmbeddedKafka() as broker:
        worlds = [world for world, _ in sound]
        assert write(broker.bootstrap, [*worlds, *wrong]) > 1, "no offset was missing"
        counts = Counter(kind for _, kinds in sound for kind in kinds)
        yield Played(broker.bootstrap, worlds, wrong, counts, time.time_ns() // 1_000_000 - HOUR)


def recoloured(world: World) -> bool:
    """Turn one record that a receiver had taken in red; False: there is none."""
    view = CutView(captured(world), world.bounds)
    for at, record in enumerate(world.records):
        sources = view.inputs.get(record.tp, ())
        if view.white_stamped(record) and any(it.low <= record.offset < it.position for it in sources):
            world.records[at] = record._replace(epoch=view.epoch, cause=None)
            return True
    return False


def _verified(spark: SparkSession, played: Played, runs: list[World]) -> dict[str, CheckEntry]:
    """All of them as if they were one system; a difference of the two engines in findings or rows is an error."""
    connection = Connection(bootstrap=played.bootstrap)
    cut = promised(captured(together(runs)), uncompacted_ms=LAG_MS)
    looked = cluster.ask_once(
        connection,
        lambda admin: cluster.look(admin, cut, isolation="read_committed", triggered_ms=played.began_ms),
    )
    settings = settings_of(LEDGER, bootstrap=played.bootstrap, isolation="read_committed")
    with TemporaryDirectory() as folder:
        checked = verified_by_both(spark, asyncio.run(looked), settings, Path(folder))
    return {found.name: found for found in checked.outcomes}


@pytest.fixture(autouse=True)
def everything_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only the first twenty."""
    for module in ("snapkafka.checks.witness", "snapkafka.checks.questions"):
        monkeypatch.setattr(f"{module}.WITNESSES_MAX", 10**6)


def test_nothing_is_held_against_what_is_sound(spark: SparkSession, runs: Played) -> None:
    outcomes = _verified(spark, runs, runs.sound)
    for name, found in outcomes.items():
        assert found.status is Status.PASSED, (name, found.witnesses)
    noted = {_place(witness) for name in ("V1", "V5") for witness in outcomes[name].notes}
    assert noted == _in_lists(runs.sound, Weight.NOTE)
    few = len(runs.sound) // 75
    assert len(runs.sound) == SHORT or all(runs.counts[name] > few for name in HAPPENS), runs.counts


def test_what_is_broken_is_accused(spark: SparkSession, runs: Played) -> None:
    outcomes = _verified(spark, runs, runs.broken)
    accused = {
        _place(w) for found in outcomes.values() if found.status is Status.FAILED for w in found.witnesses
    }
    assert accused == _in_lists(runs.broken, Weight.FAILS)
    for one in runs.broken:
        assert any(place[1] in {tp.topic for tp in one.bounds} for place in accused), one.processes


def _place(witness: WitnessEntry) -> tuple[str, str, int, int]:
    return KINDS[witness.kind].check, witness.topic, witness.partition, witness.offset


def _in_lists(runs: list[World], weight: Weight) -> set[tuple[str, str, int, int]]:
    """What the checks on lists find."""
    whole = together(runs)
    view = CutView(captured(whole), whole.bounds)
    ranges = {item[:2]: item for item in reading_ranges(view)}
    records = [
        r for r in whole.records if r[:2] in ranges and ranges[r[:2]].start <= r.offset < ranges[r[:2]].end
    ]
    found = [finding for check in (v1, v2, v4, v5) for finding in check(view, records)]
    return {(KINDS[f.kind].check, *f[1:4]) for f in found if KINDS[f.kind].weight is weight}
