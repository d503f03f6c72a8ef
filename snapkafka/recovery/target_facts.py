"""Facts about the cluster that a snapshot goes to, and a reason to refuse it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PlanKind = Literal["in-place", "cluster", "fork"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason to refuse a restore. `code` is stable; `forceable`: `--force` overrides it."""

    code: str
    what: str
    hint: str
    forceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic at present."""

    topic_id: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Records that would be appended to a topic with their own timestamps (ms): their number and bytes, the oldest and
    the youngest time, and the largest size of key, value and headers together (bytes)."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    youngest_ms: int = 0
    largest: int = 0
