"""Restores in small worlds: crashed, suspended and run again, with workers and senders of before that wake up."""

from __future__ import annotations

import pytest

from .restore_runs import BREAKS, RestoreWorld, explore

SEEDS = range(120)
HAPPENS = """
    appended crash suspend late_writes late_sends late_steps held stopped expired stopped_in_order
    kept_out bare others aborted not_aborted replaced recreated refused nothing_lacks gone_meanwhile
"""


def test_after_a_restore_each_message_is_processed_once_counted_from_the_snapshot() -> None:
    wrong, counts = explore(SEEDS)
    assert not wrong
    for what in HAPPENS.split():
        assert counts[what] > 5, f"{what}: it hardly ever happened, so this shows nothing"


@pytest.mark.parametrize("left_out", BREAKS)
def test_what_is_left_out_is_found(left_out: str) -> None:
    """Stamps on what is re-appended, bases, the fence of the commit point, that it comes after the groups are set,
    waiting, positions per agent, the state; the lease of who sets the group, groups that let nobody in, that nothing
    appended is aborted, the start of a group whose offsets were deleted, that the rules of a topic are over when it is
    recreated, and that a restore is refused where records from outside were deleted."""
    for seed in range(200):
        if RestoreWorld(seed, frozenset({left_out})).run():
            return
    pytest.fail(f"200 worlds without {left_out}, and none shows it")


PINNED = {
    109_703: "a worker that read of a restore when it was over went on with its memory of before",
    100_021: "a run that was overtaken committed after the `begun` of the next one and before its author",
    3_009_558: "forty runs were crashed, suspended or replaced, and each had appended some hundred messages",
}


@pytest.mark.parametrize("seed", PINNED)
def test_a_seed_that_once_showed_something(seed: int) -> None:
    assert RestoreWorld(seed, deletes=False).run() == []


def test_a_seed_is_one_world() -> None:
    one, other = RestoreWorld(7), RestoreWorld(7)
    one.run(), other.run()
    assert (one.log, one.changelog, one.counts) == (other.log, other.changelog, other.counts)


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_many_seeds() -> None:
    wrong, _ = explore(range(1_000, 6_000))
    assert not wrong
