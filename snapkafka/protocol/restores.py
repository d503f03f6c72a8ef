"""Restores as readers of the ledger see them: which one is open, and what a finished one asks of an app.

A restore re-appends the records in flight and the state of a snapshot at the ends of their partitions, so the log
stays one log. Three facts about it have to be the same for every reader:

    begun ──> appending ──> done    until `done`: no input of these apps is run, no snapshot is taken
      └─────> aborted <──┘          `done` is the commit point: before it nothing appended counts

* *Bases.* Records below the base of a partition are older than the restore; records that an earlier process of the
  apps still appends at or above it are void, because it does not know of the restore.
* *Positions.* A consumer group has one offset per input, a snapshot one position per agent. The group is set to the
  lowest; what an agent skips above that is a rule, which is spent when the group has passed it.
* *Fencing.* Only the author that the latest `begun` names can make a plan `done`: a tool that was suspended, and wakes
  up after another has taken over, commits nothing. A run owns a plan as long as its `begun` is the latest of it.
* *The groups are set before `done`.* A run that crashes between them is run again: it appends behind new ends, and sets
  the groups again.
* *No way back by forgetting.* Once a plan is `appending`, records of it may lie in the log above every committed
  position, and a worker that starts would take them in. So it is not aborted any more: it is finished, or another plan
  replaces it whose bases cover every partition that it may have appended to.

* *A topic of that time.* Offsets of a topic that is recreated since mean nothing there: its rules are over, and all of
  it is of the time after. The first process that joins and finds another id than the restore did makes that known.

Later restores supersede earlier ones partition by partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from .records import NOBODY, AgentPosition, Hello, Restore, RestoreStage, TopicPartition

if TYPE_CHECKING:
    from .snapshots import ProcessView

#: The metadata of the group offsets that a restore commits is this and the name of the plan: who cannot read the ledger
#: sees that there may be rules.
RESTORED_METADATA: Final = "snapkafka:"


class Base(NamedTuple):
    """The base of a restore in a partition: `end`, for processes from `author` on."""

    plan: str
    author: int
    end: int
    apps: tuple[str, ...]


class Rule(NamedTuple):
    """The records of an input that an agent takes: from `offset` on, without those in `started_above`."""

    offset: int
    started_above: frozenset[int] = frozenset()

    def takes(self, offset: int) -> bool:
        """Return whether the agent takes the record at `offset`."""
        return offset >= self.offset and offset not in self.started_above

    def start(self, offset: int) -> Rule:
        """Return the rest of the rule for an agent that is assigned the input at `offset`."""
        first = max(offset, self.offset)
        while first in self.started_above:
            first += 1
        return Rule(first, frozenset(above for above in self.started_above if above > first))

    @property
    def spent(self) -> int:
        """The offset from which on the agent takes everything."""
        return max((self.offset, *(above + 1 for above in self.started_above)))


@dataclass(slots=True, kw_only=True)
class RestoreView:
    """One restore, as the ledger shows it. Its fields are those of `Restore`; `*_at` are ledger offsets."""

    plan: str
    begun: Restore
    begun_at: int
    stage: RestoreStage = "begun"
    author: int = NOBODY
    authored_at: int | None = None
    owner: int  # ledger offset of the latest `begun`, whose writer may continue
    appended: dict[TopicPartition, int] = field(default_factory=dict)  # the first offset that may be its own
    replaces: frozenset[TopicPartition] = frozenset()  # what the plans before it may have appended to
    parts: dict[int, tuple[int, Restore]] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)  # when it was done
    recreated: dict[str, int] = field(default_factory=dict)  # topic -> ledger offset that showed it
    closed_at: int | None = None  # `aborted`, or the part that completed `done`
    reason: str = ""

    @property
    def apps(self) -> tuple[str, ...]:
        return self.begun.apps

    @property
    def open(self) -> bool:
        """Whether it is neither done nor aborted."""
        return self.closed_at is None

    @property
    def done_at(self) -> int | None:
        """The ledger offset of the commit point; None: it was not reached."""
        return self.closed_at if self.stage == "done" else None

    def is_author(self, process: int) -> bool:
        """Return whether the latest `begun` names this process. A `begun` that names none, of a run that takes over,
        fences it."""
        return process == self.author != NOBODY and self.owner == self.authored_at

    @property
    def leaves(self) -> frozenset[TopicPartition]:
        """The partitions that may contain records that never count."""
        return self.replaces | self.appended.keys()

    def concerns(self, apps: tuple[str, ...]) -> bool:
        """Return whether it restores one of `apps` (none named: any)."""
        return not apps or bool({*apps} & {*self.apps})

    def bases(self, below: int | None = None) -> dict[TopicPartition, Base]:
        """Return the base of each partition that it names, as of this ledger offset (None: the end). All records of a
        recreated topic are of the time after the restore."""
        over = {topic for topic, at in self.recreated.items() if below is None or at < below}
        ends = (end for _, record in self.parts.values() for end in record.ends)
        return {
            TopicPartition(end.topic, end.partition): Base(
                self.plan, self.author, 0 if end.topic in over else end.end, self.apps
            )
            for end in ends
        }

    def positions(self) -> Iterator[AgentPosition]:
        """Yield the start of each agent."""
        for _, record in self.parts.values():
            yield from record.positions

    def __str__(self) -> str:
        return f"plan {self.plan} of snapshot {self.begun.snapshot}"


class Restores:
    """The fold of the `Restore` records."""

    def __init__(self) -> None:
        self.views: dict[str, RestoreView] = {}  # plan -> view
        self.open: RestoreView | None = None
        self.bases: dict[TopicPartition, Base] = {}
        self._rules: dict[tuple[str, TopicPartition], tuple[str, dict[str, Rule]]] = {}

    def apply(self, offset: int, record: Restore) -> bool:
        """Apply a record.

        Returns:
            whether the stage or the author of the open plan changed.
        """
        view = self.open
        if view is None or view.plan != record.plan:
            if record.stage != "begun" or record.plan in self.views:
                return False
            if view is not None and record.replaces != view.plan:
                return False
            self._begin(offset, record, view)
            return True
        match record.stage:
            case "begun" if NOBODY < record.author < view.author:
                return False  # late: another run has taken over since
            case "begun":
                view.owner = offset
                return self._named(view, offset, record)
            case "appending":
                return self._appending(view, offset, record)
            case "done":
                return self._done(view, offset, record)
            case "aborted" if not view.leaves:
                self._abort(view, offset, record.reason)
            case _:
                return False
        return True

    def _begin(self, offset: int, record: Restore, before: RestoreView | None) -> None:
        """Open a plan. A plan that it replaces is over, and whatever that may have appended has to lie below the new
        bases."""
        replaces: frozenset[TopicPartition] = frozenset()
        if before is not None:
            replaces = before.leaves
            self._abort(before, offset, f"plan {record.plan} has taken its place")
        view = self.open = self.views[record.plan] = RestoreView(
            plan=record.plan,
            begun=record,
            begun_at=offset,
            owner=offset,
            replaces=replaces,
        )
        self._named(view, offset, record)

    def _abort(self, view: RestoreView, offset: int, reason: str) -> None:
        view.stage, view.closed_at, view.reason, self.open = "aborted", offset, reason, None

    def _appending(self, view: RestoreView, offset: int, record: Restore) -> bool:
        """Note that its author is about to append after these ends; those of an earlier author still count."""
        if not view.is_author(record.author):
            return False
        view.stage = "appending"
        for end in record.ends:
            view.appended.setdefault(TopicPartition(end.topic, end.partition), end.end)
        return True

    def _named(self, view: RestoreView, offset: int, record: Restore) -> bool:
        """Let a later author take over; its predecessor, and the `ends` that it reported, are void."""
        if record.author <= view.author:
            return False
        view.author, view.authored_at = record.author, offset
        view.parts.clear()
        return True

    def _done(self, view: RestoreView, offset: int, record: Restore) -> bool:
        if not view.is_author(record.author):
            return False
        view.parts.setdefault(record.part, (offset, record))
        if len(view.parts) < record.parts or not view.leaves <= view.bases().keys():
            return False
        view.stage, view.closed_at, self.open = "done", offset, None
        view.topic_ids = {it.topic: it.topic_id for _, part in view.parts.values() for it in part.topics}
        self.bases |= view.bases()
        rules: dict[tuple[str, TopicPartition], dict[str, Rule]] = {}
        for p in view.positions():
            of_input = rules.setdefault((p.app, TopicPartition(p.topic, p.partition)), {})
            of_input[p.agent] = Rule(p.offset, frozenset(p.started_above))
        self._rules |= {item: (view.plan, agents) for item, agents in rules.items()}
        return True

    def joined(self, offset: int, hello: Hello, earlier: Mapping[int, ProcessView]) -> None:
        """Take in the topic ids that a process found: an id that differs from the restore's is of a recreated topic."""
        for view in self.views.values():
            done_at = view.done_at
            if done_at is None:
                continue
            before = [it.hello for process, it in earlier.items() if process < done_at]
            for topic, topic_id in hello.topic_ids():
                known = topic in view.recreated or view.topic_ids.get(topic, topic_id) == topic_id
                if not known and not any((topic, topic_id) in old.topic_ids() for old in before):
                    self._recreated(offset, view, topic)

    def _recreated(self, offset: int, view: RestoreView, topic: str) -> None:
        view.recreated[topic] = offset
        for tp, base in self.bases.items():
            if (tp.topic, base.plan) == (topic, view.plan):
                self.bases[tp] = base._replace(end=0)
        self._rules = {
            (app, tp): (plan, agents)
            for (app, tp), (plan, agents) in self._rules.items()
            if (tp.topic, plan) != (topic, view.plan)
        }

    def holds(self, app: str) -> RestoreView | None:
        """Return the open restore of `app`: as long as there is one, no input of the app may be run."""
        return self.open if self.open is not None and app in self.open.apps else None

    def restored(self, app: str) -> frozenset[str]:
        """Return the committed plans on which `app` runs: memory older than any of them must not be used."""
        return frozenset(base.plan for base in self.bases.values() if app in base.apps)

    def bases_below(self, offset: int) -> dict[TopicPartition, Base]:
        """Return the bases of the restores that were committed below this ledger offset."""
        committed = [it for it in self.views.values() if it.done_at is not None and it.done_at < offset]
        return {tp: base for view in committed for tp, base in view.bases(offset).items()}

    def rules(self, app: str, tp: TopicPartition) -> dict[str, Rule]:
        """Return the rules of the agents of `app` for an input, by agent. An agent that is not named skips nothing."""
        return self._rules[app, tp][1] if (app, tp) in self._rules else {}

    def starts(self, app: str) -> dict[TopicPartition, int]:
        """Return the start of each restored input of `app`: the lowest offset of its agents."""
        return {
            tp: min(rule.offset for rule in agents.values())
            for (of, tp), (_, agents) in self._rules.items()
            if of == app
        }
