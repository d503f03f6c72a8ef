"""`topics create`, and the retention of topics: whether they keep what a snapshot needs until assembly has read it, and
which settings would.

A snapshot copies nothing, so three causes may remove its records: time (`retention.ms`), size (`retention.bytes`) and
compaction (`min.compaction.lag.ms`). A changelog has to hold the state as well, however old: one that deletes by age
holds it only if the deleted records have expired anyway, as windows do. So an input must keep its records for the time
that assembly needs (`within`); the changelog of a windowed table, for that and the lifetime of its windows; any other
changelog, for ever.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from snapkafka.advice import Advice, Weight
from snapkafka.kafka.cluster.admin import administration
from snapkafka.kafka.login.connection import Connection
from snapkafka.ports import Cluster
from snapkafka.protocol.ledger_state import ProcessView
from snapkafka.topic_config import UNBOUNDED, TopicSettings
from snapkafka.units import format_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRole:
    """The role of a topic in a snapshot. `table`, `app`: of which it is the changelog (empty: an input). `expires_ms`,
    `sets`: see `protocol.records.Table`."""

    topic: str
    app: str = ""
    table: str = ""
    expires_ms: int = 0
    sets: bool = False

    @property
    def name(self) -> str:
        return f"changelog {self.topic}" if self.table else f"input {self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A problem of a topic's settings; `changes`: setting -> the value that fixes it."""

    code: str
    weight: Weight
    what: str
    changes: Mapping[str, str] = field(default_factory=dict)

    def advice(self, topic: str, own: Mapping[str, str], bootstrap: str) -> Advice:
        """Return advice, with the command that fixes it and the one that undoes that."""
        after: Mapping[str, str | None] = dict(self.changes)
        before = {name: own.get(name) for name in self.changes}
        return Advice(
            code=self.code,
            weight=self.weight,
            what=self.what,
            do="change its settings: `snapkafka doctor -v` prints the command",
            subject=topic,
            command=change_command(topic, after, bootstrap),
            undo=change_command(topic, before, bootstrap),
        )


def roles(views: Iterable[ProcessView]) -> list[TopicRole]:
    """Return the topics that snapshots of these processes need; one that is both counts as a changelog."""
    found: dict[str, TopicRole] = {}
    for view in views:
        found |= {source.topic: TopicRole(topic=source.topic) for source in view.hello.inputs}
    for view in views:
        for table in view.hello.tables:
            found[table.changelog] = TopicRole(
                topic=table.changelog,
                app=view.hello.app,
                table=table.name,
                expires_ms=table.expires_ms,
                sets=table.sets,
            )
    return [role for _, role in sorted(found.items())]


def judged(role: TopicRole, holding: Mapping[str, str], within_ms: int) -> Iterator[Shortfall]:
    """Find what is wrong with the effective settings of a topic.

    Args:
        within_ms: how long after a snapshot assembly has read everything.
    """
    settings = TopicSettings.parse(holding)
    if role.table and not role.expires_ms:
        finding = _state_is_lost(role, settings, within_ms)
        if finding is not None:
            yield finding
            return
    elif settings.deletes:
        yield from _deleted_too_soon(role, settings, within_ms)
    lag_ms = settings.uncompacted_ms
    if settings.compacts and lag_ms < within_ms:
        yield Shortfall(
            code="compaction",
            weight=Weight.WARNING,
            what=f"Kafka may compact {role.name} {f'after {format_ms(lag_ms)}' if lag_ms else 'at once'} "
            f"(min.compaction.lag.ms={lag_ms}): late assembly may lose values",
            changes={"min.compaction.lag.ms": str(within_ms)},
        )


def _state_is_lost(role: TopicRole, settings: TopicSettings, within_ms: int) -> Shortfall | None:
    """Find a changelog that has to hold all of the state, and does not."""
    bounds: dict[str, str] = {}
    if settings.retention_ms is not None:
        bounds["retention.ms"] = format_ms(settings.retention_ms)
    if settings.retention_bytes is not None:
        bounds["retention.bytes"] = f"{settings.retention_bytes:,} bytes a partition"
    unbounded = dict.fromkeys(bounds, str(UNBOUNDED))
    if role.sets and settings.compacts:
        return Shortfall(
            code="sets-compacted",
            weight=Weight.PROBLEM,
            what=f"{role.name} of a table of sets has cleanup.policy={settings.policy}:"
            " compaction loses members of sets",
            changes={"cleanup.policy": "delete"} | unbounded,
        )
    if not settings.deletes or not unbounded:
        return None
    changes = unbounded
    if not role.sets:  # as Faust makes it
        changes = {"cleanup.policy": "compact"}
        if settings.uncompacted_ms < within_ms:
            changes["min.compaction.lag.ms"] = str(within_ms)
    kind = "a table of sets" if role.sets else f"table {role.table}"
    return Shortfall(
        code="state-deleted",
        weight=Weight.PROBLEM,
        what=f"{role.name} of {kind} has cleanup.policy={settings.policy} and keeps {' and '.join(bounds.values())}:"
        " older keys are lost",
        changes=changes,
    )


def _deleted_too_soon(role: TopicRole, settings: TopicSettings, within_ms: int) -> Iterator[Shortfall]:
    retention_ms, needed_ms = settings.retention_ms, within_ms + role.expires_ms
    if retention_ms is not None and retention_ms < needed_ms:
        need = f"assembly needs them for {format_ms(needed_ms)}"
        if role.expires_ms:
            need += f" (windows of {format_ms(role.expires_ms)}, and {format_ms(within_ms)} until it has read them)"
        yield Shortfall(
            code="retention",
            weight=Weight.PROBLEM,
            what=f"{role.name} keeps records for {format_ms(retention_ms)}, {need}",
            changes={"retention.ms": str(needed_ms)},
        )
    if (size := settings.retention_bytes) is not None:
        yield Shortfall(
            code="retention-bytes",
            weight=Weight.WARNING,
            what=f"{role.name} keeps {size:,} bytes of a partition: under load less than the {format_ms(needed_ms)}"
            " that assembly needs",
            changes={"retention.bytes": str(UNBOUNDED)},
        )


def change_command(topic: str, changes: Mapping[str, str | None], bootstrap: str) -> str:
    """Return Kafka's command that makes these settings of a topic; None removes a setting from the topic itself."""
    add = ",".join(
        f"{name}={f'[{value}]' if ',' in value else value}"
        for name, value in changes.items()
        if value is not None
    )
    delete = ",".join(name for name, value in changes.items() if value is None)
    return (
        f"kafka-configs.sh --bootstrap-server {bootstrap} --alter --entity-type topics --entity-name {topic}"
        + (f" --add-config {add}" if add else "")
        + (f" --delete-config {delete}" if delete else "")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """A topic as it is now. `created`: False where it existed before; then nothing was changed. `other`: its own values
    of the settings that were asked for and that it does not have; empty text: it has no such setting."""

    topic: str
    created: bool
    partitions: int
    compacted: bool
    other: Mapping[str, str]


async def create_topics(
    where: Connection | Cluster,
    names: Collection[str],
    *,
    partitions: int = 1,
    settings: Mapping[str, str] | None = None,
) -> tuple[CreatedTopic, ...]:
    """Create topics, and wait until they are visible. If one is refused, create none.

    Topics that exist stay as they are.

    Args:
        settings: by Kafka's names.

    Raises:
        BrokerUnavailableError: no broker answers.
        LedgerUnusableError: unauthorized, or the broker refuses one, with its own reason.
    """
    wanted = settings or {}
    async with administration(where) as admin:
        for name in names:
            await admin.create_topic(name, partitions=partitions, settings=wanted, validate_only=True)
        created = {
            name: await admin.create_topic(name, partitions=partitions, settings=wanted) for name in names
        }
        described = await admin.describe_topics(created)
        found = []
        for name, is_new in created.items():
            now, _ = await admin.topic_settings(name)
            found.append(
                CreatedTopic(
                    topic=name,
                    created=is_new,
                    partitions=described[name].partitions,
                    compacted=TopicSettings.parse(now).compacts,
                    other={key: now.get(key, "") for key, value in wanted.items() if now.get(key) != value},
                )
            )
        return tuple(found)
