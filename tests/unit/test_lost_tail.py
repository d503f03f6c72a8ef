"""Which records of the ledger are lost, by what stands there now."""

from __future__ import annotations

import pytest

from snapkafka.kafka.lost_tail import NO_RECORD, Marks, first_lost, mark_of
from snapkafka.protocol.records import Pause
from tests.fakes import FakeEntry

READ = 40


def marks_of(first: int = 0, end: int = READ) -> Marks:
    marks = Marks()
    for offset in range(first, end):
        marks.add(offset, 1_000 + offset)
    return marks


async def lost(marks: Marks, since: int, end: int, *, start: int = 0) -> tuple[int | None, int]:
    """The first lost offset of a log that keeps what stands below `since` and goes on with other records up to `end`;
    and how many offsets were looked at."""
    asked = 0

    async def at(offset: int) -> int:
        nonlocal asked
        asked += 1
        assert start <= offset < end, "nothing stands there"
        return 1_000 + offset if offset < since else -offset

    return await first_lost(marks, start, end, at), asked


@pytest.mark.parametrize("since", range(READ))
async def test_the_first_record_that_differs_is_found_however_far_the_log_has_grown_again(since: int) -> None:
    for end in range(since, READ + 5):
        found, asked = await lost(marks_of(), since, end)
        assert found == since, end
        assert asked <= 7


async def test_a_log_that_has_only_grown_or_been_trimmed_has_lost_nothing() -> None:
    for end in (READ, READ + 5):
        for start in (0, 17, READ):
            assert await lost(marks_of(), READ + 5, end, start=start) == (None, int(start < READ))
    assert await lost(Marks(), 0, 3) == (None, 0), "who has read nothing misses nothing"


async def test_of_a_reader_that_began_late_and_of_one_that_has_forgotten_what_is_left_is_unsure() -> None:
    assert (await lost(marks_of(first=20), 30, 33))[0] == 30
    assert (await lost(marks_of(first=20), 20, 33))[0] == 20
    assert (await lost(marks_of(first=20), 10, 15))[0] == 0, "below 20 nothing is known"
    assert (await lost(marks_of(first=20), 10, 15, start=4))[0] == 4


def test_a_long_ledger_is_remembered_in_part_and_offsets_without_a_record_agree_with_anything() -> None:
    marks = Marks(most=8)
    for offset in (*range(5), *range(9, 30)):
        marks.add(offset, offset + 1_000)
    assert (marks.end, marks.end - marks.first) == (30, 8) or marks.end - marks.first < 8
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
    assert mark_of(FakeEntry(3, 0, one)) == mark_of(FakeEntry(9, 5, one)) != mark_of(FakeEntry(3, 0, other))
    assert mark_of(FakeEntry(3, 0, None)) == NO_RECORD
    assert mark_of(FakeEntry(3, 0, None, refused=True, states=one)) == mark_of(FakeEntry(3, 0, one))
