"""The partition counts that Faust needs of an app's tables and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from .records import Hello


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
