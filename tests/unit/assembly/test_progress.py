"""How far a job is, and what it came to: in words, as a line from process to process, as bars."""

from __future__ import annotations

from itertools import count

from snapkafka.assembly import Step, Work, Working
from snapkafka.assembly.progress import as_line, from_line, in_words, now_and_then

WORKING = Working(
    id="friday",
    seconds=30.0,
    steps=(Step(name="table state", done=14, tasks=40), Step(name="V6 [a] 'quote'", done=0, tasks=2)),
)
WORK = Work(
    id="friday",
    offsets_read=20_000_000,
    tables_written=5,
    rows_written=5_000_321,
    bytes_written=310_000_000,
    checks=("V1", "V2", "V6 money"),
    seconds=80.04,
)


def test_how_far_it_is_in_words() -> None:
    assert in_words(WORKING) == ("friday: 30 s; table state: 14 of 40 tasks; V6 [a] 'quote': 0 of 2 tasks")


def test_what_it_came_to_in_words() -> None:
    assert in_words(WORK) == (
        "friday: read 20,000,000 offsets; wrote 5,000,321 rows in 5 tables, 310.0 MB; "
        "checked V1, V2, V6 money; 80.0 s"
    )
    verified = Work(
        id="s", offsets_read=0, tables_written=0, rows_written=0, bytes_written=0, checks=("V1",),
        seconds=0.0,
    )  # fmt: skip
    assert in_words(verified) == "s: read 0 offsets; checked V1; 0.0 s"


def test_a_line_of_it_comes_back_and_no_other_is_taken_for_one() -> None:
    line = as_line(WORKING)
    assert "\n" not in line
    assert from_line(line) == WORKING
    for other in ("", "starting Spark", "{}", '{"error": {}}', "WARN working"):
        assert from_line(other) is None


def test_it_is_reported_now_and_then() -> None:
    clock = count(0.0, 4.0)
    said: list[str] = []
    notify = now_and_then(said.append, 10.0, lambda: next(clock))
    for _ in range(6):  # at 4, 8, 12, ... 24
        notify(WORKING)
    assert said == [in_words(WORKING)] * 2
