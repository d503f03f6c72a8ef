"""Every reason to refuse a recovery, as one table; found before anything is changed.

The checks are pure: `Facts` comes from the cluster, the ledger and the files.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from snapkafka.manifest import Manifest
from snapkafka.ports import Topic
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, Code, InputCut
from snapkafka.protocol.forking import LEDGER, prefix_of, prefixed
from snapkafka.protocol.records import REMOTE_STATE, Agent, Hello, Table, TopicPartition
from snapkafka.protocol.restores import Restores, RestoreView
from snapkafka.wire import headers as wire

from .plan import PlanKind, Refusal
from .session import HINTS
from .state import apps_of, lowest_positions, parts_of
from .topics import topics_of

if TYPE_CHECKING:
    from .channels import Channel

#: Kafka's own limit.
TOPIC_CHARS_MAX: Final = 249


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about the target cluster of a snapshot.

    `ledger_topic_id`: of the ledger there. `files`: what is wrong with the files; empty: they are as they were
    written. `topics`: those of the snapshot that exist, by name; of a fork those of production. `ends`: of the logs.
    `under_prefix`: topics of a fork that exist. `changes`: by existing topic, the settings that would have to be
    others. `lost`: inputs with records that are gone. `appending`: the records to append to inputs, and `known`: the
    offsets of those from the snapshot. `members`: workers of each app. `hellos`: the latest of each app. `restores`:
    of the ledger there; `resumes`: the open one to continue, and `replaces`: the one that is replaced.
    """

    kind: PlanKind
    manifest: Manifest
    restores: Restores
    members: Mapping[str, int]
    ledger_topic_id: str = ""
    files: str = ""
    fork: str = ""
    with_inputs: bool = False
    topics: Mapping[str, Topic] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    under_prefix: Collection[str] = ()
    changes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    lost: Sequence[Refusal] = ()
    appending: Sequence[Channel] = ()
    known: Mapping[TopicPartition, Collection[int]] = field(default_factory=dict)
    takes_external: Callable[[str], bool] = lambda topic: True
    hellos: Mapping[str, Hello] = field(default_factory=dict)
    resumes: RestoreView | None = None
    replaces: str = ""

    @property
    def captured(self) -> Captured:
        return self.manifest.captured


@dataclass(frozen=True, slots=True)
class Check:
    """A reason to refuse. `kinds`: of plans that have it. `find` yields it in words, each time that it holds."""

    code: str
    kinds: str
    find: Callable[[Facts], Iterator[str]]
    hint: str
    forceable: bool = False


def refusals(facts: Facts, *, force: bool = False) -> tuple[Refusal, ...]:
    """Find every reason to refuse a recovery, the most informative first.

    Args:
        force: leave out the reasons that it overrides.
    """
    found = [
        Refusal(code=check.code, what=what, hint=check.hint, forceable=check.forceable)
        for check in CHECKS
        if facts.kind in check.kinds
        for what in check.find(facts)
    ]
    found += [*facts.lost, *_code(facts)]
    return tuple(
        dataclasses.replace(
            it, hint=it.hint + WITHOUT_INPUTS * (it.code in OF_INPUTS and facts.kind == "fork")
        )
        for it in found
        if not (force and it.forceable)
    )


def with_members(members: Mapping[str, int]) -> Iterator[str]:
    """Find consumer groups that have members."""
    for app, count in sorted(members.items()):
        if count:
            yield f"consumer group {app} has {count} member{'s' if count > 1 else ''}"


def replaced(captured: Captured, open_plan: RestoreView) -> bool:
    """Return whether a restore may replace another open one: it covers everything to which that may have appended, so
    its bases lie above that."""
    mine = {TopicPartition(part.topic, part.partition) for part in parts_of(captured)}
    apps = {*apps_of(captured)}
    return open_plan.leaves <= mine and {*open_plan.apps} <= apps and not open_plan.begun.origin


# --- The snapshot ----------------------------------------------------------------------------------------------------


def _verdict(facts: Facts) -> Iterator[str]:
    if facts.manifest.verdict not in ("VERIFIED", "VERIFIED_OPEN"):
        yield f"snapshot {facts.manifest.id} is {facts.manifest.verdict or 'not verified'}"


def _no_apps(facts: Facts) -> Iterator[str]:
    if not parts_of(facts.captured):
        yield f"snapshot {facts.manifest.id} has no app with inputs or tables"


def _changelog_is_input(facts: Facts) -> Iterator[str]:
    captured = facts.captured
    for topic in sorted({c.topic for c in captured.inputs} & {c.topic for c in captured.changelogs}):
        yield f"topic {topic} is the changelog of one app and an input of another"


def _set_codecs(facts: Facts) -> Iterator[str]:
    sets = {(c.topic, c.key_codec, c.value_codec) for c in facts.captured.changelogs if c.sets}
    for topic, *codecs in sorted(sets):
        if codecs != ["json", "json"]:
            yield f"changelog {topic} of a table of sets has codecs {codecs[0]} and {codecs[1]}"


def _remote(facts: Facts) -> Iterator[str]:
    """Find state of processes without Kafka: appended to its topic it would change nothing."""
    for app in sorted({c.app for c in facts.captured.changelogs if c.topic.startswith(REMOTE_STATE)}):
        yield f"{app} does not speak Kafka: its state cannot be set back from here"


# --- The ledger ------------------------------------------------------------------------------------------------------


def _ledger_recreated(facts: Facts) -> Iterator[str]:
    if facts.ledger_topic_id != facts.manifest.ledger.topic_id:
        yield f"ledger {facts.manifest.ledger.topic} was deleted and recreated since the snapshot"


def _same_cluster(facts: Facts) -> Iterator[str]:
    if facts.ledger_topic_id == facts.manifest.ledger.topic_id:
        yield f"this cluster has the ledger that the snapshot is of ({facts.manifest.ledger.topic})"


def _plan_open(facts: Facts) -> Iterator[str]:
    view = facts.restores.open
    if view is not None and view is not facts.resumes and view.plan != facts.replaces:
        yield f"another restore is open: {view}"


def _restored_already(facts: Facts) -> Iterator[str]:
    for view in facts.restores.views.values():
        if view.stage == "done" and view.begun.origin:
            yield f"{view} was restored into this cluster already"


# --- Topics ----------------------------------------------------------------------------------------------------------


def _needed(facts: Facts) -> dict[str, tuple[str, int]]:
    """Find the topics that a recovery reads or continues: their ids, and numbers of partitions."""
    parts: Sequence[InputCut | ChangelogCut] = parts_of(facts.captured)
    if facts.kind == "fork":
        stored = {TopicPartition(item.topic, item.partition): item.start for item in facts.manifest.inputs}
        lowest = lowest_positions(facts.captured)
        lacking = {tp.topic for tp, position in lowest.items() if stored.get(tp, position + 1) > position}
        parts = [cut for cut in facts.captured.inputs if cut.topic in facts.topics or cut.topic in lacking]
    found: defaultdict[str, tuple[str, int]] = defaultdict(lambda: ("", 0))
    for part in parts if facts.kind == "in-place" or facts.with_inputs else ():
        found[part.topic] = part.topic_id, max(part.partition + 1, found[part.topic][1])
    return dict(sorted(found.items()))


def _topic_missing(facts: Facts) -> Iterator[str]:
    for topic in sorted(_needed(facts).keys() - facts.topics.keys()):
        yield f"topic {topic} does not exist"


def _topic_recreated(facts: Facts) -> Iterator[str]:
    for topic, (topic_id, _) in _needed(facts).items():
        now = facts.topics.get(topic)
        if now is not None and topic_id and now.topic_id != topic_id:
            yield f"topic {topic} was deleted and recreated: it has id {now.topic_id}, had {topic_id}"


def _partitions(facts: Facts) -> Iterator[str]:
    counts = {topic: of for topic, (_, of) in _needed(facts).items()}
    if facts.kind == "cluster" and facts.resumes is None:
        counts = topics_of(facts.manifest)
    for topic, partitions in counts.items():
        now = facts.topics.get(topic)
        if now is not None and now.partitions != partitions:
            yield f"topic {topic} has {now.partitions} partitions, and had {partitions} in the snapshot"


def _not_empty(facts: Facts) -> Iterator[str]:
    held = {tp.topic for tp, end in facts.ends.items() if end}
    for topic in sorted(held) if facts.resumes is None else ():
        yield f"topic {topic} exists here and has had records"


def _settings(facts: Facts) -> Iterator[str]:
    for topic, changes in sorted(facts.changes.items()):
        if changes:
            wanted = ",".join(f"{name}={value}" for name, value in sorted(changes.items()))
            yield (
                f"topic {topic} would refuse or delete records that are appended: kafka-configs.sh --alter"
                f" --entity-type topics --entity-name {topic} --add-config {wanted}"
            )


def _shortened(facts: Facts) -> Iterator[str]:
    """Find logs that end below an offset that they had: a replica that lagged behind was elected, or a disk set back.
    Offsets there will belong to other records."""
    for log in facts.manifest.logs:
        tp = TopicPartition(log.topic, log.partition)
        if (end := facts.ends.get(tp, log.end)) < log.end:
            yield f"{tp} ends at offset {end}, and had records up to {log.end} when the snapshot was made"


def _fork_exists(facts: Facts) -> Iterator[str]:
    if there := facts.under_prefix:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        yield f"topic {min(there)}{more} begins with {prefix_of(facts.fork)} already"


def _too_long(facts: Facts) -> Iterator[str]:
    names = [prefixed(facts.fork, name) for name in (*topics_of(facts.manifest), *apps_of(facts.captured))]
    names.append(LEDGER + prefixed(facts.fork, facts.manifest.namespace))
    if longest := [name for name in names if len(name) > TOPIC_CHARS_MAX]:
        yield f"{longest[0]} has {len(longest[0])} characters, and Kafka takes {TOPIC_CHARS_MAX}"


# --- The code, and who writes ----------------------------------------------------------------------------------------


def _app_unknown(facts: Facts) -> Iterator[str]:
    for app in apps_of(facts.captured):
        if app not in facts.hellos:
            yield f"no process of app {app} is in the ledger"


def _code(facts: Facts) -> Iterator[Refusal]:
    """Find differences of the code: a part that is missing is needed, what reads otherwise may be forced."""
    for code, what in code_changes(facts.captured, facts.hellos):
        changed = code.endswith("-changed")
        hint = "start a release that has it once, then stop it"
        if changed:
            hint = "run the release of the snapshot; --force restores the bytes unchanged"
        yield Refusal(code=code, what=what, hint=hint, forceable=changed)


def _unstamped(facts: Facts) -> Iterator[str]:
    """Find records without a stamp where the snapshot has no external ones: a worker has run without snapkafka.

    Its events run again, and their records would be received twice.
    """
    since = {} if facts.resumes is None else facts.resumes.appended
    for channel in facts.appending:
        if facts.takes_external(channel.tp.topic):
            continue
        bare = [
            record.offset
            for record in channel.records
            if record.offset not in facts.known.get(channel.tp, ()) and wire.find(record.headers) is None
        ]
        if bare:
            during = channel.tp in since and bare[-1] >= since[channel.tp]
            yield (
                f"{channel.tp} holds {len(bare):,} records without a stamp since the snapshot, offset {bare[0]} first"
            ) + ": a worker has run without snapkafka during the restore" * during


#: Of a fork, reasons that concern the records since the snapshot alone.
OF_INPUTS: Final = ("topic-missing", "topic-recreated", "partitions-changed", "offsets-gone")
WITHOUT_INPUTS: Final = "; or leave out --with-inputs"

CHECKS: Final = (
    Check("verdict", "in-place cluster fork", _verdict,
          "choose a VERIFIED snapshot (`snapkafka list`), or add --force and expect wrong values", forceable=True),
    Check("files", "in-place cluster fork", lambda facts: filter(None, [facts.files]),
          "choose another snapshot, or assemble this one again while its log is still there"),
    Check("no-apps", "in-place cluster fork", _no_apps, "choose one that was taken while workers ran"),
    Check("ledger-recreated", "in-place", _ledger_recreated,
          "offsets of one ledger mean nothing in another: choose a snapshot of this one"),
    Check("same-cluster", "cluster", _same_cluster,
          "leave out --into: a restore in place keeps the topics and their records"),
    Check("plan-open", "in-place cluster", _plan_open,
          "run the same command again for its snapshot, or restore another one of all its apps"),
    Check("restored-already", "cluster", _restored_already,
          "start the workers; to go back to a later snapshot, restore it in place"),
    Check("fork-exists", "fork", _fork_exists,
          "remove that fork (`snapkafka fork drop`), or choose another name"),
    Check("name-too-long", "fork", _too_long, "choose a shorter name"),
    Check("changelog-is-input", "in-place cluster fork", _changelog_is_input,
          "its readers would take appended state for new changes"),
    Check("topic-missing", "in-place fork", _topic_missing,
          "the topics of the snapshot are needed; create no other by that name"),
    Check("topic-recreated", "in-place fork", _topic_recreated,
          "the offsets of the snapshot mean nothing in it: choose a later snapshot"),
    Check("partitions-changed", "in-place cluster fork", _partitions,
          "keys are in other partitions now: choose a later snapshot, or delete the topic of an empty cluster"),
    Check("topic-not-empty", "cluster", _not_empty,
          "a restore into a cluster needs empty or absent topics: use another cluster, or delete the topic"),
    Check("log-shortened", "in-place", _shortened,
          "the broker lost records: choose a snapshot assembled since, or restore into another cluster (--into)"),
    Check("topic-settings", "in-place cluster", _settings, "run that command, and the restore again"),
    Check("remote-process", "in-place cluster fork", _remote,
          "choose a snapshot without it; `snapkafka query` reads its state"),
    Check("app-unknown", "in-place", _app_unknown,
          "start the app once, so that it announces its tables, and stop it"),
    Check("set-codec", "in-place cluster fork", _set_codecs, "only tables of sets in JSON can be restored"),
    Check("unstamped", "in-place", _unstamped,
          "what it sent would be received twice; choose a later snapshot, or add --force if a producer wrote it",
          forceable=True),
    Check("group-has-members", "in-place cluster fork", lambda facts: with_members(facts.members),
          HINTS["group-has-members"]),
)  # fmt: skip


#: Fields by which a table or an agent reads the same bytes otherwise.
READS: Final = ("kind", "key_codec", "value_codec", "key_type", "value_type", "windowed")


def code_changes(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[tuple[str, str]]:
    """Yield what the code of the last run lacks of a snapshot, or reads differently, except of apps without a `Hello`:
    a code, and the difference in words. Agents and tables are identified by name, so a renamed one is a missing one.
    Agents are compared if both sides have announced them."""
    before, now = _code_of(captured.code), _code_of(hellos.values())
    known = {
        (it.app, topic) for it in hellos.values() for topic in (*(of.topic for of in it.inputs), *it.missing)
    }
    needed = {("table", cut.app, cut.topic) for cut in captured.changelogs}
    needed |= {("input", cut.app, cut.topic) for cut in captured.inputs}
    needed |= {
        ("agent", cut.app, position.agent) for cut in captured.inputs for position in cut.agents
    } & before.keys()
    for part in sorted(needed):
        kind, app, name = part
        hello = hellos.get(app)
        if hello is None or (kind == "agent" and not hello.agents):
            continue
        if part not in now and (kind != "input" or (app, name) not in known):
            yield f"{kind}-missing", f"{kind} {name} of app {app} is not in the code"
        elif part in before and part in now and (what := _differences(before[part], now[part])):
            yield f"{kind}-changed", f"{kind} {name} of app {app} has changed: {what}"


def _code_of(apps: Iterable[Hello | Code]) -> dict[tuple[str, str, str], Table | Agent]:
    """Index the parts of code by kind, app, and changelog or name."""
    found: dict[tuple[str, str, str], Table | Agent] = {}
    for it in apps:
        found |= {("table", it.app, table.changelog): table for table in it.tables}
        found |= {("agent", it.app, agent.name): agent for agent in it.agents}
    return found


def _differences(before: Table | Agent, now: Table | Agent) -> str:
    found = [
        f"its {name.replace('_', ' ')} was {_value(before, name)} and is {_value(now, name)}"
        for name in READS
        if getattr(before, name, "") != getattr(now, name, "")
    ]
    return ", ".join(found)


def _value(of: Table | Agent, name: str) -> str:
    value = getattr(of, name)
    return str(value).lower() if isinstance(value, bool) else value or "not declared"
