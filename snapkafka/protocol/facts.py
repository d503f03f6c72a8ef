"""Statements of processes about topics and tables, as they stood at the trigger of a snapshot (R11).

A snapshot is defined by the facts at its trigger. An input has the id and the codecs that were known to the process
that cut it, whoever joined since; the inputs of an app that does not run are those that its youngest process knew. If
two processes that took part know one topic by two ids, it was recreated while the first of them ran: its positions and
its state belong to a deleted topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ._dataclass import value
from .records import Hello, InputTopic, Table

if TYPE_CHECKING:
    from .ledger_view import LedgerView
    from .snapshots import Part, SnapshotView


@value
class Renewed:
    """A topic that was recreated after `process` of `app`, which took part, had joined: `since` joined later, and
    found another one."""

    topic: str
    process: int
    app: str
    since: int


@value
class OldTopic:
    """A topic that `process` knew, or may have sent to, before it was recreated: offsets that it names may belong to
    the old one."""

    process: int
    topic: str


def joined_by(state: LedgerView, snapshot: SnapshotView) -> dict[int, Hello]:
    """Return the processes that had joined by the trigger of a snapshot, and those that cut an input of it where it
    started, in order."""
    reported = {part.process for part in snapshot.parts()}
    return {
        p: view.hello for p, view in sorted(state.processes.items()) if p < snapshot.epoch or p in reported
    }


class Stated:
    """The `Hello`s that stood at the trigger of a snapshot."""

    def __init__(self, state: LedgerView, snapshot: SnapshotView) -> None:
        self._hellos = joined_by(state, snapshot)
        self._snapshot = snapshot
        self._topics: dict[str, dict[str, InputTopic]] = defaultdict(dict)
        self._tables: dict[str, dict[str, Table]] = defaultdict(dict)
        for hello in self._hellos.values():
            self._topics[hello.app].update((source.topic, source) for source in hello.inputs)
            self._tables[hello.app].update((table.name, table) for table in hello.tables)

    def topics(self, part: Part) -> dict[str, InputTopic]:
        """Return the input topics of an app as the author of a report knew them; a topic that it did not find when it
        joined is as the latest process that had joined by the trigger knew it."""
        if part.app:
            return self._topics[part.app]
        hello = self._hellos[part.process]
        return self._topics[hello.app] | {source.topic: source for source in hello.inputs}

    def tables(self, part: Part) -> dict[str, Table]:
        """Return the tables of an app as the author of a report knew them."""
        if part.app:
            return self._tables[part.app]
        hello = self._hellos[part.process]
        return self._tables[hello.app] | {table.name: table for table in hello.tables}

    def standing(self) -> dict[int, Hello]:
        """Return the processes whose reports count, and the last earlier one of each app that did not run; in order."""
        reported = {part.process for part in self._snapshot.parts()} & self._hellos.keys()
        stopped = {part.app for part in self._snapshot.stopped}
        last = {hello.app: process for process, hello in self._hellos.items()}
        return {
            p: self._hellos[p] for p in sorted({*reported, *(last[app] for app in stopped & last.keys())})
        }

    def renewed(self) -> Iterator[Renewed]:
        """List the topics that were recreated while a process that took part ran, by topic and process."""
        standing = self.standing()
        known: dict[str, dict[int, str]] = defaultdict(dict)
        for process, hello in standing.items():
            for topic, topic_id in hello.topic_ids():
                known[topic][process] = topic_id
        for topic, ids in sorted(known.items()):
            latest = ids[max(ids)]
            since = min(process for process, topic_id in ids.items() if topic_id == latest)
            for process, topic_id in ids.items():
                if topic_id != latest:
                    yield Renewed(topic=topic, process=process, app=standing[process].app, since=since)

    def old_topics(self, present: Mapping[str, str]) -> Iterator[OldTopic]:
        """List the processes of the snapshot that may name offsets of a topic as it was before it was recreated.

        Such a process has a `Hello` with another id than the input; or it joined before any process named the present
        id, and an earlier `Hello` names another: it sends there, and never read the id.

        Args:
            present: the id of each input topic, as far as it is known.
        """
        known: dict[str, dict[int, str]] = defaultdict(dict)
        for process, hello in self._hellos.items():
            for topic, topic_id in hello.topic_ids():
                if topic in present:
                    known[topic][process] = topic_id
        for topic, ids in sorted(known.items()):
            first = min((p for p, topic_id in ids.items() if topic_id == present[topic]), default=-1)
            if all(topic_id == present[topic] for topic_id in ids.values()):
                continue
            for process in sorted(self._snapshot.reports.keys() | self._snapshot.left):
                if (
                    process in self._hellos
                    and ids.get(process, "" if process < first else present[topic]) != present[topic]
                ):
                    yield OldTopic(process=process, topic=topic)


def unlike_counts(hello: Hello, counts: Mapping[str, int]) -> Iterator[tuple[str, str, int]]:
    """Yield a sentence for each table that Faust cannot write, and the topic that can grow to which number: a change
    goes to the partition of the event that makes it, and no input of the app has as many partitions as the changelog
    (robinhood/faust#137). Topics that are not in `counts`, partitions by topic, are unknown.
    """
    inputs = {source.topic: counts[source.topic] for source in hello.inputs if source.topic in counts}
    for table in hello.tables:
        count = counts.get(table.changelog)
        if table.copartitioned and count is not None and inputs and count not in inputs.values():
            counted = ", ".join(f"{topic} has {number}" for topic, number in sorted(inputs.items()))
            most, topic = max((number, topic) for topic, number in inputs.items())
            what = (
                f"partition counts of table {table.name} of app {hello.app} differ: its changelog {table.changelog} has"
                f" {count}, of the inputs {counted}"
            )
            yield what, *((topic, count) if most < count else (table.changelog, most))


def counts_of(hello: Hello) -> dict[str, int]:
    """Return partitions by topic, as a process found them when it joined: Faust uses these numbers, and no broker has
    to be asked."""
    changelogs = {table.changelog: table.partitions for table in hello.tables if table.partitions}
    return changelogs | {source.topic: source.partitions for source in hello.inputs}
