"""Why a restore would not be done: every reason by a stable code, found before anything is changed.

The checks are pure: `Facts` is what the cluster, the ledger and the files state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from snapkafka.manifest import Manifest
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, InputCut
from snapkafka.protocol.records import FOREIGN_STATE, Hello, TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire import headers as wire

from .code_changes import changed_parts, missing_parts
from .positions import parts_of

if TYPE_CHECKING:
    from .channels import Channel

__all__ = [
    "Carried",
    "Facts",
    "Refusal",
    "TopicFacts",
    "code_refusals",
    "copy_refusals",
    "expiring",
    "external_refusals",
    "member_refusals",
    "record_refusals",
    "refusals",
    "replacing_refusals",
    "unstamped_refusals",
]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a restore is refused. `code` is stable; `forceable`: `--force` overrides it."""

    code: str
    what: str
    hint: str
    forceable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicFacts:
    """A topic as it is now. `settings`: all that hold for it; empty: they may not be read."""

    topic_id: str
    partitions: int
    settings: Mapping[str, str] = field(default_factory=dict)

    def number(self, name: str, default: int) -> int:
        """A setting as a number."""
        return int(self.settings.get(name, default))


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """Records that would be appended to a topic with their own timestamps (ms): how many, the oldest and the youngest
    time, and the largest size of key, value and headers together (bytes)."""

    records: int = 0
    bytes: int = 0
    oldest_ms: int = 0
    youngest_ms: int = 0
    largest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Facts about the cluster that a snapshot goes to.

    `ledger_topic_id`: of the ledger that is there. `files`: what is wrong with the files; empty: they are as they were
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


def refusals(
    manifest: Manifest,
    facts: Facts,
    lowest: Mapping[TopicPartition, int],
    *,
    part: bool = False,
) -> Iterator[Refusal]:
    """Find every reason to refuse a restore in place, the most informative first.

    Args:
        lowest: the lowest position of each input partition.
        part: only some apps are restored: what others have sent is to be read again, like external records.
    """
    captured = manifest.captured
    yield from _snapshot(manifest, facts)
    yield from _read_changelogs(captured, "restored")
    yield from _topics(parts_of(captured), facts.topics)
    yield from _logs(manifest, facts.starts, lowest, part=part)
    yield from record_refusals(facts)
    yield from _foreign(captured)
    yield from _code(captured, facts)
    yield from member_refusals(facts.members)


def copy_refusals(manifest: Manifest, files: str, *, done: str) -> Iterator[Refusal]:
    """Find what speaks against the copy of a snapshot into empty topics.

    Args:
        files: what is wrong with the files; empty: nothing.
        done: what would be done with it, a participle.
    """
    captured = manifest.captured
    yield from _verdict(manifest)
    if files:
        yield Refusal(code="files", what=files, hint="choose another snapshot, or assemble this one again")
    if not parts_of(captured):
        yield Refusal(
            code="no-apps",
            what=f"snapshot {manifest.id} has no app with inputs or tables",
            hint="choose one that was taken while workers ran",
        )
    yield from _read_changelogs(captured, done)
    yield from _foreign(captured)
    yield from _set_codecs(captured, done)


def _verdict(manifest: Manifest) -> Iterator[Refusal]:
    if manifest.verdict not in ("VERIFIED", "VERIFIED_OPEN"):
        yield Refusal(
            code="verdict",
            what=f"snapshot {manifest.id} is {manifest.verdict or 'not verified'}",
            hint="choose a VERIFIED snapshot (`snapkafka list`), or add --force and expect wrong values",
            forceable=True,
        )


def _snapshot(manifest: Manifest, facts: Facts) -> Iterator[Refusal]:
    yield from _verdict(manifest)
    if facts.files:
        yield Refusal(
            code="files", what=facts.files, hint="assemble the snapshot again, while its log is still there"
        )
    if facts.ledger_topic_id != manifest.ledger.topic_id:
        yield Refusal(
            code="ledger-recreated",
            what=f"ledger {manifest.ledger.topic} was deleted and recreated since the snapshot",
            hint="offsets of one ledger mean nothing in another: choose a snapshot of this one",
        )


def _topics(parts: Sequence[InputCut | ChangelogCut], topics: Mapping[str, TopicFacts]) -> Iterator[Refusal]:
    ids = {part.topic: part.topic_id for part in parts}
    counts: dict[str, int] = {}
    for part in parts:
        counts[part.topic] = max(part.partition + 1, counts.get(part.topic, 0))
    for topic, topic_id in sorted(ids.items()):
        now = topics.get(topic)
        if now is None:
            yield Refusal(
                code="topic-missing",
                what=f"topic {topic} does not exist",
                hint="a restore needs the topics of the snapshot; create no other by that name",
            )
        elif topic_id and now.topic_id != topic_id:
            yield Refusal(
                code="topic-recreated",
                what=f"topic {topic} was deleted and recreated: it has id {now.topic_id}, had {topic_id}",
                hint="the offsets of the snapshot mean nothing in it: choose a later snapshot",
            )
        elif now.partitions != counts[topic]:
            yield Refusal(
                code="partitions-changed",
                what=f"topic {topic} has {now.partitions} partitions, and had {counts[topic]} in the snapshot",
                hint="keys lie in other partitions by now: choose a snapshot taken since",
            )


def _read_changelogs(captured: Captured, done: str) -> Iterator[Refusal]:
    for topic in sorted({c.topic for c in captured.inputs} & {c.topic for c in captured.changelogs}):
        yield Refusal(
            code="changelog-is-input",
            what=f"topic {topic} is the changelog of one app and an input of another",
            hint=f"its readers would take the state that is appended for new changes: this cannot be {done}",
        )


def external_refusals(
    manifest: Manifest,
    topics: Mapping[str, TopicFacts],
    starts: Mapping[TopicPartition, int],
    lowest: Mapping[TopicPartition, int],
) -> Iterator[Refusal]:
    """Find why the external records since a snapshot cannot be read from the cluster that it is of.

    Args:
        topics: by name, those that exist.
        starts: log starts of what exists.
        lowest: the lowest position of each input partition.
    """
    stored = {(item.topic, item.partition): item.start for item in manifest.inputs}
    lacking = {tp.topic for tp, position in lowest.items() if stored.get(tp, position + 1) > position}
    needed = [cut for cut in manifest.captured.inputs if cut.topic in topics or cut.topic in lacking]
    yield from _topics(needed, topics)
    yield from _logs(manifest, starts, lowest, part=False)


def _logs(
    manifest: Manifest,
    starts: Mapping[TopicPartition, int],
    lowest: Mapping[TopicPartition, int],
    *,
    part: bool,
) -> Iterator[Refusal]:
    external = {entry.topic for entry in manifest.external}
    stored = {(item.topic, item.partition): item for item in manifest.inputs}
    for tp, position in sorted(lowest.items()):
        start = starts.get(tp, 0)
        if tp in stored and stored[tp].start <= position and start <= stored[tp].end:
            continue
        if start > position and (tp.topic in external or not manifest.topics or part):
            yield Refusal(
                code="offsets-gone",
                what=f"{tp} begins at offset {start}, and external records from {position} on are to be read again",
                hint=f"choose a later snapshot; for the next one raise retention.ms of {tp.topic}, or assemble it"
                " with --with-inputs",
            )


def record_refusals(facts: Facts) -> Iterator[Refusal]:
    """Find the settings of topics that would refuse or delete what is appended."""
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
    """Find the inputs whose oldest record in flight will be deleted before the apps may have caught up: topic, and the
    time that is left (ms)."""
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


def _code(captured: Captured, facts: Facts) -> Iterator[Refusal]:
    """The code that would run has to have what is restored, and to read it as it was written."""
    for app in sorted({part.app for part in parts_of(captured)}):
        if app not in facts.hellos:
            yield Refusal(
                code="app-unknown",
                what=f"no process of app {app} is in the ledger",
                hint="start the app once, so that it announces its tables, and stop it",
            )
    yield from code_refusals(captured, facts.hellos)
    yield from _set_codecs(captured, "restored")


def code_refusals(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[Refusal]:
    """Find what the code that ran last lacks of a snapshot, or reads otherwise; apps without a `Hello` apart."""
    for missing in missing_parts(captured, hellos):
        yield Refusal(
            code=f"{missing.kind}-missing",
            what=f"{missing} is no longer in the code",
            hint=f"start a release of {missing.app} that has it once, then stop it; or leave it out: --drop-missing",
        )
    for kind, name, what in changed_parts(captured, hellos):
        yield Refusal(
            code=f"{kind}-changed",
            what=f"{name} reads otherwise than in the snapshot: {what}",
            hint="run the release that the snapshot was taken of; --force restores the bytes as they were",
            forceable=True,
        )


def _set_codecs(captured: Captured, done: str) -> Iterator[Refusal]:
    for topic, *codecs in sorted(
        {(c.topic, c.key_codec, c.value_codec) for c in captured.changelogs if c.sets}
    ):
        if codecs != ["json", "json"]:
            yield Refusal(
                code="set-codec",
                what=f"changelog {topic} of a table of sets has codecs {codecs[0]} and {codecs[1]}",
                hint=f"only tables of sets in JSON can be {done}",
            )


def member_refusals(of_apps: Mapping[str, int]) -> Iterator[Refusal]:
    """Refuse while consumer groups have members."""
    for app, members in sorted(of_apps.items()):
        if members:
            yield Refusal(
                code="group-has-members",
                what=f"consumer group {app} has {members} member{'s' if members > 1 else ''}",
                hint="stop all workers; after kill -9 they leave by session time-out: add --wait",
            )


def replacing_refusals(
    captured: Captured, open_plan: RestoreView | None, *, in_part: bool
) -> tuple[str, list[Refusal]]:
    """Find whether this restore takes the place of another one that is open, or why it cannot.

    It can before the commit point, where it covers all that the other may have appended to: its bases lie above that.

    Args:
        open_plan: another restore; None: none is open, or it is this one.
        in_part: this one restores only a part of the snapshot.

    Returns:
        the plan that is replaced (empty: none), and the reason to refuse.
    """
    if open_plan is None:
        return "", []
    mine = {TopicPartition(part.topic, part.partition) for part in parts_of(captured)}
    apps = {part.app for part in parts_of(captured)}
    covers = open_plan.leaves <= mine and {*open_plan.apps} <= apps
    if covers and not (open_plan.committed or in_part or open_plan.begun.origin):
        return open_plan.plan, []
    finish = f"run `snapkafka restore {open_plan.begun.snapshot}`"
    return "", [
        Refusal(
            code="plan-open",
            what=f"another restore is open: {open_plan}",
            hint=f"finish it: {finish}"
            + ("" if open_plan.committed else "; or replace it by a restore of all its apps"),
        )
    ]


def unstamped_refusals(
    found: Iterable[Channel],
    takes_external: Callable[[str], bool],
    known: Mapping[TopicPartition, Collection[int]],
    since: Mapping[TopicPartition, int],
) -> Iterator[Refusal]:
    """Find records without a stamp where the snapshot knows of no external ones: a worker has run without snapkafka.

    Its events are to run again, and what they sent would be received twice.

    Args:
        found: what would be appended to inputs, external records among it.
        takes_external: may somebody else write to this topic?
        known: offsets of records that the snapshot holds.
        since: where an earlier attempt began to append: nothing of the apps may lie there.
    """
    for channel in found:
        if takes_external(channel.tp.topic):
            continue
        bare = [
            record.offset
            for record in channel.records
            if record.offset not in known.get(channel.tp, ()) and wire.find(record.headers) is None
        ]
        if bare:
            during = channel.tp in since and bare[-1] >= since[channel.tp]
            yield Refusal(
                code="unstamped",
                what=f"{channel.tp} holds {len(bare):,} records without a stamp since the snapshot (offset {bare[0]}"
                f" first), and the snapshot has no external ones there",
                hint=("a worker has run without snapkafka during the restore; " if during else "")
                + "what it sent would be received twice; choose a later snapshot, or add --force if a producer"
                " wrote it",
                forceable=True,
            )
