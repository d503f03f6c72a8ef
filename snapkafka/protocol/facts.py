"""Statements of processes about topics and tables, as they stood at the trigger of a snapshot (R11).

A snapshot is defined by the facts at its trigger. An input has the id and the codecs that were known to the process
that cut it, whoever joined since; the inputs of an app that does not run are those that its youngest process knew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from ._dataclass import value
from .records import Hello

if TYPE_CHECKING:
    from .ledger_view import LedgerView
    from .snapshots import Part, SnapshotView


@value
class OldTopic:
    """A topic that `process` knew, or may have sent to, before it was recreated: offsets that it names may belong to
    the old one."""

    process: int
    topic: str


class Stated:
    """The `Hello`s that stood at the trigger of a snapshot."""

    def __init__(self, state: LedgerView, snapshot: SnapshotView) -> None:
        self._hellos = {p: view.hello for p, view in sorted(state.processes.items()) if p < snapshot.epoch}
        self._snapshot = snapshot

    def of(self, part: Part) -> list[Hello]:
        """Return what the processes of an app said, the author of this report last: what that did not find when it
        joined is as the latest of the others knew it."""
        author = [] if part.app else [self._hellos[part.process]]
        app = part.app or author[0].app
        return [*(hello for hello in self._hellos.values() if hello.app == app), *author]

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
