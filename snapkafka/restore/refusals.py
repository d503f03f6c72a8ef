"""Every reason to refuse a recovery, as one table; found before anything is changed. The checks ask nothing."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from snapkafka.manifest import Manifest
from snapkafka.ports import Topic
from snapkafka.protocol.captured_snapshot import Captured, ChangelogCut, Code, InputCut
from snapkafka.protocol.forking import LEDGER, prefix_of
from snapkafka.protocol.records import REMOTE_STATE, Agent, Hello, Table, TopicPartition
from snapkafka.protocol.restores import RestoreView
from snapkafka.wire import headers as wire

from .plan import Refusal
from .state import apps_of, lowest_positions, parts_of
from .topics import topics_of

if TYPE_CHECKING:
    from .channels import Begins, Channel
    from .target import Target

#: Kafka's own limit.
TOPIC_CHARS_MAX: Final = 249
HINTS: Final = {
    "group-has-members": "stop all workers; after kill -9 add --wait 90: Kafka drops them after 60 s",
    "run-at-work": "let the other run finish, or end it: its hold ends 30 s later",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What was read of the target cluster of a snapshot. `topics`: those of the snapshot that exist, by name; of a fork
    those of production. `under_prefix`: topics and groups of a fork that exist. `changes`: by existing topic, the
    settings that would have to be others. `appending`: to inputs. `members`: workers of each app. `resumes`: the open
    restore to continue, and `replaces`: the one that is replaced."""

    target: Target
    begins: Begins
    members: Mapping[str, int]
    topics: Mapping[str, Topic]
    ends: Mapping[TopicPartition, int]
    under_prefix: Collection[str]
    changes: Mapping[str, Mapping[str, str]]
    appending: Sequence[Channel]
    resumes: RestoreView | None
    replaces: str

    @property
    def manifest(self) -> Manifest:
        return self.target.manifest


@dataclass(frozen=True, slots=True)
class Check:
    """A reason to refuse. `kinds`: of plans that have it. `find` yields it in words, each time that it holds."""

    code: str
    kinds: str
    find: Callable[[Facts], Iterable[str]]
    hint: str
    forceable: bool = False


def refusals(facts: Facts, *, force: bool = False) -> tuple[Refusal, ...]:
    """Find every reason to refuse a recovery, with `force` without those that it overrides."""
    found = [
        Refusal(code=check.code, what=what, hint=check.hint, forceable=check.forceable)
        for check in CHECKS
        if facts.target.request.kind in check.kinds
        for what in check.find(facts)
    ]
    found += [*facts.begins.lost, *code_changes(facts.target.cut, facts.target.hellos)]
    without = WITHOUT_INPUTS if facts.target.fork else ""
    return tuple(
        dataclasses.replace(it, hint=it.hint + without * (it.code in OF_INPUTS))
        for it in found
        if not (force and it.forceable)
    )


def when(holds: bool, what: str) -> list[str]:
    return [what] if holds else []


def with_members(members: Mapping[str, int]) -> Iterator[str]:
    for app, count in sorted(members.items()):
        if count:
            yield f"consumer group {app} has {count} member{'s' if count > 1 else ''}"


def replaced(captured: Captured, open_plan: RestoreView) -> bool:
    """Return whether a restore may replace another open one: it covers everything to which that may have appended, so
    its bases lie above that."""
    mine = {TopicPartition(part.topic, part.partition) for part in parts_of(captured)}
    apps = {*apps_of(captured)}
    return open_plan.leaves <= mine and {*open_plan.apps} <= apps and not open_plan.begun.origin


def _needed(facts: Facts) -> dict[str, tuple[str, int]]:
    """Find the topics that a recovery reads or continues: their ids, and numbers of partitions."""
    parts: Sequence[InputCut | ChangelogCut] = parts_of(facts.target.cut)
    if facts.target.fork:
        stored = {TopicPartition(item.topic, item.partition): item.start for item in facts.manifest.inputs}
        lowest = lowest_positions(facts.target.cut)
        lacking = {tp.topic for tp, position in lowest.items() if stored.get(tp, position + 1) > position}
        parts = [cut for cut in facts.target.cut.inputs if cut.topic in facts.topics or cut.topic in lacking]
    found: defaultdict[str, tuple[str, int]] = defaultdict(lambda: ("", 0))
    for part in parts if facts.target.in_place or facts.target.request.with_inputs else ():
        found[part.topic] = part.topic_id, max(part.partition + 1, found[part.topic][1])
    return dict(sorted(found.items()))


def _topic_recreated(facts: Facts) -> Iterator[str]:
    for topic, (topic_id, _) in _needed(facts).items():
        now = facts.topics.get(topic)
        if now is not None and topic_id and now.topic_id != topic_id:
            yield f"topic {topic} was deleted and recreated: it has id {now.topic_id}, had {topic_id}"


def _partitions(facts: Facts) -> Iterator[str]:
    counts = {topic: of for topic, (_, of) in _needed(facts).items()}
    if facts.target.elsewhere:
        counts = topics_of(facts.manifest)
    for topic, partitions in counts.items():
        now = facts.topics.get(topic)
        if now is not None and now.partitions != partitions:
            yield f"topic {topic} has {now.partitions} partitions, and had {partitions} in the snapshot"


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
        yield f"{min(there)}{more} begins with {prefix_of(facts.target.fork)} already"


def _too_long(facts: Facts) -> Iterator[str]:
    names = map(facts.target.named, (*topics_of(facts.manifest), *apps_of(facts.target.cut)))
    longest = max((LEDGER + facts.target.namespace, *names), key=len)
    if len(longest) > TOPIC_CHARS_MAX:
        yield f"{longest} has {len(longest)} characters, and Kafka takes {TOPIC_CHARS_MAX}"


def _unstamped(facts: Facts) -> Iterator[str]:
    """Find records without a stamp where the snapshot has no external ones: a worker has run without snapkafka.

    Its events run again, and their records would be received twice.
    """
    since = {} if facts.resumes is None else facts.resumes.appended
    known = facts.target.tables.unread(lowest_positions(facts.target.cut))
    for tp, records in facts.appending:
        stored = {record.offset for record in known.get(tp, ())}
        bare = [it.offset for it in records if it.offset not in stored and wire.find(it.headers) is None]
        if bare and not facts.target.takes_external(tp.topic):
            during = tp in since and bare[-1] >= since[tp]
            yield (
                f"{tp} holds {len(bare):,} records without a stamp since the snapshot, offset {bare[0]} first"
            ) + ": a worker has run without snapkafka during the restore" * during


#: Of a fork, reasons that concern the records since the snapshot alone.
OF_INPUTS: Final = ("topic-missing", "topic-recreated", "partitions-changed", "offsets-gone")
WITHOUT_INPUTS: Final = "; or leave out --with-inputs"

CHECKS: Final = (
    Check("verdict", "in-place cluster fork",
          lambda it: when(it.manifest.verdict not in ("VERIFIED", "VERIFIED_OPEN"),
                          f"snapshot {it.manifest.id} is {it.manifest.verdict or 'not verified'}"),
          "choose a VERIFIED snapshot (`snapkafka list`), or add --force and expect wrong values", forceable=True),
    Check("files", "in-place cluster fork", lambda it: filter(None, [it.target.tables.damage]),
          "choose another snapshot, or assemble this one again while its log is still there"),
    Check("no-apps", "in-place cluster fork",
          lambda it: when(not parts_of(it.target.cut), f"snapshot {it.manifest.id} has no app with inputs or tables"),
          "choose one that was taken while workers ran"),
    Check("ledger-recreated", "in-place",
          lambda it: when(it.target.topic_id != it.manifest.ledger.topic_id,
                          f"ledger {it.manifest.ledger.topic} was deleted and recreated since the snapshot"),
          "offsets of one ledger mean nothing in another: choose a snapshot of this one"),
    Check("same-cluster", "cluster",
          lambda it: when(it.target.topic_id == it.manifest.ledger.topic_id,
                          f"this cluster has the ledger that the snapshot is of ({it.manifest.ledger.topic})"),
          "leave out --into: a restore in place keeps the topics and their records"),
    Check("plan-open", "in-place cluster",
          lambda it: (f"another restore is open: {view}" for view in [it.target.state.restores.open]
                      if view is not None and view is not it.resumes and view.plan != it.replaces),
          "run the same command again for its snapshot, or restore another one of all its apps"),
    Check("restored-already", "cluster",
          lambda it: (f"{view} was restored into this cluster already"
                      for view in it.target.state.restores.views.values()
                      if view.stage == "done" and view.begun.origin),
          "start the workers; to go back to a later snapshot, restore it in place"),
    Check("fork-exists", "fork", _fork_exists,
          "remove that fork (`snapkafka fork drop`), or choose another name"),
    Check("name-too-long", "fork", _too_long, "choose a shorter name"),
    Check("changelog-is-input", "in-place cluster fork",
          lambda it: (f"topic {topic} is the changelog of one app and an input of another" for topic in sorted(
              {cut.topic for cut in it.target.cut.inputs} & {cut.topic for cut in it.target.cut.changelogs})),
          "its readers would take appended state for new changes"),
    Check("topic-missing", "in-place fork",
          lambda it: (f"topic {topic} does not exist" for topic in sorted(_needed(it).keys() - it.topics.keys())),
          "the topics of the snapshot are needed; create no other by that name"),
    Check("topic-recreated", "in-place fork", _topic_recreated,
          "the offsets of the snapshot mean nothing in it: choose a later snapshot"),
    Check("partitions-changed", "in-place cluster fork", _partitions,
          "keys are in other partitions now: choose a later snapshot, or delete the topic of an empty cluster"),
    Check("topic-not-empty", "cluster",
          lambda it: (f"topic {topic} exists here and has had records" for topic in sorted(
              {tp.topic for tp, end in it.ends.items() if end and it.resumes is None})),
          "a restore into a cluster needs empty or absent topics: use another cluster, or delete the topic"),
    Check("log-shortened", "in-place", _shortened,
          "the broker lost records: choose a snapshot assembled since, or restore into another cluster (--into)"),
    Check("topic-settings", "in-place cluster", _settings, "run that command, and the restore again"),
    Check("remote-process", "in-place cluster fork",  # appended to its topic, its state would change nothing
          lambda it: (f"{app} does not speak Kafka: its state cannot be set back from here" for app in sorted(
              {cut.app for cut in it.target.cut.changelogs if cut.topic.startswith(REMOTE_STATE)})),
          "choose a snapshot without it; `snapkafka query` reads its state"),
    Check("app-unknown", "in-place",
          lambda it: (f"no process of app {app} is in the ledger"
                      for app in apps_of(it.target.cut) if app not in it.target.hellos),
          "start the app once, so that it announces its tables, and stop it"),
    Check("set-codec", "in-place cluster fork",
          lambda it: (f"changelog {topic} of a table of sets is not in JSON" for topic in sorted(
              {cut.topic for cut in it.target.cut.changelogs
               if cut.sets and (cut.key_codec, cut.value_codec) != ("json", "json")})),
          "only tables of sets in JSON can be restored"),
    Check("unstamped", "in-place", _unstamped,
          "what it sent would be received twice; choose a later snapshot, or add --force if a producer wrote it",
          forceable=True),
    Check("group-has-members", "in-place cluster fork", lambda it: with_members(it.members),
          HINTS["group-has-members"]),
)  # fmt: skip


#: Fields by which a table or an agent reads the same bytes otherwise.
READS: Final = ("kind", "key_codec", "value_codec", "key_type", "value_type", "windowed")


def code_changes(captured: Captured, hellos: Mapping[str, Hello]) -> Iterator[Refusal]:
    """Refuse what the code of the last run lacks of a snapshot, and, unless that is forced, what it reads differently;
    but nothing of apps without a `Hello`. Agents and tables are identified by name, so a renamed one is a missing one.
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
            yield Refusal(
                code=f"{kind}-missing",
                what=f"{kind} {name} of app {app} is not in the code",
                hint="start a release that has it once, then stop it",
            )
        elif part in before and part in now and (what := _differences(before[part], now[part])):
            yield Refusal(
                code=f"{kind}-changed",
                what=f"{kind} {name} of app {app} has changed: {what}",
                hint="run the release of the snapshot; --force restores the bytes unchanged",
                forceable=True,
            )


def _code_of(apps: Iterable[Hello | Code]) -> dict[tuple[str, str, str], Table | Agent]:
    """Index the parts of code by kind, app, and changelog or name."""
    found: dict[tuple[str, str, str], Table | Agent] = {}
    for it in apps:
        found |= {("table", it.app, table.changelog): table for table in it.tables}
        found |= {("agent", it.app, agent.name): agent for agent in it.agents}
    return found


def _differences(before: Table | Agent, now: Table | Agent) -> str:
    values = {name: (getattr(before, name, ""), getattr(now, name, "")) for name in READS}
    return ", ".join(
        f"its {name.replace('_', ' ')} was {was or 'none'} and is {of or 'none'}"
        for name, (was, of) in values.items()
        if was != of
    )
