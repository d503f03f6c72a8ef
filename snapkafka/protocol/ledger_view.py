"""The ledger as answers: about processes, about inputs, and about what a snapshot still waits for.

Every reader of the ledger gives the same answers (R11). The fold in `ledger_state` updates the state; nothing here
changes it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator

from .records import NOBODY, REMOTE, RESTORE, Fork, TopicPartition
from .restores import Restores
from .snapshots import Input, ProcessView, Reader, SnapshotView, Unread, Waiting


class LedgerView:
    """The state of the ledger as far as it was read, with its answers."""

    def __init__(self) -> None:
        self.end = 0  # one past the last ledger offset that was applied
        self.processes: dict[int, ProcessView] = {}
        self.left_at = -1  # where a process has left last
        self.snapshots: dict[int, SnapshotView] = {}
        self.open: dict[int, SnapshotView] = {}  # those neither captured nor failed
        self.by_id: dict[tuple[str, int], int] = {}  # (id, attempt) -> epoch
        self.latest_of: dict[str, int] = {}  # id -> epoch of its last attempt
        self.retired: dict[str, int] = {}  # app -> ledger offset of its Retire
        self.readers: dict[Input, tuple[Reader, ...]] = {}  # of each input, the present one last
        self.highest_epoch = 0
        self.paused_at: int | None = None  # ledger offset of the Pause that holds; None: not paused
        self.restores = Restores()
        self.fork: Fork | None = None  # whose ledger this is; None: that of no fork
        self._epochs: OrderedDict[int, None] = OrderedDict()
        self.lost_from: int | None = None  # see `TailLost`; None: nobody has noticed a loss

    @property
    def paused(self) -> bool:
        """Whether snapshots are switched off in this namespace (R15)."""
        return self.paused_at is not None

    @property
    def loss(self) -> str:
        """What the ledger has lost, for people; empty: nothing."""
        lost = f"the ledger has lost acknowledged records, from offset {self.lost_from} on"
        return "" if self.lost_from is None else f"{lost}: delete its topic and restart the services"

    def is_epoch(self, epoch: int) -> bool:
        """Return whether there is a `Trigger` at `epoch` - 1, the first of its (id, attempt); otherwise it is not an
        epoch (R1, R2)."""
        return epoch in self._epochs

    def living(self) -> Iterator[ProcessView]:
        """List the processes that sent `Hello`, but no `Bye`, and were not declared `Dead`."""
        return (view for view in self.processes.values() if view.left is None)

    def participants(self) -> Iterator[ProcessView]:
        """List the living processes that take part in snapshots: all except those that restore."""
        return (view for view in self.living() if view.hello.mode != RESTORE)

    def is_void(self, process: int, tp: TopicPartition, offset: int) -> bool:
        """Return whether the record of `process` at `offset` of `tp` is older than a restore, although it landed after
        it.

        Its writer was not stopped in time (a suspended worker, an earlier run of the restore).
        """
        base = self.restores.bases.get(tp)
        if base is None or process >= base.author or offset < base.end:
            return False
        view = self.processes.get(process)
        return view is None or view.hello.mode == RESTORE or view.hello.app in base.apps

    def owner(self, item: Input) -> int:
        """Return the process to which an input was last assigned, `NOBODY` if to none."""
        return self.readers[item][-1].process if item in self.readers else NOBODY

    def inputs_read_by(self, view: ProcessView) -> set[TopicPartition]:
        """Return the inputs of a process: those in its latest `Assigned` that no other process has been assigned
        since."""
        app = view.hello.app
        return {tp for tp in view.inputs if self.readers[app, tp][-1].offset == view.assigned}

    def unassigned(self, apps: Collection[str] = ()) -> list[Input]:
        """List the inputs of running apps (none named: all) that none of their processes has."""
        running = [view for view in self.participants() if not apps or view.hello.app in apps]
        read = {(view.hello.app, tp) for view in running for tp in self.inputs_read_by(view)}
        return sorted(self.inputs_of(running) - read)

    def waiting(self, epoch: int) -> list[Waiting]:
        """List the processes whose reports the snapshot of `epoch` still waits for; empty when it is captured."""
        snapshot = self.snapshots[epoch]
        silent = sorted(snapshot.required - snapshot.reports.keys())
        return [Waiting(process=it, app=self.app_of(it)) for it in silent]

    def stopped(self, apps: Collection[str] = ()) -> list[ProcessView]:
        """List the youngest process of each of these apps (none named: all) of which no process runs, and that has
        inputs or tables (R10): a client that has left has neither. Its `Hello` describes the app."""
        last = (self.processes[process] for process in sorted(self.last_of_stopped()))
        return [
            view
            for view in last
            if (view.hello.inputs or view.hello.tables) and (not apps or view.hello.app in apps)
        ]

    def changelogs_of(self, view: ProcessView) -> list[tuple[str, TopicPartition]]:
        """Return the table partitions of the app of a process, with the tables: there may be more than when it joined,
        and those that were assigned since count, too."""
        app, found = view.hello.app, []
        for table in view.hello.tables:
            known = [
                tp.partition + 1
                for (of, tp), readers in self.readers.items()
                if (of, tp.topic) == (app, table.changelog) and readers[-1].offset > view.process
            ]
            partitions = range(max(table.partitions, *known, 0))
            found += [(table.name, TopicPartition(table.changelog, partition)) for partition in partitions]
        return found

    def goes_on_without(self, view: ProcessView) -> bool:
        """Return whether this process runs without taking part, as far as the ledger shows: until its inputs are
        assigned to another process, or its app is retired."""
        if not view.goes_on or not self.unretired(view):
            return False
        app, left = view.hello.app, view.left
        assert left is not None, "who goes on has left"
        if any(
            of == app and readers[-1].process == view.process for (of, _), readers in self.readers.items()
        ):
            return True
        return not any(v.hello.app == app and v.process > left for v in self.processes.values())

    def standing(self, apps: Collection[str] = ()) -> list[ProcessView]:
        """List the processes whose `Hello`s name the topics that these apps (none named: all) read: their living
        processes, and the youngest one of each app that is stopped and not retired (R11)."""
        stopped = self.last_of_stopped()
        return [
            view
            for view in self.processes.values()
            if (view.left is None or view.process in stopped)
            and (not apps or view.hello.app in apps)
            and view.hello.mode != RESTORE
        ]

    def inputs_of(self, hellos: Iterable[ProcessView]) -> set[Input]:
        """Return the inputs of these processes (R11): topics x partitions written in their `Hello`s, and partitions
        that were added since and assigned to some process. Those are inputs of its app also when that process has
        left, and no `Hello` counts them."""
        hellos = list(hellos)
        sizes = {
            (view.hello.app, source.topic, source.partitions)
            for view in hellos
            for source in view.hello.inputs
        }  # most processes of an app name the same
        counted = {
            (app, TopicPartition(topic, partition)) for app, topic, size in sizes for partition in range(size)
        }
        since: dict[str, int] = {}
        for view in hellos:
            since[view.hello.app] = min(view.process, since.get(view.hello.app, view.process))
        topics = self.topics_of(hellos)
        return counted | {
            (app, tp)
            for (app, tp), readers in self.readers.items()
            if app in since and readers[-1].offset > since[app] and tp.topic in topics[app]
        }

    def topics_of(self, hellos: Iterable[ProcessView]) -> dict[str, frozenset[str]]:
        """Return the topics that each app reads: those of its `Hello`s, and those missing then that some process was
        assigned since, as Faust consumes a topic once it sees it."""
        topics: dict[str, set[str]] = {}
        missing: set[tuple[str, str]] = set()
        for view in hellos:
            topics.setdefault(view.hello.app, set()).update(source.topic for source in view.hello.inputs)
            missing.update((view.hello.app, topic) for topic in view.hello.missing)
        for app, tp in self.readers if missing else ():
            if (app, tp.topic) in missing:
                topics[app].add(tp.topic)
        return {app: frozenset(named) for app, named in topics.items()}

    def unread(self, apps: Collection[str] = ()) -> tuple[Unread, ...]:
        """List the topics to which these apps (none named: all) subscribe and that no process has (R11).

        They were missing when the processes joined that stand for the app; none of these has joined with the topic
        since, or been assigned a partition of it.
        """
        missing: set[tuple[str, str]] = set()
        had: set[tuple[str, str]] = set()
        for view in self.standing(apps):
            app = view.hello.app
            missing.update((app, topic) for topic in view.hello.missing)
            had.update((app, source.topic) for source in view.hello.inputs)
            had.update((app, tp.topic) for tp in view.inputs)
        return tuple(Unread(app=app, topic=topic) for app, topic in sorted(missing - had))

    def last_of_stopped(self) -> set[int]:
        """Return the youngest process of each app of which none runs: its `Hello` still describes the app (R10,
        R11)."""
        alive = {view.hello.app for view in self.living()}
        last = {
            v.hello.app: v.process
            for v in self.processes.values()
            if v.hello.app not in alive and self.unretired(v) and v.hello.mode not in (RESTORE, REMOTE)
        }
        return {*last.values()}

    def input_topics(self) -> set[str]:
        """Return every topic that some living app named as an input."""
        return {topic for topics in self.topics_of(self.living()).values() for topic in topics}

    def changelogs(self) -> set[str]:
        """Return every topic that some app has named as the changelog of a table."""
        return {table.changelog for view in self.processes.values() for table in view.hello.tables}

    def app_of(self, process: int) -> str:
        """Return the app of a process."""
        return self.processes[process].hello.app

    def is_alive(self, process: int) -> bool:
        view = self.processes.get(process)
        return view is not None and view.left is None

    def unretired(self, view: ProcessView) -> bool:
        """Return whether its app was not retired, or this process has joined since."""
        return self.retired.get(view.hello.app, -1) < view.process

    def retired_apps(self) -> set[str]:
        """Return the apps that were retired and have not joined again."""
        return self.retired.keys() - {v.hello.app for v in self.processes.values() if self.unretired(v)}
