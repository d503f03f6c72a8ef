"""Facts about the cluster that a snapshot goes to, and a reason to refuse it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snapkafka.protocol.records import Hello, TopicPartition
from snapkafka.topic_config import TopicSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason to refuse a restore. `code` is stable; `forceable`: `--force` overrides it."""

    code: str
    what: str
    hint: str
    forceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic at present. `settings`: Kafka's defaults where unauthorized."""

    topic_id: str
    partitions: int
    settings: TopicSettings = field(default_factory=lambda: TopicSettings.parse({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Records that would be appended to a topic with their own timestamps (ms): their number, the oldest and the
    youngest time, and the largest size of key, value and headers together (bytes)."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    youngest_ms: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about the target cluster of a snapshot.

    `ledger_topic_id`: of the ledger there. `files`: what is wrong with the files; empty: they are as they were
    written. `topics`: by name, those that exist. `starts`, `ends`: of the logs. `members`: workers of each app.
    `carried`: by input topic, what the table `messages` would append. `state_largest`: by changelog, the largest row.
    `hellos`: the latest of each app. `other_plan`: another restore that is open, as a phrase; empty: none.
    """

    ledger_topic_id: str
    now_ms: int
    topics: Mapping[str, TopicFacts]
    starts: Mapping[TopicPartition, int]
    members: Mapping[str, int]
    hellos: Mapping[str, Hello]
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    files: str = ""
    carried: Mapping[str, Carried] = field(default_factory=dict)
    state_largest: Mapping[str, int] = field(default_factory=dict)
    other_plan: str = ""
