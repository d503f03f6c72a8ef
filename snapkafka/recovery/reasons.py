"""The reasons to refuse a restore, each with a stable code, found before anything is changed.

The checks are pure: `Facts` comes from the cluster, the ledger and the files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from snapkafka.manifest import Manifest
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, InputCut
from snapkafka.protocol.records import Hello, TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire import headers as wire

from .code_changes import changed_parts, missing_parts
from .positions import parts_of
from .record_refusals import _foreign, record_refusals
from .target_facts import Facts, Refusal, TopicFacts

if TYPE_CHECKING:
    from .channels import Channel


def refusals(
    manifest: Manifest,
    facts: Facts,
    lost: Iterable[Refusal],
) -> Iterator[Refusal]:
    """Find every reason to refuse a restore in place, the most informative first.

    Args:
        lost: inputs with records that are gone.
    """
    captured = manifest.captured
    yield from _snapshot(manifest, facts)
    yield from _read_changelogs(captured, "restored")
    yield from _topics(parts_of(captured), facts.topics)
    yield from lost
    yield from record_refusals(facts)
    yield from _foreign(captured)
    yield from _code(captured, facts)
    yield from member_refusals(facts.members)


def copy_refusals(manifest: Manifest, files: str, *, done: str) -> Iterator[Refusal]:
    """Find every reason against copying a snapshot into empty topics.

    Args:
        files: what is wrong with the files; empty: nothing.
        done: the intended action, a participle.
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
                hint="keys are in other partitions now: choose a later snapshot",
            )


def _read_changelogs(captured: Captured, done: str) -> Iterator[Refusal]:
    for topic in sorted({c.topic for c in captured.inputs} & {c.topic for c in captured.changelogs}):
        yield Refusal(
            code="changelog-is-input",
            what=f"topic {topic} is the changelog of one app and an input of another",
            hint=f"its readers would take appended state for new changes: this cannot be {done}",
        )


def external_refusals(
    manifest: Manifest,
    topics: Mapping[str, TopicFacts],
    lowest: Mapping[TopicPartition, int],
    lost: Iterable[Refusal],
) -> Iterator[Refusal]:
    """Find why the external records since a snapshot cannot be read from its own cluster.

    Args:
        topics: by name, those that exist.
        lowest: the lowest position of each input partition.
        lost: inputs with records that are gone.
    """
    stored = {(item.topic, item.partition): item.start for item in manifest.inputs}
    lacking = {tp.topic for tp, position in lowest.items() if stored.get(tp, position + 1) > position}
    needed = [cut for cut in manifest.captured.inputs if cut.topic in topics or cut.topic in lacking]
    yield from _topics(needed, topics)
    yield from lost


def _code(captured: Captured, facts: Facts) -> Iterator[Refusal]:
    """Find differences of the code: it must have everything that is restored, and read it as it was written."""
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
    """Find the parts of a snapshot that the code of the last run lacks, or reads differently, except those of apps
    without a `Hello`."""
    for missing in missing_parts(captured, hellos):
        yield Refusal(
            code=f"{missing.kind}-missing",
            what=f"{missing} is no longer in the code",
            hint=f"start a release of {missing.app} that has it once, then stop it",
        )
    for kind, name, what in changed_parts(captured, hellos):
        yield Refusal(
            code=f"{kind}-changed",
            what=f"{name} has changed since the snapshot: {what}",
            hint="run the release of the snapshot; --force restores the bytes unchanged",
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
                hint="stop all workers; after kill -9 add --wait 90: Kafka drops them after 60 s",
            )


def replacing_refusals(captured: Captured, open_plan: RestoreView | None) -> tuple[str, list[Refusal]]:
    """Find whether this restore replaces another open one, or why it cannot.

    It can before the commit point, if it covers everything to which the other may have appended: its bases lie above
    that.

    Args:
        open_plan: another restore; None: none is open, or it is this one.

    Returns:
        the plan that is replaced (empty: none), and the reason to refuse.
    """
    if open_plan is None:
        return "", []
    mine = {TopicPartition(part.topic, part.partition) for part in parts_of(captured)}
    apps = {part.app for part in parts_of(captured)}
    covers = open_plan.leaves <= mine and {*open_plan.apps} <= apps
    if covers and not (open_plan.committed or open_plan.begun.origin):
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
    """Find records without a stamp where the snapshot has no external ones: a worker has run without snapkafka.

    Its events run again, and their records would be received twice.

    Args:
        found: the records to append to inputs, external ones among them.
        takes_external: returns whether external producers may write to a topic.
        known: offsets of records that the snapshot holds.
        since: the offsets at which an earlier attempt began to append: the apps may have no records from there on.
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
                what=f"{channel.tp} holds {len(bare):,} records without a stamp since the snapshot, offset"
                f" {bare[0]} first",
                hint=("a worker has run without snapkafka during the restore; " if during else "")
                + "what it sent would be received twice; choose a later snapshot, or add --force if a producer"
                " wrote it",
                forceable=True,
            )
