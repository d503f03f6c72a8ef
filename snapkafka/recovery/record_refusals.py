"""Refusals for the sake of single records: too large, too old, or without a place in the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import FOREIGN_STATE

from .target_facts import Facts, Refusal, TopicFacts

#: Our header on a record that is appended again, with its name and lengths.
HEADER_BYTES: Final = 32


#: Kafka's own of a record and its batch, at most.
OVERHEAD_BYTES: Final = 100


#: The name of Kafka's setting -> which side of the broker's clock it bounds.
BEFORE: Final = "message.timestamp.before.max.ms"


AFTER: Final = "message.timestamp.after.max.ms"


#: Apps have so long to catch up before their messages may be deleted, or half of what the topic keeps, if that is less.
CATCH_UP_MS: Final = 86_400_000


UNBOUNDED: Final = (-1, 2**63 - 1)


def record_refusals(facts: Facts) -> Iterator[Refusal]:
    """Find the settings of topics that would refuse or delete appended records."""
    for topic, carried in sorted(facts.carried.items()):
        now = facts.topics.get(topic)
        if now is None or not carried.records:
            continue
        age_ms, ahead_ms = facts.now_ms - carried.oldest_ms, carried.youngest_ms - facts.now_ms
        own_time = now.settings.get("message.timestamp.type", "CreateTime") == "CreateTime"
        before, after = now.number(BEFORE, -1), now.number(AFTER, -1)
        if own_time and before not in UNBOUNDED and age_ms > before:
            yield _timestamp(topic, BEFORE, before, f"is {age_ms:,} ms old")
        if own_time and after not in UNBOUNDED and ahead_ms > after:
            yield _timestamp(topic, AFTER, after, f"lies {ahead_ms:,} ms ahead")
        retention = now.number("retention.ms", -1)
        if (
            own_time
            and retention != -1
            and "delete" in now.settings.get("cleanup.policy", "delete")
            and age_ms > retention
        ):
            yield Refusal(
                code="retention",
                what=f"a record in flight to {topic} is {age_ms:,} ms old: retention.ms={retention} would delete it",
                hint=f"raise retention.ms of {topic} until the apps have caught up",
            )
        yield from _too_large(topic, carried.largest, now)
    for topic, largest in sorted(facts.state_largest.items()):
        if topic in facts.topics:
            yield from _too_large(topic, largest, facts.topics[topic])


def expiring(facts: Facts) -> Iterator[tuple[str, int]]:
    """Find the inputs whose oldest record in flight may be deleted before the apps catch up: topic, and the remaining
    time (ms)."""
    for topic, carried in sorted(facts.carried.items()):
        now = facts.topics.get(topic)
        if now is None or not carried.records or "delete" not in now.settings.get("cleanup.policy", "delete"):
            continue
        retention_ms = now.number("retention.ms", -1)
        if retention_ms < 0 or now.settings.get("message.timestamp.type", "CreateTime") != "CreateTime":
            continue
        left_ms = retention_ms - (facts.now_ms - carried.oldest_ms)
        if 0 <= left_ms < min(CATCH_UP_MS, retention_ms // 2):
            yield topic, left_ms


def _timestamp(topic: str, setting: str, value: int, how: str) -> Refusal:
    return Refusal(
        code="timestamps",
        what=f"the timestamp of a record in flight to {topic} {how}, and {setting}={value}",
        hint=f"raise {setting} of {topic} for the restore",
    )


def _too_large(topic: str, largest: int, now: TopicFacts) -> Iterator[Refusal]:
    limit = now.number("max.message.bytes", 0)
    if limit and largest + HEADER_BYTES + OVERHEAD_BYTES > limit:
        yield Refusal(
            code="record-too-large",
            what=f"a record of {largest:,} bytes for {topic} does not fit with its header: max.message.bytes={limit}",
            hint=f"raise max.message.bytes of {topic} by {HEADER_BYTES + OVERHEAD_BYTES} bytes",
        )


def _foreign(captured: Captured) -> Iterator[Refusal]:
    """Refuse the state of a process without Kafka: appended to its topic it would change nothing."""
    for app in sorted({c.app for c in captured.changelogs if c.topic.startswith(FOREIGN_STATE)}):
        yield Refusal(
            code="foreign-process",
            what=f"{app} does not speak Kafka: its state cannot be set back from here",
            hint=f"choose a snapshot without it; `snapkafka query` reads its state (table state, app {app})",
        )
