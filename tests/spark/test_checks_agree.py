"""The checks in Spark and those on lists are the same checks: many small damaged logs, looked at by both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from snapkafka.assembly import check_entries
from snapkafka.assembly.spark.reading.session import LOCAL, SMALL, having
from snapkafka.assembly.spark.verify import rules
from snapkafka.assembly.spark.verify.log_frames import LogFrames
from snapkafka.assembly.spark.verify.rules import RULES, SEARCHES
from snapkafka.assembly.spark.verify.v1_colour import OUT_OF_TURN
from snapkafka.checks import (
    KINDS,
    LOG_CHECKS,
    OF_BOUNDS,
    OF_STATE,
    TAIL_MAX,
    CutLog,
    CutView,
    Examined,
    Finding,
    LogBounds,
    LogRecord,
    Weight,
    bounds_findings,
    find,
    on_list,
    outside_senders,
    reading_ranges,
)
from snapkafka.checks.run import run
from snapkafka.checks.v3_state import StillThere
from snapkafka.protocol import Outsider, TopicPartition
from snapkafka.wire.headers import topics_by_check
from tests.worlds.little_log import shared_changelog

from .damaged_logs import EVERY_KIND, WORLDS, Damaged, damaged
from .in_spark import all_there, frames, nothing_there, stamps_of, suspected, what_is_found
from .simulated_logs import APART, consistent
from .small_logs import EPOCH, World, captured, damage, history, together

#: What large logs are planned with, in place of `SMALL`: Spark's own settings.
AS_LARGE = {name: LOCAL.get(name, "true") for name in SMALL}
#: Snapshots of simulated runs that are looked at in one go.
AT_ONCE = 150
#: What has to be in some of them, else they show nothing.
HAPPENS = {
    *("torn events", "replays", "left", "retries", "asked for again", "transactions", "aborted transactions"),
    *("rebalances", "failed sends", "zombies", "crashes", "in flight"),
    *("found: replayed", "found: duplicate", "found: ran-twice"),
}
#: Kinds that do not come from single records: those of the bounds of the log, and those that have a search.
_NOT_FROM_RECORDS = {*OF_BOUNDS, *OF_STATE, *(kind for search in SEARCHES for kind in search.kinds)}
_FROM_RECORDS = KINDS.keys() - _NOT_FROM_RECORDS
#: What `OUT_OF_TURN` stands for.
_OF_SEQS = {rule.kind for rule in RULES if rule.suspect is OUT_OF_TURN and rule.kind != "copy"}


def _view(world: World) -> CutView:
    return CutView(captured(world), world.bounds)


def _visible(view: CutView, records: list[LogRecord]) -> list[LogRecord]:
    """The records that lie in the reading ranges."""
    return Damaged(view, records, reading_ranges(view)).log.records


def _found_in_lists(world: World) -> list[Finding]:
    """What V1, V2, V4 and V5 find."""
    log = CutLog(_view(world), _visible(_view(world), world.records))
    return [finding for check in ("V1", "V2", "V4", "V5") for finding in find(check, log)]


def _examined_on_lists(world: World) -> dict[str, Examined]:
    return on_list(_view(world), _visible(_view(world), world.records))


def _frames(spark: SparkSession, world: World, stretch: int = 0) -> LogFrames:
    view = _view(world)
    return frames(spark, view, _visible(view, world.records), stretch=stretch)


@pytest.mark.timeout(1200)  # on a busy machine: every rule runs, twice
@pytest.mark.parametrize(
    ("seed", "stretch", "tail_max", "still_there"),
    [
        pytest.param(EVERY_KIND, 0, TAIL_MAX, all_there, id="every-kind-a-task-for-a-partition"),
        pytest.param(
            EVERY_KIND,
            0,
            2,
            nothing_there,
            id="not-read-to-the-end-and-gone-since",
            marks=pytest.mark.nightly,
        ),
        pytest.param(None, 3, TAIL_MAX, all_there, id="any-in-stretches", marks=pytest.mark.nightly),
        pytest.param(
            EVERY_KIND, 3, TAIL_MAX, all_there, id="every-kind-in-stretches", marks=pytest.mark.nightly
        ),
        pytest.param(
            None, 0, TAIL_MAX, all_there, id="any-a-task-for-a-partition", marks=pytest.mark.nightly
        ),
    ],
)
def test_spark_and_lists_find_the_same(
    spark: SparkSession, seed: int | None, stretch: int, tail_max: int, still_there: StillThere
) -> None:
    """Record by record, whatever is found; and what comes of it: outcomes, witnesses, and what was read. The long ones
    are planned as large logs are."""
    with having(spark, AS_LARGE if stretch or seed is None else {}):
        _agree(spark, seed, stretch, tail_max, still_there)


def _agree(
    spark: SparkSession, seed: int | None, stretch: int, tail_max: int, still_there: StillThere
) -> None:
    kinds = KINDS.keys() - OF_STATE if (seed, tail_max) == (EVERY_KIND, TAIL_MAX) else set[str]()
    seed = random.randrange(10**9) if seed is None else seed
    snapshot = damaged(seed, tail_max=tail_max)
    view, on_lists = snapshot.view, snapshot.log
    expected = Counter(finding for check in LOG_CHECKS for finding in find(check, on_lists, still_there))
    assert {*_kinds(expected), *bounds_findings(view)[1]} >= kinds, "else agreeing means little"

    in_spark = frames(
        spark,
        view,
        on_lists.records,
        stretch=stretch,
        read=snapshot.read,
        still_there=still_there,
        again=lambda wanted: stamps_of(spark, snapshot.within(wanted)),
    )
    actual = what_is_found(in_spark, rules.look_at(in_spark))
    assert actual - expected == Counter(), f"only Spark finds these (seed {seed})"
    assert expected - actual == Counter(), f"only the lists find these (seed {seed})"

    spark_says, lists_say = rules.run(in_spark), run(on_lists, still_there)
    for one, other in zip(spark_says.outcomes, lists_say.outcomes, strict=True):
        assert one == other, f"{one.check} (seed {seed})"
    assert spark_says._replace(outcomes=[]) == lists_say._replace(outcomes=[]), f"seed {seed}"
    assert all(outcome.found and outcome.examined for outcome in lists_say.outcomes)


def _kinds(found: Iterable[Finding]) -> set[str]:
    return {finding.kind for finding in found}


@pytest.mark.nightly
def test_first_look_misses_nothing(spark: SparkSession) -> None:
    """It sees nothing in honest logs, and something in each of those in which the checks find something."""
    rng = random.Random(35)
    honest = together([history(rng, n) for n in range(1, WORLDS + 1)])
    look = rules.look_at(_frames(spark, honest))
    assert not any(look.counts.values())
    assert look.examined == _examined_on_lists(honest)
    assert all(seen.records and seen.partitions for seen in look.examined.values()), (
        "else agreeing means little"
    )

    worlds = [damage(rng, history(rng, 1)) for _ in range(3000)]
    by_kinds = {frozenset(_kinds(_found_in_lists(world)) & _FROM_RECORDS): world for world in worlds}
    covered: set[str] = set()
    for kinds in sorted(by_kinds, key=lambda kinds: (len(kinds), sorted(kinds))):
        if kinds - covered:  # as few at once as there are: nothing else could have given it away
            covered |= kinds
            look = rules.look_at(_frames(spark, by_kinds[kinds]))
            assert look.examined == _examined_on_lists(by_kinds[kinds])
            assert kinds <= suspected(look), by_kinds[kinds]
    assert covered == _FROM_RECORDS


def _read_by_another(n: int, missing: Collection[int], lost: Collection[int] = ()) -> World:
    """`little_log.shared_changelog` as a world."""
    log, cut, _ = shared_changelog(*missing, lost=tuple(lost))
    tp = TopicPartition(f"table{n}", 0)
    named: dict[str, Any] = {"topic": tp.topic, "topic_id": ""}
    return World(
        records=[record._replace(topic=tp.topic) for record in log],
        bounds={tp: LogBounds(start=0, end=10)},
        processes=[*cut.processes] if n == 0 else [],
        inputs=[replace(source, **named) for source in cut.inputs],
        senders=[replace(end, topic=tp.topic) for end in cut.senders],
        changelogs=[replace(end, **named) for end in cut.changelogs],
    )


@pytest.mark.nightly
def test_compaction_of_a_changelog_that_is_read_is_judged_as_on_lists(spark: SparkSession) -> None:
    """Whatever is missing, with its offset and without. The first look sees nothing in what lies below all that its
    reader needs, and counts no record of nobody there: none can be an effect of something red."""
    rng = random.Random(3)
    missing = [rng.sample(range(10), rng.randint(0, 6)) for _ in range(400)]
    lost = [rng.choice([(), (), (rng.randint(1, 6),)]) for _ in missing]
    world = together([_read_by_another(n, *both) for n, both in enumerate(zip(missing, lost, strict=True))])
    expected = Counter(finding for finding in _found_in_lists(world) if finding.kind in _OF_SEQS)
    log = _frames(spark, world)
    assert what_is_found(log, rules.look_at(log), kinds=_OF_SEQS) == expected
    assert _kinds(expected) == _OF_SEQS - {
        "gap-failed",
        "gap-left",
        "disorder",
        "disorder-left",
        "duplicate",
    }

    below = rules.look_at(_frames(spark, _read_by_another(0, (1, 2))))
    assert (any(below.counts.values()), [topic.mixed for topic in below.external]) == (False, [True])


@pytest.mark.nightly
def test_spark_and_lists_find_the_same_outsiders(spark: SparkSession) -> None:
    """Known and unknown ones, those that cut and those that left; on partitions with several readers, too."""
    rng, found = random.Random(12), Counter[str]()
    for n in range(6):
        world = together([history(rng, 3 * n + k) for k in range(1, 4)])
        for at in rng.sample(range(len(world.records)), len(world.records) // 2):
            if world.records[at].process >= 0:
                process = EPOCH - rng.randint(1, 5) if rng.random() < 0.9 else EPOCH + 1
                world.records[at] = world.records[at]._replace(process=process, cause=None)
        outsiders = tuple(
            Outsider(process=EPOCH - p, app=f"z{p}", cut=p == 2, left=p == 3) for p in range(1, 5)
        )
        cut = replace(captured(world), outsiders=outsiders)
        view = CutView(cut, world.bounds)
        visible = _visible(view, world.records)
        expected = outside_senders(view, visible)
        assert [*rules.look_at(frames(spark, view, visible)).outside] == expected
        found.update(sender.app for sender in expected)
    assert found.keys() == {"z1", "z4", ""}


@pytest.mark.nightly
def test_v5_is_not_run_where_no_record_names_its_cause(spark: SparkSession) -> None:
    """As of services with `cause=False`: it would pass, and nothing would have been looked at."""
    rng = random.Random(5)
    world = together([history(rng, n) for n in range(1, 6)])

    def run_on(records: list[LogRecord]) -> list[str]:
        outcomes = rules.run(_frames(spark, replace(world, records=records))).outcomes
        assert outcomes == run(CutLog(_view(world), _visible(_view(world), records))).outcomes
        return [entry.name for entry in check_entries(outcomes) if entry.run]

    silent = [record._replace(cause=None) for record in world.records]
    read = set(_visible(_view(world), world.records))
    one_named = next(
        n for n, record in enumerate(world.records) if record.cause is not None and record in read
    )
    assert run_on(silent) == ["V1", "V2", "V3", "V4"]
    assert run_on([*silent[:one_named], world.records[one_named], *silent[one_named + 1 :]])[-1] == "V5"


@pytest.mark.nightly
@pytest.mark.parametrize("snapshots", [90, pytest.param(3000, marks=pytest.mark.timeout(3600))])
def test_no_consistent_snapshot_is_accused(spark: SparkSession, snapshots: int) -> None:
    """Runs of the simulator with all that happens to honest systems: Spark notes what the lists note, and nothing is
    held against a snapshot that is consistent by causality."""
    counts: Counter[str] = Counter()
    seed, seen = 0, 0
    while seen < snapshots:
        worlds: list[World] = []
        while len(worlds) < min(AT_ONCE, snapshots - seen):
            for world, kinds in consistent(seed, len(worlds) + 1):
                worlds.append(world)
                counts.update(kinds)
            seed += 1
        seen += len(worlds)
        world = _as_headers_tell(together(worlds))
        log = _frames(spark, world)
        look = rules.look_at(log)
        assert look.examined == _examined_on_lists(world), f"seeds up to {seed}"
        of_state = {kind for kind, it in KINDS.items() if it.check == "V3"}
        noted = what_is_found(log, look, kinds=suspected(look) | of_state | _NOT_FROM_RECORDS)
        assert [it for it in noted if KINDS[it.kind].weight is not Weight.NOTE] == [], f"seeds up to {seed}"
        assert noted == Counter(_found_in_lists(world)), f"seeds up to {seed}"
        counts.update(f"found: {finding.kind}" for finding in noted)
    for name in HAPPENS:
        assert counts[name] >= max(1, snapshots // 75), (name, counts)


def _as_headers_tell(world: World) -> World:
    """A header has two bytes for the topic of its cause: where two that are read share them, it tells nothing."""
    reported = set(topics_by_check({source.topic for source in world.inputs}).values())
    world.records = [
        record if record.cause is None or record.cause[0].topic in reported else record._replace(cause=None)
        for record in world.records
    ]
    return world


def test_honest_logs_give_no_finding() -> None:
    """No check accuses a world in which nothing went wrong."""
    for seed in range(2000):
        assert _found_in_lists(history(random.Random(seed), 1)) == [], f"seed {seed}"


def test_epoch_of_the_worlds_is_above_their_processes() -> None:
    assert max(WORLDS * 10 + 9, (2 * AT_ONCE + 1) * APART) < EPOCH
