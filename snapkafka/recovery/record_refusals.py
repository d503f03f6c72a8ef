"""Refusals for the sake of single records: too large, too old, or without a place in the target."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from snapkafka.protocol.captured_snapshot import Captured
from snapkafka.protocol.records import FOREIGN_STATE
from snapkafka.topic_config import TopicSettings

from .target_facts import Facts, Refusal

#: Our header on a record that is appended again, with its name and lengths.
HEADER_BYTES: Final = 32
#: Kafka's own of a record and its batch, at most.
OVERHEAD_BYTES: Final = 100
#: The name of Kafka's setting -> which side of the broker's clock it bounds.
BEFORE: Final = "message.timestamp.before.max.ms"
AFTER: Final = "message.timestamp.after.max.ms"
#: Apps have so long to catch up before their messages may be deleted, or half of what the topic keeps, if that is less.
CATCH_UP_MS: Final = 86_400_000


def record_refusals(facts: Facts) -> Iterator[Refusal]:
    """Find the settings of topics that would refuse or delete appended records."""
    for topic, carried in sorted(facts.carried.items()):
        now = facts.topics.get(topic)
        if now is None or not carried.records:
            continue
        yield from _too_large(topic, carried.largest, now.settings)
        if now.settings.append_time:
            continue
        age_ms, ahead_ms = facts.now_ms - carried.oldest_ms, carried.youngest_ms - facts.now_ms
        behind, ahead, retention = now.settings.behind_ms, now.settings.ahead_ms, now.settings.retention_ms
        if behind is not None and age_ms > behind:
            yield _timestamp(topic, BEFORE, behind, f"is {age_ms:,} ms old")
        if ahead is not None and ahead_ms > ahead:
            yield _timestamp(topic, AFTER, ahead, f"lies {ahead_ms:,} ms ahead")
        if now.settings.deletes and retention is not None and age_ms > retention:
            yield Refusal(
                code="retention",
                what=f"a record in flight to {topic} is {age_ms:,} ms old: retention.ms={retention} would delete it",
                hint=f"raise retention.ms of {topic} until the apps have caught up",
            )
    for topic, largest in sorted(facts.state_largest.items()):
        if topic in facts.topics:
            yield from _too_large(topic, largest, facts.topics[topic].settings)


def _timestamp(topic: str, setting: str, value: int, how: str) -> Refusal:
    return Refusal(
        code="timestamps",
        what=f"the timestamp of a record in flight to {topic} {how}, and {setting}={value}",
        hint=f"raise {setting} of {topic} for the restore",
    )


def _too_large(topic: str, largest: int, settings: TopicSettings) -> Iterator[Refusal]:
    limit = settings.message_bytes
    if limit is not None and largest + HEADER_BYTES + OVERHEAD_BYTES > limit:
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
