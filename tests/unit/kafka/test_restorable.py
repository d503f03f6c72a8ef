"""How long a snapshot can be made again from the log: which topic loses first what it needs, when, and why."""

import dataclasses
from typing import Any

import pytest

from snapkafka.checks import CutView, Keeping, LogBounds
from snapkafka.errors import BrokerUnavailableError, LedgerUnusableError, SnapkafkaError
from snapkafka.kafka.cluster.restorable import (
    LAST_MS,
    How,
    Need,
    estimate_retention,
    first_to_go,
    keeping,
    needs,
    restorable,
)
from snapkafka.manifest import RestorableEntry
from snapkafka.protocol import Retention, TopicPartition
from snapkafka.protocol.captured_snapshot import ChangelogCut, SenderEnd
from snapkafka.topic_config import FOR_EVER_MS, UNBOUNDED, TopicSettings, promised_by
from snapkafka.units import iso_time
from tests.worlds.fakes import FakeAdmin
from tests.worlds.little_log import CAPTURED
from tests.worlds.on_disk import read_up_to

MIN, HOUR, DAY = 60_000, 3_600_000, 86_400_000
CUT = 1_800_000_000_000
NOW = CUT + MIN
IN, LOG = TopicPartition("orders", 0), TopicPartition("stock-changelog", 0)
INPUT = Need(tp=IN, start=10, end=20)
STATE = Need(tp=LOG, start=0, end=50, state=True)


def test_of_an_input_what_was_unread_and_of_a_changelog_all_of_it() -> None:
    source = dataclasses.replace(read_up_to("orders", 0, 10), app="a", log_end=12)
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


WINDOWS = STATE._replace(expires_ms=HOUR)
SETS = STATE._replace(sets=True)
KEPT = {"retention.ms": "-1"}
DELETED = {"cleanup.policy": "delete", "retention.ms": str(3 * HOUR)}
COMPACT = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(HOUR)}
BOTH = {"cleanup.policy": "compact,delete", "min.compaction.lag.ms": str(DAY)}


def kept(ms: int) -> dict[str, str]:
    return {"cleanup.policy": "delete", "retention.ms": str(ms)}


@pytest.mark.parametrize(
    ("need", "holding", "log", "how", "until_ms"),
    [
        # From its first unread record on; if there is none, from now on.
        (INPUT, kept(HOUR), {"first_ms": CUT - 5 * MIN}, How.UNTIL, CUT + 55 * MIN),
        (INPUT, kept(HOUR), {}, How.UNTIL, NOW + HOUR),
        (INPUT, kept(-1), {"first_ms": CUT}, How.ALWAYS, None),
        (STATE, kept(FOR_EVER_MS + 1), {"first_ms": 0}, How.ALWAYS, None),
        # A changelog loses its oldest value first; of windows only those count that lived at the cut.
        (STATE, kept(DAY), {"first_ms": CUT - 23 * HOUR}, How.UNTIL, CUT + HOUR),
        (WINDOWS, DELETED, {"first_ms": CUT - 9 * HOUR}, How.UNTIL, CUT + 2 * HOUR),
        (WINDOWS, DELETED, {}, How.UNTIL, CUT + 2 * HOUR),
        (WINDOWS, DELETED, {"first_ms": CUT - 10 * MIN}, How.UNTIL, CUT + 3 * HOUR - 10 * MIN),
        # Clocks that are beside themselves.
        (INPUT, kept(DAY), {"first_ms": -(2**62)}, How.UNTIL, 0),
        (INPUT, kept(DAY), {"first_ms": 2**62}, How.UNTIL, LAST_MS),
        # A bound on bytes may be reached at any time.
        (INPUT, KEPT | {"retention.bytes": "2700"}, {"first_ms": NOW - HOUR}, How.FROM, NOW),
        # Of a compacted changelog only the earliest time is known; where every record counts the next may replace it.
        (STATE, COMPACT | {"retention.ms": "1"}, {"first_ms": CUT - DAY}, How.FROM, CUT + HOUR),
        (STATE, {"cleanup.policy": "compact", "max.compaction.lag.ms": str(DAY)}, {}, How.FROM, CUT),
        (STATE, COMPACT | {"min.compaction.lag.ms": str(2**63 - 1)}, {}, How.ALWAYS, None),
        (INPUT, COMPACT, {"first_ms": CUT - DAY}, How.FROM, CUT - DAY + HOUR),
        (SETS, COMPACT, {"first_ms": CUT - DAY}, How.FROM, CUT - DAY + HOUR),
        # Compacted and deleted: by what is first.
        (STATE, BOTH | {"retention.ms": str(HOUR)}, {"first_ms": CUT}, How.UNTIL, CUT + HOUR),
        (STATE, BOTH | {"retention.ms": str(9 * DAY)}, {"first_ms": CUT}, How.FROM, CUT + DAY),
        # Gone.
        (INPUT, {}, {"start": 11}, How.GONE, None),
        (INPUT, KEPT, {"start": 10}, How.ALWAYS, None),
        (STATE, KEPT, {"start": 51}, How.GONE, None),
        (STATE, KEPT, {"start": 50}, How.ALWAYS, None),
    ],
)
def test_how_long_a_topic_holds_what_is_needed(
    need: Need, holding: dict[str, str], log: dict[str, Any], how: How, until_ms: int | None
) -> None:
    bounds, settings = LogBounds(start=log.pop("start", 0), end=100), TopicSettings.parse(holding)
    dates = {"first_ms": None, **log}
    found = estimate_retention(need, bounds, settings, cut_ms=CUT, now_ms=NOW, **dates)
    assert (found.how, found.until) == (how, "" if until_ms is None else iso_time(until_ms))
    if how not in (How.ALWAYS, How.GONE):
        assert (found.topic, found.partition) == need.tp
        assert any(word in found.why for word in (*holding, "compacted")), "it names what decides"


def test_the_first_to_go_is_reported() -> None:
    late, soon, open_end = (
        RestorableEntry(how=how, until=iso_time(until_ms), topic=f"{how}")
        for how, until_ms in ((How.UNTIL, 9), (How.UNTIL, 3), (How.FROM, 5))
    )
    always, unknown, gone = (RestorableEntry(how=how) for how in (How.ALWAYS, How.UNKNOWN, How.GONE))
    assert first_to_go([late, always, soon, open_end]) == soon
    assert first_to_go([late, open_end]) == open_end
    assert first_to_go([soon, unknown]) == unknown, "nothing is promised"
    assert first_to_go([unknown, gone]) == gone
    assert first_to_go([]).how == How.ALWAYS


def test_settings_of_a_topic_are_numbers_and_have_the_defaults_of_kafka() -> None:
    """Every way to set no bound is one value."""
    nothing = dict.fromkeys(("retention_ms", "retention_bytes", "compacted_ms", "message_bytes"))
    defaults = TopicSettings(
        policy="delete", uncompacted_ms=0, tombstones_ms=DAY, append_time=False, in_sync=1, **nothing
    )
    names = ("retention.ms", "retention.bytes", "max.compaction.lag.ms")
    for none in ("-1", "-2", str(2**63 - 1)):
        assert TopicSettings.parse(dict.fromkeys(names, none)) == defaults == TopicSettings.parse({})
    texts = {"retention.bytes": "0", "retention.ms": "1", "min.compaction.lag.ms": "2"}
    texts |= {"max.compaction.lag.ms": "3", "delete.retention.ms": "4", "max.message.bytes": "5"}
    texts |= {"min.insync.replicas": "6", "message.timestamp.type": "LogAppendTime"}
    assert TopicSettings.parse(texts) == TopicSettings(
        policy="delete", retention_bytes=0, retention_ms=1, uncompacted_ms=2, compacted_ms=3, tombstones_ms=4,
        message_bytes=5, in_sync=6, append_time=True,
    )  # fmt: skip


def test_what_is_promised_since_the_cut_alone_counts_for_nothing() -> None:
    """Somebody has made a lag longer when the cleaner had been there; or shorter, and it has come since."""
    weak = Retention(topic="t", uncompacted_ms=1, tombstones_ms=20, retained_ms=3)
    strong = Retention(topic="t", uncompacted_ms=10, tombstones_ms=2, retained_ms=UNBOUNDED)
    for then, now in ((weak, strong), (strong, weak)):
        found = keeping(then, now, age_ms=HOUR)
        assert found == Keeping(age_ms=HOUR, uncompacted_ms=1, tombstones_ms=2, retained_ms=3)


@pytest.mark.parametrize(
    ("bounds", "retained_ms"),
    [
        ({"retention.ms": "9"}, 9),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": "9", "retention.bytes": "9"}, 0),
        ({"retention.ms": "-1", "retention.bytes": "9"}, 0),
    ],
)
def test_where_size_decides_deletion_no_age_is_safe(bounds: dict[str, str], retained_ms: int | None) -> None:
    """Where a cleaner alone decides, those bounds do not count."""
    for policy, kept_ms in (("delete", retained_ms), ("compact,delete", retained_ms), ("compact", None)):
        promised = promised_by("t", {"cleanup.policy": policy, **bounds})
        assert keeping(promised, promised, age_ms=HOUR).retained_ms == kept_ms


@pytest.mark.parametrize("error", [LedgerUnusableError, BrokerUnavailableError])
async def test_what_cannot_be_looked_at_is_unknown_and_no_error(error: type[SnapkafkaError]) -> None:
    found = await restorable(FakeAdmin(failure=error("no right")), CAPTURED, cut_ms=CUT, now=lambda: NOW)
    assert (found.how, found.why) == (How.UNKNOWN, "no right")
