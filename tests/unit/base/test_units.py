"""One way to write durations, for every option."""

import pytest

from snapkafka.errors import BadInputError
from snapkafka.units import duration_ms, format_ms

DAY_MS = 86_400_000


TIMES = {
    "500ms": 500,
    "90s": 90_000,
    "10m": 600_000,
    "30min": 1_800_000,
    "1h30m": 5_400_000,
    "1.5h": 5_400_000,
}


@pytest.mark.parametrize(("text", "ms"), [*TIMES.items(), ("2 d", 2 * DAY_MS)])
def test_durations_are_written_as_people_do(text: str, ms: int) -> None:
    assert duration_ms(text, "--every") == ms


@pytest.mark.parametrize("text", ["", "60", "1 hour", "0h", "-1h", "inf", "1e3s", "10m x"])
def test_what_is_no_duration_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(BadInputError, match="--every") as refused:
        duration_ms(text, "--every")
    assert "1h30m" in refused.value.hint


def test_a_number_alone_has_the_unit_of_its_option() -> None:
    assert duration_ms("5000", "--ttl", bare="ms") == 5_000
    assert duration_ms("0", "--keep", bare="min", zero=True) == 0
    with pytest.raises(BadInputError):
        duration_ms("0", "--ttl", bare="ms")


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (59_500, "59.5 s"),
        (60_000, "1 min"),
        (120_001, "2 min 0.001 s"),
        (9 * DAY_MS + 82_985_000, "9 d 23 h 3 min 5 s"),
    ],
)
def test_a_time_is_printed_as_a_person_says_it(ms: int, text: str) -> None:
    assert format_ms(ms) == text
