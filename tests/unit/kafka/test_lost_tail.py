"""Which records of the ledger are lost, by what stands there now."""

from __future__ import annotations

import pytest

from snapkafka.kafka.ledger.tail_marks import NO_RECORD, Marks, identity, lost_range, mark_of
from snapkafka.protocol import Pause
from tests.worlds.fakes import FakeEntry

READ = 40


def marks_of(end: int = READ, *, first: int = 0, settled: bool = True) -> Marks:
    """Of a reader of the old log."""
    marks = Marks()
    for offset in range(first, end):
        marks.add(offset, 1_000 + offset)
    if settled:
        marks.settle()
        marks.settle()
    return marks


async def lost(marks: Marks, since: int, end: int, *, start: int = 0) -> tuple[tuple[int, int] | None, int]:
    """What is lost of a log that keeps what stands below `since` and goes on with other records up to `end`; and how
    many requests that took."""
    asked = 0

    async def standing(first: int, upto: int) -> dict[int, int]:
        nonlocal asked
        asked += 1
        return {
            offset: 1_000 + offset if offset < since else -offset
            for offset in range(max(first, start), min(upto, end))
        }

    return await lost_range(marks, start, end, standing), asked


@pytest.mark.parametrize("settled", [True, False])
@pytest.mark.parametrize("since", range(READ))
async def test_the_first_record_that_differs_is_found_however_far_the_log_has_grown_again(
    since: int, settled: bool
) -> None:
    for end in range(since, READ + 5):
        found, asked = await lost(marks_of(settled=settled), since, end)
        assert found == (since, READ), end
        assert asked <= 8


@pytest.mark.parametrize("settled", [0, 20, 30, READ])
async def test_whoever_has_read_on_in_a_log_that_has_grown_again_knows_what_it_had_read_before(
    settled: int,
) -> None:
    """What stands behind that is there, and its numbers are those of others."""
    since, old = 25, 35
    marks = marks_of(min(settled, old))
    for offset in range(marks.end, READ + 5):
        marks.add(offset, 1_000 + offset if offset < old else -offset)
    found, _ = await lost(marks, since, READ + 5)
    assert found == (since, old)


async def test_a_log_that_has_only_grown_or_been_trimmed_has_lost_nothing() -> None:
    for end in (READ, READ + 5):
        for start in (0, 17, READ):
            assert (await lost(marks_of(), READ + 5, end, start=start))[0] is None
    assert await lost(Marks(), 0, 3) == (None, 0), "who has read nothing misses nothing"


async def test_of_a_reader_that_began_late_and_of_one_that_has_forgotten_what_is_left_is_unsure() -> None:
    assert (await lost(marks_of(first=20), 30, 33))[0] == (30, READ)
    assert (await lost(marks_of(first=20), 20, 33))[0] == (20, READ)
    assert (await lost(marks_of(first=20), 10, 15))[0] == (0, READ), "below 20 nothing is known"
    assert (await lost(marks_of(first=20), 10, 15, start=4))[0] == (4, READ)


async def test_what_was_written_and_not_read_back_counts_as_seen() -> None:
    for since, end, expected in ((45, 45, None), (42, 42, (42, 45)), (42, 60, (42, 45)), (30, 42, (30, 45))):
        marks = marks_of()
        for offset in (42, 44):
            marks.wrote(offset, 1_000 + offset)
        assert (await lost(marks, since, end))[0] == expected, (since, end)


def test_a_record_that_is_not_what_was_written_there_shows_a_loss_when_it_is_read() -> None:
    marks = marks_of()
    marks.wrote(READ, 7)
    marks.wrote(READ + 1, 8)
    assert marks.add(READ, 7)
    assert not marks.add(READ + 1, 9)
    assert not marks.written
    marks.wrote(3, 99)
    assert not marks.written, "that was read"


def test_a_long_ledger_is_remembered_in_part_and_offsets_without_a_record_agree_with_anything() -> None:
    marks = Marks(most=8)
    for offset in (*range(5), *range(9, 30)):
        marks.add(offset, offset + 1_000)
    assert marks.end == 30
    assert 4 <= marks.end - marks.first <= 8
    assert marks.agrees(29, 1_029)
    assert not marks.agrees(29, 1_030)
    gap = Marks()
    gap.add(0, 7)
    gap.add(3, 8)
    assert (gap.first, gap.end, gap.agrees(2, 99), gap.agrees(3, 99)) == (0, 4, True, False)
    gap.add(1, 99)  # read once more
    assert gap.agrees(0, 7)
    assert gap.end == 4


def test_a_record_is_known_by_its_author_and_its_number() -> None:
    one, other = Pause(n=1, paused=True), Pause(n=2, paused=True)
    assert mark_of(FakeEntry(3, 0, one)) == identity(one) != mark_of(FakeEntry(3, 0, other))
    assert mark_of(FakeEntry(3, 0, None)) == NO_RECORD
