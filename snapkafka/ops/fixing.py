"""`doctor --fix`: change settings of topics that would spoil a snapshot, after confirmation.

There are two verbs: `plan_fixes` lists for each topic the changes, their cost and the command that undoes them;
`apply_fixes` makes exactly these changes, incrementally, and reads the settings back. A setting that has changed since
the plan is left as it is. Nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from snapkafka.errors import SnapkafkaError
from snapkafka.kafka.ledger.reading import Opened, latest_of_apps, opened
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.topic_config import TopicSettings
from snapkafka.units import DAY_MS, format_bytes, wall_ms

from .doctoring import ASSEMBLY_WITHIN_MS
from .topic_settings import TopicRole, change_command, judged, roles


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One setting of a topic. `before`: its effective value, `own`: the value on the topic itself (None: there is
    none, the value comes from the broker)."""

    setting: str
    before: str
    own: str | None
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFix:
    """The planned changes of one topic.

    `why`: the problems, a sentence each. `keeps`: what it will keep longer, in words; `keeps_bytes`: in bytes on each
    replica, None if unbounded or unknown. `undo`: the command that undoes it.
    """

    topic: str
    changes: tuple[Change, ...]
    why: tuple[str, ...]
    keeps: str
    keeps_bytes: int | None
    undo: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedFix:
    """The result of a `PlannedFix`. `now`: the effective values afterwards, as read back; `refused`: why nothing was
    changed."""

    topic: str
    now: Mapping[str, str]
    done: bool
    refused: str = ""
    undo: str = ""


async def plan_fixes(
    where: Connection | Cluster, namespace: str, *, assembly_within_ms: int = ASSEMBLY_WITHIN_MS
) -> tuple[PlannedFix, ...]:
    """Plan the changes that `apply_fixes` would make. Change nothing."""
    async with opened(where, namespace) as work:
        needed = roles(latest_of_apps(work.reading.state))
        there = await work.admin.describe_topics([role.topic for role in needed]) if needed else {}
        planned = [await _planned(work, role, assembly_within_ms) for role in needed if role.topic in there]
        return tuple(planned_fix for planned_fix in planned if planned_fix is not None)


async def _planned(work: Opened, role: TopicRole, within_ms: int) -> PlannedFix | None:
    holding, own = await work.admin.topic_settings(role.topic)
    found = list(judged(role, holding, within_ms))
    after = {name: value for finding in found for name, value in finding.changes.items()}
    if not after:
        return None
    changes = tuple(
        Change(setting=name, before=holding.get(name, ""), own=own.get(name), after=value)
        for name, value in after.items()
    )
    keeps, keeps_bytes = await _growth(work, role.topic, holding, after)
    return PlannedFix(
        topic=role.topic,
        changes=changes,
        why=tuple(finding.what for finding in found),
        keeps=keeps,
        keeps_bytes=keeps_bytes,
        undo=change_command(role.topic, {change.setting: change.own for change in changes}, work.bootstrap),
    )


async def apply_fixes(
    where: Connection | Cluster, namespace: str, planned: tuple[PlannedFix, ...]
) -> tuple[AppliedFix, ...]:
    """Make these changes and no others, and read the settings back. A refused change does not stop the others."""
    async with opened(where, namespace) as work:
        return tuple([await _apply(work, planned_fix) for planned_fix in planned])


async def _apply(work: Opened, planned_fix: PlannedFix) -> AppliedFix:
    topic, wanted = planned_fix.topic, {change.setting: change.after for change in planned_fix.changes}
    now: dict[str, str] = {}
    try:
        now = await _now(work, planned_fix)
        if moved := [
            f"{c.setting} is {now[c.setting]}" for c in planned_fix.changes if now[c.setting] != c.before
        ]:
            why = f"{' and '.join(moved)} now, which differs from the plan"
            return AppliedFix(topic=topic, now=now, done=False, refused=why)
        await work.admin.alter_settings(topic, dict(wanted))
        now = await _now(work, planned_fix)
    except SnapkafkaError as error:
        return AppliedFix(topic=topic, now=now, done=False, refused=f"{error} ({error.advice})")
    if now != wanted:
        why = "the broker accepted the change, but reports another value: retry in a moment"
        return AppliedFix(topic=topic, now=now, done=False, refused=why, undo=planned_fix.undo)
    return AppliedFix(topic=topic, now=now, done=True, undo=planned_fix.undo)


async def _now(work: Opened, planned_fix: PlannedFix) -> dict[str, str]:
    holding, _ = await work.admin.topic_settings(planned_fix.topic)
    return {change.setting: holding.get(change.setting, "") for change in planned_fix.changes}


# -- what it costs --------------------------------------------------------------------------------------------


async def _growth(
    work: Opened, topic: str, before: Mapping[str, str], changes: Mapping[str, str]
) -> tuple[str, int | None]:
    """Estimate what is kept longer, in words and in bytes, from the size and the age of the present records."""
    try:
        size = sum((await work.admin.log_bytes(topic)).values())
        oldest_ms = await work.admin.oldest_ms(topic)
    except SnapkafkaError as error:
        return f"unknown: {error}", None
    now_ms = wall_ms()
    if not size or oldest_ms is None or oldest_ms >= now_ms:
        return "unknown: the topic is empty", None
    a_day = size * DAY_MS // max(1_000, now_ms - oldest_ms)  # under a second tells nothing of a day
    parts = list(_parts(before, changes, a_day))
    said = "; ".join(words for words, _ in parts)
    known = [count for _, count in parts if count is not None]
    return said, sum(known) if len(known) == len(parts) else None


def _parts(
    before: Mapping[str, str], changes: Mapping[str, str], a_day: int
) -> Iterator[tuple[str, int | None]]:
    """Estimate the growth of each change, at the rate so far: `a_day` bytes a day."""
    retention_ms = TopicSettings.parse({**before, **changes}).retention_ms
    for setting, after in changes.items():
        if setting == "retention.ms" and int(after) >= 0:
            more = a_day * (int(after) - int(before["retention.ms"])) // DAY_MS
            yield f"about {format_bytes(more)} on each replica, at its present growth", more
        elif setting == "retention.ms" or (setting == "retention.bytes" and retention_ms is None):
            yield (
                f"without bound: about {format_bytes(a_day)} a day on each replica, at its present growth",
                None,
            )
        elif setting == "retention.bytes" and retention_ms is not None:
            yield f"the records of {retention_ms / DAY_MS:g} days: about {format_bytes(a_day)} a day", None
        elif setting == "min.compaction.lag.ms":
            yield "what compaction would have removed in that time: unknown", None
        else:
            yield "the last record of every key, permanently: unknown", None
