"""The settings of a topic that a restore or a fork has created, which would delete or refuse the appended records.

The effective settings *after* its creation are judged, so the defaults of its broker are among them: records in flight
keep their old timestamps, and a broker may refuse them, or delete them within minutes, by defaults as well. A setting
that can be changed is changed and listed; the others are reasons to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from snapkafka.topic_config import TopicSettings

from .record_refusals import AFTER, BEFORE, CATCH_UP_MS, HEADER_BYTES, OVERHEAD_BYTES
from .target_facts import Carried, Refusal

#: Of brokers before 3.6: it bounds both sides of the broker's clock.
DIFFERENCE: Final = "message.timestamp.difference.max.ms"
#: No record may be larger: the size of a batch is a signed number of 32 bits in Kafka's protocol.
BATCH_BYTES_MAX: Final = 2**31 - 1
#: In settings of times: no bound.
ENDLESS: Final = str(2**63 - 1)
#: In settings of retention: no bound.
FOREVER: Final = "-1"


class Fitting(NamedTuple):
    """The settings to change on a new topic, and the reasons to refuse it."""

    changes: Mapping[str, str]
    refusals: tuple[Refusal, ...] = ()


def fit_input(
    topic: str, holding: Mapping[str, str], carried: Carried, *, now_ms: int, recorded: Mapping[str, str]
) -> Fitting:
    """Find the settings that would delete or refuse the messages that are appended to a new input with their own
    timestamps.

    Args:
        holding: all its effective settings.
        carried: the messages.
        now_ms: by the broker's clock.
        recorded: settings on the topic of the snapshot itself.
    """
    if refused := _unfit(topic, holding, carried.largest):
        return Fitting({}, refused)
    changes = dict(_sizes(holding, carried.largest if carried.records else 0))
    if TopicSettings.parse(holding).compacts and "compact" not in recorded.get("cleanup.policy", ""):
        changes["cleanup.policy"] = "delete"  # else messages of one key, or without a key, would be lost
    if not carried.records:
        return Fitting(changes)
    settings = TopicSettings.parse({**holding, **changes})
    size = carried.bytes + carried.records * (HEADER_BYTES + OVERHEAD_BYTES)
    if settings.deletes and settings.retention_bytes is not None and settings.retention_bytes < size:
        changes["retention.bytes"] = FOREVER
    if settings.append_time:
        return Fitting(changes)  # times are those of the append
    age_ms, ahead_ms = now_ms - carried.oldest_ms, carried.youngest_ms - now_ms
    match settings.retention_ms:
        case int(kept_ms) if settings.deletes and kept_ms - age_ms < min(CATCH_UP_MS, kept_ms // 2):
            changes["retention.ms"] = FOREVER
    for name, beyond in ((BEFORE, age_ms), (AFTER, ahead_ms), (DIFFERENCE, max(age_ms, ahead_ms))):
        if 0 <= int(holding.get(name, -1)) < beyond:
            changes[name] = ENDLESS
    return Fitting(changes)


def fit_plain_changelog(topic: str, holding: Mapping[str, str], largest: int) -> Fitting:
    """Find the settings that would lose or refuse the rows of a table; its changelog is compacted, whatever was
    recorded.

    If records are deleted by age as well, as Faust does for windows, state is lost that no app writes again.

    Args:
        largest: the size of the largest row (bytes).
    """
    return _changelog(topic, holding, largest, {"cleanup.policy": "compact"})


def fit_set_changelog(topic: str, holding: Mapping[str, str], largest: int) -> Fitting:
    """Find the settings that would lose or refuse the members of a table of sets; its changelog keeps every record.

    It holds changes of members under the key of their set, of which compaction would keep only the last.

    Args:
        largest: the size of the largest row (bytes).
    """
    kept = {"cleanup.policy": "delete", "retention.ms": FOREVER, "retention.bytes": FOREVER}
    return _changelog(topic, holding, largest, kept)


def _changelog(topic: str, holding: Mapping[str, str], largest: int, wanted: Mapping[str, str]) -> Fitting:
    if refused := _unfit(topic, holding, largest):
        return Fitting({}, refused)
    changes = {name: value for name, value in wanted.items() if holding.get(name) != value}
    return Fitting(changes | dict(_sizes(holding, largest)))


def _unfit(topic: str, holding: Mapping[str, str], largest: int) -> tuple[Refusal, ...]:
    """Find the problems that no setting solves."""
    if not holding:
        return (
            Refusal(
                code="settings-unknown",
                what=f"the settings of the new topic {topic} cannot be read, so its broker may delete what is appended",
                hint=f"grant DescribeConfigs on {topic}, and run the same command again",
            ),
        )
    if _needed(largest) > BATCH_BYTES_MAX:
        return (
            Refusal(
                code="record-too-large",
                what=f"a record of {largest:,} bytes for {topic} does not fit with its header into any topic",
                hint="suppress its key, or choose another snapshot",
            ),
        )
    return ()


def _sizes(holding: Mapping[str, str], largest: int) -> Iterator[tuple[str, str]]:
    limit = TopicSettings.parse(holding).message_bytes
    if largest and limit is not None and limit < _needed(largest):
        yield "max.message.bytes", str(_needed(largest))


def _needed(largest: int) -> int:
    """Compute the size of a batch of one record, at most."""
    return largest + HEADER_BYTES + OVERHEAD_BYTES
