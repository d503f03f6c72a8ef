"""How long a snapshot can be made again from the log: which topic loses first what it needs, when, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from snapkafka.checks import CutView, Keeping, LogBounds
from snapkafka.checks.retention import (
    LAST_MS,
    How,
    LogNow,
    Need,
    RetentionEstimate,
    estimate_retention,
    first_to_go,
    keeping,
    needs,
)
from snapkafka.protocol import ChangelogCut, InputCut, Retention, SenderEnd, TopicPartition
from snapkafka.topic_config import FOR_EVER_MS, UNBOUNDED, TopicSettings, promised_by
from snapkafka.units import format_ms
from tests.worlds.little_log import CAPTURED

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
CUT = 1_800_000_000_000
NOW = CUT + MIN
IN, LOG = TopicPartition("orders", 0), TopicPartition("stock-changelog", 0)
INPUT = Need(tp=IN, start=10, end=20)
STATE = Need(tp=LOG, start=0, end=50, state=True)


def judged(need: Need, holding: Mapping[str, str], **log: Any) -> RetentionEstimate:
    bounds = log.pop("bounds", LogBounds(start=0, end=100))
    return estimate_retention(
        need, LogNow(bounds=bounds, **log), TopicSettings.parse(holding), cut_ms=CUT, now_ms=NOW
    )


# -- what is needed ------------------------------------------------------------------------------------------


def test_of_an_input_what_was_unread_and_of_a_changelog_all_of_it() -> None:
    source = InputCut(
        app="a", topic="orders", topic_id="", partition=0, position=10, noted=10, low=0, log_end=12, receiver=2
    )  # fmt: skip
    read = dataclasses.replace(source, partition=1, position=12)
    changelog = ChangelogCut(
        app="a", table="t", topic="log", topic_id="", partition=0, end=50, process=2, expires_ms=5, sets=True
    )
    empty = dataclasses.replace(changelog, partition=1, end=0)
    captured = dataclasses.replace(
        CAPTURED,
        inputs=(source, dataclasses.replace(source, app="b", position=7), read),
        senders=(SenderEnd(process=2, topic="orders", partition=0, white_end=15, last_seq=1),),
        changelogs=(changelog, empty),
    )
    assert list(needs(CutView(captured))) == [
        Need(tp=TopicPartition("orders", 0), start=7, end=15),
        Need(tp=TopicPartition("log", 0), start=0, end=50, state=True, expires_ms=5, sets=True),
    ]


# -- age -----------------------------------------------------------------------------------------------------


def test_an_input_is_kept_from_its_first_unread_record_on() -> None:
    found = judged(INPUT, {"cleanup.policy": "delete", "retention.ms": str(HOUR)}, first_ms=CUT - 5 * MIN)
    assert (found.how, found.until_ms) == (How.UNTIL, CUT + 55 * MIN)
    assert (found.topic, found.partition) == IN
    assert (
        found.why == "deletes records after 1 h (retention.ms), counted from the first record that is needed"
    )


def test_of_an_input_that_has_nothing_yet_what_comes_is_kept_from_now_on() -> None:
    assert judged(INPUT, {"retention.ms": str(HOUR)}).until_ms == NOW + HOUR


@pytest.mark.parametrize("kept", ["-1", str(2**63 - 1), str(FOR_EVER_MS + 1)])
def test_what_is_never_deleted_lasts(kept: str) -> None:
    assert judged(INPUT, {"retention.ms": kept}, first_ms=CUT).how == How.ALWAYS
    assert judged(STATE, {"cleanup.policy": "delete", "retention.ms": kept}, first_ms=0).how == How.ALWAYS


def test_a_changelog_that_deletes_loses_its_oldest_value_first() -> None:
    found = judged(STATE, {"cleanup.policy": "delete", "retention.ms": str(DAY)}, first_ms=CUT - 23 * HOUR)
    assert (found.how, found.until_ms) == (How.UNTIL, CUT + HOUR)


def test_of_a_windowed_table_only_windows_that_lived_at_the_cut_count() -> None:
    windows = dataclasses.replace(STATE, expires_ms=HOUR)
    holding = {"cleanup.policy": "delete", "retention.ms": str(3 * HOUR)}
    assert judged(windows, holding, first_ms=CUT - 9 * HOUR).until_ms == CUT + 2 * HOUR
    assert judged(windows, holding).until_ms == CUT + 2 * HOUR
    young = judged(windows, holding, first_ms=CUT - 10 * MIN)
    assert young.until_ms == CUT + 3 * HOUR - 10 * MIN, "the log has no older one"
    assert young.why == "deletes records after 3 h (retention.ms), counted from the oldest window"


@pytest.mark.parametrize(("first_ms", "until_ms"), [(-(2**62), 0), (-1, DAY - 1), (0, DAY), (2**62, LAST_MS)])
def test_clocks_that_are_beside_themselves_do_no_harm(first_ms: int, until_ms: int) -> None:
    assert judged(INPUT, {"retention.ms": str(DAY)}, first_ms=first_ms).until_ms == until_ms
    assert LAST_MS < 253_402_300_800_000, "a calendar has it"


# -- size ----------------------------------------------------------------------------------------------------


def test_a_bound_on_bytes_is_reached_at_the_rate_so_far() -> None:
    """90 of 100 records stand from the first needed on: 900 bytes since an hour; 1,800 more make it 2,700."""
    holding = {"retention.ms": "-1", "retention.bytes": "2700"}
    found = judged(INPUT, holding, first_ms=NOW - HOUR, size=1_000)
    assert (found.how, found.until_ms) == (How.FROM, NOW + 2 * HOUR)
    assert found.why == (
        "keeps 2,700 bytes of each partition (retention.bytes), of which 900 were written since the first record"
        " that is needed:"
        " at that rate"
    )


def test_the_rate_counts_the_bytes_of_what_the_log_still_holds() -> None:
    """60 of its 75 records stand from the first needed on: 700 of 875 bytes in an hour, and 2,000 to go."""
    need, holding = dataclasses.replace(INPUT, start=40), {"retention.ms": "-1", "retention.bytes": "2700"}
    found = judged(need, holding, first_ms=NOW - HOUR, size=875, bounds=LogBounds(start=25, end=100))
    assert found.until_ms == NOW + 2_000 * HOUR // 700


TOO_LARGE = ", of which 2,700 were written since the first record that is needed"
UNKNOWN_SIZE = "; its size is not visible"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ({"size": 3_000, "first_ms": NOW - HOUR}, TOO_LARGE),
        ({"size": 2_700, "first_ms": NOW - HOUR, "bounds": LogBounds(start=10, end=11)}, TOO_LARGE),
        ({"first_ms": NOW - HOUR}, UNKNOWN_SIZE),
        ({"size": 5}, UNKNOWN_SIZE),
    ],
)
def test_what_is_too_large_already_or_of_unknown_size_may_go_now(log: dict[str, Any], why: str) -> None:
    found = judged(INPUT, {"retention.ms": "-1", "retention.bytes": "2700"}, **log)
    assert (found.how, found.until_ms) == (How.FROM, NOW)
    assert found.why == f"keeps 2,700 bytes of each partition (retention.bytes){why}"


# -- compaction ----------------------------------------------------------------------------------------------


def test_of_a_compacted_changelog_only_the_earliest_time_is_known() -> None:
    holding = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR), "retention.ms": "1"}
    found = judged(STATE, holding, first_ms=CUT - DAY)
    assert (found.how, found.until_ms) == (How.FROM, CUT + HOUR)
    assert "may be compacted after 1 h (min.compaction.lag.ms=3600000): doctor can delay it" in found.why
    bounded = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(DAY)}
    assert (judged(STATE, bounded).until_ms, "at the latest after 1 d" in judged(STATE, bounded).why) == (
        CUT,
        True,
    )
    never = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**63 - 1)}
    assert judged(STATE, never).how == How.ALWAYS


@pytest.mark.parametrize("need", [INPUT, dataclasses.replace(STATE, sets=True)])
def test_where_every_record_counts_the_very_next_may_take_its_place(need: Need) -> None:
    holding = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR)}
    found = judged(need, holding, first_ms=CUT - DAY)
    assert found.until_ms == CUT - DAY + HOUR
    assert found.why.startswith("may be compacted after 1 h (min.compaction.lag.ms=3600000)")


def test_compacted_and_deleted_goes_by_what_is_first() -> None:
    holding = {
        "cleanup.policy": "compact,delete",
        "retention.ms": str(HOUR),
        "min.compaction.lag.ms": str(DAY),
    }
    assert judged(STATE, holding, first_ms=CUT).until_ms == CUT + HOUR
    assert judged(STATE, holding | {"retention.ms": str(9 * DAY)}, first_ms=CUT).how == How.FROM


# -- gone, and which is first --------------------------------------------------------------------------------


def test_what_is_gone_is_said() -> None:
    found = judged(INPUT, {}, bounds=LogBounds(start=11, end=100))
    assert (found.how, found.until_ms, found.why) == (
        How.GONE,
        None,
        "its log starts at 11, the snapshot needs 10",
    )
    assert judged(INPUT, {"retention.ms": "-1"}, bounds=LogBounds(start=10, end=100)).how == How.ALWAYS
    found = judged(STATE, {"retention.ms": "-1"}, bounds=LogBounds(start=51, end=100))
    assert (found.how, found.why) == (How.GONE, "its log starts at 51, past the cut at 50")
    assert judged(STATE, {"retention.ms": "-1"}, bounds=LogBounds(start=50, end=100)).how == How.ALWAYS


def test_the_first_to_go_is_reported() -> None:
    late, soon, open_end = (
        RetentionEstimate(how=how, until_ms=until_ms, topic=f"{how}")
        for how, until_ms in ((How.UNTIL, 9), (How.UNTIL, 3), (How.FROM, 5))
    )
    always, unknown, gone = (RetentionEstimate(how=how) for how in (How.ALWAYS, How.UNKNOWN, How.GONE))
    assert first_to_go([late, always, soon, open_end]) == soon
    assert first_to_go([late, open_end]) == open_end
    assert first_to_go([soon, unknown]) == unknown, "nothing is promised"
    assert first_to_go([dataclasses.replace(open_end, until_ms=0), unknown]) == unknown, "nor from 1970 on"
    assert first_to_go([unknown, gone]) == gone
    assert first_to_go([]).how == How.ALWAYS


# -- the settings of a topic ---------------------------------------------------------------------------------


def test_settings_that_are_missing_have_the_defaults_of_kafka() -> None:
    assert TopicSettings.parse({}) == TopicSettings(
        policy="delete",
        retention_ms=None,
        retention_bytes=None,
        uncompacted_ms=0,
        compacted_ms=None,
        tombstones_ms=DAY,
        message_bytes=None,
        behind_ms=None,
        ahead_ms=None,
        append_time=False,
        in_sync=1,
    )


@pytest.mark.parametrize("none", ["-1", "-2", str(2**63 - 1)])
def test_every_way_to_set_no_bound_is_one_value(none: str) -> None:
    names = ("retention.ms", "retention.bytes", "max.compaction.lag.ms", "message.timestamp.before.max.ms")
    assert TopicSettings.parse(dict.fromkeys(names, none)) == TopicSettings.parse({})


def test_settings_of_a_topic_are_read_as_numbers() -> None:
    found = TopicSettings.parse(
        {
            "cleanup.policy": "compact,delete",
            "retention.ms": "1",
            "retention.bytes": "0",
            "min.compaction.lag.ms": "3",
            "max.compaction.lag.ms": "4",
            "delete.retention.ms": "5",
            "max.message.bytes": "6",
            "message.timestamp.before.max.ms": "7",
            "message.timestamp.after.max.ms": "8",
            "message.timestamp.type": "LogAppendTime",
            "min.insync.replicas": "9",
        }
    )
    assert found == TopicSettings(
        policy="compact,delete",
        retention_ms=1,
        retention_bytes=0,
        uncompacted_ms=3,
        compacted_ms=4,
        tombstones_ms=5,
        message_bytes=6,
        behind_ms=7,
        ahead_ms=8,
        append_time=True,
        in_sync=9,
    )
    assert found.deletes and found.compacts


# -- what the checks are told --------------------------------------------------------------------------------

COMPACTED = {"cleanup.policy": "compact", "min.compaction.lag.ms": "5", "delete.retention.ms": "7"}


def test_what_a_changelog_promises_to_a_cut_of_some_age() -> None:
    """Only where records are deleted for their age or size those bounds count."""
    never = Keeping(age_ms=HOUR, uncompacted_ms=5, tombstones_ms=7)
    now = promised_by("t", COMPACTED | {"retention.ms": "9", "retention.bytes": "9"})
    assert keeping(now, now, age_ms=HOUR) == never


def test_what_is_promised_since_the_cut_alone_counts_for_nothing() -> None:
    """Somebody has made a lag longer when the cleaner had been there; or shorter, and it has come since."""
    weak = Retention(topic="t", uncompacted_ms=1, tombstones_ms=2, retained_ms=3)
    strong = Retention(topic="t", uncompacted_ms=10, tombstones_ms=20, retained_ms=UNBOUNDED)
    for then, now in ((weak, strong), (strong, weak), (weak, weak)):
        found = keeping(then, now, age_ms=HOUR)
        assert found == Keeping(age_ms=HOUR, uncompacted_ms=1, tombstones_ms=2, retained_ms=3)
    mixed = Retention(topic="t", uncompacted_ms=1, tombstones_ms=20, retained_ms=30)
    assert keeping(mixed, strong, age_ms=0) == Keeping(
        age_ms=0, uncompacted_ms=1, tombstones_ms=20, retained_ms=30
    )


@pytest.mark.parametrize(
    ("bounds", "retained_ms"),
    [
        ({"retention.ms": "9"}, 9),
        ({"retention.ms": "9", "retention.bytes": "-1"}, 9),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "9", "retention.bytes": "9"}, 0),
        ({"retention.ms": "-1", "retention.bytes": "9"}, 0),
    ],
)
def test_where_size_decides_what_is_deleted_no_age_is_safe(
    bounds: dict[str, str], retained_ms: int | None
) -> None:
    for policy in ("delete", "compact,delete"):
        promised = promised_by("t", COMPACTED | {"cleanup.policy": policy} | bounds)
        reported = keeping(promised, promised, age_ms=HOUR)
        assert reported.retained_ms == retained_ms


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (59_500, "59.5 s"),
        (MIN, "1 min"),
        (2 * MIN + 1, "2 min 0.001 s"),
        (HOUR + 30 * MIN, "1 h 30 min"),
        (9 * DAY + 23 * HOUR + 4 * MIN + 5_000, "9 d 23 h 4 min 5 s"),
    ],
)
def test_times_are_said_as_a_person_says_them(ms: int, said: str) -> None:
    assert format_ms(ms) == said
