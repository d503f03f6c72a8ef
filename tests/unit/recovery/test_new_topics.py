"""Settings of a new topic that would delete or refuse what is appended: changed and listed, or a reason to refuse."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from snapkafka.recovery import Carried
from snapkafka.recovery.new_topics import (
    ENDLESS,
    Fitting,
    fit_input,
    fit_plain_changelog,
    fit_set_changelog,
)
from snapkafka.recovery.record_refusals import CATCH_UP_MS

DAY = 86_400_000
NOW = 100 * DAY
#: What holds for a topic that was created without settings on Kafka 4.0.
DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(7 * DAY),
    "retention.bytes": "-1",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": ENDLESS,
    "message.timestamp.after.max.ms": "3600000",
}


def carried(age_ms: int = 0, ahead_ms: int = 0, largest: int = 100, records: int = 1) -> Carried:
    return Carried(
        records=records,
        bytes=largest * records,
        oldest_ms=NOW - age_ms,
        youngest_ms=NOW + ahead_ms,
        largest=largest,
    )


def fit(
    found: Carried, settings: Mapping[str, str] | None = None, recorded: Mapping[str, str] | None = None
) -> Fitting:
    holding = {**DEFAULTS, **(settings or {})}
    return fit_input("in", holding, found, now_ms=NOW, recorded=recorded or {})


@pytest.mark.parametrize(
    ("found", "settings", "changes"),
    [
        (carried(), {}, {}),
        (carried(age_ms=6 * DAY - 1), {}, {}),
        (carried(age_ms=6 * DAY + 1), {}, {"retention.ms": "-1"}),
        (carried(age_ms=30 * DAY), {}, {"retention.ms": "-1"}),
        (carried(age_ms=30 * DAY), {"retention.ms": "-1"}, {}),
        (carried(age_ms=300), {"retention.ms": "1000"}, {}),
        (carried(age_ms=501), {"retention.ms": "1000"}, {"retention.ms": "-1"}),
        (carried(age_ms=30 * DAY), {"message.timestamp.type": "LogAppendTime"}, {}),
        (carried(ahead_ms=3_600_001), {}, {"message.timestamp.after.max.ms": ENDLESS}),
        (carried(ahead_ms=3_600_000), {}, {}),
        (
            carried(age_ms=2),
            {"message.timestamp.before.max.ms": "1"},
            {"message.timestamp.before.max.ms": ENDLESS},
        ),
        (
            carried(age_ms=2),
            {"message.timestamp.difference.max.ms": "1"},
            {"message.timestamp.difference.max.ms": ENDLESS},
        ),
        (carried(largest=1_048_500), {}, {"max.message.bytes": "1048632"}),
        (carried(records=10), {"retention.bytes": "2000"}, {"retention.bytes": "-1"}),
        (carried(records=10), {"retention.bytes": "3000"}, {}),
        (carried(), {"cleanup.policy": "compact"}, {"cleanup.policy": "delete"}),
        (
            carried(age_ms=30 * DAY),
            {"cleanup.policy": "compact"},
            {"cleanup.policy": "delete", "retention.ms": "-1"},
        ),
        (carried(records=0, age_ms=30 * DAY, largest=2_000_000), {}, {}),
    ],
)
def test_what_would_lose_or_refuse_messages_is_changed_and_nothing_else(
    found: Carried, settings: dict[str, str], changes: dict[str, str]
) -> None:
    assert fit(found, settings) == (changes, ())


def test_an_input_that_was_compacted_stays_so() -> None:
    """Nothing is deleted by age there."""
    recorded = {"cleanup.policy": "compact"}
    assert fit(carried(age_ms=30 * DAY), recorded, recorded) == ({}, ())
    both = {"cleanup.policy": "compact,delete"}
    assert fit(carried(age_ms=30 * DAY), both, both).changes == {"retention.ms": "-1"}


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "delete,compact"])
def test_a_changelog_is_compacted_whatever_was_recorded(policy: str) -> None:
    """A windowed table of Faust has `compact,delete` with a retention of seconds."""
    holding = {**DEFAULTS, "cleanup.policy": policy, "retention.ms": "1000"}
    assert fit_plain_changelog("t", holding, 10) == ({"cleanup.policy": "compact"}, ())
    assert fit_plain_changelog("t", {**DEFAULTS, "cleanup.policy": "compact"}, 10).changes == {}
    assert fit_plain_changelog("t", {**DEFAULTS, "cleanup.policy": "compact"}, 1_048_588).changes == {
        "max.message.bytes": "1048720"
    }


def test_the_changelog_of_sets_keeps_every_record() -> None:
    """Compacted it would keep one member of each set."""
    assert fit_set_changelog("s", DEFAULTS, 10) == ({"retention.ms": "-1"}, ())
    harmful = {**DEFAULTS, "cleanup.policy": "compact", "retention.bytes": "1000"}
    assert fit_set_changelog("s", harmful, 10).changes == {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
    }


def test_settings_that_cannot_be_read_and_records_that_fit_nowhere_are_refused() -> None:
    for found in (
        fit_input("in", {}, carried(), now_ms=NOW, recorded={}),
        fit_plain_changelog("t", {}, 10),
        fit_set_changelog("s", {}, 10),
    ):
        assert [refusal.code for refusal in found.refusals] == ["settings-unknown"]
        assert found.changes == {}
    for found in (fit(carried(largest=2**31 - 100)), fit_plain_changelog("t", DEFAULTS, 2**31 - 100)):
        assert [refusal.code for refusal in found.refusals] == ["record-too-large"]


@pytest.mark.parametrize("seed", range(50))
def test_what_was_changed_fits(seed: int) -> None:
    """Asked again with its changes, a topic needs no more."""
    rng = random.Random(seed)
    harmful = {
        "cleanup.policy": rng.choice(["delete", "compact", "compact,delete"]),
        "retention.ms": rng.choice(["-1", "0", "1000", str(7 * DAY)]),
        "retention.bytes": rng.choice(["-1", "1", "100000"]),
        "max.message.bytes": rng.choice(["0", "100", "1048588"]),
        "message.timestamp.type": rng.choice(["CreateTime", "LogAppendTime"]),
        "message.timestamp.before.max.ms": rng.choice(["-1", "0", "1000", ENDLESS]),
        "message.timestamp.after.max.ms": rng.choice(["-1", "0", "3600000", ENDLESS]),
    }
    found = carried(
        age_ms=rng.choice([0, 10 * DAY]), ahead_ms=rng.choice([0, DAY]), records=rng.choice([0, 1, 5_000])
    )
    recorded = {"cleanup.policy": "compact"} if rng.random() < 0.5 else {}
    changes = fit_input("in", harmful, found, now_ms=NOW, recorded=recorded).changes
    again = fit_input("in", {**harmful, **changes}, found, now_ms=NOW, recorded=recorded)
    assert again == ({}, ())
    for fitting in (fit_plain_changelog, fit_set_changelog):
        changes = fitting("t", harmful, 5_000).changes
        assert fitting("t", {**harmful, **changes}, 5_000) == ({}, ())


def test_apps_have_a_day_to_catch_up() -> None:
    assert CATCH_UP_MS == DAY
